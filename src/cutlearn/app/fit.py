"""`cutlearn fit`: a folder of images and a folder of masks in, a model file out.

The unfinished run lives in MODEL.part beside the model: features, or as many parts of them as are
finished, and every step of training. The same command finds it and goes on; it is removed when the
model is written. A second run on the same model at the same time is refused.
"""

import json
import math
import time
import warnings
from pathlib import Path
from typing import Any

import click

from cutlearn.app.exits import UNFINISHED, say
from cutlearn.app.groups import groups_of
from cutlearn.app.inputs import fit_memory, open_folder, remark, where_to_work
from cutlearn.app.options import (
    FILE,
    IMAGES,
    NameIn,
    budget_option,
    logits_option,
    mask_options,
    min_side_option,
    output_options,
    place_options,
    shown_progress,
    volume_options,
)
from cutlearn.app.registry import register
from cutlearn.app.tables import percent
from cutlearn.app.unfinished import farewell, found_unfinished, remove_unfinished, target_of
from cutlearn.errors import ConvergenceWarning, InputError, counted
from cutlearn.features.modes import SUMMARIES
from cutlearn.learn.learners import LEARNERS
from cutlearn.run.progress import Progress, clock

# Below so many seconds nobody asks how long it takes.
SOON = 15.0
# Seconds in which a pixel is read.
READING = 1e-7


def _strength(_: click.Context, param: click.Parameter, value: str) -> float | str:
    """Read a positive number, or the word auto."""
    try:
        return value if value == "auto" else float(value)
    except ValueError:
        raise click.BadParameter(
            f"{value!r} is not a number. Give a number above 0, or the word auto.", param=param
        ) from None


def _names() -> list[str]:
    from cutlearn.model.estimators import ESTIMATORS

    return [one.command for one in ESTIMATORS.values()]


def _features() -> tuple[str, ...]:
    from cutlearn.features.settings import modes

    return modes()


