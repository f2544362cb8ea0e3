"""What the labels of a model are, as the estimators ask for it."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cutlearn.energy.forms import EnvelopeSpec
from cutlearn.energy.labels import LABELS, Labels
from cutlearn.energy.model import Model
from cutlearn.energy.potentials import Contrast, Enveloped, FeatureNames, Unary
from cutlearn.features.featurizer import Featurizer
from cutlearn.features.problem import Problem
from cutlearn.learn.learners import LEARNERS

Mask = NDArray[np.uint8]
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Kind:
    n_labels: int = 2
    envelope: EnvelopeSpec | None = None
    edges: bool = True

    of: ClassVar[type[Labels]]
    name: ClassVar[str]
    most: ClassVar[int]
    has_order: ClassVar[bool]
    believes: ClassVar[bool]
    takes_envelopes: ClassVar[bool]

    @classmethod
    def learners(cls) -> tuple[str, ...]:
        return tuple(
            name for name, one in LEARNERS.items()
            if one.for_masks and (cls.of.has_energy if one.margin else cls.of.has_min_marginals)
        )  # fmt: skip

    def questions(self, mask: Mask) -> Mask:
        return self.of(self.n_labels).questions(mask)

    def model(self, families: int) -> Model:
        names = ["envelope"] if families == 1 else [f"envelope{f}" for f in range(families)]
        found = [Enveloped(self.envelope, f, n) for f, n in enumerate(names) if self.envelope]
        return Model(
            [Unary(), *([Contrast()] if self.edges else []), *found], self.of(self.n_labels)
        )

    def names(self, featurizer: Featurizer) -> list[str]:
        features = FeatureNames(
            featurizer.node_names_, featurizer.edge_names_, featurizer.region_names_
        )
        counts = len(features.node), len(features.edge)
        problem = Problem(
            np.zeros((1, counts[0])), np.zeros((0, 2), np.int32), np.zeros((0, counts[1])),
            tuple([[0]] for _ in features.region) if self.envelope else (),
        )  # fmt: skip
        return self.model(len(features.region)).names(problem, features)

    def mask(self, problem: Problem, w: ArrayLike) -> Mask:
        return self.model(len(problem.regions)).mask(problem, w)

    def least(self, problem: Problem, w: ArrayLike) -> Floats:
        return self.model(len(problem.regions)).min_marginals(problem, w)


def _kind(labels: type[Labels]) -> type[Kind]:
    return type(labels.__name__, (Kind,), {
        "of": labels, "name": labels.name, "most": labels.most, "has_order": labels.has_order,
        "believes": labels.has_min_marginals, "takes_envelopes": labels.takes_envelopes,
    })  # fmt: skip


KINDS: dict[str, type[Kind]] = {name: _kind(kind) for name, kind in LABELS.items()}
Binary = KINDS["binary"]
BINARY = Binary()


def labels_in(names: list[str]) -> int:
    """Give L, from the names of weights; two labels are not named."""
    return max((1 + int(n.split()[1]) for n in names if n.startswith("label ")), default=2)
