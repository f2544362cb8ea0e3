import json

import numpy as np
import pytest
from click.testing import CliRunner
from PIL import Image

import cutlearn.app.demo as demo_room
from cutlearn.app.cli import main
from cutlearn.metrics import pooled_iou


@pytest.fixture
def small(monkeypatch):
    """The demo on a smaller world."""
    for name, value in (("N_TRAIN", 4), ("N_TEST", 5), ("SHAPE", (40, 48)), ("TOL", 0.05)):
        monkeypatch.setattr(demo_room, name, value)


def test_demo_compares_and_names_its_picture(small, tmp_path):
    out = tmp_path / "deep" / "demo"
    done = CliRunner().invoke(main, ["demo", "-o", str(out), "--jobs", "1"])
    assert done.exit_code == 0, done.stderr
    lines = done.stdout.splitlines()
    assert str(out / "cells.png") in lines[-1]
    assert str(out / "report.html") in lines[-1]
    assert (out / "report.html").read_text().count("data:image/") == 5 * 4 + 4
    assert any(line.startswith("Hamming loss") for line in lines)
    assert any(line.startswith("count loss") for line in lines)
    assert "training, run 1 of 3" in done.stderr
    with Image.open(out / "cells.png") as picture:
        assert picture.width > 800
        assert np.asarray(picture).std() > 20  # not an empty page


def test_demo_figures_are_those_of_the_masks(small, tmp_path):
    done = CliRunner().invoke(main, ["demo", "-o", str(tmp_path), "--jobs", "1", "--json"])
    said = json.loads(done.stdout)
    name, loss = next(iter(demo_room.LOSSES.items()))
    train = demo_room.worlds(0, 4, (40, 48))
    test = demo_room.worlds(0, 5, (40, 48), 4)
    trial = demo_room.run(name, loss, train, test, 1)
    assert said[name]["iou"]["value"] == pooled_iou([w.labels for w in test], trial.masks)
    assert said["picture"] == str(tmp_path / "cells.png")


def test_training_and_test_images_never_meet():
    a = demo_room.worlds(0, 3, (40, 48))
    b = demo_room.worlds(0, 3, (40, 48), 3)
    assert len({w.image.tobytes() for w in a + b}) == 6
