"""From probabilities to labels: the mask that is best for what will be measured.

With q_dk the probability of label k at pixel d, and m_k the number of pixels given label k,

    I_k = sum of q_dk over pixels with y_d = k,    U_k = m_k + sum of q_dk over all d - I_k

are the expected intersection and union of label k. "iou" maximises mean_k I_k / U_k, the surrogate
of tarlow2012 (section 7.1); a label with U_k = 0 counts as 1. "count" gives every label the number
of pixels that it has in expectation, to the most probable ones. "map" needs no probabilities: it is
the labelling of least energy. Another way to decide is a `Decision` in `DECISIONS`, also from
outside; `predict` and the command line ask there.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from heapq import heappop, heappush

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cutlearn.arrays import Floats
from cutlearn.checks import is_one_of
from cutlearn.errors import InputError, quoted
from cutlearn.plugins import Registry

Labels = NDArray[np.uint8]

Order = NDArray[np.int64]

# Sums below this are rounding.
ROUNDING = 1e-12


@dataclass(frozen=True)
class Decision:
    """A way from probabilities to labels.

    Parameters
    ----------
    name, summary : str
        What `predict(decision=)` and `--decision` call it, and what help says of it.
    decide : callable (q, order) -> (...) uint8 labels
        q are probabilities (..., L). The order is there for two labels, else None: flat pixels by
        falling margin of label 1, which tells pixels of equal probability apart. None instead of
        a callable: the labels of least energy.
    """

    name: str
    summary: str
    decide: Callable[[Floats, Order | None], Labels] | None


def expected_iou(q: ArrayLike, labels: ArrayLike) -> float:
    """Give mean_k I_k / U_k of a labelling.

    Parameters
    ----------
    q : (..., L) probabilities
    labels : (...) labels from 0 to L - 1

    Examples
    --------
    >>> from cutlearn.model.decisions import expected_iou
    >>> expected_iou([[0.0, 1.0], [1.0, 0.0]], [1, 0])
    1.0
    """
    table = np.asarray(q, np.float64)
    table = table.reshape(-1, table.shape[-1])
    both, union = _sums(table, np.asarray(labels).reshape(-1))
    return float(np.mean(_ratio(both, union)))


def best_for_iou(q: ArrayLike, order: Order | None = None) -> Labels:
    """Give the labels of the largest expected IoU.

    Two labels: for m_1 fixed, both ratios grow with I_1, so the best set of m_1 pixels is the most
    probable one, and a scan over all m_1 finds the global optimum. Several labels: from the most
    probable labels, the best single moves while they gain; never worse than where it began.

    Parameters
    ----------
    q : (..., L) probabilities
    order : (n,) indices, optional
        For two labels: flat pixels by falling probability of label 1, where ties matter.

    Examples
    --------
    >>> from cutlearn.model.decisions import best_for_iou
    >>> best_for_iou([[0.55, 0.45], [0.9, 0.1], [0.6, 0.4]]).tolist()
    [1, 0, 0]
    """
    table = np.asarray(q, np.float64)
    shape, table = table.shape[:-1], table.reshape(-1, table.shape[-1])
    if table.shape[1] != 2:
        return _climb(table).reshape(shape)
    order = _falling(table) if order is None else order
    n, whole = len(table), table[:, 1].sum()
    m = np.arange(n + 1)
    inside = np.concatenate([[0.0], np.cumsum(table[order, 1])])
    # U_1 >= I_1 and I_0 >= 0 but for rounding, which must not win where both are 0.
    union = np.maximum(m + whole - inside, inside)
    rest = np.maximum(n - m - (whole - inside), 0.0)
    gain = _ratio(inside, union) + _ratio(rest, np.maximum(n - inside, rest))
    return _first(order, int(np.argmax(gain))).reshape(shape)


def best_for_count(q: ArrayLike, order: Order | None = None) -> Labels:
    """Give the most probable labels among those with the expected number of pixels of each label.

    The number that minimises E |count - m| is the median of the count. With independent pixels
    (a Poisson-binomial) the median lies between the whole numbers around the mean (Jogdeo and
    Samuels, 1968), so the rounded mean is at most one pixel off. With several labels the parts
    behind the point decide which means are rounded up, so that all pixels are given away.

    Parameters
    ----------
    q, order
        As in `best_for_iou`.

    Examples
    --------
    >>> from cutlearn.model.decisions import best_for_count
    >>> best_for_count([[0.6, 0.4], [0.7, 0.3], [0.6, 0.4]]).tolist()
    [1, 0, 0]
    """
    table = np.asarray(q, np.float64)
    shape, table = table.shape[:-1], table.reshape(-1, table.shape[-1])
    means = table.sum(axis=0)
    if table.shape[1] == 2:
        order = _falling(table) if order is None else order
        return _first(order, int(np.rint(means[1]))).reshape(shape)
    wanted = np.floor(means).astype(np.int64)
    up = np.argsort(wanted - means, kind="stable")[: len(table) - int(wanted.sum())]
    wanted[up] += 1
    return _moved_to(table, wanted).reshape(shape)


DECISIONS: Registry[Decision] = Registry(
    "decision",
    {
        one.name: one
        for one in (
            Decision("map", "the labels of least energy", None),
            Decision("iou", "the largest expected IoU", best_for_iou),
            Decision("count", "the expected area of every label", best_for_count),
        )
    },
)


def decision_of(decision: str | Decision) -> Decision:
    """Give the decision of a name; one that does not exist is refused."""
    if isinstance(decision, Decision):
        return decision
    if not is_one_of(decision, DECISIONS):
        raise InputError(
            f"There is no decision {quoted(decision)}. Choose one of {', '.join(DECISIONS)}, or "
            "leave it out for the labels of least energy."
        )
    return DECISIONS[decision]


def _falling(table: Floats) -> NDArray[np.int64]:
    return np.argsort(-table[:, 1], kind="stable")


def _first(order: NDArray[np.int64], m: int) -> Labels:
    labels = np.zeros(len(order), np.uint8)
    labels[order[:m]] = 1
    return labels


def _ratio(both: Floats, union: Floats) -> Floats:
    return np.divide(both, union, out=np.ones_like(union), where=union > 0)


def _sums(table: Floats, labels: NDArray[np.integer]) -> tuple[Floats, Floats]:
    """I_k and U_k of a labelling."""
    n_labels = table.shape[1]
    inside = np.take_along_axis(table, labels[:, None].astype(np.int64), axis=1)[:, 0]
    both = np.bincount(labels, inside, n_labels).astype(np.float64)
    union = np.bincount(labels, minlength=n_labels) + table.sum(axis=0) - both
    return both, np.asarray(union, np.float64)


class _Moves:
    """The pixel of every pair of labels (a, k) that loses least when it goes from a to k.

    A pair's pixels are sorted once by q_da - q_dk; pixels that come to a later wait in its heap.
    Both are lazy: a pixel that has left a is dropped when it comes to the top. A move from a to k
    changes the best pixels of the rows a and k alone.

    Attributes
    ----------
    labels : (n,) uint8
    pixel : (L, L) int
        The best pixel of each pair, -1 if a has none.
    cost, less, more : (L, L) float
        Its q_da - q_dk (infinite if there is none), q_da and q_dk.
    """

    def __init__(self, table: Floats) -> None:
        self.table = table
        self.labels: Labels = table.argmax(axis=1).astype(np.uint8)
        self.n_labels = table.shape[1]
        self.sorted: dict[tuple[int, int], NDArray[np.int64]] = {}
        shape = self.n_labels, self.n_labels
        self.pixel = np.full(shape, -1)
        self.cost, self.less, self.more = np.full(shape, np.inf), np.zeros(shape), np.zeros(shape)
        for a in range(self.n_labels):
            pixels = np.flatnonzero(self.labels == a)
            for k in self._others(a):
                cost = table[pixels, a] - table[pixels, k]
                self.sorted[a, k] = pixels[np.argsort(cost, kind="stable")]
        self.next = dict.fromkeys(self.sorted, 0)
        self.heaps: dict[tuple[int, int], list[tuple[float, int]]] = {p: [] for p in self.sorted}
        for a in range(self.n_labels):
            self._renew(a)

    def _others(self, a: int) -> Iterator[int]:
        return (k for k in range(self.n_labels) if k != a)

    def _cost(self, d: int, a: int, k: int) -> float:
        return float(self.table[d, a] - self.table[d, k])

    def _best(self, a: int, k: int) -> tuple[float, int]:
        """The least cost of a move from a to k and its pixel."""
        pair = a, k
        pixels, at, heap = self.sorted[pair], self.next[pair], self.heaps[pair]
        while at < len(pixels) and self.labels[pixels[at]] != a:
            at += 1
        self.next[pair] = at
        while heap and self.labels[heap[0][1]] != a:
            heappop(heap)
        found = [heap[0]] if heap else []
        if at < len(pixels):
            found.append((self._cost(pixels[at], a, k), int(pixels[at])))
        return min(found, default=(np.inf, -1))

    def _renew(self, a: int) -> None:
        for k in self._others(a):
            self.cost[a, k], d = self._best(a, k)
            self.pixel[a, k], self.less[a, k], self.more[a, k] = d, *self.table[d, [a, k]]

    def move(self, a: int, k: int) -> None:
        """Give the best pixel of the pair its new label."""
        d = int(self.pixel[a, k])
        self.labels[d] = k
        for other in self._others(k):
            heappush(self.heaps[k, other], (self._cost(d, k, other), d))
        self._renew(a)
        self._renew(k)


def _climb(table: Floats) -> Labels:
    """The best single moves from the most probable labels while the expected IoU grows."""
    moves = _Moves(table)
    both, union = _sums(table, moves.labels)
    while True:
        less, more = moves.less, moves.more
        left = union[:, None] - (1 - less)
        after = np.ones_like(left)
        np.divide(both[:, None] - less, left, out=after, where=left > ROUNDING)
        after += (both + more) / (union + (1 - more))
        ratio = np.ones_like(both)
        np.divide(both, union, out=ratio, where=union > ROUNDING)
        gain = np.where(moves.pixel >= 0, after - (ratio[:, None] + ratio), 0.0)
        a, k = divmod(int(gain.argmax()), moves.n_labels)
        if gain[a, k] <= ROUNDING:
            return moves.labels
        both[a], both[k] = both[a] - less[a, k], both[k] + more[a, k]
        union[a], union[k] = union[a] - (1 - less[a, k]), union[k] + (1 - more[a, k])
        moves.move(a, k)


def _moved_to(table: Floats, wanted: NDArray[np.int64]) -> Labels:
    """The labelling of largest sum_d q_d,y_d with so many pixels of each label.

    A transport problem: the most probable labels are optimal for their own counts, and one pixel
    at a time along the cheapest path of labels from a surplus to a lack keeps them optimal.
    """
    moves = _Moves(table)
    labels = np.arange(moves.n_labels)
    extra = np.bincount(moves.labels, minlength=len(labels)) - wanted
    while (extra > 0).any():
        length = np.where(extra > 0, 0.0, np.inf)
        before = np.full(len(labels), -1)
        for _ in labels[1:]:
            through = length[:, None] + moves.cost
            a = through.argmin(axis=0)
            shorter = through[a, labels] < length - ROUNDING
            if not shorter.any():
                break
            length[shorter], before[shorter] = through[a, labels][shorter], a[shorter]
        k = int(np.argmin(np.where(extra < 0, length, np.inf)))
        extra[k] += 1
        while before[k] >= 0:
            a_before = int(before[k])
            moves.move(a_before, k)
            k = a_before
        extra[k] -= 1
    return moves.labels
