"""The solvers by name: each function imports one and gives its tasks."""

import numpy as np
from arcs import network, terminals
from tasks import from_nothing


def cutlearn():
    from ours import TASKS

    return TASKS


def pymaxflow():
    from reference import TASKS

    return TASKS


def thinmaxflow():
    import thinmaxflow as tf

    def cut(instance):
        unary, tail, head, there, back, constant = network(instance)
        graph = tf.GraphDouble(unary.size, tail.size)
        graph.add_node(unary.size)
        # One call an edge and a node: there are no others.
        for node, u in enumerate(unary.tolist()):
            graph.add_tweights(node, -u if u < 0 else 0.0, u if u > 0 else 0.0)
        for edge in zip(tail.tolist(), head.tolist(), there.tolist(), back.tolist()):
            graph.add_edge(*edge)
        value = constant + graph.maxflow()
        sides = [graph.what_segment(node) for node in range(instance.unary.size)]
        return value, 1 - np.array(sides)

    return {"cut": from_nothing(cut)}


def ortools():
    from ortools.graph.python.max_flow import SimpleMaxFlow

    def cut(instance):
        n, tail, head, capacity, constant = terminals(instance)
        solver = SimpleMaxFlow()
        solver.add_arcs_with_capacity(tail, head, capacity.astype(np.int64))
        if solver.solve(n, n + 1) != solver.OPTIMAL:
            raise RuntimeError("no optimal flow")
        labels = np.zeros(n + 2, bool)
        labels[solver.get_source_side_min_cut()] = True
        return constant + solver.optimal_flow(), labels[: instance.unary.size]

    return {"cut": from_nothing(cut)}


def igraph():
    import igraph as ig

    def cut(instance):
        n, tail, head, capacity, constant = terminals(instance)
        graph = ig.Graph(n + 2, np.stack([tail, head], axis=1), directed=True)
        found = graph.mincut(n, n + 1, capacity.tolist())
        labels = np.zeros(n + 2, bool)
        labels[found.partition[0]] = True
        return constant + found.value, labels[: instance.unary.size]

    return {"cut": from_nothing(cut)}


def scipy():
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import breadth_first_order, maximum_flow

    def cut(instance):
        n, tail, head, capacity, constant = terminals(instance)
        # Ends in 32 bits: flows of scipy before 1.14 take no others.
        ends = tail.astype(np.int32), head.astype(np.int32)
        arcs = csr_array((capacity.astype(np.int32), ends), shape=(n + 2, n + 2))
        found = maximum_flow(arcs, n, n + 1)
        left = arcs - found.flow
        left.eliminate_zeros()
        labels = np.zeros(n + 2, bool)
        labels[breadth_first_order(left, n, return_predecessors=False)] = True
        return constant + found.flow_value, labels[: instance.unary.size]

    return {"cut": from_nothing(cut)}


# The module of each solver, to see which are installed.
MODULES = {name: name for name in ("cutlearn", "thinmaxflow", "ortools", "igraph", "scipy")}
MODULES["PyMaxflow"] = "maxflow"
WHOLE_ONLY = ("ortools", "scipy")
PEERS = {
    "cutlearn": cutlearn,
    "PyMaxflow": pymaxflow,
    "thinmaxflow": thinmaxflow,
    "ortools": ortools,
    "igraph": igraph,
    "scipy": scipy,
}
