"""A tree ensemble as plain arrays, grown and evaluated by the core.

logit(x) = baseline + sum over trees of the value of the leaf that x falls into; an ensemble of T
questions has T values a leaf, and T logits. Missing values are refused where columns are made.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import numpy.typing as npt

from cutlearn import _core
from cutlearn.errors import InputError
from cutlearn.features.columns import Columns, Stack, describe
from cutlearn.features.filters import enlarge
from cutlearn.features.planes import Float32

DTYPES = {
    "feature": np.int32,
    "threshold": np.float32,
    "left": np.int32,
    "right": np.int32,
    "value": np.float64,
    "roots": np.int32,
    "baseline": np.float64,
}


@dataclass(frozen=True)
class Trees:
    """Arrays of a tree ensemble.

    Attributes
    ----------
    feature : (t,) int32
        Column that node t compares; -1 marks a leaf.
    threshold : (t,) float32
        A row goes left if its column <= threshold.
    left, right : (t,) int32
        Children; always larger than t.
    value : (t, T) float64
        What a leaf adds to the logit of each question.
    roots : (k,) int32
        First node of each tree.
    baseline : (T,) float64
    """

    feature: npt.NDArray[np.int32]
    threshold: npt.NDArray[np.float32]
    left: npt.NDArray[np.int32]
    right: npt.NDArray[np.int32]
    value: npt.NDArray[np.float64]
    roots: npt.NDArray[np.int32]
    baseline: npt.NDArray[np.float64]

    @property
    def questions(self) -> int:
        """How many logits there are."""
        return len(self.baseline)

    @staticmethod
    def constant(*logits: float) -> "Trees":
        """An ensemble that says the same logits everywhere."""
        arrays = {name: np.zeros(0, dtype) for name, dtype in DTYPES.items()}
        return Trees.of_arrays(arrays | {"baseline": np.array(logits)})

    @staticmethod
    def of_arrays(arrays: dict[str, npt.NDArray[Any]], where: str = "trees") -> "Trees":
        """The inverse of `arrays`; a damaged set is refused."""
        missing = [name for name in DTYPES if name not in arrays]
        if missing:
            raise InputError(f"{where}: the array {missing[0]!r} is missing. Refit the model.")
        made = {name: np.ascontiguousarray(arrays[name], dtype) for name, dtype in DTYPES.items()}
        questions = made["baseline"].size
        if made["value"].size == made["feature"].size * questions:
            made["value"] = made["value"].reshape(-1, questions or 1)
        if not questions or any(a.ndim != 1 + (name == "value") for name, a in made.items()):
            raise InputError(f"{where}: an array has a wrong shape. Refit the model.")
        if not all(np.isfinite(made[name]).all() for name in ("threshold", "value", "baseline")):
            raise InputError(f"{where}: a number is not finite. Refit the model.")
        _check_walks(made, where)
        return Trees(**made)

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Name -> array, for a model file; one question has a plain list of values."""
        every = {item.name: getattr(self, item.name) for item in fields(self)}
        return every | ({"value": self.value[:, 0]} if self.questions == 1 else {})

    def evaluate(self, columns: Columns, step: int = 1) -> npt.NDArray[np.float64]:
        """Logits of every step-th pixel of every step-th row of a band, (T, .., ..) float64."""
        h, w = columns.shape
        out: npt.NDArray[np.float64] = np.empty(
            (self.questions, -(-h // step), -(-w // step)), np.float64
        )
        self._run(columns.buffer, columns.start, columns.stride, step, out)
        return out

    def evaluate_rows(self, rows: Float32) -> npt.NDArray[np.float64]:
        """Logits of the rows of a matrix (n, f) float32; (T, n) float64."""
        n, f = rows.shape
        out: npt.NDArray[np.float64] = np.empty((self.questions, 1, n), np.float64)
        buffer = np.ascontiguousarray(rows.T, np.float32).reshape(-1)
        self._run(buffer, np.arange(f, dtype=np.int64) * n, 0, 1, out)
        return out[:, 0]

    def _run(
        self,
        buffer: Float32,
        start: npt.NDArray[np.int64],
        stride: int,
        step: int,
        out: npt.NDArray[np.float64],
    ) -> None:
        _core.evaluate_trees(
            self.feature,
            self.threshold,
            self.left,
            self.right,
            self.value,
            self.roots,
            self.baseline,
            buffer,
            start,
            stride,
            step,
            out,
        )


def logits_of(
    grown: Sequence[Trees], base: Stack, more: Sequence[Stack], step: int = 1
) -> list[Float32]:
    """Logits of an image by several ensembles, (T, h, w) float32 each.

    Each sees the columns of `base` and of a further stack of its own. With step > 1 every step-th
    pixel is looked at, and the rest interpolated.
    """
    (h, w), made = base.shape, []
    for trees in grown:
        made.append(np.empty((trees.questions, -(-h // step), -(-w // step)), np.float32))
    for band in describe(base, more, step):
        for k, trees in enumerate(grown):
            found = trees.evaluate(band.columns(k), step)
            made[k][:, band.first // step :][:, : found.shape[1]] = found
    return [enlarge(planes, step, (h, w), centred=False) for planes in made]


def _check_walks(made: dict[str, npt.NDArray[Any]], where: str) -> None:
    """Refuse trees that share nodes or turn back: no row visits more nodes than there are."""
    roots, size = made["roots"].astype(np.int64), len(made["feature"])
    begins = np.concatenate([[0] if size else [], roots[1:], [size]]).astype(np.int64)
    good = all(len(made[name]) == size for name in ("threshold", "left", "right", "value"))
    good &= len(roots) == len(begins) - 1 and bool((np.diff(begins) > 0).all())
    if good and size:
        good = bool(roots[0] == 0)
        inner = np.flatnonzero(made["feature"] >= 0)
        end = np.repeat(begins[1:], np.diff(begins))[inner]
        for name in ("left", "right"):
            child = made[name][inner]
            good &= bool(((inner < child) & (child < end)).all())
    if not good:
        raise InputError(
            f"{where}: the nodes do not make trees, in which children come after their parent. "
            "Refit the model."
        )
