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
import numpy.typing as npt

from cutlearn.arrays import VOID
from cutlearn.checks import listed, one_of, whole_number
from cutlearn.errors import InputError
from cutlearn.features.boosted import Answers
from cutlearn.features.columns import standardise
from cutlearn.features.describe import Bank, Image, Picture
from cutlearn.features.filters import Float32
from cutlearn.features.kept import COLUMNS
from cutlearn.features.micrographs import Light
from cutlearn.features.mixtures import odds_of, palette
from cutlearn.features.pilot import best_threshold
from cutlearn.features.sources import Source, source_of
from cutlearn.features.task import Task
from cutlearn.features.windows import window_means
from cutlearn.loaded import mapped
from cutlearn.run.progress import Counter
from cutlearn.run.shelf import each_kept

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


@dataclass(frozen=True)
class Fitted:
    """All that fit learns, put in place at once so an interrupt leaves the old or the new."""

    bank: Bank
    mode: str  # the features that were asked for, or that "auto" chose
    why: str  # what it chose them for
    source: Source
    n_extra: int
    names: list[str]
    mean: npt.NDArray[np.float64]
    scale: npt.NDArray[np.float64]
    centers: npt.NDArray[np.float64]
    beside: tuple[str, ...]  # channels that the logits, or the lack of them, bring along
    border: float | None = None  # of the logit, for the colours of the image; None: without them

    def node_features(
        self,
        channels: Sequence[str],
        image: Image,
        extra: Float32 | None,
        light: Light | None = None,
    ) -> Float32:
        """Standardised node features of a new image, (h * w, F) float32; of a part in its light."""
        found = 0 if extra is None else extra.shape[2]
        if found != self.n_extra:
            raise InputError(
                f"image has {found} extra channels, but the training images had {self.n_extra}. "
                "Give the same arrays as in fit."
            )
        picture = Picture(image, light)
        maps = self.source.answers(picture, extra)
        stages = self.source.stages
        asked = [*self.beside, *channels]
        rows, _ = columns(asked, self.bank, maps, stages, picture, extra, self.border)
        return self.standardised(rows)

    def standardised(self, rows: Float32) -> Float32:
        """Give columns with the training images' mean and deviation taken out, in place."""
        return standardise(rows, self.mean, self.scale)

    @property
    def questions(self) -> int:
        """How many questions the logits answer; 1 without logits."""
        last = self.source.stages[-1:]
        return max(1, sum(name.partition(" of ")[0] in last for name in self.names))

    def to_arrays(self) -> tuple[dict[str, npt.NDArray[Any]], dict[str, Any]]:
        """Arrays and a JSON-able description that `of_arrays` turns back into this object."""
        arrays: dict[str, npt.NDArray[Any]] = {
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
        arrays: dict[str, npt.NDArray[Any]],
        described: dict[str, Any],
        bank: Bank,
        step: int,
    ) -> "Fitted":
        """The inverse of `to_arrays`; damage is an `InputError` or what Python raises."""
        mean, scale = arrays["mean"], arrays["scale"]
        # Older files have no centres.
        centers = arrays.get("centers", np.empty((0, mean.size)))
        _check_moments(mean, scale, centers)
        why = described.get("why", "")
        if not isinstance(why, str) or len(why) > MOST_WHY:
            raise InputError("features: the reason of their choice is damaged. Refit the model.")
        return Fitted(
            bank,
            mode,
            why,
            source_of(mode).read(arrays, described, bank, step),
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
) -> tuple[Fitted, Sequence[Float32]]:
    """Give all that was learned, and the training images' node features.

    Parameters
    ----------
    task : Task
        What the source has learned from.
    maps : of every image its out-of-fold logits
    """
    border = _border(task, source, maps)
    beside = OWN.get(mode, source.beside(task.bank))
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
    made = each_kept(described, given, every, task.place, task.shelf, COLUMNS, counter, what)
    rows, names, first = mapped(itemgetter(0), made), made[0][1], task.extras[0]
    count, questions = len(source.stages), task.labels[0].shape[2]
    mean, scale = moments(rows, mapped(_first_answers, task.labels), questions, count)
    rows = mapped(partial(standardise, mean=mean, scale=scale), rows)
    centers = np.concatenate([window_means(r, y.shape[:2]) for r, y in zip(rows, task.labels)])
    n_extra = 0 if first is None else first.shape[2]
    learned = (n_extra, names, mean, scale, centers, beside, border)
    return Fitted(task.bank, mode, why, source, *learned), rows


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
    labels: Sequence[npt.NDArray[np.uint8]],
    questions: int = 1,
    stages: int = 0,
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
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


def _first_answers(labels: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
    return labels[..., 0]


def _checked_names(names: Any, count: int) -> list[str]:
    good = isinstance(names, list) and len(names) == count
    if not good or not all(isinstance(name, str) and len(name) <= MOST_NAME for name in names):
        raise InputError("features: the list of their names is damaged. Refit the model.")
    return list(names)


def _check_moments(*arrays: npt.NDArray[Any]) -> None:
    """Refuse means, scales and centres that cannot be those of node features."""
    mean, scale, centers = arrays
    good = mean.ndim == 1 and scale.shape == mean.shape and centers.shape[1:] == mean.shape
    good &= all(a.dtype == np.float64 and bool(np.isfinite(a).all()) for a in arrays)
    if not good or not (scale > 0).all():
        raise InputError("features: the scale of the node features is damaged. Refit the model.")
