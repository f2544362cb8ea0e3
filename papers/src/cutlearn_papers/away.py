"""Parts of an experiment on a cluster: only their names travel.

A worker runs the paper's own function with a course that knows the tables before, runs the one part
that is asked for, and stops there. So the works of a paper need not travel, and each worker
reads the data set itself, which must be in the same folder everywhere.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from cutlearn_papers.course import Course, Figures, timed
from cutlearn_papers.papers import PAPERS


class Asked(NamedTuple):
    """Which experiment, and what is known of it so far: parts by table and name."""

    paper: str
    data: str | None
    scale: str
    before: dict[str, dict[str, Figures]]


# The figures of a part, and the pictures that it drew.
Made = tuple[Figures, dict[str, bytes]]


class _Found(Exception):
    """The part that was asked for is done."""

    def __init__(self, part: Figures) -> None:
        super().__init__()
        self.part = part


class _OnePart(Course):
    """A course that ends with one part of one table."""

    asked: Asked
    table: str
    name: str

    def parts(
        self,
        table: str,
        works: Mapping[str, Callable[[], Figures]],
        fewer: bool = False,
        /,
        **settings: Any,
    ) -> dict[str, Figures]:
        if table != self.table:
            return self.asked.before[table]
        self.files.clear()  # pictures of tables before are there already
        raise _Found(timed(works[self.name]))


def run_part(asked: Asked, item: tuple[str, str]) -> Made:
    """Run one part of a table."""
    with tempfile.TemporaryDirectory() as made:
        data = asked.data
        if asked.scale == "quick":
            from cutlearn_papers.made import make_data

            data = str(make_data(Path(made) / "data"))
        course = _OnePart(
            asked.paper, Path(made) / "out", None if data is None else Path(data), asked.scale,
            lambda _: None,
        )  # fmt: skip
        course.asked = asked
        course.table, course.name = item
        try:
            PAPERS[asked.paper].run(course)
        except _Found as found:
            return found.part, {path.name: path.read_bytes() for path in course.files}
    raise AssertionError(f"{asked.paper} has no part {item}")
