"""Energies: unaries, edges and envelopes, minimised exactly by a cut."""

from cutlearn.energy.energy import Energy
from cutlearn.energy.envelope import Envelope
from cutlearn.energy.forms import EnvelopeSpec
from cutlearn.energy.moves import Moved, expand, swap
from cutlearn.energy.ordered import OrderedEnergy
from cutlearn.energy.probability import probabilities

__all__ = [
    "Energy",
    "Envelope",
    "EnvelopeSpec",
    "Moved",
    "OrderedEnergy",
    "expand",
    "probabilities",
    "swap",
]
