"""The report: one page for a browser, with every picture inside it, that can be sent by mail.

Figures with their intervals, masks from the worst to the best image with probability and doubt
beside them, how far the probabilities can be believed, what was learned, and a table of all images.
"""

from __future__ import annotations

import base64
import io
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from cutlearn.metrics import VOID, Spread
from cutlearn.report.displays import (
    COLORS,
    AreaDisplay,
    TrainingDisplay,
    errors_over,
    new_axes,
    rgb,
)
from cutlearn.report.displays_probability import ReliabilityDisplay, RocDisplay
from cutlearn.report.evaluate import Evaluation
from cutlearn.report.probabilities import Beliefs, entropy

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Longer sides are halved until they fit: the page is for looking, not for measuring.
MOST_SIDE = 520
MOST_WEIGHTS = 12
CHART = (3.8, 3.8)
PROBABILITY, DOUBT = "viridis", "magma"


@dataclass(frozen=True, eq=False)
class Shown:
    """An image of the page, with what is true of it and what the model says.

    Parameters
    ----------
    name : str
    image : (h, w) or (h, w, 3) array
    truth, mask : (h, w) labels
        True ones, with 255 for void, and predicted ones.
    belief : (h, w, L) array or None
        Probabilities, if the model has any.
    """

    name: str
    image: npt.NDArray[Any]
    truth: npt.NDArray[Any]
    mask: npt.NDArray[Any]
    belief: npt.NDArray[Any] | None = None


@dataclass(frozen=True)
class Picture:
    """A picture as an address that holds it, and the words below it."""

    src: str
    words: str


def worth_a_look(figures: Evaluation, most: int = 6) -> list[int]:
    """Choose images to show: the worst, the best, and even steps of rank between them."""
    known = [i for i, image in enumerate(figures.images) if not math.isnan(image.iou)]
    known.sort(key=lambda i: (figures.images[i].iou, i))
    steps = np.linspace(0, len(known) - 1, min(most, len(known))).round().astype(int)
    return [known[k] for k in steps]


def page(
    title: str,
    model: Any,
    figures: Evaluation,
    shown: Sequence[Shown],
    believed: Sequence[Beliefs] = (),
) -> str:
    """Write the report of a model on images that have true masks.

    Parameters
    ----------
    title : str
    model : Segmenter or BoltzmannSegmenter, fitted
    figures : Evaluation
    shown : sequence of Shown
        The images that get a row of pictures; `worth_a_look` chooses them.
    believed : sequence of Beliefs
        Of all images, if the model has probabilities.

    Returns
    -------
    str
        HTML, whole in itself.
    """
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    pages = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    ordered = sorted(figures.images, key=lambda image: (math.isnan(image.iou), image.iou))
    return pages.get_template("page.html").render(
        title=title,
        headlines=headlines(figures, believed),
        rows=[(part.name, _verdict(part), panels(part)) for part in shown],
        colors={kind: "rgb({}, {}, {})".format(*color) for kind, color in COLORS.items()},
        scales={name: _gradient(name) for name in (PROBABILITY, DOUBT)},
        charts=charts(model, figures, believed),
        learned=learned(model),
        images=ordered,
        card=model.card_,
    )


def headlines(figures: Evaluation, believed: Sequence[Beliefs]) -> list[tuple[str, str, str]]:
    """Give the figures that matter most: name, value, interval."""
    found = [
        ("pooled IoU", *_percent(figures.iou)),
        ("wrong pixels", *_percent(figures.pixel_error)),
        ("areas off by", *_percent(figures.relative_count_error)),
    ]
    if figures.calibration_error is not None:
        found.append(("calibration error", *_percent(figures.calibration_error)))
    if believed:
        auc = reduce(add, believed).auc()
        found.append(("area under ROC", f"{auc:.3f}", "all pixels together"))
    return found


