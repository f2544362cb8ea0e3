"""The table of combinations is what the code does, row by row, and certified means optimal."""

import sys
from pathlib import Path

import numpy as np
import pytest

import tiny_labels
import tiny_problems
from cutlearn.energy.label_space import LABELS
from cutlearn.learn.pool import Pool

sys.path.insert(0, str(Path(__file__).parent.parent / "scripts"))
import combinations
from combinations import LEARNERS

WRITTEN = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in combinations.PAGE.read_text().splitlines()
    if line.startswith("| ") and not line.startswith(("| labels", "| ---", "| `"))
]


def test_every_combination_has_its_row():
    wanted = [
        [kind, envelope, loss]
        for kind, one in LABELS.items()
        if one.has_energy
        for envelope in combinations.ENVELOPES
        for loss in combinations.LOSSES
    ]
    assert [row[:3] for row in WRITTEN] == wanted
    text = combinations.PAGE.read_text()
    assert f"Learners: {', '.join(f'`{name}`' for name in LEARNERS)}." in text


@pytest.mark.parametrize(("kind", "envelope", "loss", "cell"), WRITTEN)
def test_row(kind, envelope, loss, cell):
    for learner in LEARNERS:
        found = combinations.outcome(kind, loss, learner, envelope)
        assert found == cell or f"`{learner}` {found}" in cell.split("; ")


def test_likelihood_learners():
    text = combinations.PAGE.read_text()
    found = combinations.likelihood_lines()
    assert len(found) == 2 * len(LABELS)
    assert "\n".join(found) in text


def test_what_a_segmenter_takes():
    text = combinations.PAGE.read_text()
    found = combinations.segmenter_rows()
    assert [row.split("`")[1] for row in found] == ["binary", "ordered", "surrogate", "unordered"]
    assert "\n".join(found) in text
    refused = combinations.fits("unordered", "likelihood", ("unary",))
    assert "learns binary and ordered and surrogate ones" in refused


def all_planes(task):
    """Every plane of a task, by its own loss and features."""
    every = tiny_labels.labellings(task.problem.n_nodes, task.model.n_labels)
    features = [task.model.psi(task.problem, y) for y in every]
    truth = task.model.psi(task.problem, task.labels)
    b = np.array([task.loss_scale * task.loss.value(y) for y in every])
    return b, task.energy_scale * (truth - np.array(features))


@pytest.mark.parametrize(
    ("kind", "envelope", "loss"),
    [row[:3] for row in WRITTEN if row[3] == combinations.CERTIFIED],
)
def test_certified_is_the_optimum_of_all_labelings(kind, envelope, loss):
    problems, labels = combinations.world(kind)
    pool = Pool(
        problems, labels, combinations.LOSSES[loss], model=combinations.model(kind, envelope)
    )
    every = [all_planes(task) for task in pool.images]
    rows, least = pool.layout.constraints(problems[0])
    wanted, _ = tiny_problems.full_optimum(every, 0.5, rows, least)
    for learner in LEARNERS:
        r = combinations.train(kind, loss, learner, envelope)
        assert r.converged
        assert r.objective == pytest.approx(wanted, rel=1e-4)
        assert r.lower_bound <= wanted * (1 + 1e-8)
