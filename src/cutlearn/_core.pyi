"""The C++ core of cutlearn; see cutlearn.energy for its use."""

from collections.abc import Sequence
from typing import Annotated, Any, overload

import numpy
import numpy.typing
from numpy.typing import NDArray


class Regions:
    def __init__(self, member_first: numpy.typing.NDArray[numpy.int64], members: numpy.typing.NDArray[numpy.int32], mass: numpy.typing.NDArray[numpy.float64], slope: numpy.typing.NDArray[numpy.float64], hinge_first: numpy.typing.NDArray[numpy.int64], alpha: numpy.typing.NDArray[numpy.float64], beta: numpy.typing.NDArray[numpy.float64]) -> None: ...

    def __len__(self) -> int: ...

    @property
    def members(self) -> int: ...

    @property
    def hinges(self) -> int: ...

    def __getstate__(self) -> object: ...

    def __setstate__(self, state: Any) -> None: ...

def members_of(region: numpy.typing.NDArray[numpy.int64], count: int) -> tuple[numpy.typing.NDArray[numpy.int64], numpy.typing.NDArray[numpy.int32]]: ...

class Oracle:
    def __init__(self, node: numpy.typing.NDArray[Any], edge: numpy.typing.NDArray[Any], shape: Sequence[int], connectivity: int, ends: numpy.typing.NDArray[numpy.int32], fixed: numpy.typing.NDArray[numpy.int8]) -> None: ...

    def set_loss(self, truth: numpy.typing.NDArray[numpy.uint8], constant: numpy.typing.NDArray[numpy.float64], unary: numpy.typing.NDArray[numpy.float64], loss_scale: float, energy_scale: float) -> None: ...

    def terms(self, w: numpy.typing.NDArray[numpy.float64]) -> tuple[numpy.typing.NDArray[numpy.float64], list[numpy.typing.NDArray[numpy.float64]], list[int], Regions | None]: ...

    def set_regions(self, families: Sequence[tuple[int, int, int, bool]], regions: Regions, constant: float) -> None: ...

    def set_table(self, table: numpy.typing.NDArray[numpy.float64], counted: numpy.typing.NDArray[numpy.uint8]) -> None: ...

def highest_planes(oracles: Sequence[Oracle], w: numpy.typing.NDArray[numpy.float64], threads: int) -> numpy.typing.NDArray[numpy.float64]: ...

class OrderedOracle:
    def __init__(self, node: numpy.typing.NDArray[Any], edge: numpy.typing.NDArray[Any], labels: int, shape: Sequence[int], connectivity: int, ends: numpy.typing.NDArray[numpy.int32], fixed: numpy.typing.NDArray[numpy.int16]) -> None: ...

    def set_loss(self, truth: numpy.typing.NDArray[numpy.uint8], constant: numpy.typing.NDArray[numpy.float64], cost: numpy.typing.NDArray[numpy.float64], loss_scale: float, energy_scale: float) -> None: ...

    def terms(self, w: numpy.typing.NDArray[numpy.float64]) -> tuple[numpy.typing.NDArray[numpy.float64], list[numpy.typing.NDArray[numpy.float64]], list[bool]]: ...

def highest_ordered_planes(oracles: Sequence[OrderedOracle], w: numpy.typing.NDArray[numpy.float64], threads: int) -> numpy.typing.NDArray[numpy.float64]: ...

def evaluate_trees(feature: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], threshold: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu', writable=False)], left: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], right: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], value: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu', writable=False)], roots: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], baseline: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], buffer: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu', writable=False)], start: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], stride: int, step: int, out: Annotated[NDArray[numpy.float64], dict(shape=(None, None, None), order='C', device='cpu')]) -> None:
    """
    Write baseline + the sum of the trees' values into out, a plane of logits a question.
    """

