"""The paper's claims on two boards in each setting."""

from cutlearn.experiments import gould2011
from cutlearn.images.synth import checkerboard


def test_boards_are_recovered_and_envelopes_lean_as_the_signal_does(quick):
    told = quick("gould2011")
    for name, boards in told["figures"].items():
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
    assert [claim["verdict"] for claim in told["claims"]] == ["confirmed"] * 5


def test_algorithm_1_ends_where_no_labelling_is_violated():
    world = checkerboard(0, 0.5, 0.1)
    third, last, iterations = gould2011.algorithm_1(world)
    assert 3 < iterations < gould2011.MOST
    assert not (third == last).all()
    # D2 theta >= 0 in the paper's maximised form: samples of a concave envelope.
    samples = last[1:]
    assert (samples[2:] - 2 * samples[1:-1] + samples[:-2] <= 1e-9 * abs(samples).max()).all()
