"""The paper's claims on two boards in each setting."""

import numpy as np
import pytest

from cutlearn.experiments import gould2011, gould2011_grabcut
from cutlearn.images.synth import checkerboard


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
    assert [claim["verdict"] for claim in told["claims"][:-1]] == ["confirmed"] * 5


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
    known = [gould2011_grabcut.BASE, *gould2011_grabcut.MODELS]
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
    case = gould2011_grabcut.Case(np.zeros((1, 4, 3), np.float32), mask, inside, mask, mask)
    found = gould2011_grabcut.measures_of(case, np.array([[0, 1, 0, 1]], np.uint8))
    assert found == pytest.approx([2 / 3, 1 / 2, 1 / 2])
