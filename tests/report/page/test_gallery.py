"""The images of a report: even steps from the worst to the best, few of them in memory."""

import doctest
import math

import numpy as np
import pytest

from cutlearn.report.page import gallery
from cutlearn.report.page.gallery import Gallery, shown_of
from cutlearn.report.page.panels import MOST_SIDE


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
