"""The pictures of yang2014: filters, samples, completed shapes, masks."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cutlearn.report.displays import ShapesDisplay, errors_over, rgb
from cutlearn.shape.frame import Frame, filled
from cutlearn.shape.generative import Shapes

Floats = NDArray[Any]


# The paper's models of shapes: layers, and whether the first has patches.
KINDS = {(1, False): "rbm", (2, True): "shapebm"}


def drawings(
    shapes: dict[tuple[int, bool], Shapes], shown: Sequence[dict[str, Floats]]
) -> dict[str, Any]:
    """Draw the paper's models of shapes of one set, and masks of a few test images."""
    figures = {}
    for kind, word in KINDS.items():
        model = shapes[kind]
        masks = [_small(model.patches.shape, row["truth"]) for row in shown]
        figures[word] = ShapesDisplay.from_model(model, masks).plot().figure_
    return figures | {"masks": _masks(shown[:8])}


def _small(shape: tuple[int, int], mask: Floats) -> Floats:
    """A mask at the model's size, background in the padding."""
    frame = Frame(shape, (mask.shape[0], mask.shape[1]))
    return np.where(frame.inside(), filled(frame.labels(mask)), 0)


def _masks(shown: Sequence[dict[str, Floats]]) -> Any:
    from matplotlib.figure import Figure

    names = ["unary", "prior only", "MMBM1 case 4 (both)", "MMBM2", "MMBM2, refined"]
    names = [n for n in names if n in shown[0]]
    figure = Figure(figsize=(2.2 * (len(names) + 1), 2.0 * len(shown)))
    for r, row in enumerate(shown):
        for c, name in enumerate(["image", *names]):
            ax = figure.add_subplot(len(shown), len(names) + 1, r * (len(names) + 1) + c + 1)
            picture = rgb(row["image"])
            ax.imshow(
                picture if name == "image" else errors_over(row["image"], row["truth"], row[name])
            )
            ax.set_axis_off()
            if r == 0:
                ax.set_title(name, fontsize=9)
    figure.tight_layout(pad=0.3)
    return figure