def grow_trees(bins: Annotated[NDArray[numpy.uint8], dict(shape=(None, None), order='C', device='cpu', writable=False)], answers: Annotated[NDArray[numpy.uint8], dict(shape=(None, None), order='C', device='cpu', writable=False)], drawn: Annotated[NDArray[numpy.int32], dict(shape=(None, None), order='C', device='cpu', writable=False)], first: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], leaves: int, least: int, rate: float, l2: float) -> tuple[Annotated[NDArray[numpy.int32], dict(order='C')], Annotated[NDArray[numpy.int32], dict(order='C')], Annotated[NDArray[numpy.int32], dict(order='C')], Annotated[NDArray[numpy.int32], dict(order='C')], Annotated[NDArray[numpy.float64], dict(order='C')], Annotated[NDArray[numpy.int32], dict(order='C')]]:
    """
    Boost trees whose leaves have a value a question; feature, bin, left, right, value, roots.
    """

TREE_BINS: int = 64

MOST_TREE_ROWS: int = 131071

def smooth(stack: Annotated[NDArray[numpy.float32], dict(shape=(None, None, None), order='C', device='cpu', writable=False)], first: int, down: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], down_sign: float, across: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], across_sign: float, out: Annotated[NDArray[numpy.float32], dict(shape=(None, None, None), order='C', device='cpu')]) -> None:
    """
    Filter rows of all planes by a kernel along columns and one along rows.
    """

def rings(plane: Annotated[NDArray[numpy.float32], dict(shape=(None, None, None), order='C', device='cpu', writable=False)], moves: Annotated[NDArray[numpy.int64], dict(shape=(None, 2), order='C', device='cpu', writable=False)], pad: int, out: Annotated[NDArray[numpy.float32], dict(shape=(None, None, None), order='C', device='cpu')]) -> None:
    """
    Write sum, sum of squares, least and largest of samples around every pixel.
    """

def enlarge(small: Annotated[NDArray[numpy.float32], dict(shape=(None, None, None), order='C', device='cpu', writable=False)], low_rows: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], part_rows: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu', writable=False)], low_cols: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], part_cols: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu', writable=False)], out: Annotated[NDArray[numpy.float32], dict(shape=(None, None, None), order='C', device='cpu')]) -> None:
    """Interpolate all planes, first along rows, then along columns."""

@overload
def net_convolve(planes: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu', writable=False)], kernel: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu', writable=False)], size: tuple[int, int, int], out: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu')]) -> None: ...

@overload
def net_convolve(planes: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu', writable=False)], kernel: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu', writable=False)], size: tuple[int, int, int], out: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu')]) -> None:
    """Convolve planes by 3 x 3."""

@overload
def net_kernel_back(slope: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu', writable=False)], planes: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu', writable=False)], size: tuple[int, int, int], by_kernel: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu')]) -> None: ...

@overload
def net_kernel_back(slope: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu', writable=False)], planes: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu', writable=False)], size: tuple[int, int, int], by_kernel: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu')]) -> None:
    """Write the gradient of net_convolve by its kernel."""

@overload
def net_normalise(u: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu', writable=False)], gain: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu', writable=False)], shift: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu', writable=False)], least: float, size: tuple[int, int, int], z: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu')], mean: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu')], variance: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu')]) -> None: ...

@overload
def net_normalise(u: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu', writable=False)], gain: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], shift: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], least: float, size: tuple[int, int, int], z: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu')], mean: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu')], variance: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu')]) -> None:
    """Normalise every channel, scale, shift and rectify it."""

@overload
def net_normalise_back(u: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu', writable=False)], z: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu', writable=False)], mean: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu', writable=False)], inverse: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu', writable=False)], gain: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu', writable=False)], size: tuple[int, int, int], slope: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu')], by_shift: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu')], by_gain: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu')]) -> None: ...

@overload
def net_normalise_back(u: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu', writable=False)], z: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu', writable=False)], mean: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], inverse: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], gain: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], size: tuple[int, int, int], slope: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu')], by_shift: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu')], by_gain: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu')]) -> None:
    """Go back through net_normalise: slope, by z, becomes the gradient by u."""

@overload
def net_rectify(u: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu')], shift: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu', writable=False)], size: tuple[int, int, int]) -> None: ...

