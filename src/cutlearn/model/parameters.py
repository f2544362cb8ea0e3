"""The parameters of an estimator: a table of rules each, checked once, when fit begins.

A rule says what a parameter must be, given the others. Every refusal keeps scikit-learn's sentence:
"The 'tol' parameter of Segmenter must be ... Got ... instead."
"""

import copy
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone

from cutlearn.energy.label_space import AUTO, LABELS, LabelSpace, kind_of
from cutlearn.energy.model import NAMED as POTENTIALS
from cutlearn.energy.model import Model, potentials_of, uses_regions
from cutlearn.energy.potentials import FeatureNames, OwnUnary, Potential, Unary
from cutlearn.errors import InputError, quoted
from cutlearn.features import BUDGETS
from cutlearn.features.backbone import is_network
from cutlearn.features.backbone_store import KNOWN
from cutlearn.features.featurizer import Featurizer, modes
from cutlearn.images.resize import MOST_SIDE
from cutlearn.learn.learners import LEARNERS, is_margin, learners_of
from cutlearn.learn.losses import NAMED, Loss, loss_of
from cutlearn.model.calibration import CALIBRATIONS
from cutlearn.model.size import FULL
from cutlearn.run.executor import MOST_THREADS, Executor, is_jobs
from cutlearn.shape.conditional import MARGINS

# The most that a Boltzmann machine may ask for; its masks have at most so many labels.
MOST = {"shape": 16_384, "hidden": 10**6, "words": 10**5, "epochs": 10**7, "cycles": 10**6,
        "starts": 256}  # fmt: skip
MOST_LABELS = 2**16


class Rule(NamedTuple):
    """What a parameter must be.

    Parameters
    ----------
    name : str
    allows : callable (model) -> bool
        Whether the model's value can be used; earlier rules hold.
    wanted : callable (model) -> str
        What comes after "must be".
    """

    name: str
    allows: Callable[[Any], bool]
    wanted: Callable[[Any], str]


def rule(name: str, allows: Callable[[Any], bool], wanted: str) -> Rule:
    """Give a rule for one parameter, whatever the others are."""
    return Rule(name, lambda model: allows(getattr(model, name)), lambda _: wanted)


def check_parameters(model: Any, rules: Sequence[Rule] | None = None) -> None:
    """Refuse the first parameter that breaks one of the rules; by default all of the model's."""
    for name, allows, wanted in model.rules if rules is None else rules:
        if not allows(model):
            raise InputError(
                f"The {name!r} parameter of {type(model).__name__} must be {wanted(model)}. "
                f"Got {quoted(getattr(model, name))} instead."
            )


def check_parameters_for(model: Any, n_labels: int) -> None:
    """Refuse parameters that do not go with the kind of labels that "auto" comes to."""
    known = copy.copy(model)
    known.labels = kind_of(model.labels, n_labels, LEARNERS[model.learner].margin).name
    check_parameters(known)


def check_side(model: Any) -> None:
    """Refuse a size that no image can have; asked whenever images come in."""
    check_parameters(model, (SIDE,))


def _is(value: Any, names: Any) -> bool:
    return isinstance(value, str) and value in names


def _whole(value: Any) -> bool:
    return isinstance(value, int | np.integer) and type(value) is not bool


def _between(low: int, high: int) -> Callable[[Any], bool]:
    return lambda value: _whole(value) and low <= value <= high


def _pair(low: int, high: int) -> Callable[[Any], bool]:
    within = _between(low, high)
    return lambda pair: isinstance(pair, list | tuple) and len(pair) == 2 and all(map(within, pair))


def _positive(value: Any) -> bool:
    number = _whole(value) or isinstance(value, float | np.floating)
    return number and 0 < float(value) < math.inf


def _strength(model: Any) -> bool:
    endless = isinstance(model.C, float | np.floating) and float(model.C) == math.inf
    return (
        _is(model.C, ("auto",))
        or _positive(model.C)
        or (endless and LEARNERS[model.learner].allows_infinite_C)
    )


