"""Lab colours by hand: those of scikit-image."""

import numpy as np
import pytest
from skimage.color import rgb2lab

from cutlearn.features.mixtures import srgb_to_lab


def test_colors_are_those_of_scikit_image():
    colors = np.concatenate(
        [np.random.default_rng(0).random((200, 3)), np.eye(3) * 0.02, np.eye(3)]
    )
    assert srgb_to_lab(colors) == pytest.approx(rgb2lab(colors[None])[0] / 100, abs=1e-9)
