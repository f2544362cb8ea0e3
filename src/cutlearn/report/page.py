"""The report: one page for a browser, with every picture inside it, that can be sent by mail.

Figures with their intervals, masks from the worst to the best image with probability and doubt
beside them, how far the probabilities can be believed, what was learned, and a table of all images.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import reduce
from operator import add
from pathlib import Path
from typing import Any

import numpy as np

from cutlearn.errors import clean
from cutlearn.metrics import Beliefs, Spread
from cutlearn.model.boltzmann import BoltzmannSegmenter
from cutlearn.report.displays import (
    COLORS,
    AreaDisplay,
    TrainingDisplay,
    errors_over,
    new_axes,
    rgb,
)
from cutlearn.report.displays_probability import ReliabilityDisplay, RocDisplay
from cutlearn.report.displays_shape import ShapesDisplay
from cutlearn.report.evaluate import Evaluation
from cutlearn.report.gallery import Shown
from cutlearn.report.panels import Picture, belief_panels, drawing, photograph, ramps
from cutlearn.shape.frame import Frame

MOST_WEIGHTS = 12
CHART = (3.8, 3.8)


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
        The images that get a row of pictures; a `Gallery` chooses them.
    believed : sequence of Beliefs
        Of all images, if the model has probabilities.

    Returns
    -------
    str
        HTML, whole in itself.
    """
    return render(
        "model.html",
        title=title,
        headlines=headlines(figures, believed),
        rows=[(part.name, part.verdict, panels(part)) for part in shown],
        colors={kind: "rgb({}, {}, {})".format(*color) for kind, color in COLORS.items()},
        charts=charts(model, figures, believed),
        learned=learned(model),
        shapes=shapes(model, shown),
        images=sorted(figures.images, key=lambda image: (math.isnan(image.iou), image.iou)),
        card=model.card_,
    )


def render(template: str, **values: Any) -> str:
    """Fill a template of `pages/`; what comes from outside is words, never markup."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    pages = Environment(
        loader=FileSystemLoader(Path(__file__).parent / "pages"),
        autoescape=True,
        finalize=_visible,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return pages.get_template(template).render(ramps=ramps(), **values)


def _visible(value: Any) -> Any:
    """Give text that is no markup without control characters and bytes that are no text."""
    return clean(value, joined=False) if type(value) is str else value


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
    """Give the pictures of one image: itself, its errors, probability and doubt."""
    base = rgb(part.image)
    found = [
        Picture(photograph(base), "image"),
        Picture(photograph(errors_over(base, part.truth, part.mask)), "mask"),
    ]
    if part.belief is not None:
        sure, doubt = belief_panels(np.stack([1 - part.belief, part.belief], axis=-1))
        found.append(Picture(photograph(sure), "probability"))
        found.append(Picture(photograph(doubt), f"doubt, {part.bits:.2f} bits a pixel"))
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
        curve = TrainingDisplay.from_steps(model.steps_, not math.isnan(model.gap_))
        drawn.append((curve, "The training: the best objective so far, and its bound if any."))
    return [
        Picture(drawing(display.plot(new_axes(CHART)).figure_), words) for display, words in drawn
    ]


def learned(model: Any) -> list[tuple[str, float, float]]:
    """Give the largest weights: name, value, and its size against the largest, in percent."""
    if not hasattr(model, "w_names_"):
        return []
    order = np.argsort(-np.abs(model.w_), kind="stable")[:MOST_WEIGHTS]
    top = float(np.abs(model.w_).max()) or 1.0
    return [
        (model.w_names_[i], float(model.w_[i]), 100 * abs(float(model.w_[i])) / top) for i in order
    ]


def shapes(model: Any, shown: Sequence[Shown]) -> Picture | None:
    """Draw what a Boltzmann machine knows of shapes, and how it completes the true masks."""
    if not isinstance(model, BoltzmannSegmenter) or not model.layers:
        return None
    size = (int(model.shape[0]), int(model.shape[1]))
    masks = [Frame(size, part.truth.shape[:2]).labels(part.truth) == 1 for part in shown]
    display = ShapesDisplay.from_model(model, np.stack(masks)).plot()
    return Picture(drawing(display.figure_, "png"), "filters, samples, completed masks")


def _percent(spread: Spread) -> tuple[str, str]:
    value, low, high = (f"{100 * v:.1f}" for v in (spread.value, spread.low, spread.high))
    return f"{value} %", f"{low} to {high}"
