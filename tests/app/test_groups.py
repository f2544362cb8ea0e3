"""--groups: from a table or a pattern, refused in words, and held out together in a fit."""

import inspect
import json

import numpy as np
import pytest
from click.testing import CliRunner
from PIL import Image

import cutlearn as cl
from cutlearn.app.cli import main
from cutlearn.app.groups import groups_of
from cutlearn.images import cells

NAMES = ["fish1_a", "fish1_b", "fish2_a", "fish2_b"]


@pytest.mark.parametrize("text", [
    "fish1_a,one\nfish1_b,one\nfish2_a,two\nfish2_b,two\n",
    "\ufeffName,Group\nfish2_a.png, two\nfish2_b.png, two\n\nfish1_a.ome.tif,one\nfish1_b,one",
])  # fmt: skip
def test_a_table_tells_the_group_of_every_name(tmp_path, text):
    path = tmp_path / "groups.CSV"
    path.write_text(text, encoding="utf-8")
    assert groups_of(NAMES, str(path)) == ["one", "one", "two", "two"]


def test_a_pattern_tells_the_group_of_every_name():
    assert groups_of(NAMES, "^(fish[0-9]+)_") == ["fish1", "fish1", "fish2", "fish2"]
    assert groups_of(NAMES, "_(.)") == ["a", "b", "a", "b"]


@pytest.mark.parametrize(("given", "words"), [
    ("(", "not a regular expression"),
    ("fish", "has 0 groups in parentheses"),
    ("(f)(i)", "has 2 groups in parentheses"),
    ("^(fish1)", r"do not match: fish2_a, fish2_b\. Write a pattern"),
    ("missing.csv", "missing.csv cannot be read"),
])  # fmt: skip
def test_what_cannot_be_used_is_refused(given, words):
    with pytest.raises(cl.InputError, match=words):
        groups_of(NAMES, given)


@pytest.mark.parametrize(("text", "words"), [
    ("fish1_a,one\n", "have no row: fish1_b, fish2_a, fish2_b"),
    ("fish1_a\n", "line 1 of .* name,group"),
    ("a,b,c\n", "line 1 of"),
    ("fish1_a,\n", "line 1 of"),
])  # fmt: skip
def test_a_table_that_lacks_something_is_refused(tmp_path, text, words):
    (tmp_path / "g.csv").write_text(text)
    with pytest.raises(cl.InputError, match=words):
        groups_of(NAMES, str(tmp_path / "g.csv"))


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    root = tmp_path_factory.mktemp("fish")
    for folder in ("images", "masks"):
        (root / folder).mkdir()
    for k, name in enumerate(NAMES):
        world = cells(k, (32, 40))
        Image.fromarray(np.uint8(255 * world.image)).save(root / "images" / f"{name}.png")
        Image.fromarray(255 * world.labels).save(root / "masks" / f"{name}.png")
    return str(root / "images"), str(root / "masks")


def run(*words):
    return CliRunner().invoke(main, [str(word) for word in words])


def test_fit_holds_groups_out_together(folders, tmp_path):
    for given, count in (((), 4), (("--groups", "^(fish[0-9]+)_"), 2)):
        asked = [
            "fit",
            *folders,
            "-o",
            tmp_path / "m",
            "--features",
            "linear",
            "--C",
            "10",
            "--force",
            *given,
        ]
        said = run(*asked)
        assert said.exit_code == 0, said.output
        assert cl.load(tmp_path / "m").calibration_.n_groups == count


def test_fit_of_shapes(folders, tmp_path, monkeypatch):
    small = {"shape": (8, 8), "hidden": (8, 8), "words": (8, 8), "epochs": (5, 5), "cycles": 2}
    monkeypatch.setattr(cl.BoltzmannSegmenter.__init__, "__defaults__", tuple(
        small.get(name, one.default)
        for name, one in inspect.signature(cl.BoltzmannSegmenter).parameters.items()
    ))  # fmt: skip
    asked = ["fit", *folders, "-o", tmp_path / "m", "--model", "shape", "--json", "--force"]
    said = run(*asked, "--groups", "^(fish[0-9]+)_")
    assert said.exit_code == 0, said.output
    told = json.loads(said.stdout)
    assert told["cycles"] == 2
    assert "learner" not in told
    assert [path.name for path in tmp_path.iterdir()] == ["m"]
    model = cl.load(tmp_path / "m")
    assert isinstance(model, cl.BoltzmannSegmenter)
    assert model.calibration_.n_groups == 2
    refused = run(*asked, "--learner", "accpm")
    assert refused.exit_code == 2
    assert "--learner has no effect with --model shape" in refused.stderr
