"""Losses: the cost of a wrong labelling in training, and their form for the oracle.

A loss bound to one image gives Delta(y), y in {0, .., L - 1}^n, as

    -Delta(y) = min_k (constant_k + sum_i cost_k[i, y_i]) + sum_c psi_c(s_c) - f(s)

with cost_k[i, 0] = 0:

- pieces k: one cut each with shifted unaries. Hamming has one; the count of an image is a convex
  function of s = sum_i m_i y_i, hence two or three (pletscher2012, section 4);
- psi_c, of two labels: concave in a region's count s_c, an envelope in the same cut: counts of many
  regions, for which pieces would multiply;
- f, of two labels: any convex function of the image's plain count, by a scan of nested cuts.

Losses are dataclasses. A model file stores their fields, but no arrays of training images and no
functions: such a loss is read as an `UnknownLoss`, which serves for everything but another fit.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import MISSING, dataclass, field, fields
from typing import Any, NoReturn

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cutlearn.arrays import Bits, Floats, Indices, Mask, Vector
from cutlearn.checks import as_array, float_array, index_array, is_number, is_one_of
from cutlearn.energy.envelopes import Envelope, lower_lines
from cutlearn.energy.problem import families_of
from cutlearn.errors import InputError, quoted
from cutlearn.plugins import Registry
from cutlearn.run.checkpoint import fingerprint

# Cuts of an image for one loss.
MAX_PIECES = 16
# Cuts up to which counted regions are conditioned on rather than joined to auxiliary nodes.
MAX_CONDITIONED = 4
SIDES = ("both", "over", "under")
# Limits of a loss in a model file, which may hold anything.
MAX_PARTS, MAX_LABELS, MAX_CHARACTERS = 64, 255, 500

Plain = str | dict[str, Any]


@dataclass(frozen=True, eq=False)
class BoundLoss:
    """A loss bound to one image: -Delta(y) as above.

    Attributes
    ----------
    constant : (K,) float64
    cost : (K, n, L - 1) float64
        What the labels 1, 2, .. cost more than label 0; (K, n) will do for two labels.
    largest : float
        No labelling costs more.
    counts : tuple of Envelope
        psi_c.
    table : (N + 1,) float64, or empty
        f(0) .. f(N) for the number of ones among the N counted nodes.
    counted : (n,) bool
        Which nodes the table counts.
    """

    constant: Vector
    cost: Floats
    largest: float
    counts: tuple[Envelope, ...] = ()
    table: Vector = field(default_factory=lambda: np.zeros(0))
    counted: Bits = field(default_factory=lambda: np.zeros(0, bool))

    def __post_init__(self) -> None:
        if self.cost.ndim == 2:
            object.__setattr__(self, "cost", self.cost[..., None])

    @classmethod
    def of_costs(cls, constant: Vector, cost: Floats, largest: float) -> "BoundLoss":
        """Bind costs (K, n, L) of all labels, label 0 among them."""
        relative = cost[..., 1:] - cost[..., :1]
        return cls(constant + cost[..., 0].sum(axis=1), relative, largest)

    def value(self, labels: ArrayLike) -> float:
        """Return Delta(y) of a labelling of the image's nodes."""
        y = np.asarray(labels).reshape(-1).astype(np.intp)
        at = np.flatnonzero(y)
        least = float(np.min(self.constant + self.cost[:, at, y[at] - 1].sum(axis=1)))
        for e in self.counts:
            least += e.value(float(e.weights[y[e.members] > 0].sum()))
        if self.table.size:
            least -= float(self.table[np.count_nonzero((y > 0) & self.counted)])
        return 0.0 - least  # never -0

    def plus(self, other: "BoundLoss", factor: float = 1.0) -> "BoundLoss":
        """Return the sum of this and another times a factor: all sums of their pieces."""
        constant = (self.constant[:, None] + factor * other.constant).reshape(-1)
        check_pieces(len(constant))
        cost = (self.cost[:, None] + factor * other.cost[None]).reshape(-1, *self.cost.shape[1:])
        more = tuple(
            Envelope(e.members, factor * e.slopes, factor * e.intercepts, e.weights)
            for e in other.counts
        )
        table, counted = self.table, self.counted
        if other.table.size:
            table = factor * other.table + (table if table.size else 0.0)
            counted = other.counted
        largest = self.largest + factor * other.largest
        return BoundLoss(constant, cost, largest, self.counts + more, table, counted)

    def arrays(self) -> list[NDArray[np.generic]]:
        """Return all arrays of the loss, for comparisons and fingerprints."""
        out: list[NDArray[np.generic]] = [self.cost, self.constant, self.table, self.counted]
        for e in self.counts:
            out += [e.members, e.weights, e.slopes, e.intercepts]
        return out


