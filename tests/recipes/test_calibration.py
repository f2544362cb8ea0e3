"""Recipe: a calibration of your own, here a temperature that promises no more than 95 %.

What `Temperature` does not bring, `Map` names: fit, probabilities, and what a model file keeps.
"""

import numpy as np
import pytest

import cutlearn as cl
from cutlearn.images import cells
from cutlearn.model.calibration import CALIBRATIONS, Temperature


class Modest(Temperature):
    """Mixes a tenth of even chances into the probabilities of the temperature."""

    name = "modest"

    def probabilities(self, min_marginals):
        return 0.9 * super().probabilities(min_marginals) + 0.1 / min_marginals.shape[-1]


@pytest.fixture(autouse=True)
def registered(monkeypatch):
    monkeypatch.setitem(CALIBRATIONS, "modest", Modest)


def test_a_model_is_fitted_with_it_and_kept(tmp_path):
    worlds = [cells(seed, (32, 40)) for seed in range(5)]
    images, masks = [w.image for w in worlds], [w.labels for w in worlds]
    model = cl.Segmenter(features="linear", C=10.0, calibration="modest", n_jobs=1)
    model.fit(images[:4], masks[:4]).save(tmp_path / "m")
    (q,) = cl.load(tmp_path / "m").predict_proba(images[4:])
    plain = cl.Segmenter(features="linear", C=10.0, n_jobs=1).fit(images[:4], masks[:4])
    (wanted,) = plain.predict_proba(images[4:])
    assert np.abs(q - (0.9 * wanted + 0.05)).max() < 1e-6
    assert wanted.max() > 0.95 > q.max() - 1e-6
    value, interval = model.area(images[4:])
    assert interval[0, 0] < value[0] < interval[0, 1]
