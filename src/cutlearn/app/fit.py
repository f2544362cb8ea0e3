"""`cutlearn fit`: a folder of images and a folder of masks in, a model file out.

The unfinished run is in MODEL.part next to the model: features, or as many parts of them as are
finished, and every step of training. The same command resumes it; it is removed when the model is
written. A second run on the same model at the same time is refused.
"""

import contextlib
import csv
import json
import math
import re
import sys
import time
import warnings
from collections.abc import Sequence
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any

import click

from cutlearn.app.exits import UNFINISHED, say
from cutlearn.app.inputs import (
    is_beyond_memory,
    is_read_away,
    open_folder,
    plan_workers,
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
from cutlearn.app.tables import percent
from cutlearn.errors import ConvergenceWarning, InputError, clean, plural, quoted, shown
from cutlearn.features import SUMMARIES
from cutlearn.learn.learners import LEARNERS
from cutlearn.run.progress import Progress, clock

# Estimates of fewer seconds are not printed.
SOON = 15.0
# Seconds in which a pixel is read.
READING = 1e-7
# The files of a run.
KEPT = "*.safetensors"
# The heading that a table of groups may have.
HEADING = ("name", "group")


def _strength(_: click.Context, param: click.Parameter, value: str) -> float | str:
    """Read a positive number, or the word auto."""
    try:
        return value if value == "auto" else float(value)
    except ValueError:
        raise click.BadParameter(
            f"{value!r} is not a number. Give a number above 0, or the word auto.", param=param
        ) from None


def _names() -> list[str]:
    from cutlearn.model.model_files import ESTIMATORS

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
    "--backbone",
    metavar="NAME",
    default="mobile-sam",
    show_default=True,
    help="The pretrained network of --features pretrained, and of auto if it is installed "
    "(cutlearn backbone install); none: auto does without.",
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
    backbone: str,
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
                "features": features, "budget": budget,
                "backbone": None if backbone == "none" else backbone}  # fmt: skip
    estimator = _estimator(command, settings)
    refuse_idle(["budget"], features == "auto", f"with features {features}; it is for auto")
    networks = features in ("auto", "pretrained")
    refuse_idle(["backbone"], networks, f"with features {features}; it is for pretrained and auto")
    estimator.set_params(min_side=min_side, n_jobs=where_to_work(jobs), random_state=seed)
    check_parameters(estimator)
    # That a third label is refused here, if two are wanted, spares the time of the features.
    two = labels == "binary" or command != "cut"
    folder = open_folder(
        images, masks, logits, strict=strict, keep=True, **reading, n_labels=2 if two else None,
        instances=labels in ("auto", "binary") and (names or "").count(",") < 2,
        unannotated=not strict and logits is None and "unannotated" in estimator.learns_from,
    )  # fmt: skip
    coding = folder.coding
    assert coding is not None
    words = label_words(names, coding.n_labels)
    print_shares(folder, bool(words))
    if hasattr(estimator, "labels"):
        estimator.labels = kind_of(labels, coding.n_labels, is_margin(learner)).name
        check_parameters(estimator)
    together = _together(folder) if groups is None else groups_of(folder.names, groups)
    slices = _annotated(folder)
    # An annotated slice looks at one before and one behind it.
    depths = [min(one.depth, 3 * count) for one, count in zip(folder.facts, slices)]
    lazily = is_beyond_memory(estimator, folder) or is_read_away(estimator, folder)
    place = plan_workers(estimator, folder, not lazily, depths)
    estimator.n_jobs = place if place.remote else place.threads
    phases, seconds = phases_of(folder, estimator, slices)
    part = target.with_name(f"{target.name}.part")
    with only_one(part):
        resumed = found_unfinished(part, target, restart)
        with shown_progress(phases, estimator.trainings(len(folder)), seconds=seconds) as bar:
            read = partial(bar.at, "reading", unit="images")
            data = TrainingSet.of_folder(folder, together, words, read)
            stopped = _train(estimator, data, folder.unannotated, part, bar)
        estimator.n_jobs = jobs  # as asked for; the memory of this machine is not the model's
        estimator.save(target)
        remove_unfinished(part)
    if stopped:
        say(f"cutlearn: {stopped}", err=True)
    said = {
        "model": str(target), "images": len(folder), **results_of(estimator), "resumed": resumed,
        "seconds": round(time.monotonic() - begin, 2),
    }  # fmt: skip
    say(json.dumps(said) if as_json else summary_line(said, estimator))
    return UNFINISHED if strict and not estimator.summary().converged else 0


