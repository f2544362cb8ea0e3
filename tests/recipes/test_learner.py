"""Recipe: a learner of your own, here one that asks at the mean of the last two minima.

A master takes planes and gives the next weights; loop, checkpoints, bounds and stopping are there.
"""

import numpy as np
import pytest

import cutlearn as cl
from cutlearn.images import cells
from cutlearn.learn.bundle import Bundle
from cutlearn.learn.learners import LEARNERS, MarginLearner


class Averaging(Bundle):
    """The bundle master, half as bold: between this minimum of the model and the last one."""

    last = None

    def solve(self, best, target_gap, no_new_plane=False):
        w = super().solve(best, target_gap, no_new_plane)
        asked = w if no_new_plane or self.last is None else 0.5 * (w + self.last)
        self.last = w
        return asked


@pytest.fixture(autouse=True)
def registered(monkeypatch):
    mine = MarginLearner("averaging", "asks at the mean of two minima", master=lambda: Averaging)
    monkeypatch.setitem(LEARNERS, "averaging", mine)


def test_it_reaches_the_optimum_of_the_others_and_fits_a_segmenter(tmp_path):
    rng = np.random.default_rng(0)
    problems = [cl.Problem(rng.normal(size=(9, 2)), [[i, i + 1] for i in range(8)]) for _ in "abc"]
    labels = [(p.node_features[:, 0] > 0.3).astype(int) for p in problems]
    mine, others = (
        cl.train(problems, labels, learner=n, tol=1e-4) for n in ("averaging", "bundle")
    )
    assert mine.objective == pytest.approx(others.objective, rel=1e-3)
    worlds = [cells(seed, (32, 32)) for seed in range(3)]
    model = cl.Segmenter(learner="averaging", features="linear", C=10.0)
    model.fit([w.image for w in worlds], [w.labels for w in worlds]).save(tmp_path / "m")
    assert model.converged_
    assert cl.load(tmp_path / "m").learner == "averaging"
