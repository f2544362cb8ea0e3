"""Loss weights and C are chosen for what is judged."""

import numpy as np
import pytest

import cutlearn as cl
import cutlearn.images
from cutlearn.features.problem import Problem
from cutlearn.learn.losses import Count, Hamming
from cutlearn.metrics import pooled_iou
from cutlearn.model.choose import PATH, Plan, best_shift, choose, predict_all, reachable_iou


def rare(n=6, shape=(30, 40), share=0.07, seed=0, noise=1.5):
    """Problems whose label 1 is rare and whose one feature hardly tells it from label 0."""
    rng = np.random.default_rng(seed)
    problems, masks = [], []
    for _ in range(n):
        mask = (rng.random(shape) < share).astype(np.uint8)
        score = mask + rng.normal(0, noise / 2, shape)
        nodes = np.stack([np.ones(shape), score], axis=-1).astype(np.float32)
        problems.append(Problem(nodes, shape=shape, connectivity=4))
        masks.append(mask)
    return problems, masks


def plan(**changed):
    return Plan(**({"loss": "hamming", "learner": "bundle", "C": 1000.0, "tol": 0.01, "threads": 1}
                   | changed))  # fmt: skip


def test_rare_labels_are_not_wiped_out():
    problems, masks = rare(12)  # so weak that training alone gives label 1 to no pixel
    served = choose(problems, masks, plan())
    plain = choose(problems, masks, plan(loss=Hamming()))
    iou = [pooled_iou(masks, predict_all(problems, c.w, 1)) for c in (served, plain)]
    assert iou[1] < 0.05
    assert iou[0] > 0.9 * reachable_iou(problems, masks)
    assert served.judged["shift"] < 0
    assert served.judged["training"] == iou[0]


def test_reachable_iou_is_the_best_threshold_of_one_feature():
    problems, masks = rare(2, (12, 15))
    score = np.concatenate([p.node_features[:, 1] for p in problems])
    truth = np.concatenate([m.ravel() for m in masks])
    best = max(pooled_iou([truth], [(score >= t).astype(int)]) for t in score)
    assert reachable_iou(problems, masks) == pytest.approx(max(best, 0.2), abs=0.006)


def test_reachable_iou_leaves_void_out():
    problems, masks = rare(2, (12, 15), noise=0.1)
    assert reachable_iou(problems, masks) == 1.0
    wrong = [m.copy() for m in masks]
    for mask in wrong:
        mask[:2] = 1 - mask[:2]
    assert reachable_iou(problems, wrong) < 0.9
    for mask in wrong:
        mask[:2] = 255
    assert reachable_iou(problems, wrong) == 1.0


def test_auto_takes_the_C_that_was_judged_best():
    problems, masks = rare()
    chosen = choose(problems, masks, plan(C="auto"))
    rows = chosen.judged["path"]
    assert [row["C"] for row in rows] == list(PATH)
    best = max(rows, key=lambda row: row["judged"])["C"]
    assert best == chosen.result.C


def test_groups_are_held_out_together():
    problems, masks = rare(4)
    alone = choose(problems, masks, plan(C="auto"), groups=["a"] * 4)
    assert alone.judged["path"] == []
    assert choose(problems, masks, plan(C="auto"), groups=list("aabb")).judged["path"] != []


def test_another_loss_is_its_own_judge():
    problems, masks = rare(4)
    chosen = choose(problems, masks, plan(loss=Count(), C="auto"))
    found = predict_all(problems, chosen.w, 1)
    off = [abs(int(f.sum()) - int(m.sum())) / m.size for f, m in zip(found, masks)]
    assert chosen.judged["training"] == pytest.approx(-np.mean(off), rel=1e-12)


def test_the_steps_of_every_training_are_told():
    problems, masks = rare(4)
    told = []
    chosen = choose(problems, masks, plan(C="auto", callback=told.append))
    starts = [step for step in told if step.number == 1]
    assert len(starts) == 2 * len(PATH) + 1
    assert tuple(told[-len(chosen.result.steps) :]) == chosen.result.steps


def test_segmenter_tells_how_it_was_judged():
    worlds = [cl.images.cells(seed, (40, 50)) for seed in range(4)]
    model = cl.Segmenter(features="linear", n_jobs=1)
    model.fit([w.image for w in worlds], [w.labels for w in worlds])
    assert model.card_["metrics"] == model.judged_
    assert model.judged_["judge"] == "pooled IoU"
    assert 0.2 <= model.judged_["reachable"] <= 1


def test_a_shift_that_gains_by_chance_only_is_not_made():
    problems, masks = rare(3, noise=0.6)
    w = choose(problems, masks, plan()).result.w
    moved, shift, iou = best_shift(problems, masks, w, 1)
    assert shift == 0
    assert np.array_equal(moved, w)
    assert iou == pooled_iou(masks, predict_all(problems, w, 1))
    off = w.copy()
    off[0] += 3 * w[0]
    assert best_shift(problems, masks, off, 1)[1] < 0
