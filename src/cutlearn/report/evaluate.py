"""Scores of a model: true and predicted masks in, a table of images and totals out.

IoU is pooled: the sum of intersections over the sum of unions; pixel and count errors are means
over images, and so is the log-likelihood; the calibration error is that of all pixels together,
and both are there when probabilities were given. Every figure has the interval in which other
draws of images would put it.
"""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy.typing as npt

from cutlearn.errors import InputError
from cutlearn.metrics import (
    Beliefs,
    Confusion,
    Spread,
    bootstrap,
    calibration_error_of,
    coded_confusions,
    iou_of,
    ratio,
    stack_tables,
)


@dataclass(frozen=True)
class ImageFigures:
    """The figures of one image; those of areas are pixels of the object, void ones left out.

    IoU of the object's label and the part of wrong pixels are nan if every pixel is void.
    """

    name: str
    iou: float
    pixel_error: float
    true_area: int
    predicted_area: int

    @property
    def count_error(self) -> int:
        """|predicted area - true area|, pixels."""
        return abs(self.predicted_area - self.true_area)


@dataclass(frozen=True)
class Evaluation:
    """The figures of a model on a set of images, of the object's label.

    Pooled IoU; mean part of wrong pixels; mean |predicted area - true area| in pixels, and over the
    mean true area; expected calibration error of its probability; mean log-likelihood a pixel.
    """

    images: tuple[ImageFigures, ...]
    iou: Spread
    pixel_error: Spread
    count_error: Spread
    relative_count_error: Spread
    calibration_error: Spread | None = None
    log_likelihood: Spread | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the figures as what JSON can hold; a figure that does not exist is null."""
        rows = [asdict(image) | {"count_error": image.count_error} for image in self.images]
        spreads = {name: found for name, found in asdict(self).items() if found is not None}
        del spreads["images"]
        plain: dict[str, Any] = _plain({"n_images": len(rows), **spreads, "images": rows})
        return plain


def evaluate(
    names: Sequence[str],
    truths: Sequence[npt.ArrayLike],
    predictions: Sequence[npt.ArrayLike],
    label: int = 1,
) -> Evaluation:
    """Return the scores of predicted masks, (h_i, w_i) labels each; 255 in the truth is void.

    Examples
    --------
    >>> from cutlearn.report.evaluate import evaluate
    >>> found = evaluate(["a", "b"], [[[0, 1]], [[1, 1]]], [[[0, 1]], [[0, 1]]])
    >>> round(found.iou.value, 3), found.images[1].count_error
    (0.667, 1)
    """
    return evaluation_of(names, coded_confusions(truths, predictions), label)


def evaluation_of(
    names: Sequence[str],
    tables: Sequence[Confusion],
    label: int = 1,
    believed: Sequence[Beliefs] = (),
) -> Evaluation:
    """Return the figures of the tables of images, which are small where masks are large.

    `believed`, one for each image or none, brings the figures of probabilities.
    """
    if len(names) != len(tables):
        raise InputError(
            f"names: there are {len(names)} for {len(tables)} images, but there must be one for "
            "each. Give the names in the order of the images."
        )
    known = [table for table in tables if table.n_pixels]
    if not known:
        raise InputError(
            "masks: they hold only void pixels, but at least one annotated pixel is needed. "
            "Check the value that means void."
        )
    images = tuple(
        ImageFigures(name, table.iou(label) if table.n_pixels else math.nan, table.pixel_error(),
                     *table.area(label))
        for name, table in zip(names, tables)
    )  # fmt: skip
    off = [table.count_error(label) for table in known]
    sure = [part for part in believed if part.n_pixels]
    return Evaluation(
        images,
        bootstrap(stack_tables(known), lambda sums: iou_of(sums, label)),
        bootstrap([table.pixel_error() for table in known]),
        bootstrap(off),
        bootstrap([(wrong, table.area(label)[0]) for wrong, table in zip(off, known)], ratio),
        bootstrap([part.bins for part in sure], calibration_error_of) if sure else None,
        bootstrap([part.mean_log_likelihood() for part in sure]) if sure else None,
    )


@dataclass(frozen=True)
class LabelFigures:
    """The figures of one label on all images together.

    `found` is the part of its true pixels that were found, `right` the part of those predicted that
    are right; nan where there are none. Areas are pixels.
    """

    name: str
    iou: float
    found: float
    right: float
    true_area: int
    predicted_area: int

    def to_json(self) -> dict[str, Any]:
        """Return the figures as what JSON can hold."""
        plain: dict[str, Any] = _plain(asdict(self))
        return plain


def figures_of_labels(table: Confusion, names: Sequence[str]) -> list[LabelFigures]:
    """Return the figures of every label, from the table of all images together.

    Examples
    --------
    >>> from cutlearn.metrics import confusion
    >>> from cutlearn.report.evaluate import figures_of_labels
    >>> one, two = figures_of_labels(confusion([[0, 1, 1]], [[0, 1, 0]]), ["grass", "cow"])
    >>> two.name, two.iou, two.found, two.right
    ('cow', 0.5, 0.5, 1.0)
    """
    rows = []
    for label, name in enumerate(names):
        true, predicted = table.area(label)
        hit = int(table.counts[label, label]) if label < len(table.counts) else 0
        rows.append(LabelFigures(
            name, table.iou(label), hit / true if true else math.nan,
            hit / predicted if predicted else math.nan, true, predicted,
        ))  # fmt: skip
    return rows


def _plain(value: Any) -> Any:
    """Return a value with None for numbers that JSON cannot hold."""
    if isinstance(value, dict):
        return {name: _plain(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