def _estimator(command: str, settings: dict[str, Any]) -> Any:
    """Return the estimator of a name; refuse given options that it does not have."""
    from cutlearn.model.model_files import ESTIMATORS

    made = next(one for one in ESTIMATORS.values() if one.command == command)()
    known = made.get_params(deep=False)
    refuse_idle(sorted(settings.keys() - known.keys()), False, f"with --model {command}")
    return made.set_params(**{name: settings[name] for name in settings.keys() & known.keys()})


def _annotated(folder: Any) -> list[int]:
    """Return the annotated slices of every volume, 1 of an image; warn if most are empty."""
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
    """Return what is held out together: slices of a stack; of a single stack, neighbours."""
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
    bar: Progress,
) -> str:
    """Fit with checkpoints; return the warning of a run that stopped before its gap, or nothing."""
    from cutlearn.run.process import interrupted

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ConvergenceWarning)
        try:
            step = bar.step if "callback" in estimator.learns_from else None
            estimator.fit(data, unannotated=unannotated, checkpoint=part,
                          progress=estimator.shown_by(bar), callback=step)  # fmt: skip
        except KeyboardInterrupt as stop:
            bar.close()
            raise interrupted(stop, interrupt_message(part)) from None
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


def phases_of(
    folder: Any, estimator: Any, slices: list[int]
) -> tuple[dict[str, float], float | None]:
    """Return the phases of a fit and its estimated seconds, printed if long; None if unknown."""
    from cutlearn.model.size import worked_shape

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


def label_words(names: str | None, n_labels: int) -> tuple[str, ...]:
    """Return the names of labels, one for each."""
    words = () if names is None else tuple(word.strip() for word in names.split(","))
    if words and len(words) != n_labels:
        raise InputError(
            f"--names gives {len(words)} names, but the masks hold {n_labels} labels. Give one "
            "name for each label, that of label 0 (the background) first."
        )
    return words


def print_shares(folder: Any, named: bool) -> None:
    """Print the share of every label; refuse masks that may not mean what was read.

    Not where labels are `named`: the user knows them.
    """
    from cutlearn.images.coding import doubts, told_shares

    coding = folder.coding
    remark(told_shares(folder.tallies, coding))
    lines = []
    for text, value in [] if named else doubts(folder.tallies, coding):
        advice = "Correct the masks"
        if any(coding.void_value in one.values for one in folder.tallies):
            # A second void value would make a label of the first.
            void = coding.void_value
            advice += f", use --object-value {void} if {void} is the object, not void"
        elif value.isdecimal():
            advice += f", or use --void-value {value} if these pixels are not annotated"
        lines.append(f"{text}. {advice}; if it is a label, name all labels with --names.")
    if lines:
        raise InputError(f"{shown(folder.masks[0].parent)}: " + "\n".join(lines))


def summary_line(said: dict[str, Any], estimator: Any) -> str:
    """Return the summary of a fit, one line."""
    summary = estimator.summary()
    features = f"features {said['features']}, " if "features" in said else ""
    things = plural(said["images"], "volume" if estimator.of_volumes else "image")
    return (
        f"{said['model']}: learned from {things}, {features}"
        f"{summary.n_weights} weights, "
        f"{summary.ending}{_held_out(estimator)}, {clock(said['seconds'])}"
    )


def results_of(estimator: Any) -> dict[str, Any]:
    """Return the results of a fit, as JSON can hold them."""
    summary, given = estimator.summary(), estimator.get_params(deep=False)
    found = getattr(estimator, "featurizer_", None)
    return {
        "labels": len(estimator.classes_),
        "weights": summary.n_weights,
        **{name: given[name] for name in ("loss", "learner") if name in given},
        **({"features": found.chosen_, "why": found.why_} if found is not None else {}),
        **summary.fitted,
        "held_out": estimator.validation_.get("held_out"),
    }


def _held_out(estimator: Any) -> str:
    """Return the held-out score, if there is one."""
    held, name = estimator.validation_.get("held_out"), estimator.validation_.get("judge", "")
    if held is None:
        return ", no held-out figure: the images cannot be divided in two parts"
    if "IoU" not in name:
        return f", {name} {held['value']:.4g} on held-out images"
    low, high = (f"{100 * held[end]:.1f}" for end in ("low", "high"))
    return f", {name} {percent(held['value'])} [{low} .. {high}] on held-out images"


