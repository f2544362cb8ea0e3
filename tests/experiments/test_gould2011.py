"""The paper's claims on one board in each setting, and what the command leaves."""

import json

from click.testing import CliRunner

from cutlearn.app.cli import main
from cutlearn.experiments import gould2011


def test_boards_are_recovered_and_envelopes_lean_as_the_signal_does(tmp_path, monkeypatch):
    monkeypatch.setattr(gould2011, "SEEDS", 1)
    done = CliRunner().invoke(main, ["reproduce", "gould2011", "-o", str(tmp_path), "--json"])
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)["gould2011"]
    equal, strong = found["equal signals"], found["strong black"]
    assert equal["recovered"] == strong["recovered"] == 1
    assert equal["peak"][0] == 0.5
    assert abs(equal["tilt"][0]) < 0.15
    assert strong["peak"][0] < 0.5
    assert strong["tilt"][0] < -0.5
    assert strong["iterations"][0] >= strong["usual_iterations"][0]
    assert (tmp_path / "gould2011.png").read_bytes()[:4] == b"\x89PNG"
    assert "| iterations, paper | 48 | 43 |" in (tmp_path / "gould2011.md").read_text()


def test_an_unknown_paper_is_refused(tmp_path):
    done = CliRunner().invoke(main, ["reproduce", "gould2012", "-o", str(tmp_path)])
    assert done.exit_code == 2


def test_a_missing_data_folder_is_refused(tmp_path):
    missing = str(tmp_path / "none")
    arguments = ["reproduce", "gould2011", "--data", missing, "-o", str(tmp_path)]
    done = CliRunner().invoke(main, arguments)
    assert done.exit_code == 2
    assert "no such folder" in done.stderr
