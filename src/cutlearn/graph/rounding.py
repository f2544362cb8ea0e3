"""What floating point takes from numbers on their way to the core.

The core counts what it rounds itself; sums and products that are formed before it are bounded here,
so that the lower bound of a cut holds for the numbers that were given.
"""

import math

import numpy as np

from cutlearn.arrays import Floats

EPSILON = 2.0**-52
# Numpy adds in blocks: the error of a sum is well below this many roundings of all of it.
ROUNDINGS = 64


def size_of(*arrays: Floats) -> float:
    """The sum of all absolute values."""
    return math.fsum(float(np.abs(a).sum()) for a in arrays)


def exact_sum(a: Floats, b: Floats) -> tuple[Floats, Floats]:
    """a + b, and what rounding took from each sum, exactly."""
    with np.errstate(over="ignore", invalid="ignore"):  # the core names numbers beyond the range
        total = a + b
        of_b = total - a
        lost = (a - (total - of_b)) + (b - of_b)
    return total, np.where(np.isfinite(lost), lost, 0.0)


def bound_of(*errors: float | Floats) -> float:
    """No less than the sum of the absolute values of all errors; 0 if there are none."""
    total = math.fsum(size_of(np.atleast_1d(e)) for e in errors)
    return total * (1 + ROUNDINGS * EPSILON)


def adds_exactly(*arrays: Floats) -> bool:
    """Whether every sum and difference of these numbers, in any order, is exact.

    So it is when all are multiples of a power of two and their sum is below 2^53 times that.
    """
    return _digits(*arrays) <= 53


def multiplies_exactly(factors: Floats, others: Floats) -> bool:
    """Whether every product of a factor, or of the difference of two, and an other one is exact."""
    lowest = _lowest_bit(factors) + _lowest_bit(others)
    return _digits(factors) + _digits(others) <= 53 and lowest >= -1074


def _digits(*arrays: Floats) -> float:
    """How many binary digits it takes to write any sum of the numbers."""
    size = size_of(*arrays)
    if size == 0:
        return 0
    if not math.isfinite(size):
        return math.inf
    return math.frexp(size)[1] - min(map(_lowest_bit, arrays))


def _lowest_bit(array: Floats) -> float:
    """The largest e such that all numbers are multiples of 2^e; infinity if all are zero."""
    numbers = array[array != 0]
    if not numbers.size:
        return math.inf
    mantissa, exponent = np.frexp(numbers)
    whole = np.ldexp(mantissa, 53).astype(np.int64)
    last = np.frexp((whole & -whole).astype(np.float64))[1] - 1
    return int((exponent - 53 + last).min())
