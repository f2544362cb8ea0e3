"""Recipe: a package of your own with a potential, a source and an estimator, installed by pip.

Another process finds them by name: it trains, saves, describes and predicts with them. Where the
package is missing, a model file names it.
"""

import subprocess
import sys

import numpy as np
import pytest
from PIL import Image

from cutlearn.images import cells

PROJECT = """
[build-system]
requires = ["flit_core>=3.12"]
build-backend = "flit_core.buildapi"

[project]
name = "cutlearn-bright"
version = "0.3"
description = "Brightness for cutlearn"

[project.entry-points."cutlearn.plugins"]
bright = "cutlearn_bright"
"""

MODULE = '''
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

import cutlearn as cl
from cutlearn.features.sources import Source


@cl.plugins.register("potential", "Across")
@dataclass(frozen=True)
class Across(cl.Potential):
    """v times the number of edges along a row whose ends differ, v >= 0."""

    name: str = "across"

    def _along(self, problem):
        ends = problem.edge_ends()
        return (ends[:, 1] - ends[:, 0] == 1).astype(float)

    def count(self, problem):
        return 1

    def psi(self, problem, y):
        ends = problem.edge_ends()
        return np.array([self._along(problem) @ (y[ends[:, 0]] != y[ends[:, 1]])])

    def terms(self, problem, v):
        return cl.Summands(edges=v[0] * self._along(problem))

    def constraints(self, problem):
        return np.eye(1)


@cl.plugins.register("source", "bright")
@dataclass(frozen=True)
class Bright(Source):
    """The log-odds of an object at each of four intensities, counted in the training images."""

    stages: ClassVar[tuple[str, ...]] = ("bright",)
    odds: np.ndarray

    @staticmethod
    def level(grey):
        return np.minimum((4 * grey).astype(int), 3)

    @classmethod
    def counted(cls, task, chosen):
        levels = np.concatenate([cls.level(task.images[i]).ravel() for i in chosen])
        labels = np.concatenate([task.labels[i][..., 0].ravel() for i in chosen])
        ones, zeros = (np.bincount(levels[labels == k], minlength=4) + 1.0 for k in (1, 0))
        return cls(np.log(ones / zeros).astype(np.float32))

    @classmethod
    def fit(cls, task):
        every = range(len(task.images))
        maps = [
            [[cls.counted(task, [j for j in every if j != i]).odds[cls.level(task.images[i])]]]
            for i in every
        ]
        return cls.counted(task, every), maps

    def answers(self, picture, extra):
        return [[self.odds[self.level(picture.grey)]]]

    def to_arrays(self):
        return {"odds": self.odds}, {}

    @classmethod
    def read(cls, arrays, described, bank, step):
        return cls(arrays["odds"])
'''

TRAIN = """
import sys
import numpy as np
import cutlearn as cl
from cutlearn.images import cells
from cutlearn_bright import Across
worlds = [cells(seed, (32, 40)) for seed in range(3)]
grey = [np.atleast_3d(w.image).mean(axis=2) for w in worlds]
model = cl.Segmenter(("unary", "contrast", Across()), features="bright", C=10.0, n_jobs=1)
model.fit(grey, [w.labels for w in worlds]).save(sys.argv[1])
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """A folder into which pip has installed the package."""
    project, target = tmp_path_factory.mktemp("project"), tmp_path_factory.mktemp("site")
    (project / "pyproject.toml").write_text(PROJECT)
    (project / "cutlearn_bright.py").write_text(f'"""Brightness."""\n{MODULE}')
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation"]
    done = subprocess.run(
        [*pip, "--disable-pip-version-check", "--target", str(target), str(project)],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return target


def run(words, path=None):
    """A Python of its own, with or without the package."""
    environment = {"PATH": "", "PYTHONPATH": str(path)} if path else {"PATH": ""}
    return subprocess.run(
        [sys.executable, *map(str, words)], capture_output=True, text=True, env=environment
    )


def test_a_package_works_in_every_process_and_is_named_where_it_is_missing(installed, tmp_path):
    model, images = tmp_path / "m.cutlearn", tmp_path / "images"
    trained = run(["-c", TRAIN, model], installed)
    assert trained.returncode == 0, trained.stderr
    images.mkdir()
    grey = np.atleast_3d(cells(5, (32, 40)).image).mean(axis=2)
    Image.fromarray(np.uint8(255 * grey)).save(images / "a.png")
    shown = run(["-m", "cutlearn", "show", model], installed)
    assert shown.returncode == 0, shown.stderr
    assert "across" in shown.stdout
    predict = ["-m", "cutlearn", "predict", model, images, "-o", tmp_path / "out"]
    done = run(predict, installed)
    assert done.returncode == 0, done.stderr
    assert np.asarray(Image.open(tmp_path / "out" / "a.png")).max() == 255
    refused = run(predict)
    assert refused.returncode == 2
    assert "cutlearn-bright 0.3" in refused.stderr
    assert "pip install cutlearn-bright" in refused.stderr
