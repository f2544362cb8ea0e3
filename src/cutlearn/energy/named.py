"""Potentials by name, and as the plain values that a model file keeps.

    "unary", "contrast"    as they are
    "envelope"             one `Enveloped` for each family of regions, with the form ENVELOPE

A potential from outside is given as an object; model files know it once its class is in CLASSES.
"""

from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any

from cutlearn.energy.forms import EnvelopeSpec
from cutlearn.energy.potentials import Contrast, Enveloped, Potential, Unary
from cutlearn.errors import InputError

# A region weighs as much as its pixels do, so that envelopes and unaries are regularised alike.
ENVELOPE = EnvelopeSpec(lines=10, form="curvatures", per="node")


def _enveloped(families: int) -> list[Potential]:
    names = ["envelope"] if families == 1 else [f"envelope{f}" for f in range(families)]
    return [Enveloped(ENVELOPE, f, name) for f, name in enumerate(names)]


# The number of families of regions in, potentials out.
NAMED: dict[str, Callable[[int], list[Potential]]] = {
    "unary": lambda families: [Unary()],
    "contrast": lambda families: [Contrast()],
    "envelope": _enveloped,
}
CLASSES: dict[str, type[Potential]] = {kind.__name__: kind for kind in (Unary, Contrast, Enveloped)}


def potentials_of(given: Sequence[str | Potential], families: int) -> list[Potential]:
    """Give the potentials that names and objects mean, for so many families of regions."""
    made = [NAMED[p](families) if isinstance(p, str) else [p] for p in given]
    return [potential for part in made for potential in part]


def uses_edges(given: Sequence[str | Potential]) -> bool:
    """Whether neighbours are joined; a potential from outside may look at edges too."""
    return any(p == "contrast" if isinstance(p, str) else not _is_blind(p, Contrast) for p in given)


def uses_regions(given: Sequence[str | Potential]) -> bool:
    """Whether a potential looks at regions, likewise."""
    return any(
        p == "envelope" if isinstance(p, str) else not _is_blind(p, Enveloped) for p in given
    )


def _is_blind(p: Potential, kind: type[Potential]) -> bool:
    """Whether a built-in potential is of another kind, and so needs nothing of this one's."""
    return type(p) in CLASSES.values() and not isinstance(p, kind)


def to_plain(potential: str | Potential) -> str | dict[str, Any]:
    """Give a potential as JSON can hold it."""
    if isinstance(potential, str):
        return potential
    name = type(potential).__name__
    if CLASSES.get(name) is not type(potential):
        raise InputError(
            f"potentials: {name} is not known to model files. Add its class to "
            "cutlearn.energy.named.CLASSES, here and where the file is read."
        )
    return {"potential": name, **asdict(potential)}  # type: ignore[call-overload]


def from_plain(plain: Any) -> str | Potential:
    """Read what `to_plain` gave; whatever does not fit raises ValueError, KeyError or TypeError."""
    if isinstance(plain, str):
        return plain
    given = {str(name): value for name, value in plain.items() if name != "potential"}
    if isinstance(given.get("spec"), dict):
        given["spec"] = EnvelopeSpec(**given["spec"])
    return CLASSES[plain["potential"]](**given)
