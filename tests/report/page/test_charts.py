"""The registry of charts: asked by the page, one name each, wide ones in a section of their own."""

from types import SimpleNamespace

import pytest

from cutlearn.errors import InputError
from cutlearn.report.displays.style import new_axes
from cutlearn.report.evaluate import evaluate
from cutlearn.report.page import Chart, Subject, charts, page, register_chart


@pytest.fixture(autouse=True)
def own_charts(monkeypatch):
    monkeypatch.setattr(charts, "CHARTS", {})


FIGURES = evaluate(["a"], [[[0, 1]]], [[[0, 1]]])
MODEL = SimpleNamespace(card_={})


def blank(subject):
    return new_axes((1, 1)).figure


def test_only_charts_that_apply_are_drawn():
    asked = []

    def never(subject):
        asked.append(subject)
        return False

    register_chart(Chart("shown", "words of one", blank))
    register_chart(Chart("hidden", "words of another", blank, never))
    made = page("title", MODEL, FIGURES, [])
    assert "words of one" in made
    assert "words of another" not in made
    assert {subject.figures for subject in asked} == {FIGURES}


def test_a_wide_chart_has_a_heading_and_words_that_are_no_markup():
    register_chart(Chart("<b>wide</b>", "below it", blank, wide=True))
    made = page("title", MODEL, FIGURES, [])
    assert "<h2>&lt;b&gt;wide&lt;/b&gt;</h2>" in made
    assert made.count("data:image/png") == 1
    assert charts.charts(Subject(MODEL, FIGURES, (), ())) == []


def test_a_name_is_used_once():
    register_chart(Chart("mine", "", blank))
    with pytest.raises(InputError, match="another name"):
        register_chart(Chart("mine", "", blank))
