"""What `cutlearn evaluate` costs: every image is read once for its figures and predicted once."""

from collections import Counter

import pytest
from click.testing import CliRunner

import cutlearn as cl
from cutlearn.app.cli import main
from cutlearn.features.featurizer import Featurizer
from cutlearn.images import folder, reader
from cutlearn.report.page import gallery
from small_folders import make_folders

N = 9


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    root = tmp_path_factory.mktemp("world")
    images, masks = make_folders(root, N, (32, 40))
    pictures, truth = folder.read_folder(images, masks).load()
    model = cl.Segmenter(features="linear", C=10.0, tol=0.05, n_jobs=1)
    model.fit(pictures[:4], truth[:4]).save(root / "m")
    return images, masks, str(root / "m")


def counted(monkeypatch, module, name, key):
    seen, function = Counter(), getattr(module, name)

    def counting(*given, **named):
        seen[key(*given)] += 1
        return function(*given, **named)

    monkeypatch.setattr(module, name, counting)
    return seen


def test_a_shown_image_is_decoded_and_predicted_as_often_as_the_others(
    world, tmp_path, monkeypatch
):
    images, masks, model = world
    decoded = counted(monkeypatch, reader, "open_image", lambda _, name, *__: name)
    values = counted(monkeypatch, reader, "open_values", lambda _, name, *__: name)
    problems = counted(monkeypatch, Featurizer, "problem", lambda _, sample, *__: sample.shape)
    page = tmp_path / "page.html"
    done = CliRunner().invoke(main, ["evaluate", model, images, masks, "--report", str(page)])
    assert done.exit_code == 0, done.stderr
    assert page.read_text().count("IoU ") >= 6
    # Twice: the whole folder is checked before any work begins.
    assert set(decoded.values()) == set(values.values()) == {2}
    assert len(decoded) == len(values) == N
    assert problems[32, 40] == N


@pytest.mark.parametrize("most", [4, 100])
def test_what_is_kept_is_bounded_and_has_the_worst_and_the_best(world, most, tmp_path, monkeypatch):
    images, masks, model = world
    monkeypatch.setattr(gallery, "MOST_KEPT", most)
    held, shown = [], []
    add = gallery.Gallery.add

    def adding(self, *given):
        add(self, *given)
        held.append(len(self.kept))

    def drawing(title, estimator, figures, parts, believed, **_):
        shown.extend(part.name for part in parts)
        order = sorted(figures.images, key=lambda image: image.iou)
        assert [shown[0], shown[-1]] == [order[0].name, order[-1].name]
        ranks = [[image.name for image in order].index(name) for name in shown]
        assert ranks == sorted(set(ranks))
        if most == 100:
            assert ranks == [0, 2, 3, 5, 6, 8]
        return ""

    monkeypatch.setattr(gallery.Gallery, "add", adding)
    monkeypatch.setattr("cutlearn.report.page.page", drawing)
    args = ["evaluate", model, images, masks, "--report", str(tmp_path / "p")]
    done = CliRunner().invoke(main, args)
    assert done.exit_code == 0, done.stderr
    assert len(held) == N
    assert max(held) <= (most + 2 if most == 4 else N)
    assert len(shown) >= 4
