"""Masks beside each other: images, true masks and those of models, with their errors painted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from cutlearn.errors import InputError
from cutlearn.metrics import confusion
from cutlearn.report.displays.overlay import COLORS, Picture, errors_over, rgb

if TYPE_CHECKING:
    from matplotlib.figure import Figure, SubFigure


@dataclass
class MasksDisplay:
    """Images beside their true masks and the predictions of one or more models.

    Parameters
    ----------
    images : list of (h, w, 3) float arrays in [0, 1]
    truths : list of (h, w) arrays
        0, 1, and 255 for void.
    predictions : mapping from a name of a model to a list of (h, w) arrays

    Attributes
    ----------
    axes_ : (rows, columns) array of axes
    figure_ : Figure

    Examples
    --------
    >>> import numpy as np
    >>> from cutlearn.report.displays import MasksDisplay
    >>> blank = np.zeros((4, 5), np.uint8)
    >>> MasksDisplay.from_predictions([blank / 1.0], [blank], [blank]).plot().axes_.shape
    (1, 3)
    """

    images: list[Picture]
    truths: list[npt.NDArray[Any]]
    predictions: dict[str, list[npt.NDArray[Any]]]
    axes_: npt.NDArray[Any] = field(init=False, repr=False)
    figure_: Figure | SubFigure = field(init=False, repr=False)

    @classmethod
    def from_predictions(
        cls,
        images: Sequence[npt.ArrayLike],
        truths: Sequence[npt.ArrayLike],
        predictions: Sequence[npt.ArrayLike] | Mapping[str, Sequence[npt.ArrayLike]],
    ) -> MasksDisplay:
        """Take the masks of one model, or of several by name.

        Parameters
        ----------
        images : sequence of (h, w) or (h, w, 3) arrays in [0, 1]
        truths : sequence of (h, w) arrays
        predictions : sequence of (h, w) arrays, or a mapping from names to such sequences
        """
        models = predictions if isinstance(predictions, Mapping) else {"prediction": predictions}
        lengths = {len(images), len(truths), *(len(masks) for masks in models.values())}
        if len(lengths) != 1 or 0 in lengths:
            raise InputError(
                f"masks: images, truths and predictions are lists of lengths {sorted(lengths)}, "
                "but they must be equally long, and not empty. Give one mask for each image."
            )
        return cls(
            [rgb(np.asarray(image)) for image in images],
            [np.asarray(mask) for mask in truths],
            {name: [np.asarray(mask) for mask in masks] for name, masks in models.items()},
        )

    def plot(self, figure: Any = None) -> MasksDisplay:
        """Draw a row for each image into a figure (or a part of one), or into a new figure."""
        columns = 2 + len(self.predictions)
        if figure is None:
            from matplotlib.figure import Figure

            figure = Figure(figsize=(2.6 * columns, 2.1 * len(self.images) + 0.6),
                            layout="constrained")  # fmt: skip
        self.figure_ = figure
        self.axes_ = figure.subplots(len(self.images), columns, squeeze=False)
        for row, (axes, image, truth) in enumerate(zip(self.axes_, self.images, self.truths)):
            pictures = [image, errors_over(image, truth, truth)]
            titles = ["image", "truth"]
            for name, masks in self.predictions.items():
                pictures.append(errors_over(image, truth, masks[row]))
                titles.append(name)
                axes[len(pictures) - 1].set_xlabel(_verdict(truth, masks[row]), fontsize="small")
            for ax, picture, title in zip(axes, pictures, titles):
                ax.imshow(picture, interpolation="nearest")
                ax.set(xticks=[], yticks=[])
                ax.spines[:].set_visible(False)
                if row == 0:
                    ax.set_title(title, fontsize="medium")
        self._legend(figure)
        return self

    def _legend(self, figure: Any) -> None:
        from matplotlib.patches import Patch

        words = {
            "hit": "right",
            "extra": "extra (predicted, not true)",
            "missed": "missed (true, not predicted)",
        }
        patches = [Patch(color=np.array(COLORS[kind]) / 255, label=words[kind]) for kind in COLORS]
        figure.legend(handles=patches, loc="outside lower center", ncols=3, frameon=False,
                      fontsize="small")  # fmt: skip


def _verdict(truth: npt.NDArray[Any], predicted: npt.NDArray[Any]) -> str:
    """Say in a few words how good a mask is."""
    table = confusion(truth, predicted)
    true, found = table.area()
    area = f", area {(found - true) / true:+.1%}" if true else ""
    return f"IoU {table.iou():.2f}{area}"
