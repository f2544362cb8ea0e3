"""Recipe: an estimator of your own, here one threshold of brightness for all images."""

import json

import numpy as np
import pytest
from click.testing import CliRunner
from PIL import Image

import cutlearn as cl
from cutlearn.app.cli import main
from cutlearn.images import cells
from cutlearn.model.base import Estimator, Summary
from cutlearn.model.calibration import calibrate, drawn
from cutlearn.model.model_files import ESTIMATORS
from cutlearn.model.parameters import check_parameters


def brightness(sample):
    return np.atleast_3d(sample.image).mean(axis=-1).astype(np.float64)


class Bright(Estimator):
    """Label 1 is what is brighter than the middle between the mean brightness of both labels."""

    command = "bright"

    def __init__(
        self, calibration=None, min_side=None, n_jobs=None, random_state=None, verbose=False
    ):
        self.calibration, self.min_side, self.n_jobs = calibration, min_side, n_jobs
        self.random_state, self.verbose = random_state, verbose

    def learn(self, data, run):
        light = np.concatenate([brightness(s).ravel() for s in data.samples])
        labels = np.concatenate([mask.ravel() for mask in data.masks])
        self.w_ = np.array([sum(light[labels == k].mean() for k in (0, 1)) / 2])
        self.classes_, self.validation_ = np.array([0, 1], np.uint8), {}
        rows = [drawn(self.min_marginals(s), mask) for s, mask in zip(data.samples, data.masks)]
        self.calibration_ = calibrate(rows, self.calibration, False, data.groups)

    def min_marginals(self, sample):
        light = brightness(sample) - self.w_[0]
        return np.stack([light, -light], axis=-1)

    def mask(self, sample):
        return self.min_marginals(sample).argmin(axis=-1).astype(np.uint8)

    def summary(self):
        return Summary({}, {"threshold": float(self.w_[0])}, 1, [], "the middle of two means")

    def to_header(self):
        return {"parameters": self.get_params()}, {"w": self.w_}

    @classmethod
    def from_header(cls, header, arrays):
        model = cls(**header["parameters"])
        check_parameters(model)
        model.w_, model.classes_ = arrays["w"], np.array([0, 1], np.uint8)
        return model


def test_it_is_fitted_kept_shown_and_validation_like_the_others(tmp_path, monkeypatch):
    monkeypatch.setitem(ESTIMATORS, "Bright", Bright)
    for folder in ("images", "masks"):
        (tmp_path / folder).mkdir()
    for k in range(4):
        world = cells(k, (32, 40))
        Image.fromarray(np.uint8(255 * world.image)).save(tmp_path / "images" / f"{k}.png")
        Image.fromarray(255 * world.labels).save(tmp_path / "masks" / f"{k}.png")
    path, page = str(tmp_path / "m"), str(tmp_path / "page.html")
    folders = [str(tmp_path / "images"), str(tmp_path / "masks")]

    def run(*words):
        said = CliRunner().invoke(main, list(words))
        assert said.exit_code == 0, said.output
        return said.stdout

    assert "1 weights, the middle of two means" in run(
        "fit", *folders, "--model", "bright", "-o", path
    )
    model = cl.load(path)
    assert json.loads(run("show", path, "--json"))["weights"] == {"threshold": model.w_[0]}
    told = json.loads(run("evaluate", path, *folders, "--json", "--report", page))
    masks = [np.asarray(Image.open(tmp_path / "masks" / f"{k}.png")) // 255 for k in range(4)]
    images = [np.asarray(Image.open(tmp_path / "images" / f"{k}.png")) for k in range(4)]
    wanted = cl.metrics.pooled_iou(masks, model.predict(images))
    assert told["iou"]["value"] == wanted > 0.1
    assert "pooled IoU" in (tmp_path / "page.html").read_text()


def test_one_that_is_not_registered_is_not_saved(tmp_path):
    world = cells(0, (32, 32))
    model = Bright().fit([world.image], [world.labels])
    with pytest.raises(cl.InputError, match="save does not know the estimator Bright"):
        model.save(tmp_path / "m")
    assert list(tmp_path.iterdir()) == []
