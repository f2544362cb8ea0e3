"""The paper's claims on small made images, and what the command leaves."""

from itertools import product

import numpy as np
import pytest
from PIL import Image

import cutlearn as cl
from cutlearn.energy.energy import Energy
from cutlearn_papers.tarlow2012 import parted
from cutlearn_papers.tarlow2012_features import Filters, node_columns
from cutlearn_papers.tarlow2012_five import by_beliefs
from cutlearn_papers.tarlow2012_judge import area, judge, summary_of
from cutlearn_papers.tarlow2012_steps import disagreement, kohli_torr, polyak, pseudo_gradient
from cutlearn_papers.tarlow2012_tables import SCALES, Scale


def test_likelihood_wins_on_single_images_and_the_tables_are_written(quick):
    told = quick("tarlow2012")
    assert len(told["figures"]["single"]) == SCALES["quick"][0].singles
    for one in told["figures"]["single"]:
        assert one["likelihood"] < one["logistic"]
        assert one["kohli-torr"] <= one["logistic"] + 1e-6
    for methods in told["figures"]["splits"].values():
        fit = {name: rows["train"][0][0] for name, rows in methods.items()}
        assert fit["kohli-torr, best"] >= fit["kohli-torr, last"]
    text = (quick.folder / "tarlow2012.md").read_text()
    assert "| the paper's likelihood | 64.1 → 66.6 | 48.9 → 55.3 | 46.5 → 52.8 |" in text
    assert "(tarlow2012-maps.png)" not in text
    for name in ("singles", "training", "decisions", "maps", "changes"):
        with Image.open(quick.folder / f"tarlow2012-{name}.png") as picture:
            assert picture.width > 200
            assert picture.height > 100
    five = told["figures"]["five labels"]
    assert five["train"] == five["test"] >= 3
    values = [one[0] for one in five["loopy belief propagation"]["told"]]
    assert max(values) >= values[0]
    for name in ("logistic", "surrogate", "loopy belief propagation"):
        chosen = five[f"{name}, C chosen"]
        best = max(chosen["tried"], key=lambda one: one[1])
        assert chosen["C"] == best[0]
    assert not [c for c in told["claims"] if c["verdict"] == "not testable here"]


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


def test_polyak_steps_lower_the_value_and_keep_the_best():
    rng = np.random.default_rng(5)
    y = np.zeros((6, 7), np.uint8)
    y[:, 3:] = 1
    x = np.stack([np.ones(y.shape), y + rng.normal(0, 1.5, y.shape)], -1)
    problem = cl.Problem(x, edge_features=np.ones((71, 1)), shape=y.shape)
    found = polyak([problem], [y], np.array([0.5, -1.0, 0.0]), 25)
    values = [value for _, value in found.told]
    assert min(values) < 0.9 * values[0]
    assert found.best[2] >= 0
    assert -cl.likelihood([problem], [y], found.best)[0] == pytest.approx(min(values), rel=1e-9)


def test_every_image_is_tested_in_one_fold_and_halves_are_random():
    folds = [parted(13, k, Scale(folds=5)) for k in range(5)]
    assert sorted(np.concatenate([outside for _, outside in folds])) == list(range(13))
    assert all(not set(inside) & set(outside) for inside, outside in folds)
    inside, outside = parted(13, 1, Scale(folds=0))
    assert (len(inside), len(outside)) == (6, 7)
    assert list(inside) != list(parted(13, 2, Scale(folds=0))[0])


def test_features_are_those_that_the_paper_counts_and_know_no_place():
    rng = np.random.default_rng(6)
    image = rng.random((20, 24, 3)).astype(np.float32)
    problem = Filters.fit([image]).problem(image)
    assert (problem.n_node_features, problem.n_edge_features) == (84, 4)
    flat = node_columns(np.full((20, 24, 3), 0.4, np.float32))
    assert np.abs(flat - flat[:1, :1]).max() < 1e-5
    shares = np.asarray(problem.edge_features).mean(axis=0)
    assert shares == pytest.approx([1.0, 0.5, 0.75, 0.9], abs=0.01)


def small():
    rng = np.random.default_rng(7)
    problem = cl.Problem(rng.normal(size=(2, 3, 2)), edge_features=rng.random((7, 1)), shape=(2, 3))
    return problem, np.array([1.0, -0.5, 0.7])


def test_pairs_have_the_min_marginals_of_enumeration():
    problem, w = small()
    energy, ends = Energy.of(problem, w), np.asarray(problem.edge_ends(), np.int64)
    cost = np.asarray(problem.node_features, float) @ w[:2]
    found = disagreement(energy, cost, ends)
    values = {y: energy.value(np.reshape(y, (2, 3))) for y in product((0, 1), repeat=6)}
    for chance, (i, j) in zip(found, ends):
        q = {(a, b): np.exp(-min(v for y, v in values.items() if (y[i], y[j]) == (a, b)))
             for a in (0, 1) for b in (0, 1)}  # fmt: skip
        assert chance == pytest.approx((q[0, 1] + q[1, 0]) / sum(q.values()), rel=1e-6)


def test_the_pseudo_gradient_in_plain_words():
    problem, w = small()
    y = np.array([0, 1, 1, 0, 0, 1])
    value, slope = pseudo_gradient(problem, y.reshape(2, 3).astype(np.uint8), w)
    q = cl.probabilities(problem, w)[..., 1].ravel()
    expected = np.zeros(w.size)
    nodes = problem.n_node_features
    for i in range(6):
        expected[:nodes] += (q[i] - y[i]) * problem.node_features[i]
    for e, (i, j) in enumerate(problem.edge_ends()):
        differ = q[i] * (1 - q[j]) + q[j] * (1 - q[i])
        expected[nodes:] += (differ - (y[i] != y[j])) * problem.edge_features[e]
    assert slope == pytest.approx(expected / 6, abs=1e-6)
    assert value == pytest.approx(cl.likelihood([problem], [y.reshape(2, 3)], w)[0], rel=1e-9)


def test_kohli_torr_moves_by_fixed_steps_along_the_pseudo_gradient():
    problem, w = small()
    y = np.array([[0, 1, 1], [0, 0, 1]], np.uint8)
    value, slope = pseudo_gradient(problem, y, w)
    assert value == pytest.approx(cl.likelihood([problem], [y], w)[0], rel=1e-9)
    first = kohli_torr([problem], [y], w, 2)
    assert first.last == pytest.approx(w + 0.3 * slope, rel=1e-9)
    # Without edges, pairs are independent.
    alone = np.array([1.0, -0.5, 0.0])
    both = [pseudo_gradient(problem, y, alone, pairs)[1] for pairs in (False, True)]
    assert both[0] == pytest.approx(both[1], abs=1e-6)


def test_a_regulariser_of_belief_propagation_shrinks_what_is_learned():
    rng = np.random.default_rng(0)
    edges = [[0, 1], [1, 2], [2, 3]]
    problem = cl.Problem(rng.normal(size=(4, 2)), edges=edges, edge_features=rng.random((3, 1)))
    maps = [np.array([0, 1, 2, 1], np.uint8)]
    lengths, values = {}, {}
    for C in (np.inf, 10.0, 0.1):
        rows, told = by_beliefs([problem], maps, np.zeros((3, 3)), 15, C)
        lengths[C], values[C] = np.linalg.norm(rows), [one[0] for one in told]
        assert max(values[C]) > values[C][0]
    assert lengths[np.inf] > lengths[10.0] > lengths[0.1] > 0
