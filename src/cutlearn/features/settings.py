"""The settings of a `Featurizer`: how each is checked, and becomes what JSON can hold."""

from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from cutlearn.checks import instance, one_of, whole_number
from cutlearn.features.auto import checked_budget
from cutlearn.features.boosted import Recipe
from cutlearn.features.describe import KINDS
from cutlearn.features.net.learn import NetRecipe
from cutlearn.features.nodes import OWN, checked_channels
from cutlearn.features.sources import SOURCES
from cutlearn.features.superpixels import checked_families


def modes() -> tuple[str, ...]:
    """What `features` may name, asked of the sources each time: one from outside counts."""
    return ("auto", *SOURCES, *OWN)


def restores(mode: str) -> bool:
    """Whether features of this mode learn something from images without masks."""
    return mode == "auto" or (mode in SOURCES and SOURCES[mode].restores)


def _checked_features(value: Any) -> str:
    one_of("features", value, modes())
    return str(value)


def _choice(name: str, *choices: Any) -> Callable[[Any], Any]:
    def checked(value: Any) -> Any:
        one_of(name, value, choices)
        return choices[choices.index(value)]  # Python's own number for numpy's

    return checked


def _checked_recipe(value: Any) -> dict[str, Any] | None:
    if value is None:
        return None
    instance("recipe", value, Recipe)
    return asdict(value)


def _checked_net(value: Any) -> dict[str, Any] | None:
    if value is None:
        return None
    instance("net", value, NetRecipe)
    return asdict(value)


def checked_seed(value: Any) -> int | None:
    """Check a seed; None stays None."""
    return None if value is None else whole_number("random_state", value, 0, 2**64 - 1)


# How each parameter is checked and becomes what JSON can hold.
CHECKS: dict[str, Callable[[Any], Any]] = {
    "features": _checked_features,
    "kind": _choice("kind", "auto", *KINDS),
    "position": _choice("position", "auto", True, False),
    "recipe": _checked_recipe,
    "net": _checked_net,
    "budget": checked_budget,
    "connectivity": _choice("connectivity", 4, 8),
    "per_direction": _choice("per_direction", True, False),
    "random_state": checked_seed,
    "superpixels": lambda value: [list(family) for family in checked_families(value)],
    "channels": checked_channels,
}
# What files of before call them.
OLDER_NAMES = {"boosted": "trees"}
# Parameters that change no feature.
FREE = ("n_jobs", "memory")
