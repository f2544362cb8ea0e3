"""PyMaxflow, the solver that people have: Boykov and Kolmogorov's, with re-use of its trees."""

import maxflow
import numpy as np
from arcs import hinges
from tasks import from_nothing, resolves


def build(instance):
    u = instance.unary
    unary, (tail, head, there), constant = hinges(instance)
    graph = maxflow.Graph[float](unary.size, len(instance.weights) * u.size + tail.size)
    nodes = graph.add_grid_nodes(u.shape)
    for (first, second), weights in zip(instance.slices(), instance.weights):
        structure = np.zeros((3,) * u.ndim)
        structure[tuple(1 + b.start - a.start for a, b in zip(first, second))] = 1
        full = np.zeros(u.shape)
        full[first] = weights
        graph.add_grid_edges(nodes, full, structure=structure, symmetric=True)
    if tail.size:
        graph.add_nodes(unary.size - u.size)
        graph.add_edges(tail, head, there, np.zeros(tail.size))
    everything = np.arange(unary.size)
    graph.add_grid_tedges(everything, np.maximum(-unary, 0), np.maximum(unary, 0))
    return graph, nodes, constant + np.minimum(unary, 0).sum()


def cut(instance):
    graph, nodes, constant = build(instance)
    value = constant + graph.maxflow()
    return value, ~graph.get_grid_segments(nodes)


def marginals(instance):
    graph, nodes, constant = build(instance)
    least = constant + graph.maxflow()
    force = 4 * sum(np.abs(w).max() for w in instance.weights) + np.abs(instance.unary).max()
    total = instance.unary.size * least
    added = 0.0
    for node, sink in enumerate(graph.get_grid_segments(nodes).ravel().tolist()):
        # The other label forced, then the force undone: both terminals now carry it.
        one, other = (force, 0.0) if sink else (0.0, force)
        graph.add_tedge(node, one, other)
        graph.mark_node(node)
        total += constant + graph.maxflow(reuse_trees=True) - added
        graph.add_tedge(node, other, one)
        graph.mark_node(node)
        added += force
    return total, None


def resolve(instance):
    graph, _, constant = build(instance)
    graph.maxflow()

    def change(nodes, added):
        nonlocal constant
        graph.add_grid_tedges(nodes, np.maximum(-added, 0), np.maximum(added, 0))
        graph.mark_grid_nodes(nodes)
        constant += np.minimum(added, 0).sum()
        return constant + graph.maxflow(reuse_trees=True), None  # reading labels would cost more

    return change


TASKS = {"cut": from_nothing(cut), "marginals": from_nothing(marginals), **resolves(resolve)}
