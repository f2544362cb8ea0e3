"""Short names for what tests ask of a model: of unaries, contrast and envelopes, or one given."""

import numpy as np

from cutlearn.energy.model import model_of
from cutlearn.energy.model import unary_of as unary_of


def layout_of(problem, given=None):
    return model_of(problem, given).layout(problem)


def energy_of(problem, w, given=None):
    return model_of(problem, given).energy(problem, w)


def psi(problem, labels, given=None):
    return model_of(problem, given).psi(problem, labels)


def constraints_of(problem, given=None):
    return model_of(problem, given).constraints(problem)


def weights_of(problem, w):
    """The weights of the edges; envelope weights behind them do not matter."""
    return model_of(problem).terms(problem, np.asarray(w)[: problem.n_weights]).edges


def envelopes_of(problem, w, given):
    return model_of(problem, given).terms(problem, w).envelopes
