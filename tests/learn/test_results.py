"""What a step says of itself, and steps as rows of a checkpoint."""

from dataclasses import replace

from cutlearn.learn.results import Step, rows_to_steps, steps_to_rows

STEP = Step(1, 0.5, 0.4, 0.3, 0.1, 0.25, 0.01, 1.0, 2.0, 8, 1)


def test_a_single_plane_bounds_and_none_does_not():
    assert STEP.bounded
    assert not replace(STEP, planes=0).bounded


def test_steps_come_back_from_their_rows():
    steps = [STEP, replace(STEP, number=2, planes=0)]
    assert rows_to_steps(steps_to_rows(steps)) == steps
