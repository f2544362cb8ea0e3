"""Bounds of sums that numpy rounds."""

from fractions import Fraction

import numpy as np
import pytest

from cutlearn.energy.solver import EPSILON, bound_of


@pytest.mark.parametrize("n", [16, 128, 1000, 100_000])
def test_a_bound_of_a_sum_is_no_less_than_the_exact_sum(n):
    # Half a unit in the last place of 1 is lost in every addition to it.
    values = np.full(n, EPSILON / 2)
    values[::128] = 1.0
    exact = sum(map(Fraction, values.tolist()))
    assert Fraction(bound_of(values)) >= exact
    assert bound_of(values) <= float(exact) * (1 + 1e-12)
