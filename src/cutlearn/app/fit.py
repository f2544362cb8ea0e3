"""`cutlearn fit`: a folder of images and a folder of masks in, a model file out.

The unfinished run lives in MODEL.part beside the model: features and every step of training. The
same command finds it and goes on; it is removed when the model is written. A second run on the same
model at the same time is refused.
"""

import json
import math
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import click

from cutlearn.app.endings import ending_of
from cutlearn.app.exits import UNFINISHED, say
from cutlearn.app.inputs import fit_memory, open_folder, remark
from cutlearn.app.options import (
    FILE,
    IMAGES,
    jobs_option,
    mask_options,
    min_side_option,
    output_options,
    shown_progress,
)
from cutlearn.app.registry import register
from cutlearn.app.tables import percent
from cutlearn.errors import ConvergenceWarning, InputError, quoted
from cutlearn.learn.learners import LEARNERS
from cutlearn.run.progress import Progress, clock

# The files of an unfinished run.
KEPT = "*.safetensors"
# What the phases take of the time, about.
PHASES = {
    "auto": {"reading": 2.0, "features": 80.0, "training": 18.0},
    "linear": {"reading": 10.0, "features": 15.0, "training": 75.0},
}


def _strength(_: click.Context, param: click.Parameter, value: str) -> float | str:
    """Read a positive number, or the word auto."""
    try:
        return value if value == "auto" else float(value)
    except ValueError:
        raise click.BadParameter(
            f"{value!r} found; a number > 0 or the word auto was wanted.", param=param
        ) from None


class LearnerName(click.ParamType):  # type: ignore[type-arg]
    """The name of a learner, asked of the registry when it is given: one from outside counts."""

    name = "NAME"

    def convert(self, value: Any, param: Any, ctx: Any) -> Any:
        """Give the name, or say which there are."""
        known = [name for name, one in LEARNERS.items() if one.for_masks]
        if value not in known:
            self.fail(f"{quoted(value)} is not one of {', '.join(known)}.", param, ctx)
        return value


