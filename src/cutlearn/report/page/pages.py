"""The pages: the report of a model, and the images to annotate next.

The report has figures with their intervals, masks from the worst to the best image next to
probability and entropy, calibration, the largest weights, and a table of all images. Both pages
are single files with every picture inside.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from cutlearn.arrays import AnyArray, Floats
from cutlearn.images.write import colors_of
from cutlearn.metrics import Beliefs, Spread
from cutlearn.model.model_files import written
from cutlearn.model.ranking import Ranked, Window
from cutlearn.report.displays import COLORS, errors_over, labels_over, rgb
from cutlearn.report.evaluate import Evaluation, LabelFigures
from cutlearn.report.page.charts import Subject, charts
from cutlearn.report.page.gallery import Shown
from cutlearn.report.page.html import PagePicture, belief_panels, photograph, render, stride_of

MOST_WEIGHTS = 12
# Windows of an image that are framed, and the colour of frames.
FRAMED = 3
FRAME = (230 / 255, 110 / 255, 0.0)


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
    """Return the HTML report of a fitted model on images that have true masks.

    `shown`: the images that get a row of pictures, which a `Gallery` chooses. `believed`: counts of
    all images, if the model has probabilities. `judged`: the label whose masks and figures the page
    shows. `training_images`: how many of the images the model was fitted on, which a reader must
    know.
    """
    subject = Subject(model, figures, tuple(shown), tuple(believed))
    several = len(labels) > 2
    name = labels[judged].name if several else ""
    values = getattr(getattr(model, "training_", None), "values", ())
    paints = colors_of(values if len(values) == len(labels) else range(len(labels)))
    return render(
        "model.html",
        title=title,
        headlines=headlines(subject),
        rows=[(part.name, part.verdict, panels(part, name, paints)) for part in shown],
        colors={kind: "rgb({}, {}, {})".format(*color) for kind, color in COLORS.items()},
        charts=charts(subject),
        wide=charts(subject, wide=True),
        learned=learned(model, [label.name for label in labels] if several else []),
        images=sorted(figures.images, key=lambda image: (math.isnan(image.iou), image.iou)),
        labels=labels if several else (),
        swatches=["rgb({}, {}, {})".format(*color) for color in paints],
        judged=name,
        training_images=training_images,
        card=card_rows(model.card_),
    )


def card_rows(card: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the card as lines of words, without its blanks."""
    rows: list[tuple[str, str]] = []
    for name, value in written(card).items():
        if isinstance(value, Mapping):
            rows += [(f"{name}: {part}", text) for part, text in card_rows(value)]
        else:
            rows.append((name.replace("_", " "), _words(value)))
    return rows


def _words(value: Any) -> str:
    """Return a value in words: numbers short, tables as lists of names and values."""
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {_words(part)}" for name, part in value.items())
    if isinstance(value, list | tuple):
        apart = "; " if any(isinstance(part, Mapping) for part in value) else ", "
        return apart.join(map(_words, value))
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def headlines(subject: Subject) -> list[tuple[str, str, str]]:
    """Return the main figures: name, value, interval."""
    figures = subject.figures
    found = [
        ("pooled IoU", *_percent(figures.iou)),
        ("pixel error", *_percent(figures.pixel_error)),
        ("area error", *_percent(figures.relative_count_error)),
    ]
    if figures.calibration_error is not None:
        found.append(("calibration error", *_percent(figures.calibration_error)))
    if subject.believed:
        auc = subject.pooled.auc()
        found.append(("area under ROC", f"{auc:.3f}", "all pixels together"))
    return found


def panels(
    part: Shown, judged: str = "", paints: Sequence[tuple[int, int, int]] = ()
) -> list[PagePicture]:
    """Return the pictures of one image: itself, its errors, probability and entropy.

    With several labels, all are shown, and the errors of the judged one.
    """
    base, of = rgb(part.image), f" of {judged}" if judged else ""
    found = [
        PagePicture(photograph(base), "image"),
        PagePicture(photograph(errors_over(base, part.truth, part.mask)), f"mask{of}"),
    ]
    if part.labels is not None:
        both = zip(part.labels, ("true labels", "labels found"))
        found[1:1] = [
            PagePicture(photograph(labels_over(base, y, paints)), words) for y, words in both
        ]
    if part.belief is not None:
        sure, doubt = belief_panels(np.stack([1 - part.belief, part.belief], axis=-1))
        found.append(PagePicture(photograph(sure), f"probability{of}"))
        found.append(PagePicture(photograph(doubt), f"doubt, {part.bits:.2f} bits a pixel"))
    return found