def kinds(model: Any) -> list[type[LabelSpace]]:
    """Give the kinds of labels that an estimator may come to have, by the number of labels."""
    margin = LEARNERS[model.learner].margin
    return [kind_of(model.labels, n, margin) for n in (2, 3)]


def _labels(model: Any) -> str:
    return f"when labels are {model.labels}"


def _learners(model: Any) -> str:
    able = [name for name, kind in LABELS.items() if model.learner in learners_of(kind)]
    return (
        f"one of {learners_of(kinds(model)[0])} {_labels(model)}; {model.learner!r} learns "
        f"{' and '.join(able)} ones"
    )


def _potentials(given: Any) -> bool:
    if not isinstance(given, list | tuple) or not given:
        return False
    known = [isinstance(p, Potential) or _is(p, POTENTIALS) for p in given]
    names = [p.name if isinstance(p, Potential) else p for p in given if known]
    return all(known) and names[0] in ("unary", "node") and len(set(names)) == len(names)


SIDE = rule(
    "min_side",
    lambda side: side is None or _is(side, (FULL,)) or _between(1, MOST_SIDE)(side),
    f"None, {FULL!r} or a whole number of pixels from 1 to {MOST_SIDE}",
)
# The parameters of every estimator.
SHARED = (
    SIDE,
    Rule(
        "calibration",
        lambda m: m.calibration is None or _is(m.calibration, CALIBRATIONS),
        lambda m: f"one of {tuple(CALIBRATIONS)}",
    ),
    rule(
        "n_jobs",
        is_jobs,
        f"None, a whole number other than 0, up to {MOST_THREADS}, or a cluster: the address of "
        "its scheduler, 'local:4' for four processes here, or a Client",
    ),
    rule(
        "random_state",
        lambda state: (
            state is None
            or _between(0, 2**64 - 1)(state)
            or isinstance(state, np.random.RandomState)
        ),
        "None, a whole number >= 0 or a RandomState",
    ),
)
SEGMENTER = (
    rule(
        "potentials",
        _potentials,
        f"a tuple of different names, 'unary' first, of {tuple(POTENTIALS)}, or of Potential "
        "objects",
    ),
    Rule(
        "labels",
        lambda m: _is(m.labels, (AUTO,)) or _is(m.labels, LABELS),
        lambda m: f"one of {(AUTO, *LABELS)}",
    ),
    Rule(
        "loss",
        lambda m: isinstance(m.loss, Loss) or _is(m.loss, NAMED),
        lambda m: f"one of {tuple(NAMED)} or a Loss",
    ),
    Rule("learner", lambda m: _is(m.learner, LEARNERS), lambda m: f"one of {tuple(LEARNERS)}"),
    Rule(
        "C",
        _strength,
        lambda m: (
            "'auto', a finite number > 0, or infinity with a learner of "
            f"{tuple(name for name, one in LEARNERS.items() if one.allows_infinite_C)}"
        ),
    ),
    rule("tol", _positive, "a finite number > 0"),
    Rule(
        "features",
        lambda m: isinstance(m.features, Featurizer) or _is(m.features, modes()),
        lambda m: f"one of {modes()} or a Featurizer",
    ),
    rule(
        "budget",
        lambda given: _is(given, BUDGETS) or _positive(given),
        f"one of {tuple(BUDGETS)} or a number of seconds > 0",
    ),
    rule(
        "backbone",
        lambda given: given is None or callable(given) or is_network(given),
        f"None, a function, or one of {tuple(KNOWN)}",
    ),
    Rule(
        "potentials",
        lambda m: kinds(m)[0].takes_envelopes or not uses_regions(m.potentials),
        lambda m: f"without envelopes {_labels(m)}",
    ),
    Rule("learner", lambda m: m.learner in learners_of(kinds(m)[0]), _learners),
    Rule(
        "loss",
        lambda m: kinds(m)[0].has_order or not loss_of(m.loss).needs_order,
        lambda m: f"one that needs no order {_labels(m)}, such as 'hamming'",
    ),
    Rule(
        "loss",
        lambda m: is_margin(m.learner) or _is(m.loss, ("hamming",)),
        lambda m: f"'hamming' with learner={m.learner!r}, which needs no loss",
    ),
    rule(
        "connectivity",
        lambda given: given is None or (_whole(given) and given in (4, 8)),
        "None, 4 or 8",
    ),
    Rule(
        "connectivity",
        lambda m: m.connectivity is None or _featurizer_of(m).connectivity == m.connectivity,
        lambda m: f"that of the Featurizer, {_featurizer_of(m).connectivity}, or left out",
    ),
    *SHARED,
)
BOLTZMANN = (
    rule("layers", _between(0, 2), "0, 1 or 2"),
    rule("margin", lambda given: _is(given, MARGINS), f"one of {tuple(MARGINS)}"),
    *(
        rule(name, lambda given: isinstance(given, bool | np.bool_), "True or False")
        for name in ("refine", "pairwise", "sees_image")
    ),
    *(
        rule(name, _pair(low, MOST[name]), f"{wanted}, and at most {MOST[name]}")
        for name, low, wanted in (
            ("shape", 4, "(rows, columns) of at least 4 each"),
            ("hidden", 4, "two whole numbers of at least 4"),
            ("words", 1, "two whole numbers >= 1"),
            ("epochs", 0, "two whole numbers >= 0"),
        )
    ),
    rule(
        "shape",
        lambda given: int(given[0]) * int(given[1]) <= MOST_LABELS,
        f"of at most {MOST_LABELS} labels",
    ),
    *(
        rule(name, _between(low, MOST[name]), f"a whole number from {low} to {MOST[name]}")
        for name, low in (("cycles", 0), ("starts", 1))
    ),
    *(rule(name, _positive, "a finite number > 0") for name in ("rate", "gamma", "hidden_weight")),
    *SHARED,
)


