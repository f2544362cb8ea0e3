"""What a wrong labelling costs in training: Hamming, counts of the image or of regions.

Sums and non-negative multiples of these are losses too; `loss` says how the oracle sees one.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cutlearn.arrays import Bits, Mask, Vector
from cutlearn.checks import as_array, float_array, index_array, is_number, is_one_of
from cutlearn.energy.envelopes import Envelope, lower_lines
from cutlearn.energy.problem import families_of
from cutlearn.errors import InputError, quoted
from cutlearn.learn.loss import BoundLoss, Loss, check_pieces, digest_of, image_weights

# Cuts up to which counted regions are conditioned on rather than joined to auxiliary nodes.
MOST_CONDITIONED = 4
SIDES = ("both", "over", "under")


class Hamming(Loss):
    """The number of wrong nodes: Delta(y) = sum_i p_i l[y*_i] [y_i != y*_i].

    Parameters
    ----------
    label_weights : numbers >= 0, one for each label, optional
        Weight l of a mistake where the truth is that label.
    pixel_weights : sequence of arrays >= 0, optional
        Weights p, one array for each image, in the order of the images.
    """

    def __init__(
        self,
        label_weights: Sequence[float] | None = None,
        pixel_weights: Sequence[ArrayLike] | None = None,
    ) -> None:
        self.label_weights = label_weights
        self.pixel_weights = pixel_weights
        if label_weights is not None:
            given = float_array("label_weights", label_weights)
            if given.ndim != 1 or not (np.isfinite(given).all() and (given >= 0).all()):
                raise InputError(
                    "label_weights must be finite numbers >= 0, one for each true label, not "
                    f"{label_weights}."
                )

    def __repr__(self) -> str:
        return f"Hamming({self.label_weights!r}, {digest_of(self.pixel_weights)})"

    def bind(self, image: int, labels: Mask, counted: Bits, n_labels: int) -> BoundLoss:
        """Bind to one image: one piece, -weight at every wrong label."""
        weight = self._weight(image, labels, counted, n_labels)
        wrong = np.arange(n_labels) != labels[:, None]
        return BoundLoss.of_costs(
            np.zeros(1), -(weight[:, None] * wrong)[None], float(weight.sum())
        )

    def _weight(
        self, image: int, labels: NDArray[np.uint8], counted: NDArray[np.bool_], n_labels: int
    ) -> Vector:
        weight = image_weights("pixel_weights", self.pixel_weights, image, counted)
        if self.label_weights is None:
            return weight
        given = np.asarray(self.label_weights, dtype=np.float64)
        if given.size != n_labels:
            raise InputError(
                f"label_weights has {given.size} numbers, but there are {n_labels} labels. Give "
                "one for each true label."
            )
        return weight * given[labels]


class Absolute(Loss):
    """How far ordered labels are off: Delta(y) = sum_i p_i |y_i - y*_i|.

    Parameters
    ----------
    pixel_weights : sequence of arrays >= 0, optional
        Weights p, one array for each image, in the order of the images.
    """

    needs_order = True

    def __init__(self, pixel_weights: Sequence[ArrayLike] | None = None) -> None:
        self.pixel_weights = pixel_weights

    def __repr__(self) -> str:
        return f"Absolute({digest_of(self.pixel_weights)})"

    def bind(self, image: int, labels: Mask, counted: Bits, n_labels: int) -> BoundLoss:
        """Bind to one image: one piece."""
        weight = image_weights("pixel_weights", self.pixel_weights, image, counted)
        off = weight[:, None] * np.abs(np.arange(n_labels) - labels[:, None].astype(float))
        return BoundLoss.of_costs(np.zeros(1), -off[None], float(off.max(axis=1).sum()))


class Count(Loss):
    """How far the (weighted) number of ones is off: Delta(y) = max(0, |s - s*| - tolerance).

    s = sum_i m_i y_i over the image's labelled nodes, s* the same of the true labels; or the sum
    of this over regions. With ordered labels, the sum over thresholds k = 1 .. L - 1 of this for
    the number of nodes at k or above: the earth mover's distance between the counts of labels.

    Parameters
    ----------
    weights : sequence of arrays >= 0, optional
        Weights m (areas), one array for each image, in the order of the images; 1 by default.
    side : "both", "over" or "under"
        Count too many and too few, only too many, or only too few.
    tolerance : float >= 0
        Differences up to this cost nothing, in each region.
    regions : sequence, optional
        For each image a label map or a list of index arrays: each region is counted by itself.
    """

    needs_order = True

    def __init__(
        self,
        weights: Sequence[ArrayLike] | None = None,
        side: str = "both",
        tolerance: float = 0,
        regions: Sequence[Any] | None = None,
    ) -> None:
        if not is_one_of(side, SIDES):
            raise InputError(
                f"The 'side' parameter of Count must be one of {SIDES}. Got {quoted(side)} instead."
            )
        if not is_number(tolerance) or not 0 <= tolerance < np.inf:
            raise InputError(
                f"The 'tolerance' parameter of Count must be a finite number >= 0. "
                f"Got {quoted(tolerance)} instead."
            )
        self.weights = weights
        self.side = side
        self.tolerance = tolerance
        self.regions = regions

    def __repr__(self) -> str:
        parts = f"{digest_of(self.weights)}, {self.side!r}, {self.tolerance!r}"
        if self.regions is None:
            return f"Count({parts})"
        flat = [row for image in self.regions for row in image]
        return f"Count({parts}, {digest_of(flat)} of {len(self.regions)} images)"

    def bind(self, image: int, labels: Mask, counted: Bits, n_labels: int) -> BoundLoss:
        """Bind to one image: the counts of all thresholds."""
        every = np.arange(n_labels)
        return self._bind_sets(image, labels, counted, [every >= k for k in every[1:]])

    def _bind_sets(
        self, image: int, labels: Mask, counted: Bits, sets: Sequence[Bits]
    ) -> BoundLoss:
        """Sum the loss over sets of labels, each a mask of the labels that are counted.

        A count in which one line is always lowest is linear. Of the others, few enough for
        MOST_CONDITIONED cuts become pieces, and more become envelopes: cuts multiply, auxiliary
        nodes do not. With several labels there are no envelopes of counts: all become pieces.
        """
        m = image_weights("weights", self.weights, image, counted)
        n, L = labels.size, sets[0].size
        constant, cost, largest = np.zeros(1), np.zeros((1, n, L - 1)), 0.0
        bent: list[tuple[Envelope, Bits]] = []
        for among in sets:
            inside = among[labels]
            # What label 0 counts is there already; the others count more, or less.
            for members in self._regions(image, n):
                members = members[counted[members]]
                mass, ones = m[members], inside[members]
                slopes, intercepts, most = self._lines(float(mass[ones].sum()), float(mass.sum()))
                largest += most
                if len(slopes) == 1:
                    constant += intercepts + slopes[0] * (among[0] * mass.sum())
                    cost[:, members] += slopes[0] * _steps(among, mass)
                else:
                    bent.append((Envelope(members, slopes, intercepts, mass), among))
        cuts = int(np.prod([len(e.slopes) for e, _ in bent], dtype=float))
        if L == 2 and cuts > MOST_CONDITIONED and not any(among[0] for _, among in bent):
            return BoundLoss(constant, cost, largest, tuple(e for e, _ in bent))
        check_pieces(cuts)
        for e, among in bent:
            lines = np.zeros((len(e.slopes), n, L - 1))
            lines[:, e.members] = e.slopes[:, None, None] * _steps(among, e.weights)
            base = e.intercepts + e.slopes * (among[0] * e.weights.sum())
            constant = (constant[:, None] + base).reshape(-1)
            cost = (cost[:, None] + lines[None]).reshape(len(constant), n, L - 1)
        return BoundLoss(constant, cost, largest)

    def _regions(self, image: int, n: int) -> Any:
        if self.regions is None:
            return [np.arange(n)]
        if image >= len(self.regions):
            raise InputError(
                f"regions are given for {len(self.regions)} images, but not for image {image}. "
                "Give some for each image, in the order of the images."
            )
        families = families_of(self.regions[image], n)
        if len(families) != 1:
            raise InputError(
                f"regions[{image}] has {len(families)} families, but a Count takes one: a label "
                "map or a list of index arrays. Add up one Count for each family."
            )
        return families[0]

    def _lines(self, truth: float, total: float) -> tuple[Vector, Vector, float]:
        """Give slopes and intercepts of the lines of -Delta that are lowest on [0, total]."""
        over, under = truth + self.tolerance, truth - self.tolerance
        lines = [(0.0, 0.0)]
        if self.side != "over":
            lines.append((1.0, -under))
        if self.side != "under":
            lines.append((-1.0, over))
        slopes, intercepts = (np.array(column) for column in zip(*lines))
        kept = sorted(lower_lines(slopes.tolist(), intercepts.tolist(), total))
        ends = [0.0, total]
        largest = max(0.0, *(-min(a * s + b for a, b in lines) for s in ends))
        return slopes[kept], intercepts[kept], largest


class LabelCount(Count):
    """How far the number of nodes with certain labels is off: Count for several labels.

    Delta(y) = max(0, |s - s*| - tolerance), s = sum_i m_i [y_i in labels].

    Parameters
    ----------
    labels : int or sequence of int
        Which labels are counted: one label, or those from a threshold on, or any others.
    weights, side, tolerance
        As for `Count`.
    """

    needs_order = False

    def __init__(
        self,
        labels: int | Sequence[int],
        weights: Sequence[ArrayLike] | None = None,
        side: str = "both",
        tolerance: float = 0,
    ) -> None:
        super().__init__(weights, side, tolerance)
        self.labels = np.unique(
            index_array("labels", np.atleast_1d(as_array("labels", labels)), 255)
        ).tolist()
        if not self.labels:
            raise InputError(
                "labels is empty, but must hold a label to count. Give one, such as 1."
            )

    def __repr__(self) -> str:
        return f"Label{super().__repr__()[:-1]}, {self.labels})"

    def bind(self, image: int, labels: Mask, counted: Bits, n_labels: int) -> BoundLoss:
        """Bind to one image: a piece for each line of -Delta that is lowest somewhere."""
        among = np.isin(np.arange(n_labels), self.labels)
        if among.sum() != len(self.labels):
            raise InputError(
                f"labels: {self.labels} cannot be counted; an image has labels from 0 to "
                f"{n_labels - 1}. Count some of these."
            )
        return self._bind_sets(image, labels, counted, [among])


class CountFunction(Loss):
    """Any convex function of how far the number of ones is off: Delta(y) = f(s - s*).

    s is the number of ones among the image's labelled nodes. -f is concave, so E(y) - f is least
    at a vertex of the lower hull of (s, min E): the oracle scans these by nested cuts, and leaves
    out those that a bound excludes. It is exact for every convex f.

    Parameters
    ----------
    function : callable
        f of an array of whole numbers; convex, >= 0, and 0 at 0. Checked for every image.

    Examples
    --------
    >>> import numpy as np
    >>> import cutlearn as cl
    >>> squared = cl.CountFunction(np.square)
    >>> bound = squared.bind(0, np.array([0, 1, 1], np.uint8), np.ones(3, bool), 2)
    >>> [bound.value(y) for y in ([0, 1, 1], [1, 1, 1], [0, 0, 0])]
    [0.0, 1.0, 4.0]
    """

    def __init__(self, function: Callable[[NDArray[np.int64]], ArrayLike]) -> None:
        if not callable(function):
            raise InputError(
                "function must be a function of an array of whole numbers, such as numpy.square, "
                f"not {type(function).__name__}."
            )
        self.function = function

    def __repr__(self) -> str:
        return f"CountFunction({getattr(self.function, '__name__', 'f')})"

    def _values(self, off: NDArray[np.int64]) -> Vector:
        values = np.asarray(self.function(off), np.float64)
        if values.shape != off.shape or not np.isfinite(values).all():
            raise InputError(
                f"function must give one finite number for each count, but gives shape "
                f"{values.shape} for counts of shape {off.shape}, or values that are not finite. "
                "Write it for arrays."
            )
        return values

    def bind(self, image: int, labels: Mask, counted: Bits, n_labels: int) -> BoundLoss:
        """Bind to one image: the table of f at every count."""
        if n_labels != 2:
            raise InputError(
                f"loss: CountFunction is for two labels, but there are {n_labels}. Use Hamming, "
                "Absolute, Count or LabelCount."
            )
        truth = int(np.count_nonzero(labels[counted]))
        off = np.arange(int(counted.sum()) + 1) - truth
        values = self._values(off)
        bends, size = np.diff(values, 2), 1e-12 * float(np.abs(values).max())
        if values[truth] != 0 or values.min() < 0:
            raise InputError(
                f"function has f(0) = {values[truth]:g} and a least value of {values.min():g}, but "
                "both must be 0, because the true labels cost nothing. Shift the function."
            )
        if bends.size and bends.min() < -size:
            k = int(bends.argmin()) + 1
            raise InputError(
                f"function is not convex: f({off[k]}) = {values[k]:g} lies above the mean of its "
                "neighbours, and the cut would not be exact. Use a convex function."
            )
        n = labels.size
        largest = float(max(values[0], values[-1]))
        return BoundLoss(np.zeros(1), np.zeros((1, n)), largest, (), values, counted)


def _steps(among: Bits, mass: Vector) -> NDArray[np.float64]:
    """What labels 1, 2, .. add to a count of the labels `among` beside label 0, (n, L - 1)."""
    return mass[:, None] * (among[1:].astype(float) - float(among[0]))


NAMED: dict[str, type[Hamming] | type[Count]] = {"hamming": Hamming, "count": Count}


def loss_of(loss: str | Loss) -> Loss:
    """Give the loss that a name or a loss means."""
    if isinstance(loss, Loss):
        return loss
    if is_one_of(loss, NAMED):
        return NAMED[loss]()
    raise InputError(
        f"The 'loss' parameter must be one of {tuple(NAMED)} or a Loss. Got {quoted(loss)} instead."
    )