@overload
def net_rectify(u: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu')], shift: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], size: tuple[int, int, int]) -> None:
    """Shift and rectify every channel, in place."""

@overload
def net_pool(planes: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu', writable=False)], size: tuple[int, int, int], pooled: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu')]) -> None: ...

@overload
def net_pool(planes: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu', writable=False)], size: tuple[int, int, int], pooled: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu')]) -> None:
    """Write the largest of every 2 x 2 pixels."""

@overload
def net_pool_back(planes: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu', writable=False)], pooled: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu', writable=False)], low: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu', writable=False)], size: tuple[int, int, int], slope: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu')]) -> None: ...

@overload
def net_pool_back(planes: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu', writable=False)], pooled: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu', writable=False)], low: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu', writable=False)], size: tuple[int, int, int], slope: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu')]) -> None:
    """Add the gradient of net_pool by its planes to slope."""

@overload
def net_enlarge(low: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu', writable=False)], skip: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu', writable=False)], size: tuple[int, int, int], out: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu')]) -> None: ...

@overload
def net_enlarge(low: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu', writable=False)], skip: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu', writable=False)], size: tuple[int, int, int], out: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu')]) -> None:
    """Write every pixel four times, plus skip."""

@overload
def net_enlarge_back(slope: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu', writable=False)], size: tuple[int, int, int], low: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu')]) -> None: ...

@overload
def net_enlarge_back(slope: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu', writable=False)], size: tuple[int, int, int], low: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu')]) -> None:
    """Write the gradient of net_enlarge by its small planes."""

def forward_offsets(connectivity: int) -> list[list[int]]: ...

def check_grid(shape: Sequence[int]) -> None:
    """Refuse, by ValueError, a grid that is too large for one network."""

def room(shape: Sequence[int]) -> numpy.typing.NDArray[numpy.float64]:
    """
    An array whose numbers are not set, in memory that the next one takes over.
    """

class Survey:
    @property
    def unary(self) -> float: ...

    @property
    def edges(self) -> float: ...

    @property
    def rest(self) -> float: ...

    @property
    def bad_unary(self) -> int: ...

    @property
    def bad_direction(self) -> int: ...

    @property
    def bad_edge(self) -> int: ...

    @property
    def worst_direction(self) -> int: ...

    @property
    def worst_edge(self) -> int: ...

    @property
    def worst(self) -> float: ...

def looked_up(features: numpy.typing.NDArray[Any], tables: numpy.typing.NDArray[numpy.float64], pairs: numpy.typing.NDArray[numpy.int64]) -> numpy.typing.NDArray[numpy.float64]:
    """
    sum_g features[e, g] tables[pairs[e], g, k] of every table k and edge e.
    """

def survey(constant: float, unary: numpy.typing.NDArray[numpy.float64], shape: Sequence[int], connectivity: int, edges: numpy.typing.NDArray[numpy.int32], weights: Sequence[numpy.typing.NDArray[numpy.float64]], kinds: Sequence[int], regions: Regions | None, fixed: numpy.typing.NDArray[numpy.int8]) -> Survey: ...

def flow(constant: float, unary: numpy.typing.NDArray[numpy.float64], shape: Sequence[int], connectivity: int, edges: numpy.typing.NDArray[numpy.int32], weights: Sequence[numpy.typing.NDArray[numpy.float64]], kinds: Sequence[int], regions: Regions | None, fixed: numpy.typing.NDArray[numpy.int8]) -> Flow | None: ...

def solved(constant: float, unary: numpy.typing.NDArray[numpy.float64], shape: Sequence[int], connectivity: int, edges: numpy.typing.NDArray[numpy.int32], weights: Sequence[numpy.typing.NDArray[numpy.float64]], kinds: Sequence[int], regions: Regions | None, fixed: numpy.typing.NDArray[numpy.int8], threads: int) -> Solved | None: ...

class Solved:
    def labels(self, arg: Sequence[int], /) -> Annotated[NDArray[numpy.uint8], dict(order='C')]: ...

    @property
    def minimum(self) -> int: ...

    @property
    def scale(self) -> float: ...

    @property
    def inexact(self) -> int: ...

    @property
    def clipped(self) -> float: ...

    @property
    def clipped_error(self) -> float: ...

    @property
    def cuts(self) -> int: ...

