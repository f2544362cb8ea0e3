"""Plugins: parts of your own, found by name in every process.

A registry holds the parts of one kind by name. A part from outside joins it by `register`, which a
script calls before it uses the name. An installed package names the modules that call it as entry
points of the group `cutlearn.plugins`; they are imported when a name is not built in, or when all
names are listed:

    [project.entry-points."cutlearn.plugins"]
    bright = "cutlearn_bright"
"""

import sys
import warnings
from collections.abc import Iterator, MutableMapping
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Generic, TypeVar

from cutlearn.errors import InputError, clean, quoted

GROUP = "cutlearn.plugins"
KINDS = (
    "potential", "labels", "loss", "learner", "source", "channel", "calibration", "decision",
    "display", "estimator",
)  # fmt: skip
T = TypeVar("T")

_added: dict[str, dict[str, Any]] = {kind: {} for kind in KINDS}
_origin: dict[tuple[str, str], str] = {}  # the top-level module that registered a part
_imported = False


def register(kind: str, name: str, part: Any = None) -> Any:
    """Add a part of your own under a name; without `part`, a decorator of a class or a function.

    Parameters
    ----------
    kind : str
        "potential", "labels", "loss", "learner", "source", "channel", "calibration", "decision",
        "display" or "estimator". CONTRIBUTING.md describes what each of them needs.
    name : str
        What parameters, the command line and model files call it. Classes of potentials, losses
        and estimators are registered under their own name.
    part : object, default=None

    Returns
    -------
    object
        The part, or the decorator.

    Raises
    ------
    InputError
        If there is no such kind, or another part has the name.

    Examples
    --------
    >>> import cutlearn as cl
    >>> from cutlearn.model.decisions import Decision
    >>> sure = Decision("sure", "label 1 where it is likely", lambda q, order: q[..., 1] >= 0.9)
    >>> cl.plugins.register("decision", "sure", sure) is sure
    True
    """
    if kind not in KINDS:
        raise InputError(f"register: kind must be one of {KINDS}, not {quoted(kind)}.")
    module = str(sys._getframe(1).f_globals.get("__name__", "")).partition(".")[0]
    if part is None:

        def decorate(part: T) -> T:
            register(kind, name, part)
            _origin[kind, name] = module
            return part

        return decorate
    if _added[kind].get(name, part) is not part:
        raise InputError(
            f"register: there is another {kind} {quoted(name)} already. Choose another name."
        )
    _added[kind][name] = part
    _origin[kind, name] = module
    return part


class Registry(MutableMapping[Any, T], Generic[T]):
    """The parts of one kind by name, built in or added by plugins.

    Parameters
    ----------
    kind : str
    built_in : dict
    """

    def __init__(self, kind: str, built_in: dict[Any, T]) -> None:
        self._kind, self._built_in = kind, built_in

    def __getitem__(self, name: Any) -> T:
        if name in self._built_in:
            return self._built_in[name]
        if name not in _added[self._kind]:
            import_plugins()
        part: T = _added[self._kind][name]
        return part

    def __setitem__(self, name: Any, part: T) -> None:
        self._built_in[name] = part

    def __delitem__(self, name: Any) -> None:
        del self._built_in[name]

    def __iter__(self) -> Iterator[Any]:
        import_plugins()
        return iter({**self._built_in, **_added[self._kind]})

    def __len__(self) -> int:
        return sum(1 for _ in self)


def import_plugins() -> None:
    """Import the plugins of installed packages, once; one that fails is reported and left out."""
    global _imported
    if _imported:
        return
    _imported = True
    for point in sorted(entry_points(group=GROUP), key=lambda point: point.name):
        try:
            point.load()
        except Exception as error:  # whatever a package does, the others and ours keep working
            reason = f"{type(error).__name__}: {clean(str(error), 200)}"
            warnings.warn(
                f"plugin {point.name} ({_package(point)}) could not be imported ({reason}). Repair "
                "or remove the package.",
                stacklevel=2,
            )


def packages_of(names: set[str]) -> dict[str, str]:
    """Return the installed packages, with their versions, that added parts of these names."""
    modules = {module for (_, name), module in _origin.items() if name in names}
    installed = entry_points(group=GROUP) if modules else ()
    points = [point for point in installed if point.module.partition(".")[0] in modules]
    return {_package(point): point.dist.version if point.dist else "" for point in points}


def missing_packages(needed: dict[str, str]) -> list[str]:
    """Return the packages, with their versions, that are needed and add no plugin here."""
    here = {_package(point) for point in entry_points(group=GROUP)} if needed else set()
    return [f"{name} {version}".strip() for name, version in needed.items() if name not in here]


def _package(point: EntryPoint) -> str:
    """Return the name of the distribution of an entry point."""
    return point.dist.name if point.dist else point.value.partition(".")[0]
