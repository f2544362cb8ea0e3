"""The report: one page for a browser, with every picture inside it, that can be sent by mail.

Figures with their intervals, masks from the worst to the best image with probability and doubt
beside them, how far the probabilities can be believed, what was learned, and a table of all images.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from cutlearn.metrics import Beliefs, Spread
from cutlearn.model.card import BLANK
from cutlearn.report.displays.overlay import COLORS, errors_over, rgb
from cutlearn.report.evaluate import Evaluation, LabelFigures
from cutlearn.report.page.charts import Subject, charts
from cutlearn.report.page.gallery import Shown
from cutlearn.report.page.panels import Picture, belief_panels, photograph
from cutlearn.report.page.render import render

MOST_WEIGHTS = 12


def page(
    title: str,
    model: Any,
    figures: Evaluation,
    shown: Sequence[Shown],
    believed: Sequence[Beliefs] = (),
    *,
    labels: Sequence[LabelFigures] = (),
    judged: int = 1,
    training_images: int = 0,
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
    labels : sequence of LabelFigures
        Of every label; a table of several is shown.
    judged : int
        The label whose masks and figures the page shows.
    training_images : int
        How many of the images the model was fitted on, which a reader must know.

    Returns
    -------
    str
        HTML, whole in itself.
    """
    subject = Subject(model, figures, tuple(shown), tuple(believed))
    return render(
        "model.html",
        title=title,
        headlines=headlines(subject),
        rows=[(part.name, part.verdict, panels(part)) for part in shown],
        colors={kind: "rgb({}, {}, {})".format(*color) for kind, color in COLORS.items()},
        charts=charts(subject),
        wide=charts(subject, wide=True),
        learned=learned(model),
        images=sorted(figures.images, key=lambda image: (math.isnan(image.iou), image.iou)),
        labels=labels if len(labels) > 2 else (),
        judged=labels[judged].name if len(labels) > 2 else "",
        training_images=training_images,
        card=card_rows(model.card_),
    )


def card_rows(card: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Give the card as lines of words; what nobody has written is left out."""
    rows: list[tuple[str, str]] = []
    for name, value in card.items():
        if isinstance(value, Mapping):
            rows += [(f"{name}: {part}", text) for part, text in card_rows(value)]
        elif value != BLANK:
            rows.append((name.replace("_", " "), _words(value)))
    return rows


def _words(value: Any) -> str:
    """A value in words: numbers short, tables as lists of names and values."""
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {_words(part)}" for name, part in value.items())
    if isinstance(value, list | tuple):
        apart = "; " if any(isinstance(part, Mapping) for part in value) else ", "
        return apart.join(map(_words, value))
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def headlines(subject: Subject) -> list[tuple[str, str, str]]:
    """Give the figures that matter most: name, value, interval."""
    figures = subject.figures
    found = [
        ("pooled IoU", *_percent(figures.iou)),
        ("wrong pixels", *_percent(figures.pixel_error)),
        ("areas off by", *_percent(figures.relative_count_error)),
    ]
    if figures.calibration_error is not None:
        found.append(("calibration error", *_percent(figures.calibration_error)))
    if subject.believed:
        auc = subject.pooled.auc()
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


def learned(model: Any) -> list[tuple[str, float, float]]:
    """Give the largest weights: name, value, and its size against the largest, in percent."""
    if not hasattr(model, "w_names_"):
        return []
    order = np.argsort(-np.abs(model.w_), kind="stable")[:MOST_WEIGHTS]
    top = float(np.abs(model.w_).max()) or 1.0
    return [
        (model.w_names_[i], float(model.w_[i]), 100 * abs(float(model.w_[i])) / top) for i in order
    ]


def _percent(spread: Spread) -> tuple[str, str]:
    value, low, high = (f"{100 * v:.1f}" for v in (spread.value, spread.low, spread.high))
    return f"{value} %", f"{low} to {high}"
