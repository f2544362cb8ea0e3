"""The paper's claims on two boards in each setting."""

import numpy as np
import pytest

import cutlearn as cl
from cutlearn.images.synth import checkerboard
from cutlearn_papers import gould2011, gould2011_cases, gould2011_grabcut


def test_boards_are_recovered_and_envelopes_lean_as_the_signal_does(quick):
    told = quick("gould2011")
    for name in gould2011.SETTINGS:
        boards = told["figures"][name]
        assert len(boards) == gould2011.QUICK_BOARDS
        for board in boards:
            assert board["wrong_paper"] == board["wrong_train"] == 0
            assert board["wrong_third"] < 0.2 * board["wrong_pairwise"]
            tilt = [board[f"envelope_{way}"][-1] / max(board[f"envelope_{way}"])
                    for way in ("paper", "train")]  # fmt: skip
            if name == "equal signals":
                assert max(map(abs, tilt)) < 0.15
            else:
                assert max(tilt) < -0.5
    assert [claim["verdict"] for claim in told["claims"][:5]] == ["confirmed"] * 5


def test_algorithm_1_ends_where_no_labelling_is_violated():
    world = checkerboard(0, 0.5, 0.1)
    third, last, iterations = gould2011.algorithm_1(world)
    assert 3 < iterations < gould2011.MOST
    assert not (third == last).all()
    # D2 theta >= 0 in the paper's maximised form: samples of a concave envelope.
    samples = last[1:]
    assert (samples[2:] - 2 * samples[1:-1] + samples[:-2] <= 1e-9 * abs(samples).max()).all()


def test_boxes_are_learned_and_hold(quick):
    told = quick("gould2011")["figures"]["boxes"]
    known = [name + end for name in (gould2011_grabcut.BASE, *gould2011_grabcut.MODELS)
             for end in ("", gould2011_grabcut.REFIT)
             if not end or name in gould2011_grabcut.POSED]  # fmt: skip
    assert list(told)[: len(known)] == known
    text = (quick.folder / "gould2011.md").read_text()
    assert (gould2011_grabcut.PEER in told) != ("not installed" in text)
    for values in told.values():
        assert np.shape(values) == (10, 3)
        assert np.mean(values, axis=0)[0] > 0.8
    assert (quick.folder / "gould2011-boxes.png").exists()


def test_measures_leave_void_out_and_look_into_the_box():
    mask = np.array([[0, 1, 255, 0]], np.uint8)
    inside = np.array([[False, True, True, True]])
    case = gould2011_cases.Case(np.zeros((1, 4, 3), np.float32), mask, inside, mask, mask)
    found = gould2011_cases.measures_of(case, np.array([[0, 1, 0, 1]], np.uint8))
    assert found == pytest.approx([2 / 3, 1 / 2, 1 / 2])


def test_strengths_are_chosen_on_other_folds():
    measures = np.zeros((2, 4, 3))
    measures[0, [0, 2], 0] = 1.0  # the first strength is right in fold 0, the second in fold 1
    measures[1, [1, 3], 0] = 1.0
    picked, strengths = gould2011_grabcut.chosen(measures, 2)
    assert picked[:, 0].tolist() == [0, 0, 0, 0]
    assert strengths == [gould2011_grabcut.STRENGTHS[1], gould2011_grabcut.STRENGTHS[0]]


def test_mixtures_that_are_fitted_again_follow_the_labels():
    rng = np.random.default_rng(0)
    mask = np.zeros((12, 16), np.uint8)
    mask[3:9, 5:12] = 1
    image = np.stack([0.2 + 0.6 * mask] * 3, -1) + rng.normal(0, 0.03, (12, 16, 3))
    inside = np.zeros(mask.shape, bool)
    inside[1:11, 2:14] = True
    nothing = np.zeros(mask.shape, np.float32)
    case = gould2011_cases.Case(np.clip(image, 0, 1).astype(np.float32), mask, inside, nothing,
                                  nothing)  # fmt: skip
    fitted = case.fitted(mask)
    assert np.array_equal(fitted.odds > 0, mask == 1)
    assert case.fitted(np.zeros_like(mask)) is case
    rounds = []

    def solve(now):
        rounds.append(now)
        return (now.odds > 0).astype(np.uint8) if len(rounds) > 1 else mask

    first, last, then = gould2011_grabcut.both_ways(case, solve)
    assert np.array_equal(first, mask)
    assert np.array_equal(last, mask)
    assert len(rounds) == 1 + gould2011_grabcut.ROUNDS
    assert np.array_equal(then.first, nothing)
    assert np.array_equal(then.columns(("first", "again", "bias"))[..., 1] > 0, mask == 1)


def test_level_envelopes_are_no_bias():
    rng = np.random.default_rng(1)
    cases = []
    for _ in range(3):
        mask = np.zeros((10, 12), np.uint8)
        mask[3:7, 3:9] = 1
        odds = (2.0 * mask - 0.5 + rng.normal(0, 1.5, mask.shape)).astype(np.float32)
        image = np.stack([mask] * 3, -1).astype(np.float32)
        contrast = np.ones(10 * 11 + 9 * 12 + 2 * 9 * 11, np.float32)
        inside = np.ones(mask.shape, bool)
        cases.append(gould2011_cases.Case(image, mask, inside, odds, contrast))
    row = gould2011_grabcut.Row("slic", level=True)
    problems = [case.problem(row.seen, row.kind, 6) for case in cases]
    masks = [case.mask for case in cases]
    w = cl.train(problems, masks, C=1000.0, envelope=row.spec,
                 constraints=row.constraints(1)).w  # fmt: skip
    none, all_of_it = row.spec.features(np.array([0.0, 1.0])) @ w[2:]
    assert all_of_it - none == pytest.approx(0, abs=1e-6 * np.abs(w).max())
    free = cl.train(problems, masks, C=1000.0, envelope=row.spec).w
    none, all_of_it = row.spec.features(np.array([0.0, 1.0])) @ free[2:]
    assert abs(all_of_it - none) > 1e-3 * np.abs(free).max()
