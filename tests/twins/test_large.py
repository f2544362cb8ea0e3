"""Flows equal scipy's on whole-numbered networks of more than 10^5 nodes."""

import numpy as np
import pytest
from scipy.sparse import csr_array
from scipy.sparse.csgraph import maximum_flow

import cutlearn as cl


def scipy_value(n, arcs, caps, source, sink):
    # Ends in 32 bits: flows of scipy before 1.14 take no others.
    ends = arcs.T.astype(np.int32)
    matrix = csr_array((caps.astype(np.int32), (ends[0], ends[1])), shape=(n, n))
    return maximum_flow(matrix, source, sink).flow_value


def grid_world(shape, connectivity, seed, smooth):
    from scipy.ndimage import gaussian_filter

    rng = np.random.default_rng(seed)
    u = gaussian_filter(rng.standard_normal(shape), smooth)
    u = np.rint(u / u.std() * 100).astype(int)
    w = [rng.integers(0, 60, (len(e), 2)) for e in cl.grid_edges(shape, connectivity)]
    return u, w


@pytest.mark.parametrize(
    ("shape", "connectivity", "smooth"), [((330, 320), 4, 0), ((330, 320), 8, 3), ((48,) * 3, 6, 2)]
)
def test_grid_equals_scipy(shape, connectivity, smooth):
    u, pq = grid_world(shape, connectivity, 1, smooth)
    n = u.size
    source, sink = n, n + 1
    flat = u.ravel()
    arcs, caps = [], []
    for edges, w in zip(cl.grid_edges(shape, connectivity), pq):
        arcs += [edges[:, ::-1], edges]  # p: the second end on, the first off
        caps += [w[:, 0], w[:, 1]]
    on, off = np.flatnonzero(flat < 0), np.flatnonzero(flat > 0)
    arcs += [
        np.stack([np.full(on.size, source), on], 1),
        np.stack([off, np.full(off.size, sink)], 1),
    ]
    caps += [-flat[on], flat[off]]
    expected = scipy_value(n + 2, np.concatenate(arcs), np.concatenate(caps), source, sink)
    boxes = [
        tuple(s.stop - s.start for s in tail)
        for tail, _ in cl.grid.grid_slices(shape, connectivity)
    ]
    energy = cl.Energy.grid(u, [w.reshape(*b, 2) for w, b in zip(pq, boxes)], connectivity)
    solver = energy.solver()
    cut = solver.minimize()
    assert cut.value == cut.lower_bound == expected + flat[on].sum()
    assert energy.value(cut.labels) == cut.value
    solver.prove()


def test_sparse_network_equals_scipy():
    rng = np.random.default_rng(2)
    n, m = 120_000, 400_000
    arcs = rng.integers(0, n, (m, 2))
    arcs = np.unique(arcs[arcs[:, 0] != arcs[:, 1]], axis=0)
    hubs = np.stack([np.zeros(3000, int), rng.choice(np.arange(2, n), 3000, replace=False)], 1)
    ends = np.stack([rng.choice(np.arange(2, n), 3000, replace=False), np.ones(3000, int)], 1)
    arcs = np.unique(np.concatenate([arcs, hubs, ends]), axis=0)
    caps = rng.integers(0, 50, len(arcs))
    r = cl.max_flow(arcs, caps, 0, 1, n)
    assert r.value == scipy_value(n, arcs, caps, 0, 1)
    assert (r.flow >= 0).all()
    assert (r.flow <= caps).all()
    balance = np.bincount(arcs[:, 1], r.flow, n) - np.bincount(arcs[:, 0], r.flow, n)
    assert (balance[2:] == 0).all()
    assert balance[1] == r.value == -balance[0]
    cut = r.source_side[arcs[:, 0]] & ~r.source_side[arcs[:, 1]]
    assert caps[cut].sum() == r.value
