"""The paper's claims on small made images, and what the command leaves."""

import numpy as np
import pytest
from PIL import Image

import cutlearn as cl
from cutlearn.experiments import tarlow2012
from cutlearn.experiments.tarlow2012_judge import area, judge, summary_of


def test_likelihood_wins_on_single_images_and_the_tables_are_written(quick):
    told = quick("tarlow2012")
    assert len(told["figures"]["single"]) == tarlow2012.SCALES["quick"].singles
    for one in told["figures"]["single"]:
        assert one["likelihood"] < one["logistic"]
        assert one["kohli-torr"] <= one["logistic"] + 1e-6
    for methods in told["figures"]["splits"].values():
        fit = {name: rows["train"][0][0] for name, rows in methods.items()}
        assert fit["kohli-torr, best"] >= fit["kohli-torr, last"]
    text = (quick.folder / "tarlow2012.md").read_text()
    assert "| the paper's likelihood | 64.1 → 66.6 | 48.9 → 55.3 |" in text
    for name in ("singles", "training", "decisions"):
        with Image.open(quick.folder / f"tarlow2012-{name}.png") as picture:
            assert picture.width > picture.height > 200


def test_area_counts_pairs():
    rng = np.random.default_rng(1)
    scores, labels = rng.integers(0, 5, 60), rng.integers(0, 2, 60)
    curve = np.stack([np.bincount(scores[labels == k], minlength=5) for k in (0, 1)])
    pairs = [(a > b) + 0.5 * (a == b) for a in scores[labels == 1] for b in scores[labels == 0]]
    assert area(curve[None].astype(float))[0] == pytest.approx(np.mean(pairs), rel=1e-12)


def judged(rng, images, shift):
    """A method that knows the truth up to noise; `shift` makes it worse."""
    masks = [rng.integers(0, 2, (6, 7)).astype(np.uint8) for _ in images]
    logits = [2.0 * y - 1 + rng.normal(0, 1 + shift, y.shape) for y in masks]
    tables = iter([np.stack([1 / (1 + np.exp(x)), 1 / (1 + np.exp(-x))], -1) for x in logits])
    return masks, logits, judge(masks, masks, np.array(images), lambda _: next(tables))


def test_judged_in_plain_words():
    rng = np.random.default_rng(2)
    masks, logits, found = judged(rng, range(5), 0.0)
    likely, right, _, _, before, after = found.once()
    chance = [np.where(y == 1, x, -x) for y, x in zip(masks, logits)]
    assert likely == pytest.approx(-np.mean(np.log1p(np.exp(-np.array(chance)))), rel=1e-9)
    assert right == pytest.approx(100 * np.mean(np.array(chance) > 0), rel=1e-12)
    ious = []
    for y, x in zip(masks, logits):
        for a, b in ((y == 1, x > 0), (y == 0, x <= 0)):
            ious.append((a & b).sum() / (a | b).sum())
    assert before == pytest.approx(100 * np.mean(ious), rel=1e-12)
    assert 0 < after <= 100
    twice = found.values(np.array([[2.0, 1, 1, 1, 0]]))[0]
    again = np.mean([found.each[i, 0] for i in (0, 0, 1, 2, 3)])
    assert twice[0] == pytest.approx(again, rel=1e-12)


def test_spreads_are_those_of_a_mean_and_pairs_are_compared_by_image():
    rng = np.random.default_rng(3)
    n = 40
    splits = []
    for _ in range(2):
        order = rng.permutation(n)
        split = {}
        for name, shift in (("good", 0.0), ("bad", 1.0)):
            halves = {"train": order[: n // 2], "test": order[n // 2 :]}
            split[name] = {part: judged(rng, half, shift)[2] for part, half in halves.items()}
        splits.append(split)
    summary = summary_of(splits, n)
    each = np.concatenate([split["good"]["test"].each[:, 0] for split in splits])
    # An image is in one half of the splits only, nearly: 40 independent values.
    assert summary.drawn["good"][:, 0].std() == pytest.approx(each.std() / np.sqrt(n), rel=0.35)
    gap, ends, won = summary.versus("good", "bad")
    assert gap[0] == pytest.approx(np.mean(summary.test["good"][:, 0] - summary.test["bad"][:, 0]))
    assert ends[0, 0] < gap[0] < ends[1, 0]
    assert won[0] == 2
    assert ends[0, 0] > 0


def test_held_out_logits_come_from_other_images():
    rng = np.random.default_rng(4)
    problems, masks = [], []
    for _ in range(6):
        y = np.zeros((4, 5), np.uint8)
        y[:, 2:] = 1
        x = np.stack([np.ones(y.shape), y + rng.normal(0, 1, y.shape)], -1)
        problems.append(cl.Problem(x, edge_features=np.ones((31, 1)), shape=y.shape))
        masks.append(y)
    before = tarlow2012.stacked_problems(problems, masks, 100.0)
    turned = [1 - masks[0], *masks[1:]]
    after = tarlow2012.stacked_problems(problems, turned, 100.0)
    same = [np.array_equal(a.node_features, b.node_features) for a, b in zip(before, after)]
    assert same == [True, False, False, False, False, True]


def test_polyak_steps_lower_the_value_and_keep_the_best():
    from cutlearn.experiments.tarlow2012_polyak import polyak

    rng = np.random.default_rng(5)
    y = np.zeros((6, 7), np.uint8)
    y[:, 3:] = 1
    x = np.stack([np.ones(y.shape), y + rng.normal(0, 1.5, y.shape)], -1)
    problem = cl.Problem(x, edge_features=np.ones((71, 1)), shape=y.shape)
    w, told = polyak([problem], [y], np.array([0.5, -1.0, 0.0]), 25)
    values = [value for _, value in told]
    assert min(values) < 0.9 * values[0]
    assert w[2] >= 0
    assert -cl.likelihood([problem], [y], w)[0] == pytest.approx(min(values), rel=1e-9)
