"""Parts of an experiment on a cluster: the same numbers as on one thread."""

from functools import partial

import pytest

from clusters import Processes
from cutlearn.run import cluster as remote
from cutlearn.run.executor import ONE_THREAD, executor_of
from cutlearn_papers.course import Course
from cutlearn_papers.gould2011 import board

pytest.importorskip("distributed", reason="the extra `cluster` is not installed")


@pytest.fixture
def cluster(tmp_path):
    processes = Processes(tmp_path)
    processes.heal()
    place = executor_of(processes.address)
    place.client.wait_for_workers(2, timeout=60)
    yield place
    remote.leave_clusters()
    processes.end()


def test_parts_of_a_paper_travel_by_their_names(tmp_path, cluster):
    found = {}
    for name, place in (("here", ONE_THREAD), ("away", cluster)):
        course = Course("gould2011", tmp_path / name, None, "quick", lambda _: None, place=place)
        works = {"strong black, board 1": partial(board, "strong black", 1)}
        (found[name],) = course.parts("checkerboard", works).values()
    here, away = (
        {key: value for key, value in part.items() if "seconds" not in key}
        for part in found.values()
    )
    assert here == away
    assert len(here) > 3