def check_pieces(count: int) -> None:
    """Raise for a sum whose pieces need too many cuts."""
    if count > MAX_PIECES:
        raise InputError(
            f"loss is a sum that needs {count} or more cuts for each image, but at most "
            f"{MAX_PIECES} are possible. Use fewer counts of the whole image; counts of regions "
            "and one CountFunction need no further cuts."
        )


class Loss(ABC):
    """The cost of a labelling in training. Sums and non-negative multiples are losses too.

    A subclass that is a dataclass can be stored in a model file if it is one of `BUILT_IN`.
    """

    # Whether several labels must have an order for it to mean anything.
    needs_order = False

    @abstractmethod
    def bind(self, image: int, labels: Mask, counted: Bits, n_labels: int) -> BoundLoss:
        """Bind the loss to one image.

        Parameters
        ----------
        image : int
            Number of the image, for weights given image by image.
        labels : (n,) uint8
            True labels, 0 to n_labels - 1, void ones set to 0.
        counted : (n,) bool
            False where the true label is void: such a node costs nothing.
        n_labels : int
        """

    def __repr__(self) -> str:
        """Name the fields that differ from their defaults, and arrays by a fingerprint."""
        words = []
        for f in getattr(self, "__dataclass_fields__", {}).values():
            value = getattr(self, f.name)
            if f.default is MISSING or (value is not None and value is not f.default):
                short = _short(value) if "stored" in f.metadata else repr(value)
                words.append(f"{f.name}={short}")
        return f"{type(self).__name__}({', '.join(words)})"

    def __add__(self, other: "Loss") -> "Loss":
        if not isinstance(other, Loss):
            return NotImplemented
        return LossSum(_parts(self) + _parts(other))

    def __mul__(self, factor: float) -> "Loss":
        if isinstance(factor, bool) or not isinstance(factor, int | float | np.number):
            return NotImplemented
        if not 0 <= float(factor) < np.inf:
            raise InputError(
                f"loss has the factor {factor}, but factors must be finite and >= 0, so that "
                "training stays exact. Use a factor that is not negative."
            )
        return LossSum(tuple((float(factor) * f, loss) for f, loss in _parts(self)))

    __rmul__ = __mul__


@dataclass(frozen=True)
class LossSum(Loss):
    """A non-negative sum of losses, made by `2 * a + b`."""

    parts: tuple[tuple[float, Loss], ...]

    @property
    def needs_order(self) -> bool:  # type: ignore[override]
        """Whether a part does."""
        return any(loss.needs_order for _, loss in self.parts)

    def bind(self, image: int, labels: Mask, counted: Bits, n_labels: int) -> BoundLoss:
        """Bind every part; the pieces of the sum are all sums of the parts' pieces."""
        total = BoundLoss(np.zeros(1), np.zeros((1, labels.size, n_labels - 1)), 0.0)
        for factor, loss in self.parts:
            if factor > 0:
                total = total.plus(loss.bind(image, labels, counted, n_labels), factor)
        return total


def _parts(loss: Loss) -> tuple[tuple[float, Loss], ...]:
    return loss.parts if isinstance(loss, LossSum) else ((1.0, loss),)


def _image_weights(
    name: str, weights: Sequence[ArrayLike] | None, image: int, counted: Bits
) -> Vector:
    """Return the weights of one image's nodes, 0 where nothing is counted; 1 by default."""
    if weights is None:
        return counted.astype(np.float64)
    if image >= len(weights):
        raise InputError(
            f"{name} has {len(weights)} arrays, but none for image {image}. Give one for each "
            "image, in the order of the images."
        )
    array = np.asarray(weights[image], dtype=np.float64).reshape(-1)
    if array.size != counted.size or not np.isfinite(array).all() or (array < 0).any():
        raise InputError(
            f"{name}[{image}] must hold one finite number >= 0 for each of the {counted.size} "
            f"nodes, but has {array.size} values"
            f"{', some of them negative or not finite' if array.size == counted.size else ''}. "
            "Correct the array."
        )
    return np.where(counted, array, 0.0)


