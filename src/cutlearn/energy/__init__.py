"""Energies: unaries, edges and envelopes, minimised exactly by a cut."""

from cutlearn.energy.energy import Energy
from cutlearn.energy.envelope import Envelope
from cutlearn.energy.envelopes import Envelopes
from cutlearn.energy.forms import EnvelopeSpec
from cutlearn.energy.model import Model
from cutlearn.energy.moves import Moved, expand, swap
from cutlearn.energy.ordered import OrderedEnergy
from cutlearn.energy.potentials import Contrast, Enveloped, Potential, Summands, Unary
from cutlearn.energy.probability import probabilities

__all__ = [
    "Contrast",
    "Energy",
    "Envelope",
    "EnvelopeSpec",
    "Enveloped",
    "Envelopes",
    "Model",
    "Moved",
    "OrderedEnergy",
    "Potential",
    "Summands",
    "Unary",
    "expand",
    "probabilities",
    "swap",
]
