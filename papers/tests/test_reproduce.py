"""`cutlearn reproduce`: what it refuses, what it leaves out, what it prints."""

import json

import pytest
from click.testing import CliRunner

from cutlearn.app.cli import main
from cutlearn_papers import papers
from cutlearn_papers.course import Claim


def told(*arguments):
    return CliRunner().invoke(main, ["reproduce", *map(str, arguments)])


@pytest.fixture
def ran(monkeypatch):
    """Papers that tell which of them ran, and ask for their data as the real ones do."""
    names = []

    def paper(name, data):
        def run(course):
            for folder in data:
                course.folder(folder)
            names.append((name, course.scale))
            return course.finish([], [Claim.of("so", "1", "2", True, "none")], {"done": 1})

        return run

    for name, known in papers.PAPERS.items():
        monkeypatch.setitem(papers.PAPERS, name, _Paper(known, paper(name, known.data)))
    return names


class _Paper:
    def __init__(self, known, run):
        self.title, self.about, self.run = known.title, known.about, run


def test_an_unknown_paper_is_refused(tmp_path):
    assert told("gould2012", "-o", tmp_path).exit_code == 2


def test_a_missing_data_folder_is_refused(tmp_path):
    done = told("gould2011", "--data", tmp_path / "none", "-o", tmp_path)
    assert done.exit_code == 2
    assert "no such folder" in done.stderr


def test_data_are_asked_for(tmp_path):
    done = told("tarlow2012", "-o", tmp_path)
    assert done.exit_code == 2
    assert "--data DIR" in done.stderr


def test_all_papers_without_data_leave_out_those_that_need_them(tmp_path, ran):
    done = told("all", "-o", tmp_path, "--json")
    assert done.exit_code == 0, done.output
    assert ran == [("gould2011", "full")]
    assert sorted(json.loads(done.stdout)) == ["gould2011", "seconds"]
    for name in ("antoniuk2012", "pletscher2012", "tarlow2012", "yang2014", "beyond"):
        assert f"{name} is left out: data is missing" in done.stderr
    text = (tmp_path / "README.md").read_text()
    assert "| yang2014: max-margin Boltzmann machines | not run |" in text


def test_a_brief_run_is_marked_and_one_paper_writes_the_claims_too(tmp_path, ran):
    done = told("gould2011", "-o", tmp_path, "--scale", "brief")
    assert done.exit_code == 0, done.output
    assert ran == [("gould2011", "brief")]
    assert "Reduced" in (tmp_path / "gould2011.md").read_text()
    assert "| so | 1 | 2 *(brief)* | confirmed |" in (tmp_path / "README.md").read_text()


def test_quick_needs_no_data_and_runs_all(tmp_path, ran):
    done = told("all", "-o", tmp_path, "--quick")
    assert done.exit_code == 0, done.output
    assert ran == [(name, "quick") for name in papers.PAPERS]
    assert "every claim in one table" in done.output
