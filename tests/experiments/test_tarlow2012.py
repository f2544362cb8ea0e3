"""The paper's claims on small made images, and what the command leaves."""

import json

import numpy as np
import pytest
from click.testing import CliRunner
from PIL import Image

from cutlearn.app.cli import main
from cutlearn.experiments import tarlow2012


@pytest.fixture
def data(tmp_path):
    """Bright discs under noise, four of each class."""
    folder = tmp_path / "data" / tarlow2012.SET
    for part in ("images", "masks"):
        (folder / part).mkdir(parents=True)
    rng = np.random.default_rng(0)
    r, c = np.mgrid[:40, :50]
    for name in tarlow2012.CLASSES:
        for number in range(4):
            y = (r - rng.uniform(12, 28)) ** 2 + (c - rng.uniform(12, 38)) ** 2 < 100
            x = np.clip(90 + 40 * y[..., None] + rng.normal(0, 40, (40, 50, 3)), 0, 255)
            Image.fromarray(x.astype(np.uint8)).save(folder / "images" / f"{name}_{number}.jpg")
            Image.fromarray(y.astype(np.uint8)).save(folder / "masks" / f"{name}_{number}.png")
    return tmp_path / "data"


def test_likelihood_wins_on_single_images_and_the_table_is_written(tmp_path, data, monkeypatch):
    for name, value in {"SIDE": 20, "SINGLES": 3, "SPLITS": 1, "STEPS": 40}.items():
        monkeypatch.setattr(tarlow2012, name, value)
    arguments = ["reproduce", "tarlow2012", "--data", str(data), "-o", str(tmp_path), "--json"]
    done = CliRunner().invoke(main, arguments)
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)["tarlow2012"]
    assert len(found["single"]) == 3
    for one in found["single"]:
        assert one["likelihood"] <= one["kohli-torr"] <= one["logistic"] + 1e-6
    for rows in found["splits"].values():
        fit = {method: row["train"][0] for method, row in rows[0].items()}
        assert fit["likelihood"] >= fit["kohli-torr, best"] >= fit["kohli-torr, last"]
    text = (tmp_path / "tarlow2012.md").read_text()
    assert "-0.34 / 86.8 / 0.79" in text
    assert "of 3" in text


def test_data_is_asked_for(tmp_path):
    done = CliRunner().invoke(main, ["reproduce", "tarlow2012", "-o", str(tmp_path)])
    assert done.exit_code == 2
    assert "--data DIR" in done.stderr


def test_area_counts_pairs():
    rng = np.random.default_rng(1)
    scores, labels = rng.integers(0, 5, 60) / 5, rng.integers(0, 2, 60).astype(np.uint8)
    pairs = [(a > b) + 0.5 * (a == b) for a in scores[labels == 1] for b in scores[labels == 0]]
    assert tarlow2012.area(scores, labels) == pytest.approx(np.mean(pairs), rel=1e-12)
