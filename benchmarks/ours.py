"""Our own cut, through its public face."""

import numpy as np
from tasks import from_nothing, resolves

import cutlearn as cl


def energy(instance):
    regions = ()
    if instance.regions:
        _, slopes, intercepts = zip(*instance.regions)
        regions = cl.Envelopes(instance.label_map, slopes, intercepts)
    if not instance.connectivity:
        return cl.Energy(instance.unary, envelopes=regions)
    return cl.Energy.grid(instance.unary, instance.weights, instance.connectivity, regions)


def answer(cut):
    return cut.value, cut.labels


def solved(instance):
    solver = energy(instance).solver()
    solver.minimize()
    return solver


def new_w(instance):
    solver = solved(instance)
    u, w = instance.unary.ravel(), np.concatenate([w.ravel() for w in instance.weights])
    nodes, edges = np.arange(u.size), np.arange(w.size)

    def change(unary, weights):
        solver.set_unary(nodes, unary)
        solver.set_weights(edges, weights)
        return answer(solver.minimize())

    there = np.rint(1.1 * u), np.rint(0.9 * w)
    return [lambda: change(*there), lambda: change(u, w)] * 2


def resolve(instance):
    u = instance.unary.ravel().copy()
    solver = solved(instance)

    def change(nodes, added):
        u[nodes] += added
        solver.set_unary(nodes, u[nodes])
        return answer(solver.minimize())

    return change


def parts(instance):
    made = []

    def step(work):
        made.append(work())
        return 0.0, None

    return [
        lambda: step(lambda: energy(instance)),
        lambda: step(lambda: made[0].solver()),
        lambda: answer(made[1].minimize()),
    ]


TASKS = {
    "cut": from_nothing(lambda instance: answer(energy(instance).minimize())),
    "plain": from_nothing(lambda instance: answer(energy(instance.plain()).minimize())),
    "marginals": from_nothing(lambda instance: (energy(instance).min_marginals().sum(), None)),
    "new w": new_w,
    "parts": parts,
    **resolves(resolve),
}
