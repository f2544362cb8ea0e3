"""Views with random numbers, and conditional machines small enough to enumerate."""

import numpy as np

from cutlearn.grid import grid_edges
from cutlearn.shape.conditional import Conditional
from cutlearn.shape.describe import CONNECTIVITY, MachineInput
from cutlearn.shape.frame import Patches

SHAPE = (2, 3)


def view(seed, patches=1):
    rng = np.random.default_rng(seed)
    edges = sum(len(e) for e in grid_edges(SHAPE, CONNECTIVITY))
    made = [rng.normal(size=s) for s in ((4, 5), (patches, 3), 4)]
    x0, x1, x2 = (a.astype(np.float32) for a in made)
    regions = rng.integers(0, 4, 6).astype(np.int32)
    return MachineInput(x0, regions, x1, x2, rng.uniform(0, 1, (edges, 2)).astype(np.float32))


def psi(model, view, y, hidden):
    """The joint features of a state, in the shapes of w."""
    made = {name: np.zeros_like(array) for name, array in model.w.items()}
    nothing = (np.zeros_like(y), tuple(np.zeros_like(h) for h in hidden))
    model.add(made, 1.0, view, (y, hidden), nothing)
    return made


def conditional(seed, two=False, pairwise=False, scale=0.5):
    """A machine of 6 labels with random numbers: 4 units, and 2 above them."""
    rng = np.random.default_rng(seed)
    patches = Patches(SHAPE, (2, 2), ((0, 0), (0, 1))) if two else Patches.whole(SHAPE)
    units = 2 if two else 4
    m2 = 2 * two
    sizes = {
        "W": (patches.size[0] * patches.size[1], units), "c": (4,), "b": (6,), "W2": (4, m2),
        "c2": (m2,), "V0": (5,), "V1": (units, 3), "V2": (m2, 4), "v": (2 * pairwise,),
    }  # fmt: skip
    w = {name: (scale * rng.normal(size=s)).astype(np.float32) for name, s in sizes.items()}
    w["v"] = np.abs(w["v"])
    return Conditional(patches, w)
