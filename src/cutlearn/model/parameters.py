"""The parameters of an estimator, checked once, when fit begins.

Every refusal keeps scikit-learn's sentence: "The 'tol' parameter of Segmenter must be ... Got ...
instead."; what the design names but does not exist yet is refused with what does exist.
"""

import math
from typing import Any

import numpy as np
from sklearn.base import clone

from cutlearn.energy.forms import EnvelopeSpec
from cutlearn.errors import InputError, quoted
from cutlearn.features.featurizer import Featurizer
from cutlearn.features.modes import BUDGETS
from cutlearn.features.settings import modes
from cutlearn.images.resize import MOST_SIDE
from cutlearn.learn.image_loss import Loss
from cutlearn.learn.learners import LEARNERS, is_margin
from cutlearn.learn.losses import NAMED, loss_of
from cutlearn.model.calibrations import CALIBRATIONS
from cutlearn.model.kinds import KINDS, Kind
from cutlearn.run.workers import MOST_THREADS
from cutlearn.shape.cccp import MARGINS

POTENTIALS = (
    ("unary",),
    ("unary", "contrast"),
    ("unary", "envelope"),
    ("unary", "contrast", "envelope"),
)
# A region weighs as much as its pixels do, so that envelopes and unaries are regularised alike.
ENVELOPE = EnvelopeSpec(lines=10, form="curvatures", per="node")
# The most that a Boltzmann machine may ask for; its masks have at most so many labels.
MOST = {"shape": 16_384, "hidden": 10**6, "words": 10**5, "epochs": 10**7, "cycles": 10**6,
        "starts": 256}  # fmt: skip
MOST_LABELS = 2**16


def check_parameters(model: Any) -> None:
    """Refuse the first parameter that cannot be used."""
    potentials = model.potentials
    known = isinstance(potentials, list | tuple) and tuple(potentials) in POTENTIALS
    _need(model, "potentials", known, "('unary', 'contrast') or ('unary',), and 'envelope' behind")
    _need(model, "labels", _is(model.labels, *KINDS), f"one of {tuple(KINDS)}")
    named = isinstance(model.loss, Loss) or _is(model.loss, *NAMED)
    _need(model, "loss", named, f"one of {tuple(NAMED)} or a Loss")
    names = tuple(name for name, one in LEARNERS.items() if one.for_masks)
    _need(model, "learner", _is(model.learner, *names), f"one of {names}")
    endless = LEARNERS[model.learner].endless and _endless(model.C)
    able = tuple(name for name in names if LEARNERS[name].endless)
    C = endless or _is(model.C, "auto") or _positive(model.C)
    _need(model, "C", C, f"'auto', a finite number > 0, or infinity with a learner of {able}")
    _need(model, "tol", _positive(model.tol), "a finite number > 0")
    features = isinstance(model.features, Featurizer) or _is(model.features, *modes())
    _need(model, "features", features, f"one of {modes()} or a Featurizer")
    budget = _is(model.budget, *BUDGETS) or _positive(model.budget)
    _need(model, "budget", budget, f"one of {tuple(BUDGETS)} or a number of seconds > 0")
    _check_labels(model)
    joined = _whole(model.connectivity) and model.connectivity in (4, 8)
    _need(model, "connectivity", joined, "4 or 8")
    _check_run(model)


def check_boltzmann(model: Any) -> None:
    """Refuse the first parameter of a BoltzmannSegmenter that cannot be used."""
    _need(model, "layers", _whole(model.layers) and model.layers in (0, 1, 2), "0, 1 or 2")
    _need(model, "margin", _is(model.margin, *MARGINS), f"one of {tuple(MARGINS)}")
    for name in ("refine", "pairwise", "sees_image"):
        _need(model, name, isinstance(getattr(model, name), bool | np.bool_), "True or False")
    for name, least, wanted in (
        ("shape", 4, "(rows, columns) of at least 4 each"),
        ("hidden", 4, "two whole numbers of at least 4"),
        ("words", 1, "two whole numbers >= 1"),
        ("epochs", 0, "two whole numbers >= 0"),
    ):
        pair = getattr(model, name)
        listed = isinstance(pair, list | tuple) and len(pair) == 2
        known = listed and all(_whole(k) and least <= k <= MOST[name] for k in pair)
        _need(model, name, known, f"{wanted}, and at most {MOST[name]}")
    area = int(model.shape[0]) * int(model.shape[1])
    _need(model, "shape", area <= MOST_LABELS, f"of at most {MOST_LABELS} labels")
    for name, least in (("cycles", 0), ("starts", 1)):
        value = getattr(model, name)
        known = _whole(value) and least <= value <= MOST[name]
        _need(model, name, known, f"a whole number from {least} to {MOST[name]}")
    for name in ("rate", "gamma", "hidden_weight"):
        _need(model, name, _positive(getattr(model, name)), "a finite number > 0")
    _check_run(model)


