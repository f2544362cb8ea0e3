"""Pictures of probabilities show the figures of the same probabilities."""

import numpy as np
import pytest

from cutlearn.errors import InputError
from cutlearn.metrics import beliefs
from cutlearn.report.displays import ProbabilityDisplay, ReliabilityDisplay, RocDisplay
from drawn_probabilities import drawn


def test_displays_show_the_figures():
    from matplotlib.figure import Figure

    rng = np.random.default_rng(3)
    models = {"honest": beliefs(*drawn(rng)), "bold": beliefs(*drawn(rng, honest=False))}
    left, right = Figure().subplots(1, 2)
    shown = ReliabilityDisplay(models).plot(left)
    assert shown.ax_ is left
    words = [text.get_text() for text in left.get_legend().get_texts()]
    assert words == [f"{n}: error {b.calibration_error():.2%}" for n, b in models.items()]
    x, y = left.lines[1].get_data()
    assert np.abs(y - x).max() < 0.25
    RocDisplay(models).plot(right)
    assert f"{models['bold'].auc():.4f}" in right.get_legend().get_texts()[1].get_text()
    assert right.lines[1].get_ydata()[-1] == 1


def test_maps_show_probability_and_entropy():
    _, q = drawn(np.random.default_rng(4))
    shown = ProbabilityDisplay([q[..., 1]], [q]).plot()
    assert np.array_equal(shown.axes_[0, 1].images[0].get_array(), q[..., 1])
    assert shown.axes_[0, 2].images[0].get_clim() == (0, 1)
    with pytest.raises(InputError, match="one for each"):
        ProbabilityDisplay([q[..., 1]], []).plot()
