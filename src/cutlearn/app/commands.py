"""`cutlearn predict` and `cutlearn evaluate`: a model and folders in, masks or figures out.

Images go through one at a time per thread, so a folder of any length needs the memory of a few.
"""

import csv
import io
import json
import math
import time
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import click
import numpy as np
from numpy.typing import NDArray

from cutlearn.app.fit import tell_notes
from cutlearn.app.models import load_model
from cutlearn.app.tables import percent, percent_spread, text_cell, text_table
from cutlearn.app.watch import Watch
from cutlearn.errors import InputError
from cutlearn.images.folder import Folder, read_folder, write_mask, write_probability
from cutlearn.images.read import FloatImage
from cutlearn.metrics import confusion, total
from cutlearn.report.evaluate import Evaluation, evaluation_of
from cutlearn.report.gallery import Gallery, shown_of
from cutlearn.report.page import page
from cutlearn.report.probabilities import beliefs
from cutlearn.run.progress import clock
from cutlearn.run.workers import thread_count
from cutlearn.store import atomic_write

Mask = NDArray[np.uint8]
Belief = NDArray[np.float32]

AREAS = ("name", "label", "mask_pixels", "expected_pixels", "low", "high")
AREA_LEVEL = 0.95


def predict_command(
    model: str,
    images: str,
    output: str,
    probability: bool,
    areas: str | None,
    object_value: int,
    jobs: int | None,
    min_side: int | None,
    as_json: bool,
) -> int:
    """Write a mask for every image of a folder; gives the exit code."""
    begin = time.monotonic()
    estimator = load_model(model, jobs, min_side)
    folder, out = read_folder(images), Path(output)
    if out.resolve() == Path(images).resolve():
        raise InputError(
            f"{out}: the folder of the images found; another one was wanted, so that no image is "
            "overwritten by its mask. Name another folder."
        )
    if areas is not None and not (estimator.believes and estimator.calibration_.n_images):
        raise InputError(
            f"{model}: no held-out areas found in this model; intervals come from them. Fit it "
            "with a calibration, or leave out --areas."
        )
    tell_notes(folder)
    out.mkdir(parents=True, exist_ok=True)
    several = len(estimator.classes_) > 2
    shares, rows = [], []
    asks_belief = probability or areas is not None
    with Watch() as watch:
        level = None if areas is None else AREA_LEVEL
        found = _found(estimator, folder, asks_belief, level)
        for i, one in enumerate(watch.count(found, len(folder), "predicting")):
            name = folder.names[i]
            write_mask(out / f"{name}.png", one.mask, None if several else object_value)
            if one.belief is not None and probability:
                _write_belief(out / "probability", name, one.belief)
            if one.areas is not None:
                rows += _area_rows(name, one.mask, one.areas)
            shares.append(float((one.mask > 0).mean()))
    if areas is not None:
        _write_areas(areas, rows)
    seconds = time.monotonic() - begin
    if as_json:
        parts = [{"name": n, "share": round(s, 6)} for n, s in zip(folder.names, shares)]
        said = {"output": str(out), "object_value": None if several else object_value,
                "seconds": round(seconds, 2)}  # fmt: skip
        click.echo(json.dumps({**said, "images": parts}))
    else:
        values = f"0 to {estimator.classes_[-1]}" if several else f"0 and {object_value}"
        objects = "labels above 0 cover" if several else "the object covers"
        maps = ", probabilities in probability/" if probability else ""
        maps += "" if areas is None else f", areas in {areas}"
        click.echo(
            f"{out}: {len(folder)} masks ({values}){maps}, {objects} "
            f"{percent(float(np.mean(shares)))} on average, {clock(seconds)}"
        )
    return 0


def _area_rows(name: str, mask: Mask, areas: NDArray[np.float64]) -> list[tuple[Any, ...]]:
    """A row of the table of areas for each label above 0."""
    return [
        (name, label, int((mask == label).sum()), *(f"{v:.1f}" for v in areas[label]))
        for label in range(1, len(areas))
    ]


def _write_areas(path: str, rows: Sequence[tuple[Any, ...]]) -> None:
    table = io.StringIO()
    named = ((text_cell(name), *rest) for name, *rest in rows)
    csv.writer(table, lineterminator="\n").writerows([AREAS, *named])
    atomic_write(path, table.getvalue().encode())


def _write_belief(folder: Path, name: str, belief: Belief) -> None:
    """Write the probability of the object, or of several labels that of each."""
    parts = {"": 1} if belief.shape[-1] == 2 else {f".{k}": k for k in range(belief.shape[-1])}
    for part, label in parts.items():
        path = folder / f"{name}{part}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        write_probability(path, belief[..., label])


def evaluate_command(
    model: str,
    images: str,
    masks: str,
    jobs: int | None,
    object_value: Any,
    void_value: int | None,
    min_side: int | None,
    label: int,
    report: str | None,
    as_json: bool,
) -> int:
    """Compare predicted with true masks; gives the exit code."""
    begin = time.monotonic()
    estimator = load_model(model, jobs, min_side)
    n_labels = len(estimator.classes_)
    if label >= n_labels:
        raise InputError(
            f"--label {label} found, and a model of {n_labels} labels; one from 0 to "
            f"{n_labels - 1} was wanted. Leave it out for label 1."
        )
    folder = read_folder(images, masks, object_value=object_value, void_value=void_value,
                         n_labels=n_labels)  # fmt: skip
    tell_notes(folder)
    # Models of old files have no probabilities; their masks are compared all the same.
    tables, believed, gallery = [], [], Gallery()
    with Watch() as watch:
        whole = _found(estimator, folder, estimator.believes)
        for i, one in enumerate(watch.count(whole, len(folder), "predicting")):
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
        click.echo(json.dumps(said | ({} if report is None else {"report": report})))
    else:
        click.echo(evaluation_text(figures))
        look = "" if report is None else f", look at {report}"
        if n_labels > 2:
            mean = percent(total(tables).mean_iou())
            look = f", of label {label}; mean of all labels {mean}{look}"
        click.echo(
            f"{model}: pooled IoU {percent(figures.iou.value)} on {len(folder)} images, "
            f"{clock(seconds)}{look}"
        )
    return 0


def evaluation_text(figures: Evaluation) -> str:
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


class _Said(NamedTuple):
    """An image, and what a model says of it."""

    image: FloatImage
    mask: Mask
    belief: Belief | None = None
    areas: NDArray[np.float64] | None = None


def _found(
    estimator: Any, folder: Folder, probability: bool, level: float | None = None
) -> Iterator[_Said]:
    """Masks and, if asked for, probabilities and areas of all images, a few at a time."""
    threads = thread_count(-1 if estimator.n_jobs is None else estimator.n_jobs)
    for first in range(0, len(folder), threads):
        images = [folder.image(i) for i in range(first, min(first + threads, len(folder)))]
        if probability:
            answers = estimator.answer(images, level)
        else:
            answers = [(mask,) for mask in estimator.predict(images)]
        yield from (_Said(image, *answer) for image, answer in zip(images, answers))
