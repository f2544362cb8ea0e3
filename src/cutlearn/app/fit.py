"""`cutlearn fit`: a folder of images and a folder of masks in, a model file out.

The unfinished run lives in MODEL.part beside the model: features, or as many parts of them as are
finished, and every step of training. The same command finds it and goes on; it is removed when the
model is written. A second run on the same model at the same time is refused.
"""

import json
import time
import warnings
from functools import partial
from pathlib import Path
from typing import Any

import click

from cutlearn.app.exits import UNFINISHED, say
from cutlearn.app.fit_words import (
    expected,
    figures_of,
    line_of,
    names_of_labels,
    tell_shares,
)
from cutlearn.app.groups import groups_of
from cutlearn.app.inputs import (
    fit_memory,
    is_beyond_memory,
    is_read_away,
    open_folder,
    remark,
    where_to_work,
)
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
    refuse_idle,
    shown_progress,
    volume_options,
)
from cutlearn.app.registry import register
from cutlearn.app.unfinished import farewell, found_unfinished, remove_unfinished, target_of
from cutlearn.errors import ConvergenceWarning, InputError
from cutlearn.features import SUMMARIES
from cutlearn.learn.learners import LEARNERS
from cutlearn.run.progress import Progress


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
    from cutlearn.features.featurizer import modes

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
    type=NameIn(lambda: list(LEARNERS)),
    default="bundle",
    show_default=True,
    help="How to learn: "
    + "; ".join(f"{name}: {one.summary}" for name, one in LEARNERS.items())
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
    are enough. Images without a mask teach nets what such pictures look like, if they have colours.

    A run that is interrupted (Ctrl-C, SIGTERM) or killed leaves what it has finished in MODEL.part,
    during features as well as training; the same command continues from there, to the same model.
    """
    from cutlearn.energy.label_space import kind_of
    from cutlearn.images.training_set import TrainingSet
    from cutlearn.learn.learners import is_margin
    from cutlearn.model.parameters import check_parameters
    from cutlearn.run.process import only_one

    begin = time.monotonic()
    target = target_of(model, force)
    if logits is not None and features == "auto":
        features = "given"
    settings = {"labels": labels, "loss": loss, "learner": learner, "C": C, "tol": tol,
                "features": features, "budget": budget}  # fmt: skip
    estimator = _estimator(command, settings)
    refuse_idle(["budget"], features == "auto", f"with features {features}; it is for auto")
    estimator.set_params(min_side=min_side, n_jobs=where_to_work(jobs), random_state=seed)
    check_parameters(estimator)
    # That a third label is refused here, if two are wanted, spares the time of the features.
    two = labels == "binary" or command != "cut"
    folder = open_folder(
        images, masks, logits, strict=strict, **reading, n_labels=2 if two else None,
        instances=labels in ("auto", "binary") and (names or "").count(",") < 2,
        unannotated=not strict and logits is None and "unannotated" in estimator.learns_from,
    )  # fmt: skip
    coding = folder.coding
    assert coding is not None
    words = names_of_labels(names, coding.n_labels)
    tell_shares(folder, bool(words))
    if hasattr(estimator, "labels"):
        estimator.labels = kind_of(labels, coding.n_labels, is_margin(learner)).name
        check_parameters(estimator)
    together = _together(folder) if groups is None else groups_of(folder.names, groups)
    slices = _annotated(folder)
    # An annotated slice looks at one before and one behind it.
    depths = [min(one.depth, 3 * count) for one, count in zip(folder.facts, slices)]
    lazily = is_beyond_memory(estimator, folder) or is_read_away(estimator, folder)
    place = fit_memory(estimator, folder, not lazily, depths)
    estimator.n_jobs = place if place.remote else place.threads
    phases, seconds = expected(folder, estimator, slices)
    part = target.with_name(f"{target.name}.part")
    with only_one(part):
        resumed = found_unfinished(part, target, restart)
        with shown_progress(phases, estimator.trainings(len(folder)), seconds=seconds) as shown:
            read = partial(shown.at, "reading", unit="images")
            data = TrainingSet.of_folder(folder, together, words, read)
            stopped = _train(estimator, data, folder.unannotated, part, shown)
        estimator.n_jobs = jobs  # as asked for; the memory of this machine is not the model's
        estimator.save(target)
        remove_unfinished(part)
    if stopped:
        say(f"cutlearn: {stopped}", err=True)
    said = {
        "model": str(target), "images": len(folder), **figures_of(estimator), "resumed": resumed,
        "seconds": round(time.monotonic() - begin, 2),
    }  # fmt: skip
    say(json.dumps(said) if as_json else line_of(said, estimator))
    return UNFINISHED if strict and not estimator.summary().converged else 0


def _estimator(command: str, settings: dict[str, Any]) -> Any:
    """The estimator of a name; an option that it does not have is refused if it was given."""
    from cutlearn.model.estimators import ESTIMATORS

    made = next(one for one in ESTIMATORS.values() if one.command == command)()
    known = made.get_params(deep=False)
    refuse_idle(sorted(settings.keys() - known.keys()), False, f"with --model {command}")
    return made.set_params(**{name: settings[name] for name in settings.keys() & known.keys()})


def _annotated(folder: Any) -> list[int]:
    """How many slices of every volume are annotated; 1 of an image. Says if most are empty."""
    from cutlearn.arrays import VOID

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


def _train(
    estimator: Any,
    data: Any,
    unannotated: Any,
    part: Path,
    shown: Progress,
) -> str:
    """Fit with checkpoints; gives the warning of a run that stopped before its gap, or nothing."""
    from cutlearn.run.process import interrupted

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ConvergenceWarning)
        try:
            step = shown.step if "callback" in estimator.learns_from else None
            estimator.fit(data, unannotated=unannotated, checkpoint=part,
                          progress=estimator.shown_by(shown), callback=step)  # fmt: skip
        except KeyboardInterrupt as stop:
            shown.close()
            raise interrupted(stop, farewell(part)) from None
        except InputError as error:
            said = str(error).replace("Remove it to start anew", "Begin anew with --restart")
            said = said.replace("or name another place", "or name another model with -o")
            raise InputError(said) from error
    gaps = [w.message for w in caught if issubclass(w.category, ConvergenceWarning)]
    for warning in caught:
        if warning.message not in gaps:
            remark(str(warning.message))
    # Of several runs (the choice of C) only the last one is the model's.
    return "" if estimator.summary().converged or not gaps else str(gaps[-1])
