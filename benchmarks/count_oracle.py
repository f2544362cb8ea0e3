"""Training for the count loss: our oracle beside one with the Boykov-Kolmogorov algorithm.

    python benchmarks/count_oracle.py --data DIR [--images 5] [--side 160] [--seconds 120]

Section 4.3 of pletscher2012. The model is trained once; then a graph of PyMaxflow (needs the extra
"bench") answers the same questions, the weights of every step for every image: with a
node z that is joined to all pixels, and in two cuts without it. CPU seconds. Where PyMaxflow would
take longer than --seconds, every so many-th step is asked, and the sum is scaled.
"""

import argparse
import time
from pathlib import Path

import maxflow
import numpy as np

import cutlearn as cl
from cutlearn.energy.model import unary_of
from cutlearn.learn.pool import Pool
from cutlearn_papers.pletscher2012_data import photographs

C, TOL = 1e-3, 0.001


class Asked(Pool):
    """A pool that notes which weights its oracle was asked for, and for how long it worked."""

    def ask(self, w, place):
        begin = time.process_time()
        found = super().ask(w, place)
        self.seconds = getattr(self, "seconds", 0.0) + time.process_time() - begin
        self.__dict__.setdefault("weights", []).append(w.copy())
        return found


def graph_of(problem, mask, w):
    """Unaries, edges and their costs, and what a pixel adds to the loss."""
    unary = unary_of(problem, w).ravel()
    costs = np.asarray(problem.edge_features, float) @ w[problem.n_node_features :]
    known = mask.ravel() != 255
    share = known / known.sum()
    return unary, np.asarray(problem.edge_ends()), costs, share, float(share @ (mask.ravel() == 1))


def solved(unary, ends, costs, joined=None):
    """The least energy; `joined`: (cost of z, cost of z = 1 where a pixel is 0)."""
    n = unary.size
    graph = maxflow.Graph[float](n + 1, len(ends) + n)
    nodes = graph.add_nodes(n)
    graph.add_edges(ends[:, 0], ends[:, 1], costs, costs)
    if joined is not None:
        z = graph.add_nodes(1)[0]
        cost, each = joined
        graph.add_tedge(z, max(cost, 0), max(-cost, 0))
        graph.add_edges(nodes, np.full(n, z), each, np.zeros(n))
    graph.add_grid_tedges(nodes, np.maximum(unary, 0), np.maximum(-unary, 0))
    constant = np.minimum(unary, 0).sum() + (0 if joined is None else min(joined[0], 0))
    return graph.maxflow() + constant


def with_node(unary, ends, costs, share, c):
    """min E(y) - |s - c| by one cut: 2 z (c - s) + s - c, s the share of ones."""
    total = share.sum()
    return solved(unary + share, ends, costs, (2 * c - 2 * total, 2 * share)) - c


def in_two(unary, ends, costs, share, c):
    """The same by a cut for each sign of s - c."""
    return min(solved(unary + share, ends, costs) - c, solved(unary - share, ends, costs) + c)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--images", type=int, default=5)
    parser.add_argument("--side", type=int, default=160)
    parser.add_argument("--seconds", type=float, default=120)
    options = parser.parse_args()
    nodes = photographs(options.data / "grabcut", options.side).take(range(options.images))
    problems = nodes.problems("4/S")
    pool = Asked(problems, nodes.masks, loss="count", normalize="loss")
    begin = time.process_time()
    result = cl.train(problems, nodes.masks, loss="count", C=C, tol=TOL, normalize="loss",
                      n_jobs=1, pool=pool)  # fmt: skip
    ours = time.process_time() - begin
    print(f"{options.images} photographs, side {options.side}: {len(pool.weights)} steps, "
          f"{ours:.2f} s, {pool.seconds:.2f} s of them in the oracle (gap {result.gap:.1e})",
          flush=True)  # fmt: skip
    for name, way in (("one cut with a node joined to all", with_node), ("two cuts", in_two)):
        first = [graph_of(p, m, pool.weights[-1]) for p, m in zip(problems, nodes.masks)]
        begin = time.process_time()
        found = [way(*parts) for parts in first]
        one = time.process_time() - begin
        np.testing.assert_allclose(found, [with_node(*parts) for parts in first], rtol=1e-6)
        step = max(1, int(np.ceil(one * len(pool.weights) / options.seconds)))
        spent = 0.0
        for w in pool.weights[::step]:
            for p, m in zip(problems, nodes.masks):
                parts = graph_of(p, m, w)
                begin = time.process_time()
                way(*parts)
                spent += time.process_time() - begin
        total = spent * len(pool.weights) / len(pool.weights[::step])
        print(f"Boykov-Kolmogorov, {name}: {total:.2f} s for the same questions (every {step}), "
              f"{total / pool.seconds:.1f} times ours", flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
