"""What combines with what, found by trying: writes docs/combinations.md.

Every kind of labels is trained with every loss, learner and envelope on two tiny images. A cell
says what came out: a certified gap, planes without a certificate, or the refusal in its own words.
"""

import re
import warnings
from pathlib import Path

import numpy as np

import cutlearn as cl
from cutlearn.energy.label_space import LABELS
from cutlearn.energy.model import model_of
from cutlearn.learn.learners import LEARNERS as ALL
from cutlearn.model.parameters import check_parameters

LEARNERS = [name for name, one in ALL.items() if one.margin]
LIKELIHOOD = [name for name, one in ALL.items() if not one.margin]
PAGE = Path(__file__).parent.parent / "docs" / "combinations.md"
CERTIFIED, HOLDS = "certified", "not certified"
SQUARES = [[[0, 1], [2, 3, 4]]] * 2
LOSSES = {
    "`Hamming()`": cl.Hamming(),
    "`Absolute()`": cl.Absolute(),
    "`Count()`": cl.Count(),
    "`Count(regions=...)`": cl.Count(regions=SQUARES),
    "`CountFunction(f)`": cl.CountFunction(np.square),
    "`LabelCount(1)`": cl.LabelCount(1),
    "`2 * Hamming() + Count()`": 2 * cl.Hamming() + cl.Count(),
}
ENVELOPES = {"no": None, "yes": cl.EnvelopeSpec(lines=2)}
HEAD = """# What combines with what

Written by `python scripts/combinations.py`, which tries every row; `tests/test_combinations.py`
tries them again and compares the certified ones with the optimum over all labellings.

*certified*: every oracle call is exact, so the gap between objective and lower bound is proved
(`TrainResult.certified`). *not certified*: the lower bound holds, but expansion moves may miss the
highest plane, so the objective may be too low. Everything else is refused with its reason.

"""


def world(kind):
    """Two tiny problems with regions, and labels of the kind."""
    rng = np.random.default_rng(0)
    edges = [[0, 1], [1, 2], [2, 3], [3, 4]]
    problems = [
        cl.Problem(rng.normal(size=(5, 2)), edges, rng.uniform(0, 1, (4, 1)), [SQUARES[0]])
        for _ in range(2)
    ]
    labels = [[0, 1, 1, 0, 1], [1, 0, 0, 1, 1]]
    if kind != "binary":
        labels = [[0, 1, 2, 2, 1], [2, 1, 0, 0, 1]]
    return problems, labels


def model(kind, envelope):
    """The model of a kind of labels, with envelopes or without."""
    return cl.Model(model_of(world(kind)[0][0], ENVELOPES[envelope]).potentials, kind)


def train(kind, loss, learner, envelope):
    """The result of one combination."""
    problems, labels = world(kind)
    return cl.train(
        problems, labels, LOSSES.get(loss, "hamming"), learner, C=2.0, tol=1e-6,
        model=model(kind, envelope),
    )  # fmt: skip


def outcome(kind, loss, learner, envelope):
    """What came out, in a few words."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", cl.ConvergenceWarning)
            return CERTIFIED if train(kind, loss, learner, envelope).certified else HOLDS
    except cl.InputError as error:
        reason = re.split("; |[.] |, because", str(error).removeprefix("image 0: "))[0]
        return f"refused: {reason}"


def rows():
    """Every row of the table: kind, loss, envelope, and the outcome for each learner."""
    return [
        (kind, loss, envelope, *(outcome(kind, loss, learner, envelope) for learner in LEARNERS))
        for kind, one in LABELS.items()
        if one.has_energy
        for envelope in ENVELOPES
        for loss in LOSSES
    ]


def likelihood_lines():
    """What the likelihood learners do with each kind of labels; they have no loss."""
    lines = []
    for kind in LABELS:
        for envelope, word in (("no", "without"), ("yes", "with")):
            found = [outcome(kind, "default", learner, envelope) for learner in LIKELIHOOD]
            told = [f.replace(HOLDS, "learned") for f in found]
            same = len(set(told)) == 1
            cells = "; ".join(f"`{name}` {f}" for name, f in zip(LIKELIHOOD, told))
            cells = told[0] if same else cells
            lines.append(f"- {kind}, {word} envelopes: {cells}")
    return lines


def fits(labels, learner, potentials):
    """Whether a Segmenter takes these, in a few words."""
    model = cl.Segmenter(labels=labels, learner=learner, potentials=potentials)
    try:
        check_parameters(model)
    except cl.InputError as error:
        return f"refused: {str(error).split(' of Segmenter must be ')[1].split('. Got')[0]}"
    return "yes"


def segmenter_rows():
    """What a Segmenter takes of each kind of labels."""
    lines = []
    for labels in LABELS:
        learners = [n for n in ALL if fits(labels, n, ("unary", "contrast")) == "yes"]
        able = fits(labels, learners[0], ("unary", "contrast", "envelope")) == "yes"
        learners = [f"`{name}`" for name in learners]
        lines.append(f"| `{labels}` | {', '.join(learners)} | {'yes' if able else 'no'} |")
    return lines


def page():
    """The page as text; learners that agree share a cell."""
    lines = [HEAD + f"Learners: {', '.join(f'`{name}`' for name in LEARNERS)}.", ""]
    lines += ["| labels | envelopes | loss | outcome |", "| --- | --- | --- | --- |"]
    for kind, loss, envelope, *found in rows():
        same = len(set(found)) == 1
        cell = found[0] if same else "; ".join(f"`{n}` {f}" for n, f in zip(LEARNERS, found))
        lines.append(f"| {kind} | {envelope} | {loss} | {cell} |")
    lines += [
        "",
        f"Likelihood learners ({', '.join(f'`{name}`' for name in LIKELIHOOD)}) certify nothing:",
        "",
        *likelihood_lines(),
        "",
        "What a `Segmenter` takes of each kind of labels; all give masks, probabilities,",
        "decisions and areas. `labels='auto'`, the default, stands for `binary` with two labels,",
        "for `unordered` with more, and for `surrogate` if a likelihood is to be learned. Features",
        "are boosted or linear with all of them; a likelihood has no loss.",
        "",
        "| `labels=` | `learner=` | envelopes |",
        "| --- | --- | --- |",
        *segmenter_rows(),
    ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page())
