"""The bias is shifted to where pooled IoU is served."""

import numpy as np
import pytest

from cutlearn.energy.envelopes import EnvelopeSpec
from cutlearn.energy.model import Model, model_of
from cutlearn.energy.problem import Problem
from cutlearn.metrics import confusions, pooled_iou
from cutlearn.model.fitting.bias import Odds, served, shifted
from cutlearn.model.fitting.scorers import Overlap
from cutlearn.model.fitting.selection import Plan, choose
from cutlearn.run.executor import executor_of
from tiny_problems import with_regions

SHAPE = (60, 80)


def believed(n=4, share=-2.0, spread=1.5, seed=0):
    """Problems whose second feature is the log-odds that their labels were drawn with."""
    rng = np.random.default_rng(seed)
    problems, masks = [], []
    for _ in range(n):
        z = rng.normal(share, spread, SHAPE)
        masks.append((rng.random(SHAPE) < 1 / (1 + np.exp(-z))).astype(np.uint8))
        nodes = np.stack([np.ones(SHAPE), z], axis=-1)
        problems.append(Problem(nodes, shape=SHAPE, connectivity=4))
    return problems, masks


def scorer_of(problems, masks, model=None):
    data = executor_of(1).residents(list(zip(problems, masks)))
    return Overlap(problems, masks, model or Model(), data)


def best_iou(problems, masks, borders):
    """The best pooled IoU of any border on the log-odds, by trying them all."""
    z = [p.node_features[:, 1].reshape(SHAPE) for p in problems]
    return max(pooled_iou(masks, [(a >= t).astype(np.uint8) for a in z]) for t in borders)


@pytest.mark.parametrize("share", [-4.0, -2.0, 0.0])
@pytest.mark.parametrize("w", [(0.0, -1.0), (2.0, -1.0), (-30.0, -7.0)])
def test_the_border_lies_where_the_odds_are_the_iou_that_is_reached(share, w):
    problems, masks = believed(share=share)
    scorer = scorer_of(problems, masks)
    shift, J, scores = served(scorer, np.array(w))
    # Costs are w_0 + shift + w_1 z: 0 where z is the log-odds of the border.
    border = -(w[0] + shift) / w[1]
    assert border == pytest.approx(np.log(J), abs=0.15)  # of 19,200 pixels drawn
    reached = scorer.value(scores)
    assert reached == pytest.approx(J, rel=0.02)
    assert reached >= 0.96 * best_iou(problems, masks, np.linspace(-5, 2, 71))


def test_pixels_that_are_sure_do_not_move_the_border():
    """A feature that is stretched where it is sure has odds that are no line, but at the border."""
    problems, masks = believed(share=-1.0, spread=3.0)
    told = []
    for problem in problems:
        z = problem.node_features[:, 1].astype(np.float64)
        z = np.where(z > 1, 1 + 8 * (z - 1), z).reshape(SHAPE)
        told.append(Problem(np.stack([np.ones(SHAPE), z], -1), shape=SHAPE, connectivity=4))
    scorer = scorer_of(told, masks)
    shift, J, scores = served(scorer, np.array([0.0, -1.0]))
    assert shift == pytest.approx(np.log(J), abs=0.35)  # one fit of all pixels is 0.77 off
    assert scorer.value(scores) >= 0.99 * best_iou(told, masks, np.linspace(-3, 3, 121))


def test_the_shift_has_the_scale_of_the_weights_and_undoes_a_shift():
    problems, masks = believed()
    w = np.array([0.3, -1.2])
    first, J, scores = served(scorer_of(problems, masks), w)
    scaled, _, _ = served(scorer_of(problems, masks), 50 * w)
    assert scaled == pytest.approx(50 * first, rel=1e-3)
    moved, _, again = served(scorer_of(problems, masks), shifted(w, 4.0))
    assert moved == pytest.approx(first - 4.0, abs=1e-3)
    truth = confusions(masks, [Model().mask(p, shifted(w, first)) for p in problems])
    assert scores == truth
    assert 0 < J < 1
    assert len(again) == len(scores)


def test_no_border_is_far_from_the_true_area():
    """Features that tell nothing have no odds to speak of: the area stays near the true one."""
    rng = np.random.default_rng(0)
    problems, masks = believed()
    told = [Problem(np.stack([np.ones(SHAPE), rng.normal(size=SHAPE)], -1), shape=SHAPE,
                    connectivity=4) for _ in problems]  # fmt: skip
    shift, _, _ = served(scorer_of(told, masks), np.array([0.0, -1.0]))
    found = np.mean([p.node_features[:, 1] > shift for p in told])
    true = np.mean([m.mean() for m in masks])
    assert 0.45 * true < found < 2.2 * true


@pytest.mark.parametrize("only", [0, 1])
def test_one_label_alone_shifts_nothing(only):
    problems, masks = believed(2)
    masks = [np.full_like(m, only) for m in masks]
    masks[0][:5] = 255
    w = np.array([0.3, -1.2])
    assert Odds.of(problems, masks, w, Model()) is None
    shift, _, scores = served(scorer_of(problems, masks), w)
    assert shift == 0
    assert scores == confusions(masks, [Model().mask(p, w) for p in problems])


def test_the_shift_counts_what_envelopes_add_to_a_pixel():
    """Envelopes of one line over single pixels are a bias: the same masks, the same shift."""
    problems, masks = believed(2)
    single = [with_regions(p, np.arange(p.n_nodes)) for p in problems]
    model = model_of(single[0], EnvelopeSpec(1, per="node"))
    plain, _, scores = served(scorer_of(problems, masks), np.array([3.0, -1.0]))
    found, _, same = served(scorer_of(single, masks, model), np.array([0.0, -1.0, 0.0, 3.0]))
    assert found == pytest.approx(plain, abs=1e-6)
    assert same == scores


def test_odds_are_asked_once_where_nothing_was_held_out(monkeypatch):
    asked, of = [], Odds.of
    monkeypatch.setattr(Odds, "of", lambda *given: asked.append(1) or of(*given))
    problems, masks = believed()
    chosen = choose(problems, masks, Plan(C=10.0, n_jobs=1, calibration=None))
    assert len(asked) == 1
    assert chosen.judged["shift"] != 0
