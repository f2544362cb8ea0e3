"""All claims in one table."""

import json

import pytest

from cutlearn_papers.contents import CONTENTS
from cutlearn_papers.page import anchor, claims_page
from cutlearn_papers.papers import PAPERS


def test_claims_of_every_paper_in_one_file(quick):
    quick("gould2011")
    text = claims_page(quick.folder).read_text()
    assert "| The checkerboard is recovered perfectly |" in text
    assert "(gould2011.md)" in text
    assert "[confirmed](gould2011.md#the-checkerboard)" in text
    # The heading to which the verdict leads.
    assert "## The checkerboard" in (quick.folder / "gould2011.md").read_text()
    assert "| antoniuk2012: the analytic centre |" in text.replace("[", "").replace("]", " |")


@pytest.mark.parametrize("name", CONTENTS)
def test_every_table_of_a_paper_is_found_or_a_sentence_says_why_not(quick, name):
    quick(name)
    text, every = (quick.folder / f"{name}.md").read_text(), claims_page(quick.folder).read_text()
    for shown in CONTENTS[name]:
        assert shown.headings or shown.words
        assert f"| {shown.name} |" in every
        for heading in shown.headings:
            assert f"## {heading}\n" in text
            assert f"({name}.md#{anchor(heading)})" in every


def test_contents_are_told_of_all_papers():
    assert set(CONTENTS) == set(PAPERS) - {"beyond"}


def test_a_table_that_was_run_apart_takes_the_place_of_what_was_not_tested(tmp_path):
    def run(paper, claims, scale="full"):
        told = [
            {"text": t, "paper": "", "ours": "1", "verdict": v, "table": "A"} for t, v in claims
        ]
        about = {"scale": scale, "cpu_seconds": 60.0, "claims": told}
        (tmp_path / f"{paper}.json").write_text(json.dumps(about))

    no = "not testable here"
    run("yang2014", [("horses: good", "confirmed"), ("people: all", no), ("birds: all", no)])
    run("yang2014-people", [("horses: all", no), ("people: good", "not confirmed")], "brief")
    text = claims_page(tmp_path).read_text()
    assert "| horses: good |  | 1 | [confirmed](yang2014.md#a) |" in text
    assert "| people: good |  | 1 *(brief)* | [not confirmed](yang2014-people.md#a) |" in text
    assert "people: all" not in text
    assert "horses: all" not in text
    assert "| birds: all |" in text
    assert "| full | 1 | 1 | 1 | 2:00 |" in text
