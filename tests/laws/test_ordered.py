"""Laws of ordered energies that need no enumeration."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

import cutlearn as cl
import ordered_worlds as worlds


def grid(seed, whole=True):
    rng = np.random.default_rng(seed)
    L = int(rng.integers(2, 6))
    shape = (int(rng.integers(1, 9)), int(rng.integers(1, 9)))
    unary = worlds.numbers(rng, (*shape, L), whole)
    tables = [worlds.table(rng, L, whole) for _ in range(2)]
    return unary, tables


@given(st.integers(0, 2**32), st.booleans())
def test_value_labels_and_min_marginals_agree(seed, whole):
    unary, tables = grid(seed, whole)
    energy = cl.OrderedEnergy.grid(unary, tables)
    cut = energy.minimize()
    size = np.abs(unary).sum() + sum(np.abs(t).max() for t in tables) * 2 * unary.size
    digits = 0.0 if whole else 2.0**-45 * size
    assert abs(energy.value(cut.labels) - cut.value) <= digits
    phi = energy.min_marginals()
    assert (np.abs(phi.min(axis=-1) - cut.value) <= digits).all()
    chosen = np.take_along_axis(phi, cut.labels[..., None].astype(int), -1)
    assert (np.abs(chosen - cut.value) <= digits).all()


@given(st.integers(0, 2**32))
def test_mirrored_labels_mirror_the_energy(seed):
    unary, tables = grid(seed)
    phi = cl.OrderedEnergy.grid(unary, tables).min_marginals()
    turned = cl.OrderedEnergy.grid(unary[..., ::-1], [t[::-1, ::-1] for t in tables])
    assert (turned.min_marginals()[..., ::-1] == phi).all()


@given(st.integers(0, 2**32))
def test_constants_move_the_value_only(seed):
    unary, tables = grid(seed)
    cut = cl.OrderedEnergy.grid(unary, tables).minimize()
    pixels = unary.size // unary.shape[-1]
    moved = cl.OrderedEnergy.grid(unary + 3.0, tables).minimize()
    assert moved.value == cut.value + 3.0 * pixels
    assert (moved.labels == cut.labels).all()


@given(st.integers(0, 2**32))
def test_a_label_that_nobody_may_have_is_no_label(seed):
    """With the last label fixed away, what is left is the energy of the other labels."""
    unary, tables = grid(seed)
    L = unary.shape[-1]
    if L == 2:
        return
    dear = unary.copy()
    dear[..., -1] += 2.0**40
    whole = cl.OrderedEnergy.grid(dear, tables).minimize()
    part = cl.OrderedEnergy.grid(unary[..., :-1], [t[:-1, :-1] for t in tables]).minimize()
    assert (whole.labels == part.labels).all()
    assert whole.value == part.value
