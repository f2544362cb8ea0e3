"""The report and the page of images to annotate next."""

import doctest
import math
import re
from html.parser import HTMLParser
from types import SimpleNamespace

import numpy as np
import pytest

import cutlearn as cl
from cutlearn.errors import InputError
from cutlearn.images import cells
from cutlearn.images.write import colors_of
from cutlearn.metrics import beliefs, confusion
from cutlearn.model.ranking import Ranked, Window
from cutlearn.report.displays import labels_over, new_axes
from cutlearn.report.evaluate import evaluate, evaluation_of, figures_of_labels
from cutlearn.report.page import Chart, Subject, charts, gallery, page, register_chart
from cutlearn.report.page.gallery import Gallery, shown_of
from cutlearn.report.page.html import MOST_SIDE
from cutlearn.report.page.pages import FRAME, Candidate, _named, candidate_panels, framed, next_page


@pytest.fixture
def own_charts(monkeypatch):
    monkeypatch.setattr(charts, "CHARTS", {})


FIGURES = evaluate(["a"], [[[0, 1]]], [[[0, 1]]])
MODEL = SimpleNamespace(card_={})


def blank(subject):
    return new_axes((1, 1)).figure


def test_only_charts_that_apply_are_drawn(own_charts):
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


def test_a_wide_chart_has_a_heading_and_words_that_are_no_markup(own_charts):
    register_chart(Chart("<b>wide</b>", "below it", blank, wide=True))
    made = page("title", MODEL, FIGURES, [])
    assert "<h2>&lt;b&gt;wide&lt;/b&gt;</h2>" in made
    assert made.count("data:image/png") == 1
    assert charts.charts(Subject(MODEL, FIGURES, (), ())) == []


def test_a_name_is_used_once(own_charts):
    register_chart(Chart("mine", "", blank))
    with pytest.raises(InputError, match="another name"):
        register_chart(Chart("mine", "", blank))


def chosen(ious):
    """The places of the images that are shown, and how many were kept at most, and made."""
    found, made, most = Gallery(), [], 0
    for i, iou in enumerate(ious):
        found.add(iou, lambda i=i: made.append(i) or i)
        most = max(most, len(found.kept))
    return found.shown(), most, len(made)


def test_images_are_shown_from_the_worst_to_the_best(monkeypatch):
    ious = [0.7, 0.1, math.nan, 0.4, 1.0, 0.2]
    assert chosen(ious)[0] == [1, 5, 3, 0, 4]
    monkeypatch.setattr(gallery, "MOST_SHOWN", 3)
    assert chosen(ious)[0] == [1, 3, 4]
    assert chosen([math.nan])[0] == []
    assert chosen([0.5])[0] == [0]


@pytest.mark.parametrize("order", ["drawn", "rising", "falling", "equal"])
def test_of_many_images_few_are_kept_and_they_are_spread(order):
    rng = np.random.default_rng(0)
    ious = {"drawn": rng.random(1000), "rising": np.arange(1000) / 1000,
            "falling": -np.arange(1000) / 1000, "equal": np.full(1000, 0.5)}[order]  # fmt: skip
    shown, most, made = chosen(ious.tolist())
    assert most <= gallery.MOST_KEPT + 2
    if order == "drawn":
        assert made < 200
    rank = np.argsort(np.argsort(ious, kind="stable"), kind="stable")
    if order != "equal":
        assert [rank[shown[0]], rank[shown[-1]]] == [0, 999]
    assert np.abs(rank[shown] - np.linspace(0, 999, 6)).max() < 200


def test_an_image_is_kept_as_it_is_drawn():
    rng = np.random.default_rng(1)
    shape = (2 * MOST_SIDE, 30)
    image, q = rng.random((*shape, 3)).astype(np.float32), rng.dirichlet([1, 1, 1], shape)
    truth, mask = rng.integers(0, 3, (2, *shape)).astype(np.uint8)
    seen = shown_of("a", image, truth, mask, q, label=2)
    assert np.array_equal(seen.image, image[::2, ::2])
    assert np.array_equal(seen.mask, mask[::2, ::2] == 2)
    assert np.array_equal(seen.belief, q[::2, ::2, 2].astype(np.float32))
    assert all(array.base is None for array in (seen.image, seen.truth, seen.mask, seen.belief))
    p = q[..., 2]
    bits = -(p * np.log2(p) + (1 - p) * np.log2(1 - p)).mean()
    assert seen.bits == pytest.approx(bits, rel=1e-5)
    assert f"area {(mask == 2).sum()} of {(truth == 2).sum()} pixels" in seen.verdict


def test_examples_of_the_docstrings():
    assert doctest.testmod(gallery).failed == 0