def plain_C(C: float | str) -> float | str:
    """Give C as JSON can hold it: a finite number, "auto", or "inf" for no regulariser."""
    return C if isinstance(C, str) else "inf" if math.isinf(C) else float(C)


def plain_seed(random_state: Any, drawn: int | None) -> int | None:
    """Return a random_state as JSON can hold it: for a RandomState the seed that fit drew."""
    return drawn if isinstance(random_state, np.random.RandomState) else random_state


def labels_for(estimator: Any, n_labels: int) -> LabelSpace:
    """Give the labels of an estimator, if they are so many."""
    kind = kind_of(estimator.labels, n_labels, LEARNERS[estimator.learner].margin)
    return kind(n_labels)


def model_for(estimator: Any, featurizer: Featurizer, n_labels: int, families: int) -> Model:
    """Give the potentials and labels of an estimator, for so many families of regions.

    Where the features have a logit of every label, the unary knows whose they are.
    """
    labels = labels_for(estimator, n_labels)
    potentials, own = potentials_of(estimator.potentials, families), featurizer.logit_columns()
    if len(own) == n_labels:
        potentials = [OwnUnary(columns=own) if p == Unary() else p for p in potentials]
    return Model(potentials, labels)


def feature_names(featurizer: Featurizer) -> FeatureNames:
    """Give what a fitted featurizer calls its features."""
    return FeatureNames(featurizer.node_names_, featurizer.edge_names_, featurizer.region_names_)


def _featurizer_of(model: Any) -> Featurizer:
    """The featurizer that the user brought, or one of the model's own settings."""
    if isinstance(model.features, Featurizer):
        return model.features
    return Featurizer(
        model.features, budget=model.budget, connectivity=model.connectivity or 8,
        backbone=model.backbone,
    )  # fmt: skip


def fresh_featurizer(model: Any, place: Executor) -> Featurizer:
    """Return an unfitted featurizer for the model; one that the user brought is copied."""
    seed = seed_of(model.random_state)
    made: Featurizer = clone(_featurizer_of(model)).set_params(n_jobs=place)
    return made if made.random_state is not None else made.set_params(random_state=seed)


def seed_of(random_state: Any) -> int:
    """Give the seed that a checked random_state means: None is 0."""
    if random_state is None:
        return 0
    if isinstance(random_state, np.random.RandomState):
        return int(random_state.randint(2**31 - 1))
    return int(random_state)