def target_of(model: str, force: bool) -> Path:
    """Return the file to write; refuse, before any work, one that cannot be written."""
    target = Path(model)
    if target.exists() and not force and not _agreed(target):
        raise InputError(
            f"{target}: this model exists already. Write it elsewhere, or overwrite it with "
            "--force."
        )
    if not target.parent.is_dir():
        raise InputError(
            f"{target}: its folder does not exist. Make it first, or write the model elsewhere."
        )
    return target


def _agreed(target: Path) -> bool:
    """Return whether the user agrees to overwrite a file; without a terminal, no."""
    if not sys.stdin.isatty():
        return False
    return click.confirm(f"{target} exists already. Overwrite it?", err=True)


def found_unfinished(part: Path, target: Path, restart: bool) -> bool:
    """Return whether there is an unfinished run to resume; remove other files of killed runs."""
    from cutlearn.store import remove_leftovers

    remove_leftovers(part)
    remove_leftovers(target)
    if restart:
        remove_unfinished(part)
    found = any(part.rglob(KEPT))
    if found:
        say(f"going on with the unfinished run in {part}", err=True)
    return found


def remove_unfinished(part: Path) -> None:
    """Remove the files of a finished run, its own only; empty folders go too."""
    files = list(part.rglob(KEPT))
    for file in files:
        file.unlink()
    for folder in {file.parent for file in files} - {part}:
        with contextlib.suppress(OSError):
            folder.rmdir()


def interrupt_message(part: Path) -> str:
    """Return what an interrupted fit leaves, in a sentence."""
    if any(part.rglob(KEPT)):
        return (
            f"interrupted; what was done is kept in {part}. "
            "Run the same command again to go on from there."
        )
    return "interrupted before anything was finished; nothing is kept. Run the same command again."


def groups_of(names: Sequence[str], given: str) -> list[str]:
    """Return the group of every image.

    Parameters
    ----------
    names : sequence of str
        Of the images, without endings.
    given : str
        A CSV file of rows name,group; or a regular expression with one group in parentheses, which
        is looked for in every name: "^(fish[0-9]+)_" puts fish3_left and fish3_right together.

    Examples
    --------
    >>> groups_of(["fish3_left", "fish3_right", "fish4_left"], "^(fish[0-9]+)_")
    ['fish3', 'fish3', 'fish4']
    """
    if given.lower().endswith(".csv"):
        table = _table(Path(given))
        found = [table.get(name) for name in names]
        lacks, what = "have no row", "Add a row name,group for every image."
    else:
        pattern = _pattern(given)
        matches = [pattern.search(name) for name in names]
        found = [None if match is None else match[1] for match in matches]
        lacks, what = "do not match", "Write a pattern that every name has."
    missing = [clean(name, 60) for name, group in zip(names, found) if group is None]
    if missing:
        more = f" and {len(missing) - 5} more" if len(missing) > 5 else ""
        raise InputError(
            f"--groups {clean(given, 100)}: these images {lacks}: {', '.join(missing[:5])}{more}. "
            f"{what}"
        )
    return [group for group in found if group is not None]


def _table(path: Path) -> dict[str, str]:
    """Return the rows of a table; names may have the endings of files."""
    from cutlearn.images.listing import name_of

    try:
        rows = list(csv.reader(path.read_text(encoding="utf-8-sig").splitlines()))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise InputError(
            f"--groups: {path} cannot be read ({clean(str(error), 200)}). Give a CSV file of rows "
            "name,group, or a regular expression."
        ) from error
    table: dict[str, str] = {}
    for number, row in enumerate(rows, 1):
        cells = [cell.strip() for cell in row]
        if not any(cells) or (number == 1 and tuple(c.lower() for c in cells) == HEADING):
            continue
        if len(cells) != 2 or not all(cells):
            raise InputError(
                f"--groups: line {number} of {path} is {quoted(','.join(row))}, but every line "
                "needs the name of an image and its group. Write name,group."
            )
        table[cells[0]] = cells[1]
        file = PurePosixPath(cells[0])
        table.setdefault(str(file.parent / name_of(file)), cells[1])
    return table


def _pattern(given: str) -> re.Pattern[str]:
    try:
        pattern = re.compile(given)
    except re.error as error:
        raise InputError(
            f"--groups: {quoted(given)} is not a regular expression ({error}). Give one, such as "
            "'^(fish[0-9]+)_', or a CSV file of rows name,group."
        ) from error
    if pattern.groups != 1:
        raise InputError(
            f"--groups: {quoted(given)} has {pattern.groups} groups in parentheses, but one is "
            "needed: the part of the name that images of one group share. Write for example "
            "'^(fish[0-9]+)_'."
        )
    return pattern
