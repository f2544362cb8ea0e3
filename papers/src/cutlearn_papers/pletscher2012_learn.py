"""Models of pletscher2012 for one loss at every C, and both losses of what they find."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cutlearn.arrays import Floats, Mask
from cutlearn.energy.energy import Energy
from cutlearn.energy.problem import Problem
from cutlearn.learn.pool import Pool
from cutlearn.learn.train import train
from cutlearn_papers.pletscher2012_data import LOSSES, Divided, losses_of


@dataclass(frozen=True, eq=False)
class Sweep:
    """Models of one loss at every C.

    Attributes
    ----------
    weights : (C, F)
    objectives, gaps : (C,)
        The objective, and by what share it is above its certified bound, at most.
    losses : by part, (C, n, 2): both losses of every image
    """

    weights: Floats
    objectives: Floats
    gaps: Floats
    losses: dict[str, Floats]

    def chosen(self, loss: str) -> int:
        """Which C has the least loss of its own on validation images."""
        return int(self.losses["validation"][:, :, LOSSES.index(loss)].mean(axis=1).argmin())


def sweep(parts: Divided, structure: str, loss: str, Cs: Sequence[float], tol: float) -> Sweep:
    """Train at every C, with the planes of those before; judge all images."""
    problems = {name: part.problems(structure) for name, part in parts.items()}
    inside = parts["training"].masks
    pool = Pool(problems["training"], inside, loss=loss, normalize="loss")
    weights, objectives, gaps = [], [], []
    losses: dict[str, list[Floats]] = {name: [] for name in parts}
    for C in Cs:
        result = train(problems["training"], inside, loss=loss, C=C, tol=tol, normalize="loss",
                       n_jobs=1, pool=pool)  # fmt: skip
        weights.append(result.w)
        objectives.append(result.objective)
        gaps.append(result.gap / max(result.objective, np.finfo(float).tiny))
        for name, part in parts.items():
            losses[name].append(judge(problems[name], part.masks, result.w))
    judged = {name: np.array(found) for name, found in losses.items()}
    return Sweep(np.array(weights), np.array(objectives), np.array(gaps), judged)


def labels_of(problem: Problem, w: Floats) -> Mask:
    """Give the labels of a problem under weights w."""
    return Energy.of(problem, w).minimize().labels.astype(np.uint8)


def judge(problems: Sequence[Problem], masks: Sequence[Mask], w: Floats) -> Floats:
    """Give both losses of every image, (n, 2)."""
    return np.array([losses_of(m, labels_of(p, w)) for p, m in zip(problems, masks)])
