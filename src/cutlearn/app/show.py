"""`cutlearn show`: what a model file says of itself, its weights by name, its training curve."""

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

import click

from cutlearn.app.exits import say
from cutlearn.app.options import FILE, output_options
from cutlearn.app.registry import register
from cutlearn.app.tables import percent, text_table
from cutlearn.errors import clean

# Steps of a long run that are shown: the first ones, then evenly.
MOST_ROWS = 20
# Characters of a value that are shown; --json has all of them.
MOST_SHOWN = 500


@register
@click.command()
@click.argument("model", type=FILE)
@output_options
def show(model: str, as_json: bool) -> int:
    """Show a model: its card, its weights by name, its training curve."""
    from cutlearn.model.model_files import load, written

    estimator = load(model)
    card = written(estimator.card_)
    settings = {
        name: value if isinstance(value, str | int | None) or _finite(value) else str(value)
        for name, value in estimator.get_params(deep=False).items()
    }
    summary = estimator.summary()
    fitted = dict(summary.fitted)
    if "labels" in settings:
        fitted["labels"] = estimator.model_.labels.name
    if as_json:
        said = {"model": model, "settings": settings, "fitted": fitted,
                "weights": summary.weights, "card": card,
                "curve": summary.curve}  # fmt: skip
        say(json.dumps(said))
        return 0
    for title, text in (
        (f"model {model}", _lines(_asked_and_found(settings, fitted))),
        ("card", _lines(card)),
        (
            "weights",
            text_table(["name", "weight"], [[n, f"{v:+.4g}"] for n, v in summary.weights.items()]),
        ),
        ("training curve", _curve(summary.curve)),
    ):
        say(f"{title}\n{'=' * len(title)}\n{text}\n")
    say(f"{summary.n_weights} weights, {summary.ending}")
    return 0


def _asked_and_found(settings: Mapping[str, Any], fitted: Mapping[str, Any]) -> dict[str, Any]:
    """Return both; where fit has chosen another value than the setting, show the two."""
    both = {**settings, **fitted}
    for name in settings.keys() & fitted.keys():
        if settings[name] != fitted[name]:
            both[name] = f"{_number(settings[name])} (chosen: {_number(fitted[name])})"
    return both


def _finite(value: Any) -> bool:
    """Return whether JSON can hold the number."""
    return isinstance(value, float) and math.isfinite(value)


def _lines(values: Mapping[str, Any], indent: str = "") -> str:
    """Write nested values as lines, one a value."""
    lines = []
    for name, value in values.items():
        word = clean(name.replace("_", " "), MOST_SHOWN)
        if isinstance(value, Mapping) and value:
            lines += [f"{indent}{word}:", _lines(value, indent + "  ")]
        elif isinstance(value, list) and value and isinstance(value[0], Mapping):
            lines.append(f"{indent}{word}:")
            lines += [f"{indent}  " + ", ".join(f"{k} {_number(v)}" for k, v in row.items())
                      for row in value]  # fmt: skip
        else:
            lines.append(f"{indent}{word}: {_number(value)}")
    return "\n".join(lines)


def _number(value: Any) -> str:
    """Return a value on one line of readable length; a file may hold anything."""
    return f"{value:.4g}" if isinstance(value, float) else clean(str(value), MOST_SHOWN)


def _curve(steps: Sequence[Mapping[str, Any]]) -> str:
    """Write the steps of training as a table; of many, some from every part of the run."""
    if not steps:
        return "no step was needed"
    stride = -(-len(steps) // MOST_ROWS)
    chosen = [s for k, s in enumerate(steps) if k % stride == 0 or k == len(steps) - 1]
    rows = [[_cell(n, v) for n, v in s.items()] for s in chosen]
    return text_table([n.replace("_", " ") for n in steps[0]], rows, left=0)


def _cell(name: str, value: float | None) -> str:
    if value is None:
        return "-"
    return percent(value) if name in ("gap", "won lately") else f"{value:.5g}"
