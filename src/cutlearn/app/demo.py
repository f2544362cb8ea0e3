"""`cutlearn demo`: the main job on a built-in world of cells, with two losses side by side.

Images of cells are made from seeds; one model is trained for right pixels (Hamming loss)
and one for right areas (count loss). Both predict other images; a table compares them,
a picture shows masks, errors, training curves and areas, and a page reports the first model.
"""

import io
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cutlearn.app.options import FOLDER, jobs_option, output_options, shown_progress
from cutlearn.app.registry import register
from cutlearn.app.tables import percent, percent_spread, text_table
from cutlearn.run.progress import clock

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from cutlearn.images.synth import Cells
    from cutlearn.metrics import Beliefs
    from cutlearn.report.evaluate import Evaluation

N_TRAIN, N_TEST, N_SHOWN = 24, 40, 3
SHAPE = (96, 128)
# One C for both, which spares the time of choosing; a small tolerance, so that the curves have
# something to show.
C, TOL = 100.0, 0.003
PICTURE, REPORT = "cells.png", "report.html"
# Both as they stand: only the loss differs. (The default of `cutlearn fit` weighs the labels for
# IoU; benchmarks/count_loss.py compares all three over several worlds.)
PHASES = {"features": 60.0, "training": 25.0, "predicting": 15.0}
LOSSES = {"Hamming loss": "Hamming", "count loss": "Count"}
# Settings of the boosted trees: a tenth of the default's work.
RECIPE = {"trees": 30, "rows": 20_000, "folds": 3, "stages": 1}


@dataclass(frozen=True, eq=False)
class Trial:
    """One loss: its model, what it says of the test images, and the figures."""

    model: Any
    masks: "list[NDArray[np.uint8]]"
    maps: "list[NDArray[np.float32]]"
    believed: "list[Beliefs]"
    figures: "Evaluation"


@register
@click.command(short_help="Train, predict and compare on a built-in world of cells.")
@click.option(
    "-o",
    "--output",
    type=FOLDER,
    default="demo",
    show_default=True,
    help="Folder for the picture; made if missing.",
)
@click.option("--seed", type=int, default=0, show_default=True, help="Which world of cells.")
@jobs_option
@output_options
def demo(output: str, seed: int, jobs: int | None, as_json: bool) -> int:
    """Train, predict and compare two losses on a built-in world of cells.

    Nothing to download; about half a minute on two cores.
    """
    from cutlearn.store import atomic_write

    begin = time.monotonic()
    out = Path(output)
    out.mkdir(parents=True, exist_ok=True)
    train, test = worlds(seed, N_TRAIN, SHAPE), worlds(seed, N_TEST, SHAPE, N_TRAIN)
    if not as_json:
        click.echo(
            f"a world of cells: {len(train)} images of {SHAPE[1]} x {SHAPE[0]} to learn from, "
            f"{len(test)} others to predict\n"
            "(few trees, for speed; `cutlearn fit` grows more by default: slower and better)"
        )
    trials = {name: run(name, loss, train, test, jobs) for name, loss in LOSSES.items()}
    file, report = out / PICTURE, out / REPORT
    atomic_write(file, draw(test, trials))
    atomic_write(report, page_of(test, trials).encode())
    seconds = time.monotonic() - begin
    if as_json:
        models = {name: _said(trial) for name, trial in trials.items()}
        said = {"picture": str(file), "report": str(report), "seconds": round(seconds, 2)}
        click.echo(json.dumps({**said, **models}))
    else:
        click.echo(comparison(trials))
        click.echo(
            f"look at {file}: masks, errors and training curves; in a browser at {report}: "
            f"probabilities and more ({clock(seconds)})"
        )
    return 0


def worlds(seed: int, n: int, shape: tuple[int, int], first: int = 0) -> "list[Cells]":
    """Return images of cells; they differ between seeds, and no image comes twice."""
    from cutlearn.images.synth import cells

    return [cells(10_000 * seed + first + i, shape) for i in range(n)]