class Flow:
    def labels(self, arg: Sequence[int], /) -> Annotated[NDArray[numpy.uint8], dict(order='C')]: ...

    @property
    def minimum(self) -> int: ...

    @property
    def scale(self) -> float: ...

    @property
    def inexact(self) -> int: ...

    @property
    def clipped(self) -> float: ...

    @property
    def clipped_error(self) -> float: ...

    def solve(self, threads: int) -> None: ...

    def changed(self) -> Annotated[NDArray[numpy.int64], dict(order='C')]: ...

    @property
    def resumed(self) -> bool: ...

    def residuals(self) -> tuple[Annotated[NDArray[numpy.int64], dict(order='C')], Annotated[NDArray[numpy.int64], dict(order='C')]]: ...

    @property
    def outgrown(self) -> bool: ...

    def change_unary(self, index: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], values: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], stored: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C')]) -> None: ...

    def change_weights(self, index: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], pq: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], stored: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C')]) -> None: ...

    def change_fixed(self, index: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], labels: Annotated[NDArray[numpy.int8], dict(shape=(None,), order='C', device='cpu', writable=False)], stored: Annotated[NDArray[numpy.int8], dict(shape=(None,), order='C')]) -> None: ...

    def min_marginals(self, threads: int) -> Annotated[NDArray[numpy.float64], dict(order='C')]: ...

    def argmin_sums(self, weights: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], truth: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu', writable=False)], region_first: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], members: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], threads: int) -> tuple[Annotated[NDArray[numpy.float64], dict(order='C')], Annotated[NDArray[numpy.float64], dict(order='C')], Annotated[NDArray[numpy.float64], dict(order='C')], Annotated[NDArray[numpy.float64], dict(order='C')]]: ...

    def disproof(self, constant: float, unary: numpy.typing.NDArray[numpy.float64], shape: Sequence[int], connectivity: int, edges: numpy.typing.NDArray[numpy.int32], weights: Sequence[numpy.typing.NDArray[numpy.float64]], kinds: Sequence[int], regions: Regions | None, fixed: numpy.typing.NDArray[numpy.int8]) -> str: ...

class OrderedFault:
    @property
    def what(self) -> int: ...

    @property
    def index(self) -> int: ...

    @property
    def direction(self) -> int: ...

    @property
    def a(self) -> int: ...

    @property
    def b(self) -> int: ...

    @property
    def amount(self) -> float: ...

class Ordered:
    def labels(self, arg: Sequence[int], /) -> Annotated[NDArray[numpy.uint8], dict(order='C')]: ...

    @property
    def minimum(self) -> int: ...

    @property
    def scale(self) -> float: ...

    @property
    def inexact(self) -> int: ...

    @property
    def clipped(self) -> float: ...

    @property
    def clipped_error(self) -> float: ...

    @property
    def fault(self) -> OrderedFault: ...

    def solve(self) -> None: ...

    def min_marginals(self, arg: Sequence[int], /) -> Annotated[NDArray[numpy.float64], dict(order='C')]: ...

    def argmin_sums(self, weights: numpy.typing.NDArray[numpy.float64], ends: numpy.typing.NDArray[numpy.int32]) -> tuple[numpy.typing.NDArray[numpy.float64], numpy.typing.NDArray[numpy.float64]]: ...

    def disproof(self, unary: numpy.typing.NDArray[numpy.float64], labels: int, shape: Sequence[int], connectivity: int, edges: numpy.typing.NDArray[numpy.int32], tables: Sequence[numpy.typing.NDArray[numpy.float64]], each: Sequence[bool], fixed: numpy.typing.NDArray[numpy.int16]) -> str: ...

def ordered(unary: numpy.typing.NDArray[numpy.float64], labels: int, shape: Sequence[int], connectivity: int, edges: numpy.typing.NDArray[numpy.int32], tables: Sequence[numpy.typing.NDArray[numpy.float64]], each: Sequence[bool], fixed: numpy.typing.NDArray[numpy.int16]) -> Ordered: ...