def _short(value: Any) -> str:
    """Return a short name of what belongs to the training images."""
    if callable(value):
        return getattr(value, "__name__", "f")
    return (
        f"<{len(value)} images {fingerprint('', [a for image in value for a in _arrays(image)])}>"
    )


def _arrays(image: Any) -> list[Floats]:
    try:
        return [np.asarray(image, np.float64)]
    except ValueError:  # rows of different lengths, as regions have
        return [np.asarray(row, np.float64) for row in image]


def _of_images() -> Any:
    """Return the field of a loss that holds something for each training image, in their order."""
    return field(default=None, metadata={"stored": False})


@dataclass(eq=False, repr=False)
class Hamming(Loss):
    """The number of wrong nodes: Delta(y) = sum_i p_i l[y*_i] [y_i != y*_i].

    Parameters
    ----------
    label_weights : numbers >= 0, one for each label, optional
        Weight l of a mistake where the truth is that label.
    pixel_weights : sequence of arrays >= 0, optional
        Weights p, one array for each image, in the order of the images.
    """

    label_weights: Sequence[float] | None = None
    pixel_weights: Sequence[ArrayLike] | None = _of_images()

    def __post_init__(self) -> None:
        if self.label_weights is not None:
            given = float_array("label_weights", self.label_weights)
            if given.ndim != 1 or not (np.isfinite(given).all() and (given >= 0).all()):
                raise InputError(
                    "label_weights must be finite numbers >= 0, one for each true label, not "
                    f"{self.label_weights}."
                )

    def bind(self, image: int, labels: Mask, counted: Bits, n_labels: int) -> BoundLoss:
        """Bind to one image: one piece, -weight at every wrong label."""
        weight = _image_weights("pixel_weights", self.pixel_weights, image, counted)
        if self.label_weights is not None:
            given = np.asarray(self.label_weights, dtype=np.float64)
            if given.size != n_labels:
                raise InputError(
                    f"label_weights has {given.size} numbers, but there are {n_labels} labels. "
                    "Give one for each true label."
                )
            weight = weight * given[labels]
        wrong = np.arange(n_labels) != labels[:, None]
        return BoundLoss.of_costs(
            np.zeros(1), -(weight[:, None] * wrong)[None], float(weight.sum())
        )


@dataclass(eq=False, repr=False)
class Absolute(Loss):
    """How far ordered labels are off: Delta(y) = sum_i p_i |y_i - y*_i|.

    Parameters
    ----------
    pixel_weights : sequence of arrays >= 0, optional
        Weights p, one array for each image, in the order of the images.
    """

    needs_order = True
    pixel_weights: Sequence[ArrayLike] | None = _of_images()

    def bind(self, image: int, labels: Mask, counted: Bits, n_labels: int) -> BoundLoss:
        """Bind to one image: one piece."""
        weight = _image_weights("pixel_weights", self.pixel_weights, image, counted)
        off = weight[:, None] * np.abs(np.arange(n_labels) - labels[:, None].astype(float))
        return BoundLoss.of_costs(np.zeros(1), -off[None], float(off.max(axis=1).sum()))


class _SetCount(Loss):
    """Counts of sets of labels: what `Count` and `LabelCount` share."""

    weights: Sequence[ArrayLike] | None
    side: str
    tolerance: float
    regions: Sequence[Any] | None = None

    def _check(self) -> None:
        name = type(self).__name__
        if not is_one_of(self.side, SIDES):
            raise InputError(
                f"The 'side' parameter of {name} must be one of {SIDES}. "
                f"Got {quoted(self.side)} instead."
            )
        if not is_number(self.tolerance) or not 0 <= self.tolerance < np.inf:
            raise InputError(
                f"The 'tolerance' parameter of {name} must be a finite number >= 0. "
                f"Got {quoted(self.tolerance)} instead."
            )

    def _bind_sets(
        self, image: int, labels: Mask, counted: Bits, sets: Sequence[Bits]
    ) -> BoundLoss:
        """Sum the loss over sets of labels, each a mask of the labels that are counted.

        A count in which one line is always lowest is linear. Of the others, few enough for
        MAX_CONDITIONED cuts become pieces, and more become envelopes: cuts multiply, auxiliary
        nodes do not. With several labels there are no envelopes of counts: all become pieces.
        """
        m = _image_weights("weights", self.weights, image, counted)
        n, L = labels.size, sets[0].size
        constant, cost, largest = np.zeros(1), np.zeros((1, n, L - 1)), 0.0
        bent: list[tuple[Envelope, Bits]] = []
        for among in sets:
            inside = among[labels]
            # Costs are relative to label 0.
            for members in self._regions(image, n):
                members = members[counted[members]]
                mass, ones = m[members], inside[members]
                slopes, intercepts, most = self._lines(float(mass[ones].sum()), float(mass.sum()))
                largest += most
                if len(slopes) == 1:
                    constant += intercepts + slopes[0] * (among[0] * mass.sum())
                    cost[:, members] += slopes[0] * _relative(among, mass)
                else:
                    bent.append((Envelope(members, slopes, intercepts, mass), among))
        cuts = int(np.prod([len(e.slopes) for e, _ in bent], dtype=float))
        if L == 2 and cuts > MAX_CONDITIONED and not any(among[0] for _, among in bent):
            return BoundLoss(constant, cost, largest, tuple(e for e, _ in bent))
        check_pieces(cuts)
        for e, among in bent:
            lines = np.zeros((len(e.slopes), n, L - 1))
            lines[:, e.members] = e.slopes[:, None, None] * _relative(among, e.weights)
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
        """Return slopes and intercepts of the lines of -Delta that are lowest on [0, total]."""
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


