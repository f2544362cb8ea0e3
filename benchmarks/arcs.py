"""An instance as a list of arcs, for solvers that know no grids and no regions."""

import numpy as np


def hinges(instance):
    """Regions as auxiliary nodes: all unaries, arcs auxiliary -> member, and the constant.

    min_k (a_k s + b_k) = a_0 s + b_0 + sum_k min over z of z (beta_k - alpha_k s), and
    -z s = sum_i z (1 - y_i) - z |members|.
    """
    linear = instance.unary.ravel().copy()
    n = linear.size
    tails, heads, capacities, auxiliary, constant = [], [], [], [], 0.0
    for members, a, b in instance.regions:
        linear[members] += a[0]
        constant += float(b[0])
        for alpha, beta in zip(a[:-1] - a[1:], b[1:] - b[:-1]):
            tails.append(np.full(members.size, n + len(auxiliary)))
            heads.append(members)
            capacities.append(np.full(members.size, alpha))
            auxiliary.append(beta - alpha * members.size)
    empty = [np.empty(0, np.int64)]
    arcs = [np.concatenate(parts or empty) for parts in (tails, heads, capacities)]
    return np.concatenate([linear, auxiliary]), arcs, constant


def network(instance):
    """The whole instance as a list: unaries, tails, heads, capacities there and back, constant."""
    unary, (tail, head, there), constant = hinges(instance)
    nodes = np.arange(instance.unary.size).reshape(instance.unary.shape)
    edges = [(nodes[t].ravel(), nodes[h].ravel()) for t, h in instance.slices()]
    weights = [w.ravel() for w in instance.weights]
    return (
        unary,
        np.concatenate([t for t, _ in edges] + [tail]),
        np.concatenate([h for _, h in edges] + [head]),
        np.concatenate([*weights, there]),
        np.concatenate([*weights, np.zeros(there.size)]),
        constant + np.minimum(unary, 0).sum(),
    )


def terminals(instance):
    """The list with source n and sink n + 1 as nodes, arcs one way each; whole numbers."""
    unary, tail, head, there, back, constant = network(instance)
    n = unary.size
    source, sink = np.flatnonzero(unary < 0), np.flatnonzero(unary > 0)
    both = np.flatnonzero(back)
    tails = [tail, head[both], np.full(source.size, n), sink]
    heads = [head, tail[both], source, np.full(sink.size, n + 1)]
    capacities = [there, back[both], -unary[source], unary[sink]]
    arcs = (np.concatenate(part) for part in (tails, heads, capacities))
    return n, *arcs, constant
