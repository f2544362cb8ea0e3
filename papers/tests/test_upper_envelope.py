"""Losses of several lines against enumeration, and what is refused."""

from itertools import product

import numpy as np
import pytest

import cutlearn as cl
from cutlearn.learn.pool import Pool
from cutlearn_papers.upper_envelope import UpperEnvelope


def lines(rng, truth, count):
    """Random lines of which the highest is 0 at the true labels."""
    slopes = rng.normal(size=(count, truth.size))
    return -slopes @ truth - rng.uniform(0, 0.5, count) * (np.arange(count) > 0), slopes


def delta(constants, slopes, y):
    return float((constants + slopes @ y).max())


@pytest.mark.parametrize("seed", range(4))
def test_the_oracle_finds_the_most_violated_labelling(seed):
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, 2, (2, 4)).astype(np.uint8)
    problem = cl.Problem(rng.normal(size=(2, 4, 2)), edge_features=rng.random((10, 1)),
                         shape=(2, 4), connectivity=4)  # fmt: skip
    constants, slopes = lines(rng, truth.ravel(), 3)
    pool = Pool([problem], [truth], loss=UpperEnvelope([constants], [slopes]), normalize="none")
    w = np.array([0.5, -0.3, 0.4])
    energy = cl.Energy.of(problem, w)
    plane = pool.ask(w)[1][0]
    best = max(
        delta(constants, slopes, np.array(y)) - energy.value(np.reshape(y, (2, 4)))
        for y in product((0, 1), repeat=8)
    )
    assert plane[0] + plane[1:] @ w == pytest.approx(best + energy.value(truth), abs=1e-9)


def test_the_count_is_one_of_them():
    rng = np.random.default_rng(5)
    truth = rng.integers(0, 2, 6).astype(np.uint8)
    ones, every = float(truth.sum()), np.ones(6, bool)
    mine = UpperEnvelope([[-ones, ones]], [np.stack([np.ones(6), -np.ones(6)])])
    bound, other = mine.bind(0, truth, every, 2), cl.Count().bind(0, truth, every, 2)
    assert bound.largest == other.largest
    for y in product((0, 1), repeat=6):
        assert bound.value(y) == other.value(y)


def test_void_nodes_cost_nothing():
    loss = UpperEnvelope([[0.0, 0.0]], [np.array([[1.0, 5.0], [0.0, 0.0]])])
    bound = loss.bind(0, np.zeros(2, np.uint8), np.array([True, False]), 2)
    assert [bound.value(y) for y in ([0, 1], [1, 1])] == [0.0, 1.0]


def test_what_is_refused():
    truth, every = np.zeros(2, np.uint8), np.ones(2, bool)
    with pytest.raises(cl.InputError, match="must cost nothing"):
        UpperEnvelope([[1.0]], [np.zeros((1, 2))]).bind(0, truth, every, 2)
    with pytest.raises(cl.InputError, match=r"\(Q, 2\) and \(Q,\) are needed"):
        UpperEnvelope([[0.0]], [np.zeros((1, 3))]).bind(0, truth, every, 2)
    with pytest.raises(cl.InputError, match="none for image 1"):
        UpperEnvelope([[0.0]], [np.zeros((1, 2))]).bind(1, truth, every, 2)
    with pytest.raises(cl.InputError, match="two labels"):
        UpperEnvelope([[0.0]], [np.zeros((1, 2))]).bind(0, truth, every, 3)
    with pytest.raises(cl.InputError, match="for 1 images, but slopes for 0"):
        UpperEnvelope([[0.0]], [])
    with pytest.raises(cl.InputError, match="list of arrays"):
        UpperEnvelope(3, [])