def learned(model: Any, labels: Sequence[str] = ()) -> list[tuple[str, float, float]]:
    """Return the largest weights: name, value, and its size against the largest, in percent.

    Names of labels replace their numbers: "label 1 node logit1 of 2" is "grass node logit1 of sky".
    """
    if not hasattr(model, "w_names_"):
        return []
    order = np.argsort(-np.abs(model.w_), kind="stable")[:MOST_WEIGHTS]
    top = float(np.abs(model.w_).max()) or 1.0
    return [
        (_named(model.w_names_[i], labels), float(model.w_[i]), 100 * abs(float(model.w_[i])) / top)
        for i in order
    ]


def _named(weight: str, labels: Sequence[str]) -> str:
    """Return the name of a weight with the names of labels instead of their numbers."""

    def word(found: re.Match[str]) -> str:
        first, rest = found["before"], [labels[int(k)] for k in found["numbers"].split()]
        return ("" if first == "label " else first) + " ".join(rest)

    one = r"(?P<before>^label | of )(?P<numbers>\d+)\b"
    two = r"(?P<before>^table \S+ )(?P<numbers>\d+ \d+)$"
    for part in (one, two) if labels else ():
        weight = re.sub(part, word, weight)
    return weight


def _percent(spread: Spread) -> tuple[str, str]:
    value, low, high = (f"{100 * v:.1f}" for v in (spread.value, spread.low, spread.high))
    return f"{value} %", f"{low} to {high}"


@dataclass(frozen=True, eq=False)
class Candidate:
    """An image that has no mask yet, and its (h, w, L) probabilities, if there are any."""

    image: AnyArray
    belief: AnyArray | None


def next_page(
    title: str,
    names: Sequence[str],
    order: Sequence[Ranked],
    candidates: Sequence[Candidate],
) -> str:
    """Return the HTML page of images without masks: all in their order, as `rank` returned them.

    `candidates`: the first images of the order, which get a row of pictures.
    """
    rows = [
        (f"{k}. {names[r.image]}", f"its labels would tell of another {r.score:.1%} of all images",
         candidate_panels(c, r.windows))
        for k, (r, c) in enumerate(zip(order, candidates), 1)
    ]  # fmt: skip
    top = max((r.score for r in order), default=0.0) or 1.0
    table = [(k, names[r.image], r.score, 100 * r.score / top) for k, r in enumerate(order, 1)]
    headlines = [
        ("images", str(len(names)), "without masks"),
        ("the first", str(len(rows)), "are shown below"),
        ("tell", f"{sum(r.score for r in order[: len(rows)]):.1%}", "of all images"),
    ]
    return render("next.html", title=title, headlines=headlines, rows=rows, table=table)


def candidate_panels(candidate: Candidate, windows: Sequence[Window]) -> list[PagePicture]:
    """Return the pictures of one image, with frames around the windows to annotate first."""
    step = stride_of(candidate.image.shape)
    base = rgb(candidate.image[::step, ::step])
    for window in windows[:FRAMED]:
        framed(base, window, step)
    found = [PagePicture(photograph(base), "image, with the windows to begin with")]
    if candidate.belief is not None:
        sure, doubt = belief_panels(candidate.belief[::step, ::step])
        found += [
            PagePicture(photograph(sure), "probability"),
            PagePicture(photograph(doubt), "doubt"),
        ]
    return found


def framed(picture: Floats, window: Window, step: int) -> None:
    """Draw the border of a window into a picture that shows every step-th row and column."""
    rows = slice(window.top // step, max(window.bottom // step, window.top // step + 1))
    columns = slice(window.left // step, max(window.right // step, window.left // step + 1))
    part = picture[rows, columns]
    wide = max(1, max(picture.shape[:2]) // 200)
    for side in (part[:wide], part[-wide:], part[:, :wide], part[:, -wide:]):
        side[:] = FRAME