def _check_run(model: Any) -> None:
    check_side(model)
    asked = model.calibration
    known = (asked is None or isinstance(asked, str)) and asked in CALIBRATIONS
    _need(model, "calibration", known, f"one of {tuple(CALIBRATIONS)}")
    jobs = model.n_jobs is None or (_whole(model.n_jobs) and 0 < abs(model.n_jobs) <= MOST_THREADS)
    _need(model, "n_jobs", jobs, f"None or a whole number other than 0, up to {MOST_THREADS}")
    state = model.random_state
    seed = state is None or (_whole(state) and 0 <= state < 2**64)
    drawn = seed or isinstance(state, np.random.RandomState)
    _need(model, "random_state", drawn, "None, a whole number >= 0 or a RandomState")


def check_side(model: Any) -> None:
    """Refuse a size that no image can have; asked whenever images come in."""
    side = model.min_side
    able = side is None or (_whole(side) and 1 <= side <= MOST_SIDE)
    _need(model, "min_side", able, f"None or a whole number of pixels from 1 to {MOST_SIDE}")


def _check_labels(model: Any) -> None:
    """Refuse what does not go together with the kind of labels, or with a likelihood."""
    kind, labels = KINDS[model.labels], f"when labels are {model.labels}"
    known = kind.takes_envelopes or "envelope" not in model.potentials
    _need(model, "potentials", known, f"without 'envelope' {labels}")
    able = [name for name, other in KINDS.items() if model.learner in other.learners()]
    learned = (
        f"one of {kind.learners()} {labels}; {model.learner!r} learns {' and '.join(able)} ones"
    )
    _need(model, "learner", model.learner in kind.learners(), learned)
    plain = kind.has_order or not loss_of(model.loss).needs_order
    _need(model, "loss", plain, f"one that needs no order {labels}, such as 'hamming'")
    free = is_margin(model.learner) or _is(model.loss, "hamming")
    _need(model, "loss", free, f"'hamming' with learner={model.learner!r}, which needs no loss")


def plain_C(C: float | str) -> float | str:
    """Give C as JSON can hold it: a finite number, "auto", or "inf" for no regulariser."""
    return C if isinstance(C, str) else "inf" if math.isinf(C) else float(C)


def kind_of(model: Any, n_labels: int) -> Kind:
    """Give what the model's labels are."""
    envelope = ENVELOPE if "envelope" in model.potentials else None
    return KINDS[model.labels](n_labels, envelope, "contrast" in model.potentials)


def fresh_featurizer(model: Any, threads: int) -> Featurizer:
    """Give an unfitted featurizer for the model; one that the user brought is copied."""
    seed = seed_of(model.random_state)
    if not isinstance(model.features, Featurizer):
        return Featurizer(
            model.features, budget=model.budget, connectivity=model.connectivity,
            random_state=seed, n_jobs=threads,
        )  # fmt: skip
    made: Featurizer = clone(model.features).set_params(n_jobs=threads)
    return made if made.random_state is not None else made.set_params(random_state=seed)


def seed_of(random_state: Any) -> int:
    """Give the seed that a checked random_state means: None is 0."""
    if random_state is None:
        return 0
    if isinstance(random_state, np.random.RandomState):
        return int(random_state.randint(2**31 - 1))
    return int(random_state)


def _need(model: Any, name: str, good: bool, wanted: str) -> None:
    if not good:
        raise InputError(
            f"The {name!r} parameter of {type(model).__name__} must be {wanted}. "
            f"Got {quoted(getattr(model, name))} instead."
        )


def _is(value: Any, *names: str) -> bool:
    return isinstance(value, str) and value in names


def _whole(value: Any) -> bool:
    return isinstance(value, int | np.integer) and type(value) is not bool


def _endless(value: Any) -> bool:
    return isinstance(value, float | np.floating) and float(value) == math.inf


def _positive(value: Any) -> bool:
    number = _whole(value) or isinstance(value, float | np.floating)
    return number and 0 < float(value) < math.inf
