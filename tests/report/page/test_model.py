import re
from html.parser import HTMLParser

import numpy as np
import pytest

import cutlearn as cl
from cutlearn.images import cells
from cutlearn.images.write import colors_of
from cutlearn.metrics import beliefs, confusion
from cutlearn.report.displays.overlay import labels_over
from cutlearn.report.evaluate import evaluation_of, figures_of_labels
from cutlearn.report.page import page
from cutlearn.report.page.gallery import shown_of
from cutlearn.report.page.model import _named


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