@register
@click.command()
@click.argument("images", type=IMAGES)
@click.argument("masks", type=IMAGES)
@click.option("-o", "--output", "model", type=FILE, required=True, help="The model to write.")
@click.option(
    "--labels",
    type=click.Choice(["auto", "binary", "ordered", "surrogate", "unordered"]),
    default="auto",
    show_default=True,
    help="What the masks hold. auto: binary for two values, unordered for more. binary: "
    "object and background. ordered: ids from 0 that have an "
    "order, such as layers. Ids without an order: unordered for masks, surrogate for "
    "probabilities (with --learner likelihood).",
)
@click.option(
    "--loss",
    type=click.Choice(["hamming", "count"]),
    default="hamming",
    show_default=True,
    help="What training avoids: wrong pixels (hamming, tuned for IoU) or a wrong area (count).",
)
@click.option(
    "--learner",
    type=LearnerName(),
    default="bundle",
    show_default=True,
    help="How to learn: "
    + "; ".join(f"{name}: {one.summary}" for name, one in LEARNERS.items() if one.for_masks)
    + ". Likelihoods prove no gap.",
)
@click.option(
    "--C",
    "C",
    callback=_strength,
    metavar="NUMBER",
    default="auto",
    show_default=True,
    help="How closely to follow the training images, > 0; auto: chosen on held-out images.",
)
@click.option(
    "--tol",
    type=float,
    default=0.01,
    show_default=True,
    help="Relative gap to certify, > 0. A likelihood ends when its progress falls below it.",
)
@click.option(
    "--features",
    type=click.Choice(["auto", "linear"]),
    default="auto",
    show_default=True,
    help="auto: boosted trees, for good masks; linear: filters only, done in seconds.",
)
@click.option(
    "--names", metavar="WORD,...", help="What the labels are called, label 0 first: grass,cow,sky."
)
@click.option("--force", is_flag=True, help="Overwrite a model that is there already.")
@click.option(
    "--restart", is_flag=True, help="Begin anew instead of going on with an interrupted run."
)
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of all random choices.")
@jobs_option
@mask_options
@min_side_option
@click.option(
    "--strict",
    is_flag=True,
    help="Stop at a file that cannot be used; exit with code 3 when training ends before the gap "
    "(or the likelihood's tolerance) is reached.",
)
@output_options
def fit(
    images: str,
    masks: str,
    model: str,
    labels: str,
    loss: str,
    learner: str,
    C: float | str,
    tol: float,
    features: str,
    names: str | None,
    force: bool,
    restart: bool,
    seed: int,
    jobs: int | None,
    min_side: int | None,
    strict: bool,
    as_json: bool,
    **reading: Any,
) -> int:
    """Learn a model from IMAGES and the MASKS of the same names.

    IMAGES and MASKS are folders, or single files. A file of several pages is a stack of slices,
    which are held out together.

    A run that is interrupted (Ctrl-C, SIGTERM) or killed leaves MODEL.part; the same command
    continues from there.
    """
    from cutlearn.images.sample import as_sample
    from cutlearn.model.parameters import check_parameters
    from cutlearn.model.segmenter import Segmenter
    from cutlearn.model.size import at_side, mask_at_side
    from cutlearn.model.training_images import TrainingImages
    from cutlearn.run.lock import only_one

    begin = time.monotonic()
    target = _target(model, force)
    # That a third label is refused here, if two are wanted, spares the time of the features.
    folder = open_folder(images, masks, strict=strict, **reading,
                         n_labels=2 if labels == "binary" else None)  # fmt: skip
    coding = folder.coding
    assert coding is not None
    words = _names(names, coding.n_labels)
    if labels == "auto":
        labels = "binary" if coding.n_labels == 2 else "unordered"
    estimator = Segmenter(labels=labels, loss=loss, learner=learner, C=C, tol=tol,
                          features=features, min_side=min_side, n_jobs=jobs,
                          random_state=seed)  # fmt: skip
    check_parameters(estimator)
    estimator.n_jobs = fit_memory(estimator, folder, keeps=True)
    _tell_estimate(folder, estimator, features)
    part = target.with_name(f"{target.name}.part")
    side = estimator.min_side
    with only_one(part):
        resumed = _found(part, target, restart)
        with shown_progress(PHASES[features], _runs(estimator, len(folder))) as shown:
            # As fit would do it, but one by one: all at full size may need too much memory.
            pairs = [
                (at_side(as_sample(folder.image(i)), side), mask_at_side(folder.labels(i), side))
                for i in shown.count(range(len(folder)), len(folder), "reading")
            ]
            stopped = _train(estimator, pairs, folder.groups, part, shown)
        # The facts are those of the files; what was fitted may have been resized before.
        values = coding.values or (0, 1)
        estimator.training_ = TrainingImages.of(folder.facts, values, words)
        estimator.n_jobs = jobs  # as asked for; the memory of this machine is not the model's
        estimator.save(target)
        for file in part.glob(KEPT):  # its own files only; the folder goes if it is empty then
            file.unlink()
    if stopped:
        say(f"cutlearn: {stopped}", err=True)
    said = {"model": str(target), "images": len(folder), "resumed": resumed,
            "seconds": round(time.monotonic() - begin, 2), **_figures(estimator)}  # fmt: skip
    say(json.dumps(said) if as_json else _summary(said, estimator))
    return UNFINISHED if strict and not estimator.converged_ else 0


def _figures(estimator: Any) -> dict[str, Any]:
    """What a fit has found, as JSON can hold it."""
    from cutlearn.model.parameters import plain_C

    return {
        "labels": len(estimator.classes_),
        "weights": len(estimator.w_),
        "loss": estimator.loss,
        "learner": estimator.learner,
        "C": plain_C(estimator.C_),
        "steps": estimator.n_steps_,
        "gap": None if math.isnan(estimator.gap_) else estimator.gap_,
        "tol": estimator.tol,
        "converged": estimator.converged_,
        "certified": estimator.certified_,
        "held_out": estimator.judged_.get("held_out"),
    }


def _runs(estimator: Any, n_images: int) -> int:
    """Trainings of a fit: for each C and each held-out part of the images, then one on all."""
    from cutlearn.features.folds import held_out_parts
    from cutlearn.model.choose import Plan

    parts = len(held_out_parts(range(n_images)))
    rivals = ("logistic",) if estimator.learner == "likelihood" else ()
    path = Plan(learner=estimator.learner, rivals=rivals).path
    return 1 + (0 if parts < 2 else parts * (len(path) if estimator.C == "auto" else 1))


