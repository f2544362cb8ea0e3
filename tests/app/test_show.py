"""`cutlearn show` tells what was asked for and what came of it."""

import json

import pytest
from click.testing import CliRunner

import cutlearn as cl
from cutlearn.app.cli import main
from cutlearn.images import cells
from cutlearn.model.base import BLANK

WORLDS = [cells(seed, (32, 32)) for seed in range(3)]


@pytest.mark.parametrize("asked", ["auto", 30.0])
def test_the_C_that_was_asked_for_and_the_one_that_was_chosen(asked, tmp_path):
    model = cl.Segmenter(features="linear", C=asked, tol=0.1, n_jobs=1)
    model.fit([w.image for w in WORLDS], [w.labels for w in WORLDS]).save(tmp_path / "m")
    lines = CliRunner().invoke(main, ["show", str(tmp_path / "m")]).stdout.splitlines()
    chosen = f" (chosen: {model.C_:.4g})" if asked == "auto" else ""
    assert [line for line in lines if line.startswith("C:")] == [
        f"C: {'auto' if asked == 'auto' else '30'}{chosen}"
    ]
    said = json.loads(CliRunner().invoke(main, ["show", str(tmp_path / "m"), "--json"]).stdout)
    assert said["settings"]["C"] == asked
    assert said["fitted"]["C"] == model.C_


def test_blanks_of_the_card_are_not_printed(tmp_path):
    model = cl.Segmenter(features="linear", C=30.0, tol=0.1, n_jobs=1)
    model.fit([w.image for w in WORLDS], [w.labels for w in WORLDS])
    model.card_["licence"] = "CC-BY"
    model.save(tmp_path / "m")
    assert BLANK in model.card_.values()
    for options in ([], ["--json"]):
        said = CliRunner().invoke(main, ["show", str(tmp_path / "m"), *options]).stdout
        assert BLANK not in said
        assert "intended" not in said
        assert "CC-BY" in said
        assert "share" in said