class Reader(HTMLParser):
    """What a browser would find: the addresses of pictures and the words."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.pictures, self.words = [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        if tag == "img":
            self.pictures.append(dict(attrs)["src"])

    def handle_data(self, data):
        self.words.append(data)


@pytest.fixture(scope="module")
def judged():
    """A small model, its figures on four images, and what it says of them."""
    worlds = [cells(seed, (32, 48)) for seed in range(7)]
    model = cl.Segmenter(features="linear", C=100.0, tol=0.05, n_jobs=1)
    model.fit([w.image for w in worlds[:3]], [w.labels for w in worlds[:3]])
    images, truths = [w.image for w in worlds[3:]], [w.labels for w in worlds[3:]]
    masks, maps = model.predict(images), model.predict_proba(images)
    names = ["a", "b", "<script>c", "d"]
    believed = [beliefs(t, q) for t, q in zip(truths, maps)]
    figures = evaluation_of(names, [confusion(t, m) for t, m in zip(truths, masks)], 1, believed)
    shown = [shown_of(*parts) for parts in zip(names, images, truths, masks, maps)]
    return model, figures, shown, believed


def test_the_page_holds_every_picture_and_figure_itself(judged):
    model, figures, shown, believed = judged
    found = Reader(page("my model", model, figures, shown, believed))
    assert len(found.pictures) == 4 * len(shown) + 4
    assert all(re.match(r"data:image/(jpeg|svg\+xml);base64,[\w/]", src) for src in found.pictures)
    words = " ".join(found.words)
    assert f"{100 * figures.iou.value:.1f} %" in words
    assert f"{100 * figures.calibration_error.value:.1f} %" in words
    for image in figures.images:
        assert f"{100 * image.iou:.1f} %" in words
    assert "node bias" in words
    assert "link" not in found.tags


def test_names_are_words_and_never_markup(judged):
    model, figures, shown, believed = judged
    found = Reader(page("<b>my</b>", model, figures, shown, believed))
    assert "script" not in found.tags
    assert "b" not in found.tags[: found.tags.index("section")]
    assert "<script>c" in found.words


def test_a_model_without_probabilities_has_a_page_too(judged):
    model, figures, shown, _ = judged
    bare = [shown_of(s.name, s.image, s.truth, s.mask) for s in shown[:2]]
    found = Reader(page("plain", model, figures, bare))
    assert len(found.pictures) == 2 * len(bare) + 2


def test_a_machine_shows_its_shapes():
    worlds = [cells(seed, (32, 48)) for seed in range(3)]
    images, truths = [w.image for w in worlds], [w.labels for w in worlds]
    model = cl.BoltzmannSegmenter(
        shape=(12, 16), hidden=(16, 8), words=(32, 16), epochs=(20, 20), refine=False, n_jobs=1
    ).fit(images, truths)
    masks = model.predict(images)
    figures = evaluation_of("abc", [confusion(t, m) for t, m in zip(truths, masks)])
    shown = [shown_of(*parts) for parts in zip("abc", images, truths, masks)]
    found = Reader(page("shapes", model, figures, shown))
    assert len(found.pictures) == 2 * 3 + 1 + 1
    assert sum(src.startswith("data:image/png") for src in found.pictures) == 1


def test_several_labels_are_all_shown_by_name_and_colour(judged):
    model, figures, _, believed = judged
    truth = np.array([[0, 1, 2, 255]] * 2, np.uint8)
    image, mask = np.zeros((2, 4)), np.array([[0, 2, 2, 1]] * 2, np.uint8)
    shown = [shown_of("e", image, truth, mask, None, 2, 3)]
    assert [part.tolist() for part in shown[0].labels] == [truth.tolist(), mask.tolist()]
    rows = figures_of_labels(confusion(truth, mask, 3), ["cow", "grass", "sky"])
    text = page("m", model, figures, shown, believed, labels=rows, judged=2)
    words = " ".join(Reader(text).words)
    for part in ("true labels", "labels found", "mask of sky", "of the label sky against"):
        assert part in words
    assert text.count("rgb(86, 180, 233)") == 2, "in the table and in the legend"


def test_labels_are_painted_and_void_is_grey():
    painted = labels_over(np.zeros((1, 3, 3)), np.array([[0, 1, 255]]), [(255, 0, 0), (0, 0, 255)])
    assert painted[0, 0].argmax() == 0
    assert painted[0, 1].argmax() == 2
    assert len(set(painted[0, 2])) == 1


def test_weights_are_told_by_the_names_of_labels():
    names = ["cow", "grass", "sky"]
    for weight, wanted in {
        "label 0 node logit1 of 1": "cow node logit1 of grass",
        "label 2 border contrast": "sky border contrast",
        "table contrast 2 0": "table contrast sky cow",
        "own logit1": "own logit1",
    }.items():
        assert _named(weight, names) == wanted
    assert _named("label 0 node bias", []) == "label 0 node bias"


def test_colours_of_many_labels_differ():
    for values in (range(40), range(1, 40)):
        colors = colors_of(values)
        assert len(colors) == len(set(colors)) == len(values)
        assert ((0, 0, 0) in colors) == (values[0] == 0)


def test_a_frame_lies_on_the_border_of_its_window_and_nowhere_else():
    picture = np.zeros((40, 60, 3))
    framed(picture, Window(8, 24, 20, 40, 1.0), 2)
    painted = (picture == FRAME).all(axis=2)
    wanted = np.zeros((40, 60), bool)
    wanted[4:12, 10:20] = True
    wanted[5:11, 11:19] = False
    assert np.array_equal(painted, wanted)


def test_the_page_follows_the_order():
    order = [Ranked(2, 0.5, ()), Ranked(0, 0.25, ()), Ranked(1, 0.0, ())]
    image, q = np.zeros((8, 9)), np.full((8, 9, 2), 0.5)
    text = next_page("next", ["a<b", "second", "third"], order, [Candidate(image, q)] * 2)
    assert text.index("1. third") < text.index("2. a&lt;b")
    assert "3. second" not in text
    assert "75.0%" in text  # what the two settle together
    assert "50.00 %" in text
    assert text.count("data:image/jpeg") == 6


def test_a_model_without_probabilities_shows_the_image_alone():
    assert len(candidate_panels(Candidate(np.zeros((8, 9, 3)), None), ())) == 1