@register
@click.command()
@click.argument("images", type=IMAGES)
@click.argument("masks", type=IMAGES)
@click.option("-o", "--output", "model", type=FILE, required=True, help="The model to write.")
@click.option(
    "--model",
    "command",
    type=NameIn(_names),
    default="cut",
    show_default=True,
    help="What is learned. cut: features of pixels and edges. shape: also the shapes of masks, for "
    "one object of one kind an image.",
)
@click.option(
    "--groups",
    metavar="TABLE.csv|PATTERN",
    help="Images that belong together, such as slices of one stack, so that they are held out "
    "together: a CSV file of rows name,group, or a regular expression whose one group in "
    "parentheses is the part of the name that they share. [default: nearly equal images]",
)
@click.option(
    "--labels",
    type=click.Choice(["auto", "binary", "ordered", "surrogate", "unordered"]),
    default="auto",
    show_default=True,
    help="What the masks hold. auto: binary for two values, for more unordered (surrogate with "
    "--learner likelihood). binary: object and background. ordered: ids from 0 that have an "
    "order, such as layers. Ids without an order: unordered, which joins all labels in one energy, "
    "or surrogate, a field for each label.",
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
    type=NameIn(lambda: [name for name, one in LEARNERS.items() if one.for_masks]),
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
    type=NameIn(_features),
    default="auto",
    show_default=True,
    help="Where the logits of pixels come from. "
    + "; ".join(f"{name}: {summary}" for name, summary in SUMMARIES.items())
    + ".",
)
@click.option(
    "--names", metavar="WORD,...", help="What the labels are called, label 0 first: grass,cow,sky."
)
@click.option("--force", is_flag=True, help="Overwrite a model that is there already.")
@click.option(
    "--restart", is_flag=True, help="Begin anew instead of going on with an interrupted run."
)
@volume_options
@budget_option
@logits_option
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of all random choices.")
@place_options
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
    command: str,
    groups: str | None,
    labels: str,
    loss: str,
    learner: str,
    C: float | str,
    tol: float,
    features: str,
    names: str | None,
    force: bool,
    restart: bool,
    budget: float | str,
    logits: str | None,
    seed: int,
    jobs: int | None,
    min_side: int | str | None,
    strict: bool,
    as_json: bool,
    **reading: Any,
) -> int:
    """Learn a model from IMAGES and the MASKS of the same names.

    IMAGES and MASKS are folders, or single files. A file of several pages is a stack of slices,
    which are held out together; with --volume it is one volume, of which a few annotated slices
    are enough.

    A run that is interrupted (Ctrl-C, SIGTERM) or killed leaves what it has finished in MODEL.part,
    during features as well as training; the same command continues from there, to the same model.
    """
    from cutlearn.energy.labels import kind_of
    from cutlearn.learn.learners import is_margin
    from cutlearn.model.fitting.parameters import check_parameters
    from cutlearn.model.training_images import TrainingImages
    from cutlearn.run.lock import only_one

    begin = time.monotonic()
    target = target_of(model, force)
    # That a third label is refused here, if two are wanted, spares the time of the features.
    two = labels == "binary" or command != "cut"
    folder = open_folder(
        images, masks, logits, strict=strict, **reading, n_labels=2 if two else None
    )
    coding = folder.coding
    assert coding is not None
    words = _words(names, coding.n_labels)
    labels = kind_of(labels, coding.n_labels, is_margin(learner)).name
    if logits is not None and features == "auto":
        features = "given"
    settings = {"labels": labels, "loss": loss, "learner": learner, "C": C, "tol": tol,
                "features": features, "budget": budget}  # fmt: skip
    estimator = _estimator(command, settings)
    estimator.set_params(min_side=min_side, n_jobs=where_to_work(jobs), random_state=seed)
    check_parameters(estimator)
    together = _together(folder) if groups is None else groups_of(folder.names, groups)
    slices = _annotated(folder)
    # An annotated slice looks at one before and one behind it.
    depths = [min(one.depth, 3 * count) for one, count in zip(folder.facts, slices)]
    estimator.n_jobs = fit_memory(estimator, folder, True, depths)
    phases, seconds = _expected(folder, estimator, slices)
    part = target.with_name(f"{target.name}.part")
    with only_one(part):
        resumed = found_unfinished(part, target, restart)
        with shown_progress(phases, estimator.trainings(len(folder)), seconds=seconds) as shown:
            pairs = _pairs(folder, estimator.min_side, shown)
            stopped = _train(estimator, pairs, together, part, shown)
        # The facts are those of the files; what was fitted may have been resized before.
        values = coding.values or (0, 1)
        estimator.training_ = TrainingImages.of(folder.facts, values, words)
        estimator.n_jobs = jobs  # as asked for; the memory of this machine is not the model's
        estimator.save(target)
        remove_unfinished(part)
    if stopped:
        say(f"cutlearn: {stopped}", err=True)
    said = {
        "model": str(target), "images": len(folder), **_figures(estimator), "resumed": resumed,
        "seconds": round(time.monotonic() - begin, 2),
    }  # fmt: skip
    say(json.dumps(said) if as_json else _line(said, estimator))
    return UNFINISHED if strict and not estimator.summary().converged else 0


def _pairs(folder: Any, side: int | None, shown: Progress) -> list[tuple[Any, Any]]:
    """Samples and masks at the size at which the model works.

    As fit would make them, but one by one: all at full size may need too much memory.
    """
    from cutlearn.images.sample import as_sample
    from cutlearn.model.fitting.size import at_side, mask_at_side

    return [
        (at_side(as_sample(folder.image(i)), side), mask_at_side(folder.labels(i), side))
        for i in shown.count(range(len(folder)), len(folder), "reading")
    ]


def _line(said: dict[str, Any], estimator: Any) -> str:
    """What a fit has found, for a person."""
    summary = estimator.summary()
    features = f"features {said['features']}, " if "features" in said else ""
    things = counted(said["images"], "volume" if estimator.of_volumes else "image")
    return (
        f"{said['model']}: learned from {things}, {features}"
        f"{summary.n_weights} weights, "
        f"{summary.ending}{_held_out(estimator)}, {clock(said['seconds'])}"
    )


def _figures(estimator: Any) -> dict[str, Any]:
    """What a fit has found, as JSON can hold it."""
    summary, given = estimator.summary(), estimator.get_params(deep=False)
    found = getattr(estimator, "featurizer_", None)
    return {
        "labels": len(estimator.classes_),
        "weights": summary.n_weights,
        **{name: given[name] for name in ("loss", "learner") if name in given},
        **({"features": found.chosen_, "why": found.why_} if found is not None else {}),
        **summary.fitted,
        "held_out": estimator.judged_.get("held_out"),
    }


def _estimator(command: str, settings: dict[str, Any]) -> Any:
    """The estimator of a name; an option that it does not have is refused if it was given."""
    from click.core import ParameterSource

    from cutlearn.model.estimators import ESTIMATORS

    made = next(one for one in ESTIMATORS.values() if one.command == command)()
    known, context = made.get_params(deep=False), click.get_current_context()
    for name in settings.keys() - known.keys():
        if context.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            raise InputError(
                f"--{name} means nothing to --model {command}. Leave it out, or choose another "
                "model."
            )
    return made.set_params(**{name: settings[name] for name in settings.keys() & known.keys()})


