"""What is learned to give an image its node features; a model file stores it.

Node features are a constant 1, the logits (in training: out of fold) beside a few raw channels, or
a linear filter bank, and arrays that the user brings; all but the constant are standardised with
the training images' mean and deviation. In photographs the logits also tell which colours the
object has in this very image (docs/decisions/0047-colours-of-the-image-itself.md):

    log p_1(x) / p_0(x),    x the colour of a pixel,

with mixtures p_1 and p_0 of the colours of the pixels whose logit lies above and below a border.
"""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from operator import itemgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cutlearn.arrays import VOID, AnyArray, Float32, Floats, Image, Indices, Mask
from cutlearn.checks import listed, one_of, whole_number
from cutlearn.errors import InputError
from cutlearn.features.auto import best_threshold
from cutlearn.features.columns import standardise
from cutlearn.features.describe import Bank, ImageStatistics, Picture
from cutlearn.features.folds import Answers
from cutlearn.features.mixtures import odds_of, palette
from cutlearn.features.sources import SOURCES, NoLogits, Source, Task
from cutlearn.loaded import mapped
from cutlearn.run.cache import Form, map_cached
from cutlearn.run.progress import Counter

# Windows along the shorter side of an image, and at most along the longer one.
SHORTER, LONGER = 4, 16


