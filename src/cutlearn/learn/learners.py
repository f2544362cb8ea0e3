"""The registry of learners, which checks, files, help and docs read.

A learner from outside is one more entry,

    LEARNERS["mine"] = MarginLearner("mine", "one sentence", master=lambda: MyMaster)

Classes are given by functions, so that reading the registry imports no solver.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from cutlearn.errors import InputError, quoted
from cutlearn.plugins import Registry

if TYPE_CHECKING:
    from cutlearn.energy.label_space import LabelSpace
    from cutlearn.learn.bundle import Master
    from cutlearn.learn.likelihood import Value

MOST_GROUPS = 50


@dataclass(frozen=True)
class Learner:
    """A learner: its name and its requirements.

    Parameters
    ----------
    name : str
    summary : str
        One sentence for help and docs.
    allows_infinite_C : bool, default: False
        Whether it can do without a regulariser.
    """

    name: str
    summary: str
    allows_infinite_C: bool = False

    @property
    def margin(self) -> bool:
        """Whether it learns a margin, with a loss and a certified gap, or else a likelihood."""
        return isinstance(self, MarginLearner)


@dataclass(frozen=True)
class MarginLearner(Learner):
    """A max-margin learner: planes go to its master, which gives the next weights and a bound.

    Parameters
    ----------
    master : function that returns a subclass of Master
    one_each : bool
        Whether every image has a slack of its own.
    """

    master: Callable[[], "type[Master]"] = field(kw_only=True)
    one_each: bool = False

    def groups(self, n_images: int) -> int:
        """Return the default number of groups of images, each with a slack of its own."""
        return n_images if self.one_each else min(n_images, MOST_GROUPS)


@dataclass(frozen=True)
class LikelihoodLearner(Learner):
    """A likelihood learner: quasi-Newton steps, nothing is certified.

    Parameters
    ----------
    value : function that returns a function of a task and w
        The likelihood of an image and its gradient.
    starts : "zero", "regression" or "race"
        First weights: none, those of logistic regression, or the best of several made of these.
    """

    value: Callable[[], "Value"] = field(kw_only=True)
    starts: str = "regression"


def _bundle() -> "type[Master]":
    from cutlearn.learn.bundle import Bundle

    return Bundle


def _center() -> "type[Master]":
    from cutlearn.learn.center import Center

    return Center


def _likelihood() -> "Value":
    from cutlearn.learn.likelihood import image_likelihood

    return image_likelihood


def _logistic() -> "Value":
    from cutlearn.learn.likelihood import logistic

    return logistic


LEARNERS: Registry[Learner] = Registry(
    "learner",
    {
        learner.name: learner
        for learner in (
            MarginLearner(
                "bundle", "max-margin, near the minimum of the planes so far", master=_bundle
            ),
            MarginLearner(
                "nslack", "the same with a slack for every image", master=_bundle, one_each=True
            ),
            MarginLearner(
                "accpm",
                "max-margin by analytic centres; needs no regulariser",
                allows_infinite_C=True,
                master=_center,
            ),
            LikelihoodLearner(
                "likelihood",
                "the likelihood of the masks, for calibrated probabilities",
                allows_infinite_C=True,
                value=_likelihood,
                starts="race",
            ),
            LikelihoodLearner(
                "logistic",
                "logistic regression: the likelihood without edges and envelopes",
                allows_infinite_C=True,
                value=_logistic,
                starts="zero",
            ),
        )
    },
)


def learner_of(name: Any) -> Learner:
    """Return the learner of a name; raise if none is registered."""
    if isinstance(name, str) and name == "kohli-torr":
        raise InputError(
            "learner='kohli-torr' has moved to the distribution cutlearn-papers. Use "
            "cutlearn_papers.tarlow2012_steps.kohli_torr, or learner='likelihood'."
        )
    if not isinstance(name, str) or name not in LEARNERS:
        raise InputError(
            f"The 'learner' parameter must be one of {tuple(LEARNERS)}. Got {quoted(name)} instead."
        )
    return LEARNERS[name]


def learners_of(labels: "type[LabelSpace]") -> tuple[str, ...]:
    """Return the names of the learners for a kind of labels."""
    return tuple(
        name for name, one in LEARNERS.items()
        if (labels.has_energy if one.margin else labels.has_likelihood)
    )  # fmt: skip


def is_margin(name: str) -> bool:
    """Return whether the learner of this name learns a margin."""
    return learner_of(name).margin
