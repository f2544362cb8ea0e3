"""The programs alone: what HiGHS makes of planes of very different slopes."""

import numpy as np
import pytest

from cutlearn.learn.programs import Program, solve_linear


@pytest.mark.parametrize("seed", range(10))
def test_planes_from_afar_do_not_spoil_the_minimum(seed):
    """Slopes from 1e-4 to 1e6: those near the optimum must not count as zeros."""
    rng = np.random.default_rng(seed)
    d, planes = 4, 40
    v, c = rng.normal(size=d), 10.0 ** rng.uniform(-1, 1, d)
    u = rng.normal(size=(planes, d)) * 10.0 ** rng.uniform(-5, 5, (planes, 1))
    # Tangents at v + u of sum c (w - v)^2: the model is below it, and above some at v + u.
    b, a = -(c * u**2).sum(axis=1) - (2 * c * u) @ v, 2 * c * u
    program = Program(0.0, b, a, np.zeros(planes, np.int32), 1, np.zeros((0, d)), np.zeros(0))
    near = v + 1e-3 * rng.normal(size=d)
    upper = program.value(near)
    found = solve_linear(program, upper, near)
    assert upper > 0
    # Between zero and what the function is at its best, which is zero too.
    assert program.value(found.w) <= 1e-6 * upper
