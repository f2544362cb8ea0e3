"""Every paper in brief, run at most once."""

import warnings
from pathlib import Path

import pytest

from cutlearn_papers.course import Course
from cutlearn_papers.made import make_data
from cutlearn_papers.papers import PAPERS


@pytest.fixture(scope="session")
def made(tmp_path_factory):
    """The data sets that `--quick` makes."""
    return make_data(tmp_path_factory.mktemp("made"))


@pytest.fixture(scope="session")
def quick(made, tmp_path_factory):
    """Runs a paper in brief and gives what it told; `quick.folder` has its files."""
    folder, known = tmp_path_factory.mktemp("quick"), {}

    def run(name):
        if name not in known:
            course = Course(name, Path(folder), made, "quick", tell=lambda _: None)
            with warnings.catch_warnings():
                # Brief runs learn from fewer images than intervals of areas need.
                warnings.filterwarnings("ignore", "area: areas have no intervals")
                known[name] = PAPERS[name].run(course)
        return known[name]

    run.folder = folder
    return run
