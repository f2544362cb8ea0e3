"""What training tells of itself: its settings, its steps and its result."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from cutlearn.arrays import Matrix, Vector
from cutlearn.checks import is_number
from cutlearn.energy.model import Layout
from cutlearn.errors import InputError, quoted
from cutlearn.learn.learners import LEARNERS, Learner, MarginLearner
from cutlearn.run.checkpoint import fingerprint


@dataclass(frozen=True)
class Step:
    """One step of training.

    Attributes
    ----------
    number : int
        From 1 on; 0 while good first weights are sought.
    objective : float
        The objective at the weights of this step.
    best, lower_bound, gap : float
        The best objective so far, the certified bound, and their difference.
    relative_gap, tol : float
        What is compared with the tolerance, and the tolerance. Likelihood learners prove no gap:
        there it is by what share the last 30 steps lowered the objective.
    oracle_seconds, master_seconds : float
        Time spent on cuts, and on choosing the next weights.
    calls : int
        Oracle calls, one for each image that was asked.
    planes : int
        Planes in the master; likelihood learners have none.
    """

    number: int
    objective: float
    best: float
    lower_bound: float
    gap: float
    relative_gap: float
    tol: float
    oracle_seconds: float
    master_seconds: float
    calls: int
    planes: int

    @property
    def bounded(self) -> bool:
        """Whether the lower bound comes from planes; a likelihood has none, hence no gap."""
        return self.planes > 0


@dataclass(frozen=True, eq=False)
class TrainResult:
    """Learned weights, and how good they are proved to be.

    Attributes
    ----------
    w : (d,) float64
        The best weights.
    objective, lower_bound, gap, relative_gap : float
        lambda/2 |w|^2 + R(w) at w; a number that no weights can go below; the difference of the
        two and the rounding error of the objective; the gap over max(objective, largest possible
        loss / 1000). For likelihood
        learners: lambda/2 |w|^2 - L(w); 0, which bounds it; their difference; by what share of it
        the last 30 steps lowered it.
    steps : tuple of Step
    certified : bool
        Whether the gap is proved (exact cuts in every oracle call).
    converged : bool
        Whether the gap reached the tolerance; for likelihood learners, whether progress ended.
    layout : Layout
        The named slices of w.
    C : float
    last_w : (d,) float64, optional
        The weights of the last step, from likelihood learners.
    """

    w: Vector
    objective: float
    lower_bound: float
    gap: float
    relative_gap: float
    steps: tuple[Step, ...]
    certified: bool
    converged: bool
    layout: Layout
    C: float
    last_w: Vector | None = None


def steps_to_rows(steps: list[Step]) -> Matrix:
    """Give steps as rows of numbers, for a checkpoint."""
    names = [field.name for field in fields(Step)]
    rows = [[float(getattr(step, name)) for name in names] for step in steps]
    return np.array(rows, np.float64).reshape(-1, len(names))


def rows_to_steps(rows: Matrix) -> list[Step]:
    """Give back the steps of a checkpoint."""
    steps = []
    for row in rows.tolist():
        values = dict(zip([field.name for field in fields(Step)], row))
        whole = {name: int(values.pop(name)) for name in ("number", "calls", "planes")}
        steps.append(Step(**whole, **values))
    return steps


@dataclass(frozen=True)
class Settings:
    """Checked settings of a run."""

    learner: Learner
    C: float
    tol: float
    groups: int
    max_steps: int


def settings_of(
    n_images: int, learner: Learner, C: float, tol: float, groups: int | None, max_steps: int
) -> Settings:
    """Check the settings of a run."""
    for name, value in (("C", C), ("tol", tol), ("max_steps", max_steps)):
        if not is_number(value):
            raise InputError(
                f"The {name!r} parameter must be a number. Got {quoted(value)} instead."
            )
    if not C > 0:
        raise InputError(f"The 'C' parameter must be a number > 0. Got {C!r} instead.")
    if math.isinf(C) and not learner.allows_infinite_C:
        able = next(name for name, one in LEARNERS.items() if one.allows_infinite_C and one.margin)
        raise InputError(
            f"C is infinite (no regulariser), but learner={learner.name!r} needs a finite number. "
            f"Choose learner={able!r}, which needs no regulariser."
        )
    if not 0 < tol < math.inf:
        raise InputError(f"The 'tol' parameter must be a finite number > 0. Got {tol!r} instead.")
    if not 1 <= max_steps < math.inf:
        raise InputError(
            f"The 'max_steps' parameter must be a number >= 1. Got {max_steps!r} instead."
        )
    most = n_images
    if isinstance(learner, MarginLearner) and (groups is None or learner.one_each):
        groups = learner.groups(most)
    groups = 1 if groups is None else groups
    if not is_number(groups) or not 1 <= groups <= most:
        raise InputError(
            f"The 'groups' parameter must be between 1 and the number of images, {most}. "
            f"Got {quoted(groups)} instead."
        )
    return Settings(learner, float(C), float(tol), int(groups), int(max_steps))


def digest_of_all(settings: str, seen: Sequence[Any]) -> str:
    """Give a fingerprint of the settings and of all that is seen of the images, for checkpoints."""
    return joined_digest(settings, [digest_of(one) for one in seen])


def digest_of(one: Any) -> str:
    """Give a fingerprint of what is seen of one image."""
    return fingerprint(f"{one.problem.shape}{one.problem.connectivity}", one.arrays())


def joined_digest(settings: str, digests: Sequence[str]) -> str:
    """Give a fingerprint of the settings and of images, by a fingerprint of each."""
    return fingerprint(settings + "".join(digests), ())
