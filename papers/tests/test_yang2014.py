"""The experiment of yang2014 on a handful of made-up images: splits, crops, figures."""

import numpy as np
import pytest
from PIL import Image

from cutlearn_papers import yang2014, yang2014_layers
from cutlearn_papers.yang2014_data import Case, pedestrians, split
from cutlearn_papers.yang2014_tables import MODELS


def write(path, array):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(array).save(path)


@pytest.fixture
def data(tmp_path):
    people = np.zeros((40, 60), np.uint8)
    people[5:35, 8:18] = 1
    people[10:30, 52:60] = 2
    write(tmp_path / "penn_fudan" / "images" / "street.png", np.stack([100 * people] * 3, -1))
    write(tmp_path / "penn_fudan" / "instances" / "street.png", people)
    return tmp_path


def test_people_come_one_by_one_with_their_mirror_images(data):
    first, flipped, second, _ = pedestrians(data / "penn_fudan")
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


def test_a_split_gives_figures_of_every_model(quick):
    told = quick("yang2014")
    for name in ("horses", "pedestrians"):
        figures = told["figures"][name][0]
        for row in yang2014.SCALES["quick"][name].rows:
            assert 0.5 < figures[row]["accuracy"] <= 1
            assert 0 < figures[f"{row}, refined"]["full_iou"] <= 1
        assert (quick.folder / f"yang2014-{name}-masks.png").exists()
    text = (quick.folder / "yang2014.md").read_text()
    assert "| MMBM2, refined |" in text
    for heading in ("Between one layer and two", "Shapes alone", "Fewer horses"):
        assert f"## {heading}" in text
    assert "not testable here" in text


def test_images_terms_start_at_random_and_shapes_stay():
    from cutlearn.shape.conditional import Conditional
    from cutlearn.shape.frame import Patches

    w = {name: np.ones((3, 2), np.float32) for name in ("W", "V0", "V1", "V2", "b")}
    start = Conditional(Patches.whole((1, 3)), w)
    drawn = yang2014.at_random(start, 0)
    assert drawn.w["W"] is w["W"]
    for name in ("V0", "V1", "V2"):
        assert 0 < np.abs(drawn.w[name]).max() < 10 * yang2014.SPREAD
    assert (w["V0"] == 1).all()
    assert np.array_equal(yang2014.at_random(start, 0).w["V0"], drawn.w["V0"])


def test_few_cases_are_whole_groups():
    cases = [Case(None, None, f"g{k // 2:02d}") for k in range(20)]
    kept = yang2014.few(cases, 4)
    assert len(kept) == 8
    assert len({case.group for case in kept}) == 4
    assert yang2014.few(cases, None) == cases


def test_each_step_from_one_layer_to_two_changes_one_thing():
    kinds = {
        step: [MODELS[row].kind for row in pair][::-1]
        for step, pair in yang2014_layers.STEPS.items()
    }
    assert kinds["a second layer, no patches"] == [(1, False), (2, False)]
    assert kinds["patches, no second layer"] == [(1, False), (1, True)]
    assert kinds["a second layer on patches"] == [(1, True), (2, True)]
    assert kinds["patches on two layers"] == [(2, False), (2, True)]
    assert kinds["patches and a second layer"] == [(1, False), (2, True)]


def test_shapes_are_judged_by_the_quarters_that_they_fill_in():
    rbm, other = np.array([0.1, 0.2, 0.3]), np.array([0.2, 0.3, 0.4])
    split = {f"{yang2014_layers.ONE}|wrong": rbm, f"{yang2014_layers.SHAPEBM}|wrong": other,
             "groups": ["a", "b", "c"]}  # fmt: skip
    gap = yang2014_layers.more_wrong([split, split], yang2014_layers.SHAPEBM)
    assert gap.mean == pytest.approx(10)
    assert gap.low == pytest.approx(10)
