"""The papers whose experiments can be run again, by their short names."""

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any


@dataclass(frozen=True)
class Paper:
    """A paper: its title, what is run of it, how long that takes, and where it stands.

    Attributes
    ----------
    title, about : str
    module : str
        It has `run`, a function of a `Course` that ends with `Course.finish`.
    data : tuple of str
        The data sets that it reads.
    """

    title: str
    about: str
    module: str
    data: tuple[str, ...] = ()

    @property
    def run(self) -> Callable[[Any], dict[str, Any]]:
        """The experiment; imported only here, so that `cutlearn --help` stays quick."""
        found: Callable[[Any], dict[str, Any]] = import_module(self.module).run
        return found


PAPERS: dict[str, Paper] = {
    "gould2011": Paper(
        "lower linear envelopes",
        "envelopes over the squares of a noisy checkerboard, about a minute; with --data also over "
        "superpixels of photographs with boxes, about four minutes.",
        "cutlearn_papers.gould2011",
    ),
    "antoniuk2012": Paper(
        "the analytic centre",
        "two learners on cows and horses, with and without a regulariser; about half an hour.",
        "cutlearn_papers.antoniuk2012",
        ("weizmann_horses", "msrc_cows"),
    ),
    "pletscher2012": Paper(
        "the count loss",
        "models trained for pixels and for areas, on photographs with strokes and on "
        "mitochondria; about ten minutes.",
        "cutlearn_papers.pletscher2012",
        ("grabcut", "em_epfl_ca1", "em_drosophila_vnc"),
    ),
    "tarlow2012": Paper(
        "calibrated min-marginals",
        "probabilities of aeroplanes, cars, cows and dogs; about an hour.",
        "cutlearn_papers.tarlow2012",
        ("voc2010_coseg",),
    ),
    "yang2014": Paper(
        "max-margin Boltzmann machines",
        "learned shapes of horses and pedestrians; about three quarters of an hour.",
        "cutlearn_papers.yang2014",
        ("weizmann_horses", "penn_fudan"),
    ),
    "beyond": Paper(
        "what the papers give together",
        "envelopes, counts, calibration, decisions, colours and shapes composed on boosted logits "
        "of horses and pedestrians; about a quarter of an hour.",
        "cutlearn_papers.beyond",
        ("weizmann_horses", "penn_fudan"),
    ),
}
