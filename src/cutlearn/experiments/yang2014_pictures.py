"""The pictures of yang2014: filters, samples, completed shapes, masks."""

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cutlearn.report.displays import errors_over, rgb
from cutlearn.shape.frame import Frame
from cutlearn.shape.generative import Shapes
from cutlearn.shape.training import filled
from cutlearn.store import atomic_write

Floats = NDArray[Any]
COLUMNS = 12


def draw(
    output: Path, name: str, shapes: dict[int, Shapes], shown: Sequence[dict[str, Floats]]
) -> list[Path]:
    """Draw the models of shapes of one set, and masks of a few test images."""
    files = []
    for layers, model in shapes.items():
        rows = shape_rows(model, [row["truth"] for row in shown])
        kind = "rbm" if layers == 1 else "shapebm"
        files.append(_saved(output / f"yang2014-{name}-{kind}.png", _tiles(rows)))
    files.append(_saved(output / f"yang2014-{name}-masks.jpg", _masks(shown)))
    return files


def shape_rows(model: Shapes, masks: Sequence[Floats]) -> dict[str, Floats]:
    """Filters of the first layer, samples, and masks whose lowest third is completed."""
    shape = model.patches.shape
    strong = np.argsort(-np.abs(model.W).sum(axis=0))[: 2 * COLUMNS]
    filters = model.W[:, strong].T.reshape(-1, *model.patches.size)
    small = [filled(Frame(shape, (m.shape[0], m.shape[1])).labels(m)) for m in masks]
    truth = np.stack(small).astype(np.float32)
    known = np.ones(shape, bool)
    known[2 * shape[0] // 3 :] = False
    given = np.where(known, truth, 0.5)
    return {
        "filters": filters,
        "samples": model.sample(2 * COLUMNS, 2000),
        "given": given,
        "completed": model.complete(truth, known),
        "truth": truth,
        "reconstructed": model.reconstruct(truth),
    }


def _tiles(rows: dict[str, Floats]) -> Any:
    from matplotlib.figure import Figure

    lines = [(name, block[k : k + COLUMNS]) for name, block in rows.items()
             for k in range(0, len(block), COLUMNS)]  # fmt: skip
    figure = Figure(figsize=(COLUMNS, 1.15 * len(lines)))
    for r, (name, images) in enumerate(lines):
        top = float(np.abs(images).max()) if name == "filters" else 1.0
        low = -top if name == "filters" else 0.0
        for c, image in enumerate(images):
            ax = figure.add_subplot(len(lines), COLUMNS, r * COLUMNS + c + 1)
            ax.imshow(image, cmap="gray", vmin=low, vmax=top)
            ax.set_xticks([])
            ax.set_yticks([])
            if c == 0:
                ax.set_ylabel(name, fontsize=8)
    figure.tight_layout(pad=0.3)
    return figure


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


def _saved(path: Path, figure: Any) -> Path:
    file = io.BytesIO()
    figure.savefig(file, format=path.suffix[1:], dpi=70)
    atomic_write(path, file.getvalue())
    return path
