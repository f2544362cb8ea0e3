"""Recipe: a decision of your own, here label 1 only where a pixel is surely it."""

import numpy as np
import pytest
from click.testing import CliRunner
from PIL import Image

import cutlearn as cl
from cutlearn.app.cli import main
from cutlearn.images import cells
from cutlearn.model.decisions import DECISIONS, Decision


def surely(q, order):
    """Give label 1 where its probability is at least 0.7."""
    return (q[..., 1] >= 0.7).astype(np.uint8)


@pytest.fixture(autouse=True)
def registered(monkeypatch):
    mine = Decision("sure", "label 1 only where its probability is at least 0.7", surely)
    monkeypatch.setitem(DECISIONS, "sure", mine)


def test_predict_and_the_command_line_know_it(tmp_path):
    worlds = [cells(seed, (32, 40)) for seed in range(4)]
    model = cl.Segmenter(features="linear", C=10.0, n_jobs=1)
    model.fit([w.image for w in worlds[:3]], [w.labels for w in worlds[:3]]).save(tmp_path / "m")
    (tmp_path / "in").mkdir()
    Image.fromarray(np.uint8(255 * worlds[3].image)).save(tmp_path / "in" / "a.png")
    image = np.asarray(Image.open(tmp_path / "in" / "a.png"))
    (sure,), (q,) = model.predict([image], "sure"), model.predict_proba([image])
    assert 0 < sure.sum() < (q[..., 1] > 0.5).sum()
    asked = [tmp_path / "m", tmp_path / "in", "-o", tmp_path / "out", "--decision", "sure"]
    said = CliRunner().invoke(main, ["predict", *map(str, asked)])
    assert said.exit_code == 0, said.output
    assert np.array_equal(np.asarray(Image.open(tmp_path / "out" / "a.png")), 255 * sure)
