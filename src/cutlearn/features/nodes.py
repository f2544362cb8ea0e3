"""Node features: what is learned to make them, and the columns themselves.

Node features are a constant 1, the logits (in training: out of fold) and a few raw channels, or a
linear filter bank, and arrays that the user brings; all but the constant are standardised with the
training images' mean and deviation. In photographs the logits also tell which colours the object
has in this very image (docs/decisions/0047-colours-of-the-image-itself.md):

    log p_1(x) / p_0(x),    x the colour of a pixel,

with mixtures p_1 and p_0 of the colours of the pixels whose logit lies above and below a border.
`windows` are nearly square parts by which images are compared and ranked.
"""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from operator import itemgetter
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from cutlearn.arrays import VOID, AnyArray, Bits, Float32, Floats, Image, Indices, Mask
from cutlearn.checks import listed, one_of, whole_number
from cutlearn.errors import InputError
from cutlearn.features.auto import best_threshold
from cutlearn.features.columns import standardise
from cutlearn.features.describe import KINDS, Bank, ImageStatistics, Picture
from cutlearn.features.folds import Answers
from cutlearn.features.mixtures import odds_of, palette
from cutlearn.features.sources import SOURCES, NoLogits, Source, Task
from cutlearn.loaded import mapped
from cutlearn.plugins import Registry
from cutlearn.run.cache import Form, map_cached
from cutlearn.run.progress import Counter
from cutlearn.store import Arrays

# Channels of a picture: planes (c, h, w) float32 and c names. Any function with a name will do.
Channel = Callable[[Bank, Picture], tuple[Float32, list[str]]]
CHANNELS: Registry[Channel] = Registry("channel", {"raw": Bank.raw, "linear": Bank.linear})
# Those of features without logits. With logits the source names them; older files have these.
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
# Windows along the shorter side of an image, and at most along the longer one.
SHORTER, LONGER = 4, 16


def _columns(values: dict[str, Any], arrays: Arrays) -> tuple[Float32, list[str]]:
    return arrays["columns"], list(values["names"])


# How the columns of an image, not yet standardised, and their names are kept. A worker of a cluster
# receives the name of the function that reads them, so it is no lambda.
COLUMNS: Form[int, tuple[Float32, list[str]]] = Form(
    lambda i: f"columns{i}",
    lambda made: ({"names": made[1]}, {"columns": made[0]}),
    _columns,
)


