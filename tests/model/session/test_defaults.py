"""What the package ships: it can be read, is small, and comes back as it was written."""

import numpy as np
import pytest

from cutlearn.features.net.body import NetShape
from cutlearn.model.session.defaults import FILE, defaults, packed, unpacked
from cutlearn.model.session.guided import CHANNELS


def test_the_file_is_small_and_its_weights_keep_the_cut_exact():
    assert FILE.stat().st_size < 300_000
    found = defaults()
    assert found.net.shape.inputs == CHANNELS
    assert min(found.edges) >= 0
    assert min(found.refine["edges"]) >= 0
    # More logit, more object.
    assert found.nodes[1] > 0
    assert "grabcut" not in found.learned_on


def test_writing_and_reading_is_the_identity(tmp_path):
    found = defaults()
    found.save(tmp_path / "a")
    again = defaults(tmp_path / "a")
    assert (again.nodes == found.nodes).all()
    assert again.edges == found.edges
    assert again.refine == found.refine
    assert again.calibration.to_header()[0] == found.calibration.to_header()[0]
    for name, value in found.net.weights.items():
        assert again.net.weights[name] == pytest.approx(value, rel=1e-6), name


def test_eight_bits_are_within_half_a_step():
    shape = NetShape(3, 1, (4, 6), True)
    rng = np.random.default_rng(0)
    weights = {n: rng.normal(size=s).astype(np.float32) for n, s in shape.sizes(True).items()}
    again = unpacked(packed(weights), shape)
    for name, value in weights.items():
        step = abs(value).max(axis=-1, keepdims=True) / 127 if value.ndim == 2 else 1e-9
        assert (abs(again[name] - value) <= 0.5001 * step).all(), name