def panels(part: Shown) -> list[Picture]:
    """Give the pictures of one image: itself, its errors, probability and entropy."""
    from matplotlib import colormaps

    step = max(1, -(-max(part.truth.shape) // MOST_SIDE))
    image, truth, mask = (a[::step, ::step] for a in (part.image, part.truth, part.mask))
    base = rgb(image)
    found = [
        Picture(_jpeg(base), "image"),
        Picture(_jpeg(errors_over(base, truth, mask)), "mask"),
    ]
    if part.belief is not None:
        q = part.belief[::step, ::step]
        bits = entropy(q)
        sure = colormaps[PROBABILITY](q[..., 1])[..., :3]
        doubt = colormaps[DOUBT](bits / np.log2(q.shape[-1]))[..., :3]
        found.append(Picture(_jpeg(sure), "probability"))
        found.append(Picture(_jpeg(doubt), f"doubt, {bits.mean():.2f} bits a pixel"))
    return found


def charts(model: Any, figures: Evaluation, believed: Sequence[Beliefs]) -> list[Picture]:
    """Give the charts of a model: reliability, ROC, areas, and its training if it has steps."""
    drawn: list[tuple[Any, str]] = []
    if believed:
        whole = {"model": reduce(add, believed)}
        drawn += [
            (ReliabilityDisplay(whole), "On the diagonal a probability is the true share."),
            (RocDisplay(whole), "True pixels found for false ones taken, at every threshold."),
        ]
    true = [image.true_area for image in figures.images]
    predicted = {"model": [image.predicted_area for image in figures.images]}
    drawn.append((AreaDisplay(true, predicted), "A dot is an image; on the diagonal it is right."))
    if getattr(model, "steps_", ()):
        curve = TrainingDisplay.from_steps(model.steps_)
        drawn.append((curve, "The training: its objective and the bound below it."))
    return [Picture(_svg(display.plot(new_axes(CHART)).figure_), words) for display, words in drawn]


def learned(model: Any) -> list[tuple[str, float, float]]:
    """Give the largest weights: name, value, and its size against the largest, in percent."""
    if not hasattr(model, "w_names_"):
        return []
    order = np.argsort(-np.abs(model.w_), kind="stable")[:MOST_WEIGHTS]
    top = float(np.abs(model.w_).max()) or 1.0
    return [
        (model.w_names_[i], float(model.w_[i]), 100 * abs(float(model.w_[i])) / top) for i in order
    ]


def _verdict(part: Shown) -> str:
    from cutlearn.metrics import confusion

    table = confusion(part.truth, part.mask)
    true, found = table.area()
    void = float((part.truth == VOID).mean())
    grey = f", {void:.0%} not annotated (grey)" if void else ""
    return f"IoU {table.iou():.1%}, area {found} of {true} pixels{grey}"


def _percent(spread: Spread) -> tuple[str, str]:
    value, low, high = (f"{100 * v:.1f}" for v in (spread.value, spread.low, spread.high))
    return f"{value} %", f"{low} to {high}"


def _gradient(name: str) -> str:
    """A colour map as CSS."""
    from matplotlib import colormaps
    from matplotlib.colors import to_hex

    stops: Iterable[float] = np.linspace(0, 1, 9)
    return "linear-gradient(to right, " + ", ".join(to_hex(colormaps[name](x)) for x in stops) + ")"


def _jpeg(values: npt.NDArray[np.float64]) -> str:
    from PIL import Image

    file = io.BytesIO()
    Image.fromarray((255 * np.clip(values, 0, 1) + 0.5).astype(np.uint8)).save(
        file, "JPEG", quality=88
    )
    return _address("image/jpeg", file)


def _svg(figure: Figure | Any) -> str:
    file = io.BytesIO()
    figure.savefig(file, format="svg", transparent=True, metadata={"Date": None})
    return _address("image/svg+xml", file)


def _address(kind: str, file: io.BytesIO) -> str:
    return f"data:{kind};base64,{base64.b64encode(file.getvalue()).decode()}"