@dataclass(frozen=True)
class FittedColumns:
    """All that a fit learns; assigned at once, so that an interrupt leaves the old or the new."""

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
        """Return the standardised node features of a new image or of a tile, (h * w, F)."""
        found = 0 if extra is None else extra.shape[2]
        if found != self.n_extra:
            raise InputError(
                f"image has {found} extra channels, but the training images had {self.n_extra}. "
                "Give the same arrays as in fit."
            )
        picture = Picture(image, statistics)
        rows, _ = columns(
            [*self.beside, *channels], self.bank, self.source.answers(picture, extra),
            self.source.stages, picture, extra, self.border,
        )  # fmt: skip
        return standardise(rows, self.mean, self.scale)

    @property
    def questions(self) -> int:
        """Number of questions that the logits answer; 1 without logits."""
        last = self.source.stages[-1:]
        return max(1, sum(name.partition(" of ")[0] in last for name in self.names))

    def to_arrays(self) -> tuple[dict[str, AnyArray], dict[str, Any]]:
        """Return arrays and a JSON-able description, of which `of_arrays` makes this object."""
        arrays: dict[str, AnyArray] = {
            "mean": self.mean, "scale": self.scale, "centers": self.centers,
        }  # fmt: skip
        learned, plain = self.source.to_arrays()
        described = {
            "bank": asdict(self.bank),
            **plain,
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
        """Invert `to_arrays`; damage is an `InputError` or what Python raises."""
        mean, scale = arrays["mean"], arrays["scale"]
        centers = arrays.get("centers", np.empty((0, mean.size)))  # older files have none
        good = mean.ndim == 1 and scale.shape == mean.shape and centers.shape[1:] == mean.shape
        for array in (mean, scale, centers):
            good &= array.dtype == np.float64 and bool(np.isfinite(array).all())
        if not good or not (scale > 0).all():
            _refuse("scale of the node features")
        why, border, names = described.get("why", ""), described.get("border"), described["names"]
        if not isinstance(why, str) or len(why) > MOST_WHY:
            _refuse("reason of their choice")
        if border is not None and (type(border) is not float or not np.isfinite(border)):
            _refuse("border of the colours")
        if not (isinstance(names, list) and len(names) == mean.size) or not all(
            isinstance(name, str) and len(name) <= MOST_NAME for name in names
        ):
            _refuse("list of their names")
        # No more extra channels than features, so that no file asks for more than it holds.
        n_extra = whole_number("features: n_extra", described["n_extra"], 0, mean.size - 1)
        source = SOURCES.get(mode, NoLogits).read(arrays, described, bank, step)
        beside = checked_channels(described.get("beside", OWN.get(mode, OLDER_BESIDE)))
        learned = (n_extra, list(names), mean, scale, centers, tuple(beside), border)
        return FittedColumns(bank, mode, why, source, *learned)

    def probe(self, channels: Sequence[str]) -> None:
        """Run on a small picture: every array's shape and every index is used, so damage shows."""
        picture = np.zeros((PROBED, PROBED, 3), np.float32)
        extra = np.zeros((PROBED, PROBED, self.n_extra), np.float32) if self.n_extra else None
        if self.node_features(channels, picture, extra).shape[1] != len(self.names):
            _refuse("list of their names")


def _refuse(what: str) -> NoReturn:
    raise InputError(f"features: the {what} is damaged. Refit the model.")


def bank_from_plain(plain: dict[str, Any]) -> Bank:
    """Read the bank that a model file describes."""
    scale = whole_number("features: scale", plain["scale"], 1, MOST_SCALE)
    one_of("features: kind", plain["kind"], KINDS)
    return Bank(plain["kind"], bool(plain["position"]), scale)


def checked_channels(names: Any) -> list[str]:
    """Check names of channels."""
    for name in listed("channels", names):
        one_of("channels", name, CHANNELS, " Add it to CHANNELS of cutlearn.features.nodes.")
    return list(names)


def columns(
    asked: Sequence[str],
    bank: Bank,
    maps: Answers,
    stages: Sequence[str],
    picture: Picture,
    extra: Float32 | None,
    border: float | None = None,
) -> tuple[Float32, list[str]]:
    """Return node features of one image before standardising, (n, F) float32, and names.

    The logits come first, question by question and newest first, after the constant;
    `Featurizer.logit` relies on it.
    """
    names, planes = ["bias"], [np.ones((1, 1), np.float32)]
    for t, logits in enumerate(maps):
        planes += reversed(logits)
        of = f" of {t}" if len(maps) > 1 else ""
        names += [f"{stage}{of}" for stage in reversed(stages)]
    n_logits = len(planes)
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
    np.clip(rows[..., 1:n_logits], -12, 12, out=rows[..., 1:n_logits])
    return rows.reshape(-1, len(planes)), names


def learn_columns(
    task: Task,
    mode: str,
    why: str,
    source: Source,
    maps: Sequence[Answers],
    channels: Sequence[str],
) -> tuple[FittedColumns, Sequence[Float32]]:
    """Return all that was learned, and the training images' node features.

    Parameters
    ----------
    task : Task
        What the source has learned from.
    maps : of every image its out-of-fold logits
    """
    border = _border(task, source, maps)
    beside = OWN.get(mode, source.extra_channels(task.bank))
    images, extras, answers = (
        task.place.by_reference(one) for one in (task.images, task.extras, maps)
    )
    # Sources of logits have reported their own steps before.
    every = range(len(task.images))
    counter = Counter(None if source.stages else task.progress, len(every))
    made = map_cached(
        partial(_columns_of, [*beside, *channels], task.bank, source.stages, border),
        lambda i: (images[i], extras[i], answers[i]),
        every, task.place, task.cache, COLUMNS, counter, "describe images",
    )  # fmt: skip
    rows, names, first = mapped(itemgetter(0), made), made[0][1], task.extras[0]
    known = mapped(_known, task.labels)
    mean, scale = moments(rows, known, task.labels[0].shape[2], len(source.stages))
    rows = mapped(partial(standardise, mean=mean, scale=scale), rows)
    centers = np.concatenate([window_means(r, shape) for r, shape in zip(rows, task.shapes)])
    n_extra = 0 if first is None else first.shape[2]
    learned = (n_extra, names, mean, scale, centers, beside, border)
    return FittedColumns(task.bank, mode, why, source, *learned), rows


def _columns_of(
    asked: Sequence[str],
    bank: Bank,
    stages: Sequence[str],
    border: float | None,
    given: tuple[Image, Float32 | None, Answers],
) -> tuple[Float32, list[str]]:
    image, extra, maps = given
    return columns(asked, bank, maps, stages, Picture(image), extra, border)


def _known(labels: Mask) -> Bits:
    """Return the pixels that have a label, (n,)."""
    return np.asarray(labels[..., 0].reshape(-1) != VOID)


def _border(task: Task, source: Source, maps: Sequence[Answers]) -> float | None:
    """Return the out-of-fold logit of the best pooled IoU; None without colours.

    Photographs have them if there are logits of one question; in micrographs they add nothing.
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


def moments(
    rows: Sequence[Float32], known: Sequence[Bits], questions: int = 1, stages: int = 0
) -> tuple[Floats, Floats]:
    """Return mean and deviation of every column over labelled pixels; 0 and 1 of the constant.

    Logits of several questions stay comparable: those of one stage have a mean and a deviation.
    """
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


def windows(shape: tuple[int, int]) -> tuple[Indices, Indices]:
    """Return the rows and the columns at which windows begin, and as last the image's end.

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
    """Return the mean features of every window, row by row, (windows, F).

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
