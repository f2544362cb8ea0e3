import json
import math

import numpy as np
import pytest

from cutlearn.errors import InputError
from cutlearn.metrics import beliefs, confusion
from cutlearn.report.evaluate import evaluate, evaluation_of
from drawn_probabilities import drawn

TRUTH = [np.array([[1, 1, 0, 0]]), np.array([[1, 255, 0, 0]])]
GUESS = [np.array([[1, 0, 0, 0]]), np.array([[1, 1, 1, 0]])]


def test_figures_by_hand():
    found = evaluate(["a", "b"], TRUTH, GUESS)
    a, b = found.images
    assert (a.iou, a.pixel_error, a.true_area, a.predicted_area) == (0.5, 0.25, 2, 1)
    assert (b.iou, b.true_area, b.predicted_area, b.count_error) == (0.5, 1, 2, 1)
    assert found.iou.value == 2 / 4  # pooled: 1 + 1 over 2 + 2
    assert found.pixel_error.value == pytest.approx((1 / 4 + 1 / 3) / 2, abs=1e-15)
    assert found.count_error.value == 1
    assert found.relative_count_error.value == 2 / 3


def test_figures_survive_json():
    said = json.loads(json.dumps(evaluate(["a", "b"], TRUTH, GUESS).to_json(), allow_nan=False))
    assert said["n_images"] == 2
    assert said["images"][0]["count_error"] == 1
    assert set(said["iou"]) == {"value", "low", "high", "deviation"}


def test_an_image_that_is_all_void_counts_nowhere():
    void = np.full((1, 4), 255)
    found = evaluate(["a", "void"], [TRUTH[0], void], [GUESS[0], GUESS[0]])
    assert found.iou.value == 0.5
    assert found.count_error.value == 1
    assert math.isnan(found.images[1].iou)
    assert found.to_json()["images"][1]["iou"] is None


def test_nothing_to_find_and_nothing_found():
    empty = np.zeros((2, 3), int)
    found = evaluate(["a"], [empty], [empty])
    assert found.iou.value == 1
    assert found.relative_count_error.value == 0


def test_refusals():
    with pytest.raises(InputError, match="one for each"):
        evaluate(["a"], TRUTH, GUESS)
    with pytest.raises(InputError, match="only void"):
        evaluate(["a"], [np.full((2, 2), 255)], [np.zeros((2, 2), int)])


def test_evaluation_has_them_only_when_there_are_probabilities():
    mask, q = drawn(np.random.default_rng(2))
    tables = [confusion(mask, (q[..., 1] > 0.5).astype(int))]
    assert "calibration_error" not in evaluation_of(["a"], tables).to_json()
    found = evaluation_of(["a"], tables, believed=[beliefs(mask, q)])
    assert found.calibration_error.value == beliefs(mask, q).calibration_error()
    assert found.to_json()["log_likelihood"]["value"] == beliefs(mask, q).mean_log_likelihood()
