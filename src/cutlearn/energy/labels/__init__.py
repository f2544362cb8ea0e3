"""What the labels of a model are: each kind is one object from problem to answer.

    binary      0 and 1: one exact cut, exact min-marginals
    ordered     0 < 1 < .. < L - 1: one exact cut, exact min-marginals
    unordered   tables and expansion moves: a local optimum, min-marginals of one move
    surrogate   a binary field for each label: min-marginals only, for likelihoods

A kind of labels says which potentials stand in the places of those of two labels, makes the energy
of their terms, and goes from weights to the best labels, to min-marginals, and to the likelihood of
labels under q_d = softmax of -Phi_d. Model, oracles, learners, estimators and files ask it.
"""

from typing import Any

from cutlearn.energy.labels.base import MOST_LABELS, Labels, Posed, Valued, fixed_in
from cutlearn.energy.labels.binary import Binary, binary_log_likelihood
from cutlearn.energy.labels.several import Ordered, Unordered
from cutlearn.energy.labels.surrogate import Surrogate
from cutlearn.errors import InputError, quoted

__all__ = [
    "AUTO",
    "LABELS",
    "MOST_LABELS",
    "Binary",
    "Labels",
    "Ordered",
    "Posed",
    "Surrogate",
    "Unordered",
    "Valued",
    "binary_log_likelihood",
    "fixed_in",
    "kind_of",
    "labels_of",
]

LABELS: dict[str, type[Labels]] = {
    kind.name: kind for kind in (Binary, Ordered, Surrogate, Unordered)
}


# Stands for the kind that suits the number of labels and how they are learned.
AUTO = "auto"


def kind_of(name: str, n_labels: int, margin: bool) -> type[Labels]:
    """Give the kind of labels of a name; "auto": binary if they are two.

    More are unordered, or surrogate where a likelihood is to be learned (not a margin).
    """
    if name != AUTO:
        return LABELS[name]
    several: type[Labels] = Unordered if margin else Surrogate
    return Binary if n_labels == 2 else several


def labels_of(labels: Any, n_labels: int | None = None) -> Labels:
    """Give the kind of labels that a name, or an object, means."""
    if isinstance(labels, Labels):
        return labels
    if not isinstance(labels, str) or labels not in LABELS:
        raise InputError(
            f"The 'labels' parameter must be one of {tuple(LABELS)}. Got {quoted(labels)} instead."
        )
    return LABELS[labels](n_labels)
