"""`cutlearn evaluate`: a model, images and their true masks in; figures and a page out."""

import json
import math
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cutlearn.app.answers import answers
from cutlearn.app.exits import say
from cutlearn.app.inputs import load_model, open_folder
from cutlearn.app.options import (
    FILE,
    FOLDER,
    jobs_option,
    logits_option,
    mask_options,
    min_side_option,
    output_options,
)
from cutlearn.app.registry import register
from cutlearn.app.tables import percent, percent_spread, text_table
from cutlearn.errors import InputError
from cutlearn.run.progress import Progress, clock

if TYPE_CHECKING:
    from cutlearn.report.evaluate import Evaluation


@register
@click.command(short_help="Compare a model's masks with true ones.")
@click.argument("model", type=FILE)
@click.argument("images", type=FOLDER)
@click.argument("masks", type=FOLDER)
@logits_option
@jobs_option
@mask_options
@min_side_option
@click.option(
    "--label",
    type=click.IntRange(min=0),
    default=1,
    show_default=True,
    help="The label that is judged, against all others.",
)
@click.option(
    "--report",
    type=FILE,
    metavar="PAGE.html",
    help="Also write a page: masks, probabilities, reliability, areas, what was learned.",
)
@output_options
def evaluate(
    model: str,
    images: str,
    masks: str,
    logits: str | None,
    jobs: int | None,
    object_value: Any,
    void_value: int | None,
    min_side: int | None,
    label: int,
    report: str | None,
    as_json: bool,
) -> int:
    """Compare a model's masks of IMAGES with the true MASKS, image by image and pooled."""
    from cutlearn.metrics import beliefs, confusion, total
    from cutlearn.report.evaluate import evaluation_of
    from cutlearn.report.page import page
    from cutlearn.report.page.gallery import Gallery, shown_of
    from cutlearn.store import atomic_write

    begin = time.monotonic()
    estimator = load_model(model, jobs, min_side)
    n_labels = len(estimator.classes_)
    _check_label(label, n_labels)
    folder = open_folder(images, masks, object_value=object_value, void_value=void_value,
                         n_labels=n_labels, logits=logits)  # fmt: skip
    # Models of old files have no probabilities; their masks are compared all the same.
    tables, believed, gallery = [], [], Gallery()
    with Progress() as shown:
        whole = answers(estimator, folder, estimator.believes)
        for i, one in enumerate(shown.count(whole, len(folder), "predicting")):
            truth = folder.labels(i)
            tables.append(confusion(truth, one.mask, n_labels))
            if one.belief is not None:
                believed.append(beliefs(truth, one.belief, label))
            if report is not None:
                seen = folder.names[i], one.image, truth, one.mask, one.belief, label
                iou = tables[-1].iou(label) if tables[-1].n_pixels else math.nan
                gallery.add(iou, partial(shown_of, *seen))
    figures = evaluation_of(folder.names, tables, label, believed)
    if report is not None:
        title = f"{Path(model).name} on {len(folder)} images"
        made = page(title, estimator, figures, gallery.shown(), believed)
        atomic_write(report, made.encode())
    seconds = time.monotonic() - begin
    if as_json:
        said = {"model": model, "seconds": round(seconds, 2), **figures.to_json()}
        say(json.dumps(said | ({} if report is None else {"report": report})))
        return 0
    say(evaluation_text(figures))
    look = "" if report is None else f", look at {report}"
    if n_labels > 2:
        look = f", of label {label}; mean of all labels {percent(total(tables).mean_iou())}{look}"
    overlap = percent(figures.iou.value)
    say(f"{model}: pooled IoU {overlap} on {len(folder)} images, {clock(seconds)}{look}")
    return 0


def _check_label(label: int, n_labels: int) -> None:
    if label >= n_labels:
        raise InputError(
            f"--label {label} found, and a model of {n_labels} labels; one from 0 to "
            f"{n_labels - 1} was wanted. Leave it out for label 1."
        )


def evaluation_text(figures: "Evaluation") -> str:
    """Write the table of the images, then the figures of all together with their intervals."""
    titles = ["image", "IoU", "pixel error", "true area", "predicted", "count error"]
    rows = [
        [image.name, percent(image.iou), percent(image.pixel_error), str(image.true_area),
         str(image.predicted_area), str(image.count_error)]
        for image in figures.images
    ]  # fmt: skip
    count = figures.count_error
    totals = [
        ["pooled IoU", percent_spread(figures.iou)],
        ["pixel error", percent_spread(figures.pixel_error)],
        ["count error", f"{count.value:.1f} [{count.low:.1f} .. {count.high:.1f}] pixels"],
        ["  of the area", percent_spread(figures.relative_count_error)],
    ]
    if figures.calibration_error is not None and figures.log_likelihood is not None:
        chance = figures.log_likelihood
        totals += [
            ["calibration", f"{percent_spread(figures.calibration_error)} expected error"],
            ["log-likelihood",
             f"{chance.value:.4f} [{chance.low:.4f} .. {chance.high:.4f}] a pixel"],
        ]  # fmt: skip
    lines = [f"{name.ljust(14)}  {value}" for name, value in totals]
    return "\n".join([text_table(titles, rows), "", *lines,
                      "(in brackets: 95 % interval over draws of images)"])  # fmt: skip
