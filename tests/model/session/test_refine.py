"""`cl.refine`: logits of any scale, two labels and several, errors in words."""

import warnings

import numpy as np
import pytest
from scipy.special import softmax

import cutlearn as cl
from cutlearn.errors import InputWarning
from cutlearn.features.mixtures import palette
from cutlearn.model.session.refine import columns


def stripes(labels=2, seed=0):
    """An image of stripes in different colours, and noisy scores of them."""
    rng = np.random.default_rng(seed)
    truth = np.repeat(np.arange(labels), 24)[None].repeat(40, axis=0)
    colors = np.array([(0.7, 0.3, 0.2), (0.2, 0.6, 0.3), (0.2, 0.3, 0.8)])[truth]
    image = np.clip(colors + rng.normal(0, 0.05, colors.shape), 0, 1)
    scores = np.eye(labels)[truth] * 2 + rng.normal(0, 1.2, (*truth.shape, labels))
    return image, truth, scores


def test_the_unit_of_intensities_does_not_matter():
    image, truth, _ = stripes()
    bright = np.rint(255 * image).astype(np.uint8)
    # So little is known that the colours decide.
    logits = 2 * truth - 1 + np.random.default_rng(0).normal(0, 6, truth.shape)
    found = cl.refine(logits, bright)
    assert (found != truth).mean() < 0.05
    for given in (bright.astype(np.uint16) * 15, bright / 1e6):
        assert (found != cl.refine(logits, given)).mean() < 0.002


@pytest.mark.parametrize("scale", [1e-3, 1.0, 50.0])
def test_the_scale_of_logits_does_not_matter(scale):
    image, truth, scores = stripes()
    logits = scale * (scores[..., 1] - scores[..., 0])
    labels, probability = cl.refine(logits, image, probability=True)
    assert ((logits > 0) != truth).mean() > 0.08
    assert (labels != truth).mean() < 0.01
    assert probability.shape == (*truth.shape, 2)
    assert ((probability[..., 1] > 0.5) == (labels == 1)).mean() > 0.999
    assert (labels == cl.refine(logits, image)).all()


def test_three_labels():
    image, truth, scores = stripes(3)
    labels, probability = cl.refine(scores, image, probability=True)
    assert (scores.argmax(axis=-1) != truth).mean() > 0.1
    assert (labels != truth).mean() < 0.02
    assert probability.sum(axis=-1) == pytest.approx(np.ones(truth.shape), abs=1e-5)
    assert (cl.refine(scores, image) == labels).mean() > 0.99


def test_logits_of_one_sign_are_no_mask_to_take_colors_from():
    image, _, _ = stripes()
    found = columns(np.full(image.shape[:2], -2.0), palette(image))
    assert (found[1] == -1).all()
    assert not found[2].any()
    assert not cl.refine(np.full(image.shape[:2], -2.0), image).any()


@pytest.mark.parametrize("labels", [2, 3])
def test_probabilities_are_read_as_such(labels):
    image, _, scores = stripes(labels)
    p = softmax(scores, axis=-1)
    if labels == 2:
        scores, p = scores[..., 1] - scores[..., 0], p[..., 1]
    expected = cl.refine(scores, image)
    found = cl.refine(p, image, values="probabilities")
    assert (found == expected).mean() > 0.999
    with pytest.warns(InputWarning, match="values="):  # detected, and said
        assert (cl.refine(p, image) == found).all()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        if labels == 2:  # log-odds above 0 everywhere
            assert cl.refine(p, image, values="logits").all()
        assert (cl.refine(scores, image) == expected).all()


@pytest.mark.parametrize("dtype", [bool, np.uint8, np.float32])
def test_certain_probabilities_are_finite_log_odds(dtype):
    image, truth, _ = stripes()
    noisy = truth ^ (np.random.default_rng(0).uniform(size=truth.shape) < 0.1)
    labels = cl.refine(noisy.astype(dtype), image, values="probabilities")
    assert (labels != truth).mean() < 0.01


def test_what_is_wrong_is_said():
    image, _, scores = stripes()
    with pytest.raises(cl.InputError, match="Put labels last"):
        cl.refine(np.moveaxis(scores, -1, 0), image)
    with pytest.raises(cl.InputError, match="Clip the logits"):
        cl.refine(np.full(image.shape[:2], np.nan), image)
    with pytest.raises(cl.InputError, match="values is 'odds'"):
        cl.refine(scores, image, values="odds")
    with pytest.raises(cl.InputError, match="within 0 to 1"):
        cl.refine(scores, image, values="probabilities")
