"""A node feature from outside: a function with a name, which a model file then asks for."""

import numpy as np
import pytest

import cutlearn as cl
from cutlearn.features.nodes import CHANNELS
from features.worlds import world


def saturation(bank, picture):
    """How far from grey a pixel is; `picture` also has Lab colours and intensity, made once."""
    colors = picture.image if picture.image.ndim == 3 else picture.image[..., None]
    return np.ptp(colors, axis=2)[None], ["saturation"]


def test_a_channel_is_learned_from_saved_and_asked_for(tmp_path, monkeypatch):
    images, masks = world(4)
    monkeypatch.setitem(CHANNELS, "saturation", saturation)
    features = cl.Featurizer("linear", channels=["saturation"])
    model = cl.Segmenter(features=features, C=10.0, tol=0.1, n_jobs=1).fit(images[:3], masks[:3])
    weight = dict(zip(model.w_names_, model.w_))["node saturation"]
    assert weight != 0
    model.save(tmp_path / "model")
    loaded = cl.load(tmp_path / "model")
    assert np.array_equal(loaded.predict(images[3:]), model.predict(images[3:]))
    monkeypatch.delitem(CHANNELS, "saturation")
    with pytest.raises(cl.InputError, match=r"channels must be .*, not 'saturation'"):
        cl.load(tmp_path / "model")


def slope(bank, picture):
    """The steepness along the rows, which needs pixels on both sides."""
    return np.gradient(picture.image.reshape(*picture.shape, -1)[..., 0], axis=0)[None], ["slope"]


def blocks(bank, picture):
    """Means of blocks of 16 x 16 pixels, of which an image must hold one."""
    h, w = picture.shape
    grey = picture.image.reshape(h, w, -1)[: h // 16 * 16, : w // 16 * 16, 0]
    means = grey.reshape(h // 16, 16, w // 16, 16).mean(axis=(1, 3))
    rows, columns = (np.minimum(np.arange(n) // 16, n // 16 - 1) for n in (h, w))
    return means[np.ix_(rows, columns)][None], ["blocks"]


@pytest.mark.parametrize("channel", [slope, blocks])
def test_a_channel_that_needs_several_pixels_is_loaded(channel, tmp_path, monkeypatch):
    images, masks = world(3)
    monkeypatch.setitem(CHANNELS, "mine", channel)
    features = cl.Featurizer("linear", channels=["mine"])
    model = cl.Segmenter(features=features, C=10.0, tol=0.1, n_jobs=1).fit(images[:2], masks[:2])
    model.save(tmp_path / "model")
    assert np.array_equal(cl.load(tmp_path / "model").predict(images), model.predict(images))
