"""Shapes that a Boltzmann machine learns, draws and completes.

A restricted Boltzmann machine with 16 hidden units sees 96 masks of 10 x 10: a bar, a cross or a
frame at some place. With so few units its likelihood is known exactly: log p(y) of the masks
rises from that of independent pixels (-41) to -12 (a list of all 96 masks would have -4.6). What it
draws then are bars, crosses and frames, and of half a mask it mostly knows the other half.
"""

import numpy as np

from cutlearn.report.displays import ShapesDisplay
from cutlearn.shape.generative import fit_shapes

SIDE = 10
EPOCHS = [0, 300, 1000, 3000, 10_000]


def all_masks():
    """Give a bar, a cross and a frame of 6 x 6 pixels and more at every place."""
    tile = np.zeros((3, 6, 6))
    tile[0, 2:4] = 1
    tile[1, 2:4] = tile[1, :, 2:4] = 1
    tile[2] = 1
    tile[2, 2:4, 2:4] = 0
    masks = []
    for shape in [*tile, tile[0].T]:
        for top in range(SIDE - 5):
            for left in range(SIDE - 5):
                mask = np.zeros((SIDE, SIDE))
                mask[top : top + 6, left : left + 6] = shape
                masks.append(mask)
    return np.array(masks)[:96]


masks = all_masks()
models = [fit_shapes(masks, hidden=(16,), epochs=(count,)) for count in EPOCHS]
for count, model in zip(EPOCHS, models):
    print(f"{count:6d} epochs: mean log p {model.log_likelihood(masks).mean():8.2f}")

known = np.zeros((SIDE, SIDE), bool)
known[: SIDE // 2] = True
shown = ShapesDisplay.from_model(models[-1], masks[::9], known).plot()
shown.figure_.savefig("shapes.png", dpi=80)
print("wrote shapes.png")
