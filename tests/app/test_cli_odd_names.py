"""File names that are no text, that a spreadsheet would run, or that would steer a terminal."""

import csv
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from cutlearn.app.cli import main
from cutlearn.app.products import text_cell
from cutlearn.images import cells, write_mask, write_probability
from hostile_models import changed

FAST = ["--features", "linear", "--C", "10", "--tol", "0.05", "--jobs", "1"]
ODD = ["=1+1", "+a", "-b", "@c", "caf\udce9", "tab\there", "two\nlines", "red\x1b[31m", "a\u202eb"]
CODE = "from cutlearn.app.cli import main; main()"

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="names are text on other systems")


def run(*args):
    done = CliRunner().invoke(main, [str(a) for a in args])
    assert done.exit_code == 0, done.stderr
    return done


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    root = tmp_path_factory.mktemp("mod\udcffels")
    for kind in ("images", "masks"):
        (root / kind).mkdir()
    for i, name in enumerate(ODD):
        made = cells(i, (32, 36))
        write_probability(root / "images" / f"{name}.png", made.image)
        write_mask(root / "masks" / f"{name}.png", made.labels, 255)
    (root / "images" / "stranger\x1b[2J").write_bytes(b"")
    model = root / "m\udcee.model"
    done = run("fit", root / "images", root / "masks", "-o", model, *FAST)
    assert is_plain(done)
    return root, root / "images", root / "masks", model


def is_plain(done):
    """Nothing but text, line by line."""
    said = (done.stdout + done.stderr).splitlines()
    return all(line.isprintable() for line in said) and said


def test_predict_with_areas(world):
    root, images, _, model = world
    table = root / "areas.csv"
    done = run("predict", model, images, "-o", root / "out", "--probability", "--areas", table)
    assert is_plain(done)
    for folder in ("out", "out/probability"):
        assert {p.name for p in (root / folder).glob("*.png")} == {f"{n}.png" for n in ODD}
    with table.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["name"] for row in rows] == [text_cell(name) for name in sorted(ODD)]
    assert not any(row["name"][0] in "=+-@\t\r" for row in rows)
    assert all(float(row["low"]) <= float(row["expected_pixels"]) for row in rows)


def test_evaluate_with_a_report(world):
    root, images, masks, model = world
    done = run("evaluate", model, images, masks, "--report", root / "page\udce9.html")
    assert is_plain(done)
    page = (root / "page\udce9.html").read_text(encoding="utf-8")
    for told in ("caf\\xe9", "red\\x1b[31m", "tab\\x09here", "m\\xee.model"):
        assert told in page
        assert told in done.stdout or "model" in told
    assert "\x1b" not in page


@pytest.fixture(scope="module")
def others(world):
    """Images of the same names that have no masks."""
    folder = world[0] / "others"
    folder.mkdir()
    for i, name in enumerate(ODD):
        write_probability(folder / f"{name}.png", cells(50 + i, (32, 36)).image)
    return folder


def test_rank_with_a_page(world, others):
    root, _, _, model = world
    done = run("rank", model, others, "-o", root / "next.html")
    assert is_plain(done)
    assert "caf\\xe9" in done.stdout
    assert "caf\\xe9" in (root / "next.html").read_text(encoding="utf-8")


def test_json_keeps_every_byte_of_a_name(world, others):
    root, images, masks, model = world
    for args in (["predict", model, images, "-o", root / "out"], ["evaluate", model, images, masks],
                 ["rank", model, others]):  # fmt: skip
        done = run(*args, "--json")
        assert done.stdout.isascii()
        assert {part["name"] for part in json.loads(done.stdout)["images"]} == set(ODD)
    assert json.loads(run("show", model, "--json").stdout)["model"] == str(model)


@pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
def test_a_stream_of_any_encoding_takes_every_name(world, encoding):
    root, images, masks, model = world
    done = subprocess.run(
        [sys.executable, "-c", CODE, "evaluate", *map(os.fsencode, (model, images, masks))],
        capture_output=True, env={**os.environ, "PYTHONIOENCODING": encoding},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    text = done.stdout.decode(encoding)
    assert "caf\\xe9" in text
    done = subprocess.run(
        [sys.executable, "-c", CODE, "show", os.fsencode(root / "nor\udce9")],
        capture_output=True, env={**os.environ, "PYTHONIOENCODING": encoding},
    )  # fmt: skip
    assert done.returncode == 2
    assert b"nor\\xe9: there is no such file" in done.stderr


def test_cells_of_a_table_can_be_read_back():
    names = [*ODD, "plain", "'quoted", "back\\xe9", "back\\", "", "ä"]
    written = [text_cell(name) for name in names]
    assert len(set(written)) == len(names)
    assert text_cell("plain") == "plain"
    assert text_cell("=1+1") == "'=1+1"
    assert text_cell("caf\udce9") == "caf\\xe9"
    assert text_cell("back\\xe9") == "back\\\\xe9"


def test_problems_of_odd_names_are_told_on_one_line_each(tmp_path):
    for kind in ("images", "masks"):
        (tmp_path / kind).mkdir()
    for name in ("two\nlines.png", "red\x1b[31m.png"):
        Path(tmp_path, "images", name).write_bytes(b"no image")
        Path(tmp_path, "masks", name).write_bytes(b"no image")
    done = CliRunner().invoke(
        main, ["fit", str(tmp_path / "images"), str(tmp_path / "masks"), "-o", str(tmp_path / "m")]
    )
    assert done.exit_code == 2
    assert "two\\x0alines.png: this is not an image" in done.stderr
    assert "red\\x1b[31m.png: this is not an image" in done.stderr
    assert is_plain(done)


def test_what_a_model_says_of_itself_cannot_steer_a_terminal(world, tmp_path):
    *_, model = world
    wicked = tmp_path / "wicked.model"

    def change(header, arrays):
        header["card"]["intended_use"] = "\x1b]0;owned\x07 \x9b2J all of it\nnext line" + "x" * 9000
        header["card"]["\x1b[31m"] = ["\u202e", {"\x07": 1}]
        header["parameters"]["loss"] = "\x1b[31mhamming"

    changed(model, wicked, change)
    done = run("show", wicked)
    assert is_plain(done)
    assert max(map(len, done.stdout.splitlines())) < 700
    assert "\\x1b]0;owned\\x07" in done.stdout
    assert json.loads(run("show", wicked, "--json").stdout)["card"]["\x1b[31m"][0] == "\u202e"
