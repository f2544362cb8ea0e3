"""What commands read, and what they say of it."""

import numpy as np
import pytest
from click.testing import CliRunner
from PIL import Image

import cutlearn as cl
from cutlearn.app.cli import main
from cutlearn.images import cells
from cutlearn.model import budget
from small_folders import content, make_folders


@pytest.mark.parametrize(("side", "told"), [("20", False), ("30", True), ("full", True)])
def test_a_size_that_is_not_the_models_own_is_told(tmp_path, side, told):
    worlds = [cells(seed, (40, 48)) for seed in range(3)]
    model = cl.Segmenter(features="linear", C=10.0, min_side=20, calibration=None, n_jobs=1)
    model.fit([w.image for w in worlds], [w.labels for w in worlds]).save(tmp_path / "a.model")
    image = np.asarray(255 * worlds[0].image, np.uint8)
    Image.fromarray(image).save(tmp_path / "a.png")
    given = [tmp_path / "a.model", tmp_path / "a.png", "-o", tmp_path / "out", "--min-side", side]
    done = CliRunner().invoke(main, ["predict", *map(str, given)])
    assert done.exit_code == 0, done.stderr
    assert ("a smaller side of 20 pixels" in done.stderr) == told


def test_what_memory_cannot_hold_is_read_when_fit_asks_for_it(tmp_path, monkeypatch):
    images, masks = make_folders(tmp_path)
    command = ["fit", images, masks, "--features", "linear", "--C", "10", "--tol", "0.05"]
    for name in ("whole", "streamed"):
        if name == "streamed":
            monkeypatch.setattr(budget, "KEPT", 10**9)
        model = tmp_path / f"{name}.model"
        done = CliRunner().invoke(main, [*command, "-o", str(model), "--min-side", "36"])
        assert done.exit_code == 0, done.stderr
        assert ("4 of them would take about" in done.stderr) == (name == "streamed")
    assert content(tmp_path / "whole.model") == content(tmp_path / "streamed.model")
    assert not list(tmp_path.glob("*.part"))
