"""The experiment of yang2014 on a handful of made-up images: splits, crops, figures."""

import json

import numpy as np
import pytest
from PIL import Image

import cutlearn as cl
from cutlearn.experiments import yang2014
from cutlearn.experiments.yang2014_data import Case, horses, pedestrians, split


def write(path, array):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(array).save(path)


@pytest.fixture
def data(tmp_path):
    rng = np.random.default_rng(0)
    for k in range(9):
        mask = np.zeros((24, 36), np.uint8)
        mask[6:18, 5 + k : 25 + k] = 1
        image = (90 + 80 * mask[..., None] + rng.integers(0, 40, (24, 36, 3))).astype(np.uint8)
        write(tmp_path / "weizmann_horses" / "images" / f"horse{k}.png", image)
        write(tmp_path / "weizmann_horses" / "masks" / f"horse{k}.png", mask)
    people = np.zeros((40, 60), np.uint8)
    people[5:35, 8:18] = 1
    people[10:30, 52:60] = 2
    write(tmp_path / "penn_fudan" / "images" / "street.png", np.stack([100 * people] * 3, -1))
    write(tmp_path / "penn_fudan" / "instances" / "street.png", people)
    return tmp_path


def test_people_come_one_by_one_with_their_mirror_images(data):
    first, flipped, second, _ = pedestrians(data)
    assert {case.group for case in (first, flipped, second)} == {"street"}
    assert first.mask.shape == (33, 16)
    assert (first.mask == 1).sum() == 30 * 10
    assert (first.mirrored, flipped.mirrored) == (False, True)
    assert np.array_equal(flipped.mask, first.mask[:, ::-1])
    assert (second.mask == 1).sum() == 20 * 8
    outside = second.mask[:, -1]
    assert (outside == 255).all()
    assert second.image.shape == (*second.mask.shape, 3)


def test_groups_stay_on_one_side_and_mirror_images_out_of_the_test():
    cases = [Case(None, None, f"g{k // 2}", k % 2 == 1) for k in range(20)]
    for seed in range(5):
        train, test = split(cases, seed)
        assert not {case.group for case in train} & {case.group for case in test}
        assert (len(train), len(test)) == (14, 3)
        assert not any(case.mirrored for case in test)
    assert split(cases, 0) != split(cases, 1)


def test_a_split_gives_figures_of_every_model_and_is_not_run_again(data, tmp_path, monkeypatch):
    monkeypatch.setattr(yang2014, "SETS", {"horses": (horses, (8, 12))})
    monkeypatch.setattr(yang2014, "HIDDEN", (8, 4))
    monkeypatch.setattr(yang2014, "EPOCHS", {"horses": (10, 10)})
    monkeypatch.setattr(yang2014, "draw", lambda *_: [])
    told = []
    said = yang2014.run(tmp_path, data, told.append, splits=1)
    figures = said.figures["horses"][0]
    assert figures["train"] == 6
    assert set(yang2014.MODELS) <= set(figures)
    for row in yang2014.MODELS:
        assert 0.5 < figures[row]["accuracy"] <= 1
        assert 0 < figures[f"{row}, refined"]["full_iou"] <= 1
    assert "| MMBM2, refined |" in said.table
    assert json.loads((tmp_path / "yang2014-horses-0.json").read_text()) == figures
    count = len(told)
    assert yang2014.run(tmp_path, data, told.append, splits=1).table == said.table
    assert len(told) == count


def test_missing_data_are_named(tmp_path):
    with pytest.raises(cl.InputError, match="data is missing"):
        yang2014.run(tmp_path, None, lambda _: None)
    with pytest.raises(cl.InputError, match="holds weizmann_horses"):
        horses(tmp_path)
