"""The charts of a report: a registry to which other packages can add, with those of cutlearn.

A report draws every chart that applies to its model.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, reduce
from operator import add
from typing import Any

import numpy as np

from cutlearn.errors import InputError
from cutlearn.metrics import Beliefs
from cutlearn.plugins import Registry
from cutlearn.report.displays import (
    AreaDisplay,
    ReliabilityDisplay,
    RocDisplay,
    ShapesDisplay,
    TrainingDisplay,
    new_axes,
)
from cutlearn.report.evaluate import Evaluation
from cutlearn.report.page.gallery import Shown
from cutlearn.report.page.html import PagePicture, drawing
from cutlearn.shape.frame import Frame

SIZE = (3.8, 3.8)


@dataclass(frozen=True, eq=False)
class Subject:
    """The fitted model and the scores of a report, from which charts are drawn.

    `shown`: the images of the page; `believed`: counts of all images, none without probabilities.
    """

    model: Any
    figures: Evaluation
    shown: tuple[Shown, ...]
    believed: tuple[Beliefs, ...]

    @cached_property
    def pooled(self) -> Beliefs:
        """The beliefs of all images together, of which there must be some."""
        return reduce(add, self.believed)


@dataclass(frozen=True)
class Chart:
    """A chart of the report.

    Parameters
    ----------
    name : str
        Names it in the registry; the heading of a wide chart.
    words : str
        What a reader should see in it, in a sentence.
    draw : callable
        From a Subject to a matplotlib figure; `.plot().figure_` of a display is one.
    applies : callable, optional
        From a Subject to whether there is something to draw; always by default.
    wide : bool, default False
        Whether it has a section of its own, instead of a place beside other charts.
    """

    name: str
    words: str
    draw: Callable[[Subject], Any]
    applies: Callable[[Subject], bool] = lambda subject: True
    wide: bool = False


CHARTS: Registry[Chart] = Registry("display", {})


def register_chart(chart: Chart) -> Chart:
    """Add a chart to all reports that are written from now on."""
    if chart.name in CHARTS:
        raise InputError(
            f"register_chart: there is a chart {chart.name!r} already; each name can be used once. "
            "Give yours another name."
        )
    CHARTS[chart.name] = chart
    return chart


def charts(subject: Subject, wide: bool = False) -> list[PagePicture]:
    """Draw the charts that apply, wide ones or the others, in the order of their registration."""
    return [
        PagePicture(
            drawing(chart.draw(subject), "png" if wide else "svg+xml"), chart.words, chart.name
        )
        for chart in CHARTS.values()
        if chart.wide == wide and chart.applies(subject)
    ]


def _plotted(display: Any) -> Any:
    return display.plot(new_axes(SIZE)).figure_


def _areas(subject: Subject) -> Any:
    images = subject.figures.images
    predicted = {"model": [image.predicted_area for image in images]}
    return _plotted(AreaDisplay([image.true_area for image in images], predicted))


def _shapes(subject: Subject) -> Any:
    """Draw the learned shapes of a Boltzmann machine, and how it completes the true masks."""
    model = subject.model
    size = (int(model.shape[0]), int(model.shape[1]))
    masks = [Frame(size, part.truth.shape[:2]).labels(part.truth) == 1 for part in subject.shown]
    return ShapesDisplay.from_model(model, np.stack(masks)).plot().figure_


register_chart(
    Chart(
        "reliability",
        "On the diagonal, predicted probabilities equal observed frequencies.",
        lambda subject: _plotted(ReliabilityDisplay({"model": subject.pooled})),
        lambda subject: bool(subject.believed),
    )
)
register_chart(
    Chart(
        "ROC",
        "True-positive against false-positive rate, at every threshold.",
        lambda subject: _plotted(RocDisplay({"model": subject.pooled})),
        lambda subject: bool(subject.believed),
    )
)
register_chart(
    Chart("areas", "Each dot is an image; on the diagonal, both areas are equal.", _areas)
)
register_chart(
    Chart(
        "training",
        "The training: the best objective so far, and its bound if any.",
        lambda subject: _plotted(
            TrainingDisplay.from_steps(subject.model.steps_, not math.isnan(subject.model.gap_))
        ),
        lambda subject: bool(getattr(subject.model, "steps_", ())),
    )
)
register_chart(
    Chart(
        "The shapes it learned",
        "Filters: what a hidden unit asks of the mask, red for the object, blue against it. "
        "Samples: masks that the model draws by itself. Then masks from above, with their lower "
        "third hidden, and what the model puts there.",
        _shapes,
        lambda subject: hasattr(subject.model, "shapes") and bool(subject.model.layers),
        wide=True,
    )
)