def windows(shape: tuple[int, int]) -> tuple[Indices, Indices]:
    """Give the rows and the columns at which windows begin, and as last the image's end.

    Examples
    --------
    >>> from cutlearn.features.nodes import windows
    >>> [ends.tolist() for ends in windows((40, 60))]
    [[0, 10, 20, 30, 40], [0, 10, 20, 30, 40, 50, 60]]
    """
    side = max(min(shape) / SHORTER, max(shape) / LONGER, 1.0)
    counts = [max(round(n / side), 1) for n in shape]
    rows, columns = (np.arange(k + 1) * n // k for n, k in zip(shape, counts))
    return rows, columns


def window_means(features: NDArray[np.floating], shape: tuple[int, int]) -> Floats:
    """Give the mean features of every window, row by row, (windows, F).

    Parameters
    ----------
    features : (h * w, F), row-major
    shape : h, w
    """
    rows, columns = windows(shape)
    grid = features.reshape(*shape, -1)
    down = np.add.reduceat(grid, rows[:-1], axis=0, dtype=np.float64)
    sums = np.add.reduceat(down, columns[:-1], axis=1)
    means = sums / np.outer(np.diff(rows), np.diff(columns))[..., None]
    return np.asarray(means.reshape(-1, grid.shape[2]))


# Channels of a picture: planes (c, h, w) float32 and c names. Any function with a name will do.
Channel = Callable[[Bank, Picture], tuple[Float32, list[str]]]
CHANNELS: dict[str, Channel] = {"raw": Bank.raw, "linear": Bank.linear}
# Those of the features without logits; beside logits the source says which, in older files these.
OWN = {"linear": ("linear",), "given": ()}
OLDER_BESIDE = ("raw",)
# A scale of 154 serves the largest image that can be solved. Names are short words, reasons short
# sentences.
MOST_SCALE, MOST_NAME, MOST_WHY = 256, 200, 1000
# Rows and columns of the picture on which a file is tried: channels from outside may need many.
PROBED = 32
# Pixels of all training images together that the border of the colours is found on.
MOST_PIXELS = 200_000
COLORS = "colors"


def _columns(values: dict[str, Any], arrays: dict[str, Any]) -> tuple[Float32, list[str]]:
    return arrays["columns"], list(values["names"])


# How the columns of an image, not yet standardised, and their names are kept.
COLUMNS: Form[int, tuple[Float32, list[str]]] = Form(
    lambda i: f"columns{i}",
    lambda made: ({"names": made[1]}, {"columns": made[0]}),
    _columns,
)


@dataclass(frozen=True)
class FittedColumns:
    """All that fit learns, put in place at once so an interrupt leaves the old or the new."""

    bank: Bank
    mode: str  # the features that were asked for, or that "auto" chose
    why: str  # what it chose them for
    source: Source
    n_extra: int
    names: list[str]
    mean: Floats
    scale: Floats
    centers: Floats
    beside: tuple[str, ...]  # channels that the logits, or the lack of them, bring along
    border: float | None = None  # of the logit, for the colours of the image; None: without them

    def node_features(
        self,
        channels: Sequence[str],
        image: Image,
        extra: Float32 | None,
        statistics: ImageStatistics | None = None,
    ) -> Float32:
        """Standardised node features of a new image, (h * w, F) float32; of a part in its light."""
        found = 0 if extra is None else extra.shape[2]
        if found != self.n_extra:
            raise InputError(
                f"image has {found} extra channels, but the training images had {self.n_extra}. "
                "Give the same arrays as in fit."
            )
        picture = Picture(image, statistics)
        maps = self.source.answers(picture, extra)
        stages = self.source.stages
        asked = [*self.beside, *channels]
        rows, _ = columns(asked, self.bank, maps, stages, picture, extra, self.border)
        return standardise(rows, self.mean, self.scale)

    @property
    def questions(self) -> int:
        """How many questions the logits answer; 1 without logits."""
        last = self.source.stages[-1:]
        return max(1, sum(name.partition(" of ")[0] in last for name in self.names))

    def to_arrays(self) -> tuple[dict[str, AnyArray], dict[str, Any]]:
        """Arrays and a JSON-able description that `of_arrays` turns back into this object."""
        arrays: dict[str, AnyArray] = {
            "mean": self.mean, "scale": self.scale, "centers": self.centers,
        }  # fmt: skip
        learned, told = self.source.to_arrays()
        described = {
            "bank": asdict(self.bank),
            **told,
            "why": self.why,
            "n_extra": self.n_extra,
            "names": list(self.names),
            "beside": list(self.beside),
            "border": self.border,
        }
        return arrays | learned, described

    @staticmethod
    def of_arrays(
        mode: str,
        arrays: dict[str, AnyArray],
        described: dict[str, Any],
        bank: Bank,
        step: int,
    ) -> "FittedColumns":
        """The inverse of `to_arrays`; damage is an `InputError` or what Python raises."""
        mean, scale = arrays["mean"], arrays["scale"]
        # Older files have no centres.
        centers = arrays.get("centers", np.empty((0, mean.size)))
        _check_moments(mean, scale, centers)
        why = described.get("why", "")
        if not isinstance(why, str) or len(why) > MOST_WHY:
            raise InputError("features: the reason of their choice is damaged. Refit the model.")
        return FittedColumns(
            bank,
            mode,
            why,
            SOURCES.get(mode, NoLogits).read(arrays, described, bank, step),
            # No more than the features themselves, so that no file asks for more than it holds.
            whole_number("features: n_extra", described["n_extra"], 0, mean.size - 1),
            _checked_names(described["names"], mean.size),
            mean,
            scale,
            centers,
            tuple(checked_channels(described.get("beside", OWN.get(mode, OLDER_BESIDE)))),
            _checked_border(described.get("border")),  # older files have none
        )

    def probe(self, channels: Sequence[str]) -> None:
        """Run on a small picture: every array's shape and every index is used, so damage shows."""
        picture = np.zeros((PROBED, PROBED, 3), np.float32)
        extra = np.zeros((PROBED, PROBED, self.n_extra), np.float32) if self.n_extra else None
        if self.node_features(channels, picture, extra).shape[1] != len(self.names):
            raise InputError("features: the list of their names is damaged. Refit the model.")


def bank_from_plain(plain: dict[str, Any]) -> Bank:
    """Read the bank that a model file describes."""
    scale = whole_number("features: scale", plain["scale"], 1, MOST_SCALE)
    return Bank(str(plain["kind"]), bool(plain["position"]), scale)


def checked_channels(names: Any) -> list[str]:
    """Check names of channels."""
    for name in listed("channels", names):
        one_of("channels", name, CHANNELS, " Add it to CHANNELS of cutlearn.features.nodes.")
    return list(names)


def described_by(
    asked: Sequence[str],
    bank: Bank,
    stages: Sequence[str],
    border: float | None,
    given: tuple[Image, Float32 | None, Answers],
) -> tuple[Float32, list[str]]:
    """The columns of an image, of its extra channels and of its logits; this may travel."""
    image, extra, maps = given
    return columns(asked, bank, maps, stages, Picture(image), extra, border)


def columns(
    asked: Sequence[str],
    bank: Bank,
    maps: Answers,
    stages: Sequence[str],
    picture: Picture,
    extra: Float32 | None,
    border: float | None = None,
) -> tuple[Float32, list[str]]:
    """Node features of one image before standardising, (n, F) float32, and names.

    The logits come first, question by question and newest first, after the constant;
    `Featurizer.logit` relies on it.
    """
    names, planes = ["bias"], [np.ones((1, 1), np.float32)]
    for t, logits in enumerate(maps):
        planes += reversed(logits)
        of = f" of {t}" if len(maps) > 1 else ""
        names += [f"{stage}{of}" for stage in reversed(stages)]
    said = len(planes)
    for name in asked:
        found, titles = CHANNELS[name](bank, picture)
        planes += list(found)
        names += titles
    if border is not None:
        odds = odds_of(palette(picture.image), maps[0][-1] >= border)
        planes.append(odds.astype(np.float32))
        names.append(COLORS)
    if len(planes) == 1 and extra is None:
        raise InputError(
            "features='given' needs an extra array (h, w, channels) for each image, but there is "
            "none. Give samples with extra=, or use features='auto'."
        )
    if extra is not None:
        planes += [extra[..., k] for k in range(extra.shape[2])]
        names += [f"extra{k}" for k in range(extra.shape[2])]
    rows = np.empty((*picture.shape, len(planes)), np.float32)
    for k, plane in enumerate(planes):
        rows[..., k] = plane
    np.clip(rows[..., 1:said], -12, 12, out=rows[..., 1:said])
    return rows.reshape(-1, len(planes)), names


def learn_columns(
    task: Task,
    mode: str,
    why: str,
    source: Source,
    maps: Sequence[Answers],
    channels: Sequence[str],
) -> tuple[FittedColumns, Sequence[Float32]]:
    """Give all that was learned, and the training images' node features.

    Parameters
    ----------
    task : Task
        What the source has learned from.
    maps : of every image its out-of-fold logits
    """
    border = _border(task, source, maps)
    beside = OWN.get(mode, source.extra_channels(task.bank))
    asked = [*beside, *channels]
    described = partial(described_by, asked, task.bank, source.stages, border)

    images, extras, said = (
        task.place.by_reference(one) for one in (task.images, task.extras, maps)
    )

    def given(i: int) -> tuple[Image, Float32 | None, Answers]:
        return images[i], extras[i], said[i]

    # Sources of logits have told of their own steps before.
    every, what = range(len(task.images)), "describe images"
    counter = Counter(None if source.stages else task.progress, len(every))
    made = map_cached(described, given, every, task.place, task.cache, COLUMNS, counter, what)
    rows, names, first = mapped(itemgetter(0), made), made[0][1], task.extras[0]
    count, questions = len(source.stages), task.labels[0].shape[2]
    mean, scale = moments(rows, mapped(_first_answers, task.labels), questions, count)
    rows = mapped(partial(standardise, mean=mean, scale=scale), rows)
    centers = np.concatenate([window_means(r, y.shape[:2]) for r, y in zip(rows, task.labels)])
    n_extra = 0 if first is None else first.shape[2]
    learned = (n_extra, names, mean, scale, centers, beside, border)
    return FittedColumns(task.bank, mode, why, source, *learned), rows


def _border(task: Task, source: Source, maps: Sequence[Answers]) -> float | None:
    """The out-of-fold logit of the best pooled IoU; None where colours are not asked.

    They are where photographs have logits of one question: of micrographs they tell nothing that
    the logits do not know.
    """
    questions = task.labels[0].shape[2]
    if not source.stages or questions > 1 or task.bank.kind != "photograph":
        return None
    step = max(1, -(-sum(rows * columns for rows, columns in task.shapes) // MOST_PIXELS)) | 1
    logits, truth = [], []
    for answers, labels in zip(maps, task.labels):
        known = np.flatnonzero(labels.reshape(-1) != VOID)[::step]
        logits.append(answers[0][-1].reshape(-1)[known])
        truth.append(labels.reshape(-1)[known])
    return best_threshold(logits, truth, [np.ones(len(part)) for part in truth])


def _checked_border(value: Any) -> float | None:
    if value is None:
        return None
    if type(value) is not float or not np.isfinite(value):
        raise InputError("features: the border of the colours is damaged. Refit the model.")
    return value


def moments(
    rows: Sequence[Float32],
    labels: Sequence[Mask],
    questions: int = 1,
    stages: int = 0,
) -> tuple[Floats, Floats]:
    """Mean and deviation of every column over labelled pixels; the constant keeps 0 and 1.

    Logits of several questions stay comparable: those of one stage have a mean and a deviation.
    """
    known = mapped(lambda label: label.reshape(-1) != VOID, labels)
    count = sum(int(k.sum()) for k in known)
    mean = sum(r[k].sum(axis=0, dtype=np.float64) for r, k in zip(rows, known)) / count
    square = sum(((r[k] - mean) ** 2).sum(axis=0) for r, k in zip(rows, known)) / count
    for s in range(stages if questions > 1 else 0):
        every = slice(1 + s, 1 + stages * questions, stages)
        square[every] = np.mean(square[every] + mean[every] ** 2) - np.mean(mean[every]) ** 2
        mean[every] = np.mean(mean[every])
    scale = np.sqrt(square)
    scale[scale < 1e-6] = 1.0  # a constant column stays constant
    mean[0], scale[0] = 0.0, 1.0
    return mean, scale


def _first_answers(labels: Mask) -> Mask:
    return labels[..., 0]


def _checked_names(names: Any, count: int) -> list[str]:
    good = isinstance(names, list) and len(names) == count
    if not good or not all(isinstance(name, str) and len(name) <= MOST_NAME for name in names):
        raise InputError("features: the list of their names is damaged. Refit the model.")
    return list(names)


def _check_moments(*arrays: AnyArray) -> None:
    """Refuse means, scales and centres that cannot be those of node features."""
    mean, scale, centers = arrays
    good = mean.ndim == 1 and scale.shape == mean.shape and centers.shape[1:] == mean.shape
    good &= all(a.dtype == np.float64 and bool(np.isfinite(a).all()) for a in arrays)
    if not good or not (scale > 0).all():
        raise InputError("features: the scale of the node features is damaged. Refit the model.")
