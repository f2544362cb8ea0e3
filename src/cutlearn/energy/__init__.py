"""Energies: unaries, edges and envelopes, minimised exactly by a cut."""

from cutlearn.energy.compiled import probabilities
from cutlearn.energy.energy import Energy
from cutlearn.energy.envelopes import Envelope, Envelopes, EnvelopeSpec
from cutlearn.energy.model import Model
from cutlearn.energy.moves import Moved, expand, swap
from cutlearn.energy.ordered import OrderedEnergy
from cutlearn.energy.potentials import Contrast, Enveloped, Potential, Summands, Unary
from cutlearn.energy.solver import Cut, MaxFlow, Solver, max_flow

__all__ = [
    "Contrast",
    "Cut",
    "Energy",
    "Envelope",
    "EnvelopeSpec",
    "Enveloped",
    "Envelopes",
    "MaxFlow",
    "Model",
    "Moved",
    "OrderedEnergy",
    "Potential",
    "Solver",
    "Summands",
    "Unary",
    "expand",
    "max_flow",
    "probabilities",
    "swap",
]
