"""Learners by name: what each one needs and what it gives.

Doors, files, help, docs and tests read `LEARNERS`; a learner from outside is one more entry,

    LEARNERS["mine"] = MarginLearner("mine", "one sentence", master=lambda: MyMaster)

Classes are given by functions, so that reading names and sentences imports no solver.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from cutlearn.errors import InputError, quoted

if TYPE_CHECKING:
    from cutlearn.energy.label_space import LabelSpace
    from cutlearn.learn.likelihood.value import Value
    from cutlearn.learn.margin.master import Master

MOST_GROUPS = 50


@dataclass(frozen=True)
class Learner:
    """What everybody may ask of a learner.

    Parameters
    ----------
    name : str
    summary : str
        One sentence for help and docs.
    allows_infinite_C : bool, default: False
        Whether it can do without a regulariser.
    for_masks : bool
        Whether `Segmenter` offers it; else it is for `train` alone.
    """

    name: str
    summary: str
    allows_infinite_C: bool = False
    for_masks: bool = True

    @property
    def margin(self) -> bool:
        """Whether it learns a margin, with a loss and a certified gap, or else a likelihood."""
        return isinstance(self, MarginLearner)


@dataclass(frozen=True)
class MarginLearner(Learner):
    """A max-margin learner: planes go to its master, which gives the next weights and a bound.

    Parameters
    ----------
    master : function that gives a subclass of Master
    one_each : bool
        Whether every image has a slack of its own.
    """

    master: Callable[[], "type[Master]"] = field(kw_only=True)
    one_each: bool = False

    def groups(self, n_images: int) -> int:
        """How many groups of images have a slack of their own, unless the user says so."""
        return n_images if self.one_each else min(n_images, MOST_GROUPS)


@dataclass(frozen=True)
class LikelihoodLearner(Learner):
    """A learner of beliefs: steps along the gradient of a likelihood, nothing is certified.

    Parameters
    ----------
    value : function that gives a function of a task and w: the likelihood of an image, its gradient
    step : float, optional
        A fixed length of the steps along the gradient; without it quasi-Newton steps.
    starts : "zero", "regression" or "race"
        First weights: none, those of logistic regression, or the best of several beside it.
    """

    value: Callable[[], "Value"] = field(kw_only=True)
    step: float | None = None
    starts: str = "regression"


def _bundle() -> "type[Master]":
    from cutlearn.learn.margin.bundle import Bundle

    return Bundle


def _center() -> "type[Master]":
    from cutlearn.learn.margin.center import Center

    return Center


def _likelihood() -> "Value":
    from cutlearn.learn.likelihood.value import image_likelihood

    return image_likelihood


def _logistic() -> "Value":
    from cutlearn.learn.likelihood.baselines import logistic

    return logistic


def _kohli_torr() -> "Value":
    from cutlearn.learn.likelihood.baselines import kohli_torr

    return kohli_torr


LEARNERS: dict[str, Learner] = {
    learner.name: learner
    for learner in (
        MarginLearner(
            "bundle", "max-margin, near the minimum of the planes known so far", master=_bundle
        ),
        MarginLearner(
            "nslack", "the same with a slack for every image", master=_bundle, one_each=True
        ),
        MarginLearner(
            "accpm", "max-margin by analytic centres; needs no regulariser",
            allows_infinite_C=True, master=_center,
        ),
        LikelihoodLearner(
            "likelihood", "the likelihood of the masks, for calibrated probabilities",
            allows_infinite_C=True, value=_likelihood, starts="race",
        ),
        LikelihoodLearner(
            "logistic", "logistic regression: the likelihood without edges and envelopes",
            allows_infinite_C=True, value=_logistic, starts="zero",
        ),
        # The fixed step is the best of 0.01, 0.1 and 1 on single images of standardised features.
        LikelihoodLearner(
            "kohli-torr", "the pseudo-gradient of Kohli and Torr 2008", for_masks=False,
            allows_infinite_C=True, value=_kohli_torr, step=1.0,
        ),
    )
}  # fmt: skip


def learner_of(name: Any) -> Learner:
    """Give the learner of a name; refuses one that nobody has registered."""
    if not isinstance(name, str) or name not in LEARNERS:
        raise InputError(
            f"The 'learner' parameter must be one of {tuple(LEARNERS)}. Got {quoted(name)} instead."
        )
    return LEARNERS[name]


def learners_of(labels: "type[LabelSpace]") -> tuple[str, ...]:
    """Give the names of the learners that `Segmenter` offers for a kind of labels."""
    return tuple(
        name for name, one in LEARNERS.items()
        if one.for_masks and (labels.has_energy if one.margin else labels.has_likelihood)
    )  # fmt: skip


def is_margin(name: str) -> bool:
    """Whether the learner of this name learns a margin."""
    return learner_of(name).margin
