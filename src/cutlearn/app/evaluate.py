"""`cutlearn evaluate`: a model, images and their true masks in; figures and a page out."""

import json
import math
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cutlearn.app.answers import answers, in_slices
from cutlearn.app.exits import say
from cutlearn.app.inputs import (
    label_names,
    load_model,
    open_folder,
    plan_workers,
    remark,
    tell_differences,
    written_values,
)
from cutlearn.app.options import (
    FILE,
    IMAGES,
    logits_option,
    mask_options,
    min_side_option,
    output_options,
    place_options,
    shown_progress,
    spacing_option,
    strict_reading,
)
from cutlearn.app.registry import register
from cutlearn.app.tables import percent, percent_spread, text_table
from cutlearn.errors import InputError, plural
from cutlearn.run.progress import clock

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cutlearn.metrics import Confusion
    from cutlearn.report.evaluate import Evaluation, LabelFigures


@register
@click.command(short_help="Compare a model's masks with true ones.")
@click.argument("model", type=FILE)
@click.argument("images", type=IMAGES)
@click.argument("masks", type=IMAGES)
@logits_option
@place_options
@mask_options
@spacing_option
@strict_reading
@min_side_option
@click.option(
    "--label",
    "judged",
    metavar="NAME",
    help="The label that is judged, against all others: its name, or its value in the masks. "
    "[default: the second]",
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
    min_side: int | str | None,
    judged: str | None,
    report: str | None,
    as_json: bool,
    **reading: Any,
) -> int:
    """Compare a model's masks of IMAGES with the true MASKS, image by image and pooled.

    Use images that the model was not fitted on: figures of training images are too good.
    """
    from cutlearn.metrics import beliefs, confusion, total
    from cutlearn.model.training_images import known_coding
    from cutlearn.report.evaluate import evaluation_of, figures_of_labels
    from cutlearn.report.page import page
    from cutlearn.report.page.gallery import Gallery, shown_of
    from cutlearn.store import atomic_write, check_writable

    begin = time.monotonic()
    estimator = load_model(model, jobs, min_side)
    n_labels = len(estimator.classes_)
    label = _label_of(judged, estimator)
    if report is not None:
        check_writable(report)
    folder = open_folder(images, masks, logits, n_labels=n_labels, volume=estimator.of_volumes,
                         values=known_coding(estimator), **reading)  # fmt: skip
    seen = _tell_seen(tell_differences(estimator, folder), len(folder))
    place = plan_workers(estimator, folder)
    # Models of old files have no probabilities; their masks are compared all the same.
    tables, believed, gallery = [], [], Gallery()
    with shown_progress({"predicting": 1.0}) as shown:
        whole = answers(estimator, folder, estimator.has_probabilities, place=place)
        for i, one in enumerate(shown.count(whole, len(folder), "predicting")):
            truth = folder.labels(i)
            tables.append(confusion(truth, one.mask, n_labels))
            if one.belief is not None:
                believed.append(beliefs(truth, one.belief, label))
            if report is not None:
                for name, part, true in in_slices(folder.names[i], one, truth):
                    table = confusion(true, part.mask, n_labels)
                    drawn = name, part.image, true, part.mask, part.belief, label, n_labels
                    iou = table.iou(label) if table.n_pixels else math.nan
                    gallery.add(iou, partial(shown_of, *drawn))
    figures = evaluation_of(folder.names, tables, label, believed)
    labels = figures_of_labels(total(tables), label_names(estimator))
    if report is not None:
        title = f"{Path(model).name} on {plural(len(folder), 'image')}"
        made = page(title, estimator, figures, gallery.shown(), believed, labels=labels,
                    judged=label, training_images=seen)  # fmt: skip
        atomic_write(report, made.encode())
    seconds = time.monotonic() - begin
    mean = _mean_iou(tables)
    if as_json:
        said = {"model": model, "seconds": round(seconds, 2), "training_images": seen,
                "mean_iou": mean, "labels": [row.to_json() for row in labels],
                **figures.to_json()}  # fmt: skip
        say(json.dumps(said | ({} if report is None else {"report": report})))
        return 0
    look = "" if report is None else f", look at {report}"
    if n_labels > 2:
        name = labels[label].name
        say(f"label {name}, against all others (another one: --label)\n")
        look = f", of label {name}; mean of all labels {percent(total(tables).mean_iou())}{look}"
    _say_all(figures, mean, labels)
    told = f" ({seen} of them training images)" if seen else ""
    found = f"pooled IoU {percent(figures.iou.value)} on {plural(len(folder), 'image')}{told}"
    say(f"{model}: {found}, {clock(seconds)}{look}")
    return 0


def _say_all(figures: "Evaluation", mean: float, labels: "Sequence[LabelFigures]") -> None:
    """Print the tables: images, all together, and every label where there are several."""
    say(evaluation_text(figures))
    say(f"mean IoU        {percent(mean)} (of all labels within an image, as model.score gives it)")
    if len(labels) > 2:
        say(label_text(labels))


def _tell_seen(known: list[int], n_images: int) -> int:
    """Print how many of the images the model was fitted on; return their number."""
    if known:
        which = "all of these images" if len(known) == n_images else f"{len(known)} of {n_images}"
        remark(
            f"the model was fitted on {which}: figures of training images are too good. Evaluate "
            "on others, or read the held-out figure that fit has printed"
        )
    return len(known)


def _mean_iou(tables: "Sequence[Confusion]") -> float:
    """Return the mean IoU over labels, then over images with annotated pixels."""
    found = [table.mean_iou() for table in tables if table.n_pixels]
    return sum(found) / len(found)


def label_text(rows: "Sequence[LabelFigures]") -> str:
    """Return the scores of every label as a table."""
    titles = ["label", "IoU", "recall", "precision", "true area", "predicted"]
    cells = [
        [row.name, percent(row.iou), percent(row.found), percent(row.right), str(row.true_area),
         str(row.predicted_area)]
        for row in rows
    ]  # fmt: skip
    return "\n" + text_table(titles, cells)


def _label_of(given: str | None, estimator: Any) -> int:
    """Return the label of a name, or of a value in masks; of two labels the object is 1."""
    if given is None:
        return 1
    names = label_names(estimator)
    values = [str(value) for value in written_values(estimator)]
    for known in (names, values):
        if given in known:
            return known.index(given)
    raise InputError(
        f"--label {given}: the model has no such label. Give one of {', '.join(names)}, or leave "
        f"the option out for {names[1]}."
    )


def evaluation_text(figures: "Evaluation") -> str:
    """Return the table of the images, then the scores of all together with their intervals."""
    titles = ["image", "IoU", "pixel error", "true area", "predicted", "area error"]
    rows = [
        [image.name, percent(image.iou), percent(image.pixel_error), str(image.true_area),
         str(image.predicted_area), str(image.count_error)]
        for image in figures.images
    ]  # fmt: skip
    count = figures.count_error
    totals = [
        ["pooled IoU", percent_spread(figures.iou)],
        ["pixel error", percent_spread(figures.pixel_error)],
        ["area error", f"{count.value:.1f} [{count.low:.1f} .. {count.high:.1f}] pixels"],
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
