"""The pictures of pletscher2012: differences of losses (figure 4), masks (figure 5)."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from cutlearn.arrays import Floats
from cutlearn.report.displays import errors_over, rgb
from cutlearn_papers.course import Figures
from cutlearn_papers.pletscher2012_data import losses_of


def draw_differences(losses: dict[str, Sequence[Floats]]) -> Any:
    """Draw boxes of Hamming-trained minus count-trained loss over all test images."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 3.8), layout="constrained")
    axes: Any = figure.subplots(1, 2)
    for k, (ax, judged) in enumerate(zip(axes, ("Hamming loss", "count loss"))):
        gaps = [
            np.concatenate([100 * (part[0, :, k] - part[1, :, k]) for part in parts])
            for parts in losses.values()
        ]
        ax.boxplot(gaps, widths=0.6, medianprops={"color": "#d55e00"}, flierprops={"marker": "."})
        ax.axhline(0, color="0.7", zorder=0)
        ax.set_xticks(range(1, len(losses) + 1))
        words = [name.removeprefix("em_").replace(", ", "\n").replace("_", "\n") for name in losses]
        ax.set_xticklabels(words, fontsize=8)
        ax.set(title=f"judged by {judged}: above 0, count-trained is better",
               ylabel="difference, % of the pixels")  # fmt: skip
        ax.title.set_fontsize(10)
    return figure


def draw_masks(part: Figures, shown: int) -> Any:
    """Draw test images with the masks of both models; wrong pixels are painted."""
    from matplotlib.figure import Figure

    known = [k for k in range(shown) if f"image{k}" in part]
    figure = Figure(figsize=(9, 2.4 * len(known)), layout="constrained")
    axes: Any = figure.subplots(len(known), 3, squeeze=False)
    for row, k in zip(axes, known):
        image, mask = part[f"image{k}"], part[f"mask{k}"]
        row[0].imshow(rgb(image))
        for ax, loss in zip(row[1:], ("hamming", "count")):
            found = part[f"{loss}|labels{k}"]
            wrong, off = losses_of(mask, found)
            ax.imshow(errors_over(image, mask, found))
            ax.set_title(f"{loss}-trained: Hamming {wrong:.1%}, count {off:.1%}", fontsize=9)
        for ax in row:
            ax.set(xticks=[], yticks=[])
    return figure