def _relative(among: Bits, mass: Vector) -> Floats:
    """Return what labels 1, 2, .. add to a count of `among`, relative to label 0, (n, L - 1)."""
    return mass[:, None] * (among[1:].astype(float) - float(among[0]))


@dataclass(eq=False, repr=False)
class Count(_SetCount):
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
    weights: Sequence[ArrayLike] | None = _of_images()
    side: str = "both"
    tolerance: float = 0
    regions: Sequence[Any] | None = _of_images()

    def __post_init__(self) -> None:
        self._check()

    def bind(self, image: int, labels: Mask, counted: Bits, n_labels: int) -> BoundLoss:
        """Bind to one image: the counts of all thresholds."""
        every = np.arange(n_labels)
        return self._bind_sets(image, labels, counted, [every >= k for k in every[1:]])


@dataclass(eq=False, repr=False)
class LabelCount(_SetCount):
    """How far the number of nodes with certain labels is off: Count for several labels.

    Delta(y) = max(0, |s - s*| - tolerance), s = sum_i m_i [y_i in labels].

    Parameters
    ----------
    labels : int or sequence of int
        Which labels are counted: one label, or those from a threshold on, or any others.
    weights, side, tolerance
        As for `Count`.
    """

    labels: int | Sequence[int]
    weights: Sequence[ArrayLike] | None = _of_images()
    side: str = "both"
    tolerance: float = 0

    def __post_init__(self) -> None:
        self._check()
        given = np.atleast_1d(as_array("labels", self.labels))
        self.labels = np.unique(index_array("labels", given, 255)).tolist()
        if not self.labels:
            raise InputError(
                "labels is empty, but must hold a label to count. Give one, such as 1."
            )

    def bind(self, image: int, labels: Mask, counted: Bits, n_labels: int) -> BoundLoss:
        """Bind to one image: a piece for each line of -Delta that is lowest somewhere."""
        among = np.isin(np.arange(n_labels), self.labels)
        if among.sum() != np.size(self.labels):
            raise InputError(
                f"labels: {self.labels} cannot be counted; an image has labels from 0 to "
                f"{n_labels - 1}. Count some of these."
            )
        return self._bind_sets(image, labels, counted, [among])


@dataclass(eq=False, repr=False)
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

    function: Callable[[Indices], ArrayLike] = field(metadata={"stored": False})

    def __post_init__(self) -> None:
        if not callable(self.function):
            raise InputError(
                "function must be a function of an array of whole numbers, such as numpy.square, "
                f"not {type(self.function).__name__}."
            )

    def bind(self, image: int, labels: Mask, counted: Bits, n_labels: int) -> BoundLoss:
        """Bind to one image: the table of f at every count."""
        if n_labels != 2:
            raise InputError(
                f"loss: CountFunction is for two labels, but there are {n_labels}. Use Hamming, "
                "Absolute, Count or LabelCount."
            )
        truth = int(np.count_nonzero(labels[counted]))
        off = np.arange(int(counted.sum()) + 1) - truth
        values = np.asarray(self.function(off), np.float64)
        if values.shape != off.shape or not np.isfinite(values).all():
            raise InputError(
                f"function must give one finite number for each count, but gives shape "
                f"{values.shape} for counts of shape {off.shape}, or values that are not finite. "
                "Write it for arrays."
            )
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


