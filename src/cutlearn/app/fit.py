"""`cutlearn fit`: a folder of images and a folder of masks in, a model file out.

The unfinished run lives in MODEL.part beside the model: features and every step of training. The
same command finds it and goes on; it is removed when the model is written. A second run on the same
model at the same time is refused.
"""

import json
import math
import time
import warnings
from pathlib import Path
from typing import Any

import click

from cutlearn.app.endings import ending_of
from cutlearn.app.exits import UNFINISHED, say
from cutlearn.app.inputs import open_folder
from cutlearn.app.options import (
    FILE,
    FOLDER,
    budget_option,
    jobs_option,
    logits_option,
    mask_options,
    min_side_option,
    output_options,
)
from cutlearn.app.registry import register
from cutlearn.errors import ConvergenceWarning, InputError, quoted
from cutlearn.features.modes import SUMMARIES
from cutlearn.learn.learners import LEARNERS
from cutlearn.run.progress import Progress, clock

# The files of an unfinished run.
KEPT = "*.safetensors"


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
@click.argument("images", type=FOLDER)
@click.argument("masks", type=FOLDER)
@click.option("-o", "--output", "model", type=FILE, required=True, help="The model to write.")
@click.option(
    "--labels",
    type=click.Choice(["binary", "ordered", "surrogate", "unordered"]),
    default="binary",
    show_default=True,
    help="What the masks hold. binary: object and background. ordered: ids from 0 that have an "
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
    type=click.Choice(list(SUMMARIES)),
    default="auto",
    show_default=True,
    help="Where the logits of pixels come from. "
    + "; ".join(f"{name}: {summary}" for name, summary in SUMMARIES.items())
    + ".",
)
@budget_option
@logits_option
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of all random choices.")
@jobs_option
@mask_options
@min_side_option
@click.option(
    "--strict",
    is_flag=True,
    help="Exit with code 3 when training ends before the gap (or the likelihood's tolerance) is "
    "reached.",
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
    budget: float | str,
    logits: str | None,
    seed: int,
    jobs: int | None,
    object_value: Any,
    void_value: int | None,
    min_side: int | None,
    strict: bool,
    as_json: bool,
) -> int:
    """Learn a model from IMAGES and the MASKS of the same names.

    A run that is interrupted (Ctrl-C, SIGTERM) or killed leaves MODEL.part; the same command
    continues from there.
    """
    from cutlearn.images.sample import as_sample
    from cutlearn.model.parameters import check_parameters, plain_C
    from cutlearn.model.segmenter import Segmenter
    from cutlearn.model.size import at_side, mask_at_side
    from cutlearn.run.lock import only_one

    begin = time.monotonic()
    target = _target(model)
    # That a third label is refused here, if two are wanted, spares the time of the features.
    folder = open_folder(images, masks, object_value=object_value, void_value=void_value,
                         n_labels=2 if labels == "binary" else None, logits=logits)  # fmt: skip
    if logits is not None and features == "auto":
        features = "given"
    estimator = Segmenter(labels=labels, loss=loss, learner=learner, C=C, tol=tol,
                          features=features, budget=budget, min_side=min_side, n_jobs=jobs,
                          random_state=seed)  # fmt: skip
    check_parameters(estimator)
    part = target.with_name(f"{target.name}.part")
    side = estimator.min_side
    with only_one(part):
        resumed = _found(part, target)
        with Progress() as shown:
            # As fit would do it, but one by one: all at full size may need too much memory.
            pairs = [
                (at_side(as_sample(folder.image(i)), side), mask_at_side(folder.labels(i), side))
                for i in shown.count(range(len(folder)), len(folder), "reading")
            ]
            stopped = _train(estimator, pairs, part, shown)
        estimator.save(target)
        for file in part.glob(KEPT):  # its own files only; the folder goes if it is empty then
            file.unlink()
    if stopped:
        say(f"cutlearn: {stopped}", err=True)
    said = {
        "model": str(target),
        "images": len(folder),
        "labels": len(estimator.classes_),
        "weights": len(estimator.w_),
        "loss": loss,
        "learner": learner,
        "features": estimator.featurizer_.chosen_,
        "why": estimator.featurizer_.why_,
        "C": plain_C(estimator.C_),
        "steps": estimator.n_steps_,
        "gap": None if math.isnan(estimator.gap_) else estimator.gap_,
        "tol": tol,
        "converged": estimator.converged_,
        "certified": estimator.certified_,
        "resumed": resumed,
        "seconds": round(time.monotonic() - begin, 2),
    }
    say(json.dumps(said) if as_json else _summary(said, estimator))
    return UNFINISHED if strict and not estimator.converged_ else 0


def _target(model: str) -> Path:
    """The file to write, refused before any work if it cannot be written."""
    target = Path(model)
    if not target.parent.is_dir():
        raise InputError(
            f"{target}: its folder does not exist; an existing one was wanted. Make it first."
        )
    return target


def _train(estimator: Any, pairs: list[tuple[Any, Any]], part: Path, shown: Progress) -> str:
    """Fit with checkpoints; gives the warning of a run that stopped before its gap, or nothing."""
    from cutlearn.run.checkpoint import Interrupted

    images, labels = [list(side) for side in zip(*pairs)]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ConvergenceWarning)
        try:
            estimator.fit(images, labels, checkpoint=part, progress=shown.features,
                          callback=shown.step)  # fmt: skip
        except KeyboardInterrupt:
            shown.close()
            raise Interrupted(_farewell(part)) from None
    gaps = [w.message for w in caught if issubclass(w.category, ConvergenceWarning)]
    for warning in caught:
        if warning.message not in gaps:
            say(f"warning: {warning.message}", err=True)
    # Of several runs (the choice of C) only the last one is the model's.
    return "" if estimator.converged_ or not gaps else str(gaps[-1])


def _found(part: Path, target: Path) -> bool:
    """Whether there is an unfinished run to go on with; what a kill left besides is removed."""
    from cutlearn.store import remove_leftovers

    remove_leftovers(part)
    remove_leftovers(target)
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

    return (
        f"{said['model']}: learned from {said['images']} images, {said['weights']} weights, "
        f"features {said['features']}, C = {estimator.C_:g}, {ending_of(estimator)} after "
        f"{said['steps']} steps, {clock(said['seconds'])}"
    )
