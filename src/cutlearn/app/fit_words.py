"""What `cutlearn fit` says: how long it will take before, and what it has found after."""

import math
from typing import Any

from cutlearn.app.inputs import remark
from cutlearn.app.tables import percent
from cutlearn.errors import InputError, counted, shown
from cutlearn.run.progress import clock

# Below so many seconds nobody asks how long it takes.
SOON = 15.0
# Seconds in which a pixel is read.
READING = 1e-7


def expected(
    folder: Any, estimator: Any, slices: list[int]
) -> tuple[dict[str, float], float | None]:
    """The phases of a fit and how long all of it takes, which is told; None: nobody knows."""
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


def names_of_labels(names: str | None, n_labels: int) -> tuple[str, ...]:
    """The names of labels, one for each."""
    words = () if names is None else tuple(word.strip() for word in names.split(","))
    if words and len(words) != n_labels:
        raise InputError(
            f"--names gives {len(words)} names, but the masks hold {n_labels} labels. Give one "
            "name for each label, that of label 0 (the background) first."
        )
    return words


def tell_shares(folder: Any, named: bool) -> None:
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


def line_of(said: dict[str, Any], estimator: Any) -> str:
    """What a fit has found, for a person."""
    summary = estimator.summary()
    features = f"features {said['features']}, " if "features" in said else ""
    things = counted(said["images"], "volume" if estimator.of_volumes else "image")
    return (
        f"{said['model']}: learned from {things}, {features}"
        f"{summary.n_weights} weights, "
        f"{summary.ending}{_held_out(estimator)}, {clock(said['seconds'])}"
    )


def figures_of(estimator: Any) -> dict[str, Any]:
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


def _held_out(estimator: Any) -> str:
    """How well images were segmented that the weights had not seen, if there were any."""
    held, name = estimator.judged_.get("held_out"), estimator.judged_.get("judge", "")
    if held is None:
        return ", no held-out figure: the images cannot be divided in two parts"
    if "IoU" not in name:
        return f", {name} {held['value']:.4g} on held-out images"
    low, high = (f"{100 * held[end]:.1f}" for end in ("low", "high"))
    return f", {name} {percent(held['value'])} [{low} .. {high}] on held-out images"
