"""The masters agree on a small world of three labels, and what the command leaves."""

import json

from click.testing import CliRunner

from cutlearn.app.cli import main
from cutlearn.experiments import antoniuk2012


def test_both_masters_reach_one_objective_and_only_accpm_goes_to_zero(tmp_path, monkeypatch):
    small = {"IMAGES": 3, "SHAPE": (24, 32), "SPLITS": 1, "MOST": 60, "LAMBDAS": (10.0, 0.1, 0.0)}
    for name, value in small.items():
        monkeypatch.setattr(antoniuk2012, name, value)
    done = CliRunner().invoke(main, ["reproduce", "antoniuk2012", "-o", str(tmp_path), "--json"])
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)["antoniuk2012"]
    runs = {(r["lambda"], r["learner"], r["rules"]): r for r in found["masters"]}
    assert len(runs) == 10
    assert {learner for lam, learner, _ in runs if lam == 0} == {"accpm"}
    for (lam, _, rules), r in runs.items():
        if lam > 0:
            assert r["converged"]
            assert r["objective"] - r["lower_bound"] <= 0.01 * r["objective"]
            assert rules == "train" or r["rounds"] > runs[lam, "accpm", "train"]["rounds"]
    assert max(found["disagreement"][lam] for lam in ("10", "0.1")) <= 0.01 / 0.99
    # Less regulariser, less risk and more freedom: objectives fall with lambda.
    best = [runs[lam, "accpm", "train"]["objective"] for lam in (10.0, 0.1, 0.0)]
    assert best == sorted(best, reverse=True)
    errors = found["errors"]["training"]
    assert errors["0.1"][0] < errors["10"][0]
    assert (tmp_path / "antoniuk2012.png").read_bytes()[:4] == b"\x89PNG"
    assert "| 0 |" in (tmp_path / "antoniuk2012.md").read_text()


def test_the_paper_s_rules_end_without_a_regulariser():
    """Its centres lie in a box of 1e7 here, and deep cuts go through it: many Newton steps."""
    world = antoniuk2012.world_of(3, (36, 48))
    race = antoniuk2012.by_the_paper(world.pool(), 0.0, "accpm")
    assert race.converged
    assert race.rounds[-1] < 200
    assert race.best[-1] - race.bound[-1] <= 0.01 * race.best[-1]
