"""Beliefs and likelihoods of tiny problems by enumeration, in plain words."""

import numpy as np

import tiny_labels
import tiny_problems
from linear_energies import psi

VOID = 255


def min_marginals(problem, w, envelope=None, fixed=None):
    """Phi (n, 2), and by how much the nearest rival with other features misses each of them."""
    every = tiny_problems.labellings(problem.n_nodes)
    features = np.array([psi(problem, y, envelope) for y in every])
    return _least(every, features, w, 2, fixed)


def label_min_marginals(problem, w, n_labels):
    """The same for several labels, (n, L)."""
    every = tiny_labels.labellings(problem.n_nodes, n_labels)
    features = np.array([tiny_labels.psi(problem, y, n_labels) for y in every])
    return _least(every, features, w, n_labels, problem.fixed)


def _least(every, features, w, n_labels, fixed):
    if fixed is not None:
        kept = ((fixed < 0) | (every == fixed)).all(axis=1)
        every, features = every[kept], features[kept]
    energies = features @ w
    phi, margin = np.full((every.shape[1], n_labels), np.inf), np.inf
    for d in range(every.shape[1]):
        for k in range(n_labels):
            rows = np.flatnonzero(every[:, d] == k)
            if rows.size == 0:
                continue
            best = rows[energies[rows].argmin()]
            phi[d, k] = energies[best]
            other = rows[np.abs(features[rows] - features[best]).max(axis=1) > 1e-9]
            if other.size:
                margin = min(margin, energies[other].min() - energies[best])
    return phi, margin


def softmax(costs):
    """exp(-cost) over its sum, row by row."""
    out = np.zeros_like(costs)
    for d, row in enumerate(costs):
        mass = [np.exp(-(cost - row.min())) for cost in row]
        out[d] = np.array(mass) / sum(mass)
    return out


def log_likelihood(q, labels):
    """The mean over labelled nodes of the log of the true label's probability."""
    return float(np.mean([np.log(q[d, y]) for d, y in enumerate(labels) if y != VOID]))


def surrogate(problem, w, n_labels, envelope=None):
    """S (n, L), and the least margin of any field."""
    rows = np.reshape(w, (n_labels, -1))
    fields = [min_marginals(problem, row, envelope) for row in rows]
    return np.stack([phi[:, 1] - phi[:, 0] for phi, _ in fields], axis=1), min(m for _, m in fields)


def central_differences(function, w, h=1e-5):
    """The gradient of a smooth function, one coordinate after the other."""
    steps = np.eye(len(w)) * h
    return np.array([(function(w + step) - function(w - step)) / (2 * h) for step in steps])
