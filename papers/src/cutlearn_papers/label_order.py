"""The order of labels whose model makes the fewest mistakes on held-out images.

Ordered labels need submodular tables, and which tables are submodular depends on the order: the
dearest pair of labels should lie furthest apart. An order and its mirror image are the same model.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import permutations
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cutlearn.arrays import VOID
from cutlearn.checks import as_array, is_one_of, listed
from cutlearn.energy.label_space import Ordered
from cutlearn.energy.model import Model
from cutlearn.energy.problem import Problem
from cutlearn.errors import InputError, quoted
from cutlearn.learn.train import train

MAX_LABELS = 5  # 60 orders


@dataclass(frozen=True)
class OrderChoice:
    """The chosen order, and the errors of all orders.

    Attributes
    ----------
    order : tuple of int
        The label at each place.
    errors : dict
        The share of wrong nodes on held-out images, for every order.
    """

    order: tuple[int, ...]
    errors: dict[tuple[int, ...], float]

    def places(self, labels: ArrayLike) -> NDArray[np.uint8]:
        """Return the index of every label in the order, for `train`; void stays void."""
        return _places(self.order, labels)

    def labels(self, places: ArrayLike) -> NDArray[np.uint8]:
        """Return the labels from their indices in the order, such as those of `minimize`."""
        back: NDArray[np.uint8] = np.asarray(self.order, np.uint8)[np.asarray(places)]
        return back


def choose_order(
    problems: Sequence[Problem],
    labels: Sequence[ArrayLike],
    n_labels: int,
    folds: int = 3,
    **options: Any,
) -> OrderChoice:
    """Train with every order on parts of the images, and evaluate it on the rest.

    Parameters
    ----------
    problems, labels : as for `train`
    n_labels : int from 2 to 5
    folds : int
        Parts of the images, each left out once.
    options
        As for `train`.
    """
    problems, labels = listed("problems", problems), listed("labels", labels)
    if not is_one_of(n_labels, range(2, MAX_LABELS + 1)):
        raise InputError(
            f"n_labels must be 2 to {MAX_LABELS}, not {quoted(n_labels)}: more labels have too "
            "many orders to try. Put the labels into a good order yourself, and train."
        )
    if not is_one_of(folds, range(2, len(problems) + 1)):
        raise InputError(
            f"folds must be from 2 to the number of images ({len(problems)}), not {quoted(folds)}."
        )
    if len(labels) != len(problems):
        raise InputError(
            f"labels has {len(labels)} arrays, but there are {len(problems)} problems. Give one "
            "array for each problem, in the same order."
        )
    errors = {}
    for order in permutations(range(n_labels)):
        if order[0] < order[-1]:
            placed = [_places(order, y) for y in labels]
            counts = [_wrong(problems, placed, k, folds, n_labels, options) for k in range(folds)]
            wrong, known = np.sum(counts, axis=0)
            errors[order] = float(wrong / known)
    return OrderChoice(min(errors, key=lambda order: errors[order]), errors)


def _places(order: tuple[int, ...], labels: ArrayLike) -> NDArray[np.uint8]:
    given = as_array("labels", labels)
    odd = given[~np.isin(given, [*order, VOID])]
    if odd.size:
        raise InputError(
            f"labels has the value {odd[0]}, but only 0 to {len(order) - 1} and 255 (void) are "
            "possible. Convert the mask first."
        )
    place = np.full(VOID + 1, VOID, np.uint8)
    place[list(order)] = np.arange(len(order))
    placed: NDArray[np.uint8] = place[given.astype(np.uint8)]
    return placed


def _wrong(
    problems: Sequence[Problem],
    labels: Sequence[NDArray[np.uint8]],
    fold: int,
    folds: int,
    n_labels: int,
    options: dict[str, Any],
) -> tuple[int, int]:
    """Count wrong and labelled nodes of the images that a fold leaves out."""
    seen = [i for i in range(len(problems)) if i % folds != fold]
    model = Model(labels=Ordered(n_labels))
    w = train([problems[i] for i in seen], [labels[i] for i in seen], model=model, **options).w
    wrong = known = 0
    for problem, truth in zip(problems[fold::folds], labels[fold::folds]):
        found, flat = model.mask(problem, w).ravel(), truth.ravel()
        wrong += int(np.count_nonzero((found != flat) & (flat != VOID)))
        known += int(np.count_nonzero(flat != VOID))
    return wrong, known
