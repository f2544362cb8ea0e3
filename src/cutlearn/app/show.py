"""`cutlearn show`: what a model file says of itself, its weights by name, its training curve."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import click

from cutlearn.app.tables import percent, text_table

# Steps of a long run that are shown: the first ones, then evenly.
MOST_ROWS = 20


def show_command(model: str, as_json: bool) -> int:
    """Show a model; gives the exit code."""
    from cutlearn.model.files import load
    from cutlearn.model.parameters import plain_C

    estimator = load(model)
    fitted = {
        "C": plain_C(estimator.C_),
        "gap": estimator.gap_,
        "tol": float(estimator.tol),
        "converged": estimator.converged_,
        "certified": estimator.certified_,
        "steps": estimator.n_steps_,
    }
    settings = {
        name: value if isinstance(value, str | int | float | None) else str(value)
        for name, value in estimator.get_params(deep=False).items()
    }
    settings["C"] = plain_C(estimator.C)
    weights = dict(zip(estimator.w_names_, estimator.w_.tolist()))
    if as_json:
        curve = [{"step": s.number, "objective": s.best, "lower_bound": s.lower_bound,
                  "gap": s.relative_gap} for s in estimator.steps_]  # fmt: skip
        said = {"model": model, "settings": settings, "fitted": fitted, "weights": weights,
                "card": estimator.card_, "curve": curve}  # fmt: skip
        click.echo(json.dumps(said))
        return 0
    for title, text in (
        (f"model {model}", _lines({**settings, **fitted})),
        ("card", _lines(estimator.card_)),
        ("weights", text_table(["name", "weight"], [[n, f"{v:+.4g}"] for n, v in weights.items()])),
        ("training curve", _curve(estimator.steps_)),
    ):
        click.echo(f"{title}\n{'=' * len(title)}\n{text}\n")
    state = "certified" if estimator.converged_ else f"not reached; {percent(estimator.tol)} wanted"
    click.echo(f"{len(weights)} weights, gap {percent(estimator.gap_)} ({state})")
    return 0


def _lines(values: Mapping[str, Any], indent: str = "") -> str:
    """Write nested values as lines, one a value."""
    lines = []
    for name, value in values.items():
        word = name.replace("_", " ")
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
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _curve(steps: Sequence[Any]) -> str:
    """Write the steps of training as a table; of many, some from every part of the run."""
    if not steps:
        return "no step was needed"
    stride = -(-len(steps) // MOST_ROWS)
    chosen = [s for k, s in enumerate(steps) if k % stride == 0 or k == len(steps) - 1]
    rows = [
        [str(s.number), f"{s.best:.5g}", f"{s.lower_bound:.5g}", percent(s.relative_gap),
         f"{s.oracle_seconds:.2f}", f"{s.master_seconds:.2f}"]
        for s in chosen
    ]  # fmt: skip
    titles = ["step", "objective", "lower bound", "gap", "oracle s", "master s"]
    return text_table(titles, rows, left=0)
