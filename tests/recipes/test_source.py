"""A source of logits from outside: one class with a name; models are fitted and filed with it."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest

import cutlearn as cl
from cutlearn.features.sources import SOURCES, Source
from features.worlds import world


@dataclass(frozen=True)
class Bright(Source):
    """The log-odds of an object at each of four intensities, counted in the training images."""

    stages: ClassVar[tuple[str, ...]] = ("bright",)
    odds: np.ndarray

    @staticmethod
    def level(grey):
        return np.minimum((4 * grey).astype(int), 3)

    @classmethod
    def counted(cls, task, chosen):
        levels = np.concatenate([cls.level(task.images[i]).ravel() for i in chosen])
        labels = np.concatenate([task.labels[i][..., 0].ravel() for i in chosen])
        ones, zeros = (np.bincount(levels[labels == k], minlength=4) + 1.0 for k in (1, 0))
        return cls(np.log(ones / zeros).astype(np.float32))

    @classmethod
    def fit(cls, task):
        every = range(len(task.images))
        # Out of fold: an image's logits come from the counts of the others.
        maps = [
            [[cls.counted(task, [j for j in every if j != i]).odds[cls.level(task.images[i])]]]
            for i in every
        ]
        return cls.counted(task, every), maps

    def answers(self, picture, extra):
        return [[self.odds[self.level(picture.grey)]]]

    def to_arrays(self):
        return {"odds": self.odds}, {}

    @classmethod
    def read(cls, arrays, described, bank, step):
        return cls(arrays["odds"])


def test_a_source_is_fitted_saved_and_asked_for(tmp_path, monkeypatch):
    images, masks = world(4, color=False)
    with pytest.raises(cl.InputError, match="'features' parameter"):
        cl.Segmenter(features="bright").fit(images, masks)
    monkeypatch.setitem(SOURCES, "bright", Bright)
    model = cl.Segmenter(features="bright", C=10.0, n_jobs=1).fit(images[:3], masks[:3])
    assert model.featurizer_.node_names_[1] == "bright"
    assert model.featurizer_.chosen_ == "bright"
    model.save(tmp_path / "m")
    again = cl.load(tmp_path / "m").predict(images[3:])[0]
    assert np.array_equal(again, model.predict(images[3:])[0])
    monkeypatch.delitem(SOURCES, "bright")
    with pytest.raises(cl.InputError, match="bright"):
        cl.load(tmp_path / "m")