def _tell_estimate(folder: Any, estimator: Any, features: str) -> None:
    """Say about how long the fit will take; linear features are done before one has read it."""
    from cutlearn.model.size import worked_shape

    if features == "linear":
        return
    shapes = [worked_shape((one.height, one.width), estimator.min_side) for one in folder.facts]
    pixels = sum(rows * columns for rows, columns in shapes)
    # Measured on a processor of 2020 with trees of two labels; each further one is another fit.
    seconds = 10 + 4 * len(shapes) + 12e-6 * pixels
    seconds *= max(1, folder.coding.n_labels - 1) / max(estimator.n_jobs, 1)
    remark(
        f"{len(shapes)} images of {pixels / 1e6:.1f} megapixels in all take about {clock(seconds)}"
    )


def _names(names: str | None, n_labels: int) -> tuple[str, ...]:
    """The names of labels, one for each."""
    words = () if names is None else tuple(word.strip() for word in names.split(","))
    if words and len(words) != n_labels:
        raise InputError(
            f"--names gives {len(words)} names, but the masks hold {n_labels} labels. Give one "
            "name for each label, that of label 0 (the background) first."
        )
    return words


def _target(model: str, force: bool) -> Path:
    """The file to write, refused before any work if it cannot be written."""
    target = Path(model)
    if target.exists() and not force and not _agreed(target):
        raise InputError(
            f"{target}: this model exists already. Write it elsewhere, or overwrite it with "
            "--force."
        )
    if not target.parent.is_dir():
        raise InputError(
            f"{target}: its folder does not exist; an existing one was wanted. Make it first."
        )
    return target


def _agreed(target: Path) -> bool:
    """Whether the person at the terminal agrees to overwrite a file; nobody there does not."""
    if not sys.stdin.isatty():
        return False
    return click.confirm(f"{target} exists already. Overwrite it?", err=True)


def _train(
    estimator: Any,
    pairs: list[tuple[Any, Any]],
    groups: list[str] | None,
    part: Path,
    shown: Progress,
) -> str:
    """Fit with checkpoints; gives the warning of a run that stopped before its gap, or nothing."""
    from cutlearn.run.checkpoint import Interrupted

    images, labels = [list(side) for side in zip(*pairs)]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ConvergenceWarning)
        try:
            estimator.fit(images, labels, groups, checkpoint=part, progress=shown.features,
                          callback=shown.step)  # fmt: skip
        except KeyboardInterrupt:
            shown.close()
            raise Interrupted(_farewell(part)) from None
        except InputError as error:
            said = str(error).replace("Remove it to start anew", "Begin anew with --restart")
            raise InputError(said) from error
    gaps = [w.message for w in caught if issubclass(w.category, ConvergenceWarning)]
    for warning in caught:
        if warning.message not in gaps:
            remark(str(warning.message))
    # Of several runs (the choice of C) only the last one is the model's.
    return "" if estimator.converged_ or not gaps else str(gaps[-1])


def _found(part: Path, target: Path, restart: bool) -> bool:
    """Whether there is an unfinished run to go on with; what a kill left besides is removed."""
    from cutlearn.store import remove_leftovers

    remove_leftovers(part)
    remove_leftovers(target)
    if restart:
        for file in part.glob(KEPT):
            file.unlink()
    found = any(part.glob(KEPT))
    if found:
        say(f"going on with the unfinished run in {part}", err=True)
    return found


def _farewell(part: Path) -> str:
    if any(part.glob(KEPT)):
        return (
            f"interrupted; what was done is kept in {part}. "
            "Run the same command again to go on from there."
        )
    return "interrupted while computing features; nothing is kept. Run the same command again."


def _summary(said: dict[str, Any], estimator: Any) -> str:
    held = said["held_out"]
    kept = ""
    if held is not None:
        name, told = estimator.judged_["judge"], "held-out images"
        if "IoU" in name:
            low, high = (f"{100 * held[end]:.1f}" for end in ("low", "high"))
            kept = f", {name} {percent(held['value'])} [{low} .. {high}] on {told}"
        else:
            kept = f", {name} {held['value']:.4g} on {told}"
    return (
        f"{said['model']}: learned from {said['images']} images, {said['weights']} weights, "
        f"C = {estimator.C_:g}, {ending_of(estimator)} after {said['steps']} steps"
        f"{kept}, {clock(said['seconds'])}"
    )
