"""Parts are run once and kept; what an experiment leaves."""

import json
from pathlib import Path

import numpy as np
import pytest

import cutlearn as cl
from cutlearn_papers.course import Claim, Course, Section


@pytest.fixture
def told():
    return []


@pytest.fixture
def course(tmp_path, told):
    return lambda **more: Course("gould2011", tmp_path / "out", tell=told.append, **more)


def parts_of(course, ran, **settings):
    def work(name):
        def run():
            ran.append(name)
            return {"name": name, "nan": float("nan"), "array": np.arange(3.0)}

        return run

    return course.parts("table", {name: work(name) for name in ("a", "b")}, **settings)


def test_a_part_is_run_once_for_its_settings(course):
    ran = []
    first = parts_of(course(), ran, size=1)
    again = parts_of(course(), ran, size=1)
    assert ran == ["a", "b"]
    assert again["a"]["name"] == "a"
    assert again["a"]["nan"] is None
    assert np.array_equal(again["a"]["array"], first["a"]["array"])
    assert again["b"]["cpu_seconds"] == first["b"]["cpu_seconds"]
    parts_of(course(), ran, size=2)
    parts_of(course(scale="brief"), ran, size=1)
    parts_of(course(scale="quick"), ran, size=1)
    assert ran == ["a", "b"] * 3
    parts_of(course(restart=True), ran, size=1)
    assert ran == ["a", "b"] * 4


def test_parts_are_kept_however_the_folder_of_the_data_is_spelled(course, tmp_path, monkeypatch):
    (tmp_path / "data").mkdir()
    monkeypatch.chdir(tmp_path)
    ran = []
    parts_of(course(data=tmp_path / "data"), ran)
    parts_of(course(data=Path("data")), ran)
    assert ran == ["a", "b"]


def test_an_interrupted_table_goes_on_where_it_was(course):
    def stop():
        raise KeyboardInterrupt

    ran = []
    works = {"a": lambda: ran.append("a") or {"x": 1}, "b": stop}
    with pytest.raises(KeyboardInterrupt):
        course().parts("table", works)
    works["b"] = lambda: ran.append("b") or {"x": 2}
    assert [part["x"] for part in course().parts("table", works).values()] == [1, 2]
    assert ran == ["a", "b"]


def test_kept_parts_alone_make_a_table_that_can_do_with_fewer(course):
    ran = []
    works = {name: lambda name=name: ran.append(name) or {"x": name} for name in ("a", "b")}
    course().parts("table", {"a": works["a"]})
    some = course(kept_only=True)
    assert some.parts("table", works, True).keys() == {"a"}
    assert some.finish([], [], {})["unfinished"]
    assert "Unfinished" in (some.output / "gould2011.md").read_text()
    assert course(kept_only=True).parts("other", works, True) == {}
    with pytest.raises(cl.InputError, match="1 of 2 parts are not finished"):
        course(kept_only=True).parts("table", works)
    assert ran == ["a"]


def test_a_damaged_part_is_run_again(course):
    ran = []
    parts_of(course(), ran)
    for path in course().kept.rglob("*.safetensors"):
        path.write_bytes(path.read_bytes()[:-5] + b"wrong")
    parts_of(course(), ran)
    assert ran == ["a", "b"] * 2


def test_a_quick_table_of_many_parts_is_no_flood(course, told):
    course().parts("table", {str(k): lambda: {"x": 1} for k in range(50)})
    assert len(told) == 1


def test_missing_data_are_named(course, tmp_path):
    with pytest.raises(cl.InputError, match="holds grabcut with --data DIR"):
        course().folder("grabcut")
    with pytest.raises(cl.InputError, match="has no folder grabcut"):
        course(data=tmp_path).folder("grabcut")


def test_tables_figures_and_page_are_left(course, tmp_path):
    from matplotlib.figure import Figure

    done = course()
    section = Section("A <table>", ["x"], [["1 & 2"]], "words", [done.picture("p", Figure())])
    claims = [Claim.of("it holds", "1", "2", True, "A <table>"),
              Claim("birds", "3", "no data", "not testable here", "none")]  # fmt: skip
    told = done.finish([section], claims, {"n": np.float32(2), "a": np.array([1.0, np.inf])})
    out = tmp_path / "out"
    kept = json.loads((out / "gould2011.json").read_text())
    assert kept["figures"] == {"n": 2.0, "a": [1.0, None]}
    assert kept["claims"][0]["verdict"] == told["claims"][0]["verdict"] == "confirmed"
    text = (out / "gould2011.md").read_text()
    assert "| 1 & 2 |" in text
    assert "](gould2011-p.png)" in text
    page = (out / "gould2011.html").read_text()
    assert "A &lt;table&gt;" in page
    assert "data:image/png;base64" in page
    assert "http" not in page.split("</style>")[1]
    assert {path.suffix for path in done.files} == {".png", ".md", ".json", ".html"}


def test_a_claim_has_one_of_three_verdicts():
    with pytest.raises(ValueError, match="verdict"):
        Claim("it", "1", "2", "perhaps", "t")