def run(
    name: str, loss: str, train: "Sequence[Cells]", test: "Sequence[Cells]", jobs: int | None
) -> Trial:
    """Train with a loss and predict the test images."""
    from cutlearn.features.featurizer import Featurizer
    from cutlearn.features.trees import Recipe
    from cutlearn.learn import losses
    from cutlearn.metrics import beliefs, confusions
    from cutlearn.model.segmenter import Segmenter
    from cutlearn.report.evaluate import evaluation_of

    features = Featurizer("trees", recipe=Recipe(**RECIPE))
    model = Segmenter(loss=getattr(losses, loss)(), C=C, tol=TOL, features=features, n_jobs=jobs,
                      random_state=0)  # fmt: skip
    with shown_progress(PHASES, 3, title=f"{name}, ") as shown:
        model.fit([w.image for w in train], [w.labels for w in train],
                  progress=shown.features, callback=shown.step)  # fmt: skip
        found = (model.segment([w.image])[0] for w in test)
        masks, maps = map(list, zip(*shown.count(found, len(test), "predicting")))
    truths = [w.labels for w in test]
    believed = [beliefs(truth, q) for truth, q in zip(truths, maps)]
    names = [f"cells {i + 1}" for i in range(len(test))]
    figures = evaluation_of(names, confusions(truths, masks), believed=believed)
    return Trial(model, masks, maps, believed, figures)


def comparison(trials: dict[str, Trial]) -> str:
    """Write the figures of the losses beside each other."""
    rows = []
    for name, trial in trials.items():
        f = trial.figures
        rows.append(
            [name, percent_spread(f.pixel_error), percent_spread(f.relative_count_error),
             percent_spread(f.iou), percent(trial.model.gap_)]
        )  # fmt: skip
    titles = ["trained with", "pixel error", "area error (of the area)", "pooled IoU", "gap"]
    return text_table(titles, rows)


def draw(test: "Sequence[Cells]", trials: dict[str, Trial]) -> bytes:
    """Draw masks with their errors, training curves and areas; gives a PNG."""
    from matplotlib.figure import Figure

    from cutlearn.report.displays import AreaDisplay, MasksDisplay, TrainingDisplay

    figure = Figure(figsize=(12.5, 11), layout="constrained")
    figure.suptitle("cutlearn demo: cells, segmented by exact cuts", fontsize="x-large")
    parts: Any = figure.subfigures(2, 1, height_ratios=[2.45, 1])
    above, below = parts
    shown = _typical(test, N_SHOWN)
    MasksDisplay.from_predictions(
        [test[i].image for i in shown],
        [test[i].labels for i in shown],
        {_heading(name, t.figures): [t.masks[i] for i in shown] for name, t in trials.items()},
    ).plot(above)
    axes = below.subplots(1, len(trials) + 1)
    for ax, (name, trial) in zip(axes, trials.items()):
        TrainingDisplay.from_steps(trial.model.steps_).plot(ax, f"training, {name}")
    areas = {
        name: [image.predicted_area for image in trial.figures.images]
        for name, trial in trials.items()
    }
    AreaDisplay([int(w.labels.sum()) for w in test], areas).plot(
        axes[-1], f"areas of {len(test)} images"
    )
    file = io.BytesIO()
    figure.savefig(file, dpi=110, format="png")
    return file.getvalue()


def page_of(test: "Sequence[Cells]", trials: dict[str, Trial]) -> str:
    """Write the report of the first loss, as `cutlearn evaluate --report` would."""
    from cutlearn.report.page import page
    from cutlearn.report.page.gallery import Gallery, shown_of

    name, trial = next(iter(trials.items()))
    gallery = Gallery()
    for image, world, *said in zip(trial.figures.images, test, trial.masks, trial.maps):
        seen: Any = image.name, world.image, world.labels, *said
        gallery.add(image.iou, partial(shown_of, *seen))
    title = f"cutlearn demo: {len(test)} images of cells, {name}"
    return page(title, trial.model, trial.figures, gallery.shown(), trial.believed)


def _heading(name: str, figures: "Evaluation") -> str:
    """Return the title of a column: the loss, and its scores on all images."""
    return (
        f"trained with {name}\nall {len(figures.images)}: IoU {100 * figures.iou.value:.1f} %, "
        f"areas off by {100 * figures.relative_count_error.value:.1f} %"
    )


def _typical(test: "Sequence[Cells]", n: int) -> list[int]:
    """Choose images by their area only, from few cells to many, so that no model is favoured."""
    import numpy as np

    order = np.argsort([w.labels.mean() for w in test], kind="stable")
    return [int(order[round(k)]) for k in np.linspace(0.15, 0.85, n) * (len(test) - 1)]


def _said(trial: Trial) -> dict[str, Any]:
    figures = trial.figures.to_json()
    del figures["images"]
    return {**figures, "gap": trial.model.gap_, "C": trial.model.C_}