def _expected(
    folder: Any, estimator: Any, slices: list[int]
) -> tuple[dict[str, float], float | None]:
    """The phases of a fit and how long all of it takes, which is told; None: nobody knows."""
    from cutlearn.model.fitting.size import worked_shape

    shapes = [
        worked_shape((one.height, one.width), estimator.min_side)
        for one, count in zip(folder.facts, slices) for _ in range(count)
    ]  # fmt: skip
    color = any(one.color for one in folder.facts)
    phases = estimator.phases(shapes, color, folder.coding.n_labels)
    pixels = sum(rows * columns for rows, columns in shapes)
    whole = sum(phases.values())
    if not math.isfinite(whole):
        return {"reading": 1.0} | dict.fromkeys(phases, 20.0), None
    reading = READING * sum(one.height * one.width for one in folder.facts)
    if whole > SOON:
        remark(
            f"{len(shapes)} images of {pixels / 1e6:.2g} megapixels in all take about "
            f"{clock(whole)}"
        )
    return {"reading": reading} | phases, reading + whole


def _annotated(folder: Any) -> list[int]:
    """How many slices of every volume are annotated; 1 of an image. Says if most are empty."""
    from cutlearn.metrics import VOID

    found, empty = [], 0
    for i, one in enumerate(folder.facts):
        if one.depth == 1:
            found.append(1)
            continue
        labels = folder.labels(i)
        found.append(int((labels != VOID).any(axis=(1, 2)).sum()))
        empty += int((~labels.any(axis=(1, 2))).sum())
    if 2 * empty > sum(found):
        remark(
            f"{empty} of {sum(found)} annotated slices hold no object. If nobody has looked at "
            "them, use --empty-void"
        )
    return found


def _together(folder: Any) -> list[Any] | None:
    """What is held out together: the slices of a stack; of a single stack, neighbours in it."""
    from cutlearn.features.folds import blocks

    stacks: list[Any] | None = folder.groups
    if stacks is None or len(set(stacks)) > 1:
        return stacks
    made = blocks(len(folder))
    parts = f"{len(made)} slices: neighbours are held out together, in {made[-1] + 1} blocks"
    remark(f"one stack of {parts}")
    return made


def _words(names: str | None, n_labels: int) -> tuple[str, ...]:
    """The names of labels, one for each."""
    words = () if names is None else tuple(word.strip() for word in names.split(","))
    if words and len(words) != n_labels:
        raise InputError(
            f"--names gives {len(words)} names, but the masks hold {n_labels} labels. Give one "
            "name for each label, that of label 0 (the background) first."
        )
    return words


def _train(
    estimator: Any,
    pairs: list[tuple[Any, Any]],
    groups: list[Any] | None,
    part: Path,
    shown: Progress,
) -> str:
    """Fit with checkpoints; gives the warning of a run that stopped before its gap, or nothing."""
    from cutlearn.run.interrupt import interrupted

    images, labels = [list(side) for side in zip(*pairs)]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ConvergenceWarning)
        try:
            estimator.fit(images, labels, groups, checkpoint=part,
                          progress=estimator.shown_by(shown), callback=shown.step)  # fmt: skip
        except KeyboardInterrupt as stop:
            shown.close()
            raise interrupted(stop, farewell(part)) from None
        except InputError as error:
            said = str(error).replace("Remove it to start anew", "Begin anew with --restart")
            raise InputError(said) from error
    gaps = [w.message for w in caught if issubclass(w.category, ConvergenceWarning)]
    for warning in caught:
        if warning.message not in gaps:
            remark(str(warning.message))
    # Of several runs (the choice of C) only the last one is the model's.
    return "" if estimator.summary().converged or not gaps else str(gaps[-1])


def _held_out(estimator: Any) -> str:
    """How well images were segmented that the weights had not seen, if there were any."""
    held, name = estimator.judged_.get("held_out"), estimator.judged_.get("judge", "")
    if held is None:
        return ", no held-out figure: the images cannot be divided in two parts"
    if "IoU" not in name:
        return f", {name} {held['value']:.4g} on held-out images"
    low, high = (f"{100 * held[end]:.1f}" for end in ("low", "high"))
    return f", {name} {percent(held['value'])} [{low} .. {high}] on held-out images"