class UnknownLoss(Loss):
    """A loss of which a model file holds only the description.

    Parameters
    ----------
    description : str
    """

    def __init__(self, description: str) -> None:
        self.description = description

    def __repr__(self) -> str:
        return self.description

    def bind(self, image: int, labels: Mask, counted: Bits, n_labels: int) -> BoundLoss:
        """Raise: there is nothing to bind."""
        self.refuse()

    def refuse(self) -> NoReturn:
        """Raise, with what another fit needs."""
        raise InputError(
            f"The 'loss' parameter must be a Loss that is known. Got the description "
            f"{self.description} from a model file instead, which keeps no weights of training "
            "images and no functions. Give the loss again: set_params(loss=...)."
        )


BUILT_IN: dict[str, type[Loss]] = {
    kind.__name__: kind for kind in (Hamming, Absolute, Count, LabelCount, CountFunction)
}


def loss_to_plain(loss: str | Loss) -> Plain:
    """Return a loss as JSON can hold it: fields, or a description where they cannot be stored.

    Examples
    --------
    >>> from cutlearn.learn.losses import Count, Hamming, loss_to_plain
    >>> loss_to_plain(Hamming())
    {'loss': 'Hamming'}
    >>> loss_to_plain(2 * Count(side="over"))["parts"]
    [[2.0, {'loss': 'Count', 'side': 'over', 'tolerance': 0}]]
    """
    if isinstance(loss, str):
        return loss
    plain: list[dict[str, Any]] = []
    for _, part in _parts(loss):
        name = type(part).__name__
        if BUILT_IN.get(name) is not type(part):
            return repr(loss)[:MAX_CHARACTERS]
        given = {f: getattr(part, f.name) for f in fields(part)}  # type: ignore[arg-type]
        given = {f: value for f, value in given.items() if value is not None}
        if any("stored" in f.metadata for f in given):
            return repr(loss)[:MAX_CHARACTERS]
        values = {f.name: np.asarray(value).tolist() for f, value in given.items()}
        plain.append({"loss": name, **values})
    if isinstance(loss, LossSum):
        return {"loss": "sum", "parts": [[f, one] for (f, _), one in zip(loss.parts, plain)]}
    return plain[0]


def loss_from_plain(plain: Any) -> str | Loss:
    """Return the loss of a model file; raise ValueError, TypeError or KeyError for other values.

    Examples
    --------
    >>> from cutlearn.learn.losses import loss_from_plain
    >>> loss_from_plain({"loss": "Hamming", "label_weights": [1, 2]})
    Hamming(label_weights=[1, 2])
    """
    if isinstance(plain, str):
        if len(plain) > MAX_CHARACTERS:
            raise ValueError("a loss of too many words")
        return plain if plain in NAMED else UnknownLoss(plain)
    if plain["loss"] != "sum":
        return _from_fields(plain)
    parts = plain["parts"]
    if not 1 <= len(parts) <= MAX_PARTS:
        raise ValueError(f"a loss of {len(parts)} parts")
    if any(type(factor) not in (int, float) or not 0 <= factor < np.inf for factor, _ in parts):
        raise ValueError("a loss with factors that cannot be")
    return LossSum(tuple((float(factor), _from_fields(part)) for factor, part in parts))


def _from_fields(plain: dict[str, Any]) -> Loss:
    kind = BUILT_IN[plain["loss"]]
    given = {name: value for name, value in plain.items() if name != "loss"}
    unstored = {f.name for f in fields(kind) if "stored" in f.metadata}  # type: ignore[arg-type]
    if given.keys() & unstored:
        raise ValueError("a loss with arrays")
    for value in given.values():
        if isinstance(value, list) and len(value) > MAX_LABELS:
            raise ValueError(f"a loss with {len(value)} values")
    return kind(**given)


NAMED: Registry[type[Loss]] = Registry("loss", {"hamming": Hamming, "count": Count})


def loss_of(loss: str | Loss) -> Loss:
    """Return the loss of a name, or the given one."""
    if isinstance(loss, Loss):
        return loss
    if is_one_of(loss, NAMED):
        return NAMED[loss]()
    raise InputError(
        f"The 'loss' parameter must be one of {tuple(NAMED)} or a Loss. Got {quoted(loss)} instead."
    )
