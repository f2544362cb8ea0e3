"""Short names for what tests ask of a model: of unaries, contrast and envelopes, or one given."""

import numpy as np

from cutlearn.energy.label_space import Ordered, Unordered
from cutlearn.energy.model import Model, model_of
from cutlearn.energy.model import unary_of as unary_of
from cutlearn.learn.oracle import training_image


def bound_task(problem, labels, loss, image=0, normalize="pixels", model=None):
    return training_image(problem, labels, model_of(problem, model), image, loss, normalize)


def ordered(L):
    return Model(labels=Ordered(L))


def unordered(L):
    return Model(labels=Unordered(L))


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


def specs_of_model(model):
    """The forms of a model's envelopes."""
    return tuple(p.spec for p in model.potentials if hasattr(p, "spec"))
