"""C and the bias are chosen for what is evaluated."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import ndimage

import cutlearn as cl
import cutlearn.images
from cutlearn.energy.envelopes import EnvelopeSpec
from cutlearn.energy.model import Model, model_of
from cutlearn.energy.problem import Problem
from cutlearn.features.auto import clearly_best
from cutlearn.features.edges import edge_features
from cutlearn.learn import pool
from cutlearn.learn.losses import Count, Hamming
from cutlearn.metrics import confusions, means, pooled_iou, ratio
from cutlearn.model.calibration import calibrate, costs_alone, drawn
from cutlearn.model.selection import (
    LIKELIHOOD_PATH,
    PATH,
    LikelihoodScore,
    Odds,
    Overlap,
    Trainer,
    area_weights,
    hides_borders,
    shifted,
)
from cutlearn.run.executor import Threads
from tiny_problems import with_regions


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


def choose(problems, masks, **changed):
    given = {"loss": "hamming", "learner": "bundle", "C": 1000.0, "tol": 0.01, "n_jobs": 1}
    return Trainer(problems, masks, **(given | changed)).choose()


def predict_all(problems, w):
    return [Model().mask(problem, w) for problem in problems]


def test_rare_labels_are_not_wiped_out():
    problems, masks = rare(12)  # so weak that training alone gives label 1 to no pixel
    served = choose(problems, masks)
    plain = choose(problems, masks, loss=Hamming())
    iou = [pooled_iou(masks, predict_all(problems, c.w)) for c in (served, plain)]
    assert iou[1] < 0.05
    score = np.concatenate([p.node_features[:, 1] for p in problems])
    truth = np.concatenate([m.ravel() for m in masks])
    within = max(pooled_iou([truth], [(score > t).astype(int)]) for t in np.linspace(0, 3, 61))
    assert iou[0] > 0.9 * within
    assert served.judged["shift"] < 0
    assert served.judged["training"] == iou[0]


def test_auto_leaves_the_first_C_only_for_a_clear_gain():
    problems, masks = rare(noise=0.8)
    chosen = choose(problems, masks, C="auto")
    rows = chosen.judged["path"]
    assert [row["C"] for row in rows] == list(PATH)
    assert chosen.result.C in PATH
    close = {1.0: [0.5, 0.6, 0.7], 2.0: [0.5, 0.9, 0.45], 3.0: [0.51, 0.58, 0.74]}
    clear = close | {4.0: [0.6, 0.7, 0.81]}
    for notes, best in ((close, 1.0), (clear, 4.0)):
        assert clearly_best({C: means(part) for C, part in notes.items()}, 1.0, ratio) == best


def test_groups_are_held_out_together():
    problems, masks = rare(4)
    alone = choose(problems, masks, C="auto", groups=["a"] * 4)
    assert alone.judged["path"] == []
    assert choose(problems, masks, C="auto", groups=list("aabb")).judged["path"] != []


def test_with_logits_the_map_is_that_of_the_final_weights():
    problems, masks = rare(noise=0.8)
    held, own = (choose(problems, masks, logits=logits) for logits in (False, True))
    assert np.array_equal(held.w, own.w)
    rows = [
        drawn(Model().min_marginals(p, own.w), m, alone=costs_alone(Model(), p, own.w))
        for p, m in zip(problems, masks)
    ]
    wanted = calibrate(rows, "temperature", True)
    assert own.calibration.map.scale == wanted.map.scale
    assert own.calibration.mixed == wanted.mixed
    assert held.calibration.map.scale != wanted.map.scale
    # How far areas stray is asked of weights that have not seen the image, in both.
    assert np.array_equal(own.calibration.area_scale, held.calibration.area_scale)
    assert np.array_equal(own.calibration.mask_weight, held.calibration.mask_weight)
    assert np.array_equal(own.calibration.degrees, held.calibration.degrees)
    assert own.calibration.held_out


def test_another_loss_is_its_own_judge():
    problems, masks = rare(4)
    chosen = choose(problems, masks, loss=Count(), C="auto")
    found = predict_all(problems, chosen.w)
    off = [abs(int(f.sum()) - int(m.sum())) / m.size for f, m in zip(found, masks)]
    assert chosen.judged["training"] == pytest.approx(-np.mean(off), rel=1e-12)


@pytest.mark.parametrize("learner", ["likelihood", "logistic"])
def test_a_likelihood_is_judged_by_that_of_held_out_images(learner):
    problems, masks = rare(4, (12, 16))
    masks[0][:2] = 255
    chosen = choose(problems, masks, learner=learner, C="auto")
    judged = chosen.judged
    assert judged["judge"] == "log-likelihood"
    assert "shift" not in judged
    assert [row["C"] for row in judged["path"]] == list(LIKELIHOOD_PATH)
    assert np.array_equal(chosen.w, chosen.result.w)
    assert not chosen.result.certified
    wanted = {}
    for C in LIKELIHOOD_PATH:
        found = []
        for out in ([0, 2], [1, 3]):
            kept = [i for i in range(4) if i not in out]
            w = cl.train([problems[i] for i in kept], [masks[i] for i in kept],
                         learner=learner, C=C).w  # fmt: skip
            for i in out:
                q = cl.probabilities(problems[i], w)
                known = masks[i].ravel() != 255
                found.append(np.log(q[known, masks[i].ravel()[known]]).mean())
        wanted[C] = np.mean(found)
    assert {row["C"]: row["judged"] for row in judged["path"]} == pytest.approx(wanted, rel=1e-9)


def stroked(n=4, shape=(40, 44)):
    """Images of small discs, problems of noisy features, thin strokes, and whole masks."""
    rng = np.random.default_rng(0)
    problems, strokes, masks = [], [], []
    rows, columns = np.mgrid[: shape[0], : shape[1]]
    for _ in range(n):
        mask, stroke = np.zeros(shape, np.uint8), np.full(shape, 255, np.uint8)
        for i in (8, 20, 32):
            for j in (8, 22, 36):
                mask[(rows - i) ** 2 + (columns - j) ** 2 <= 12] = 1
                stroke[i, j - 1 : j + 2] = 1
        stroke[(2, 14, 26), 4:40] = 0
        image = (0.3 + 0.4 * mask + rng.normal(0, 0.03, shape)).astype(np.float32)
        nodes = np.stack([np.ones(shape), mask + rng.normal(0, 0.5, shape)], axis=-1)
        problems.append(Problem(nodes.astype(np.float32), edge_features=edge_features(image, 8),
                                shape=shape, connectivity=8))  # fmt: skip
        strokes.append(stroke)
        masks.append(mask)
    return problems, strokes, masks


def test_strokes_that_show_no_border_do_not_smooth_objects_away():
    problems, strokes, masks = stroked()
    learned, helped = (choose(problems, strokes, contrast=c) for c in ((), (1,)))
    iou = [pooled_iou(masks, predict_all(problems, c.w)) for c in (learned, helped)]
    assert iou[1] > 0.9
    assert iou[0] < 0.6
    edges = helped.w[2:]
    assert edges[1] > 0 == abs(edges[[0, 2, 3]]).max()
    assert "contrast" in helped.judged
    whole = [choose(problems, masks, contrast=c) for c in ((), (1,))]
    assert np.array_equal(whole[0].w, whole[1].w)
    assert "contrast" not in whole[1].judged


def test_strokes_count_by_the_areas_of_their_labels():
    """Strokes mark both labels alike: a pixel of the rare one counts less, nearly as it should."""
    problems, masks = rare(4, noise=1.0)
    rng, strokes = np.random.default_rng(1), []
    for mask in masks:
        stroke = np.full(mask.shape, 255, np.uint8)
        for label in (0, 1):
            places = rng.permutation(np.flatnonzero(mask == label))[:50]
            stroke.flat[places] = label
        strokes.append(stroke)
    chosen = choose(problems, strokes)
    weights = area_weights(problems, strokes, chosen.result.w, Model())
    rare_share, balanced = np.mean(np.stack(masks)), 0.5
    assert weights @ [0.5, 0.5] == pytest.approx(1)
    assert rare_share < 0.5 * weights[1] < 0.6 * balanced + 0.4 * rare_share
    given = problems, strokes, chosen.result.w, Model()
    odds, weighed = Odds.of(*given), Odds.of(*given, weights)
    assert weighed.plain < odds.plain
    assert weighed.shift(weighed.plain) > odds.shift(odds.plain)  # label 1 costs more


def test_borders_are_hidden_by_strokes_and_bands_but_not_by_regions_without_labels():
    (problem, *_), (stroke, *_), (mask, *_) = stroked(1)
    band = np.where(ndimage.binary_dilation(mask) & (mask == 0), 255, mask).astype(np.uint8)
    band = np.where(ndimage.binary_erosion(mask) | (band == 0), band, 255).astype(np.uint8)
    region = mask.copy()
    region[:, 25:] = 255
    edges = replace(problem, shape=None, connectivity=None, edges=problem.edge_ends())
    for one in (problem, edges):
        found = [hides_borders([one], [part]) for part in (stroke, band, region, mask, 0 * mask)]
        assert found == [True, True, False, False, False]


def striped(n=3, shape=(10, 12)):
    """Problems with edges, whose masks are two halves and whose one feature is noisy."""
    rng = np.random.default_rng(0)
    problems, masks = [], []
    for k in range(n):
        mask = np.zeros(shape, np.uint8)
        mask[:, 3 + k :] = 1
        nodes = np.stack([np.ones(shape), mask + rng.normal(0, 1.0, shape)], axis=-1)
        edges = np.ones((2 * mask.size - sum(shape), 1), np.float32)
        problems.append(Problem(nodes.astype(np.float32), edge_features=edges, shape=shape,
                                connectivity=4))  # fmt: skip
        masks.append(mask)
    return problems, masks


def test_edges_count_what_the_plan_says_after_the_training():
    problems, masks = striped()
    whole, less = (choose(problems, masks, edge_factor=edges) for edges in (1.0, 0.25))
    assert np.array_equal(whole.result.w, less.result.w)
    edges = Model().layout(problems[0]).slice_of("edge")
    assert whole.w[edges].sum() > 0
    assert np.array_equal(less.w[edges], 0.25 * whole.w[edges])
    assert (whole.judged["edges"], less.judged["edges"]) == (1.0, 0.25)
    assert less.w[1] == whole.w[1] != 0  # the bias is shifted anew, the rest stays
    found = predict_all(problems, less.w)
    assert less.judged["training"] == pooled_iou(masks, found)
    other = choose(problems, masks, loss=Hamming(), edge_factor=0.25)
    assert np.array_equal(other.w, other.result.w)  # a loss is trained as it stands


def test_edges_that_help_stay_and_rivals_are_judged_alike():
    problems, masks = striped()
    given = {"learner": "likelihood", "rivals": ("logistic",), "calibration": None}
    chosen = choose(problems, masks, C="auto", tol=0.3, **given)
    rows = chosen.judged["path"]
    assert [(r["learner"], r["C"]) for r in rows] == [
        (learner, C) for learner in ("likelihood", "logistic") for C in LIKELIHOOD_PATH
    ]
    alone = choose(problems, masks, learner="logistic", C="auto", tol=0.3).judged["path"]
    assert [r["judged"] for r in rows[3:]] == [r["judged"] for r in alone]
    assert chosen.judged["learner"] == "likelihood"
    assert chosen.w[-1] > 0.1


def test_edges_that_harm_are_left_out(monkeypatch):
    monkeypatch.setattr(LikelihoodScore, "score", lambda self, i, x, y, w: 1e-3 * i - 100.0 * w[-1])
    problems, masks = striped()
    given = {"learner": "likelihood", "rivals": ("logistic",)}
    chosen = choose(problems, masks, C="auto", tol=0.3, **given)
    assert chosen.judged["learner"] == "logistic"
    assert chosen.w[-1] == 0
    alone = choose(problems, masks, learner="logistic", C=chosen.result.C, tol=0.3)
    assert np.array_equal(chosen.w, alone.w)
    assert chosen.calibration.map.scale == alone.calibration.map.scale


def test_a_likelihood_needs_no_regulariser():
    problems, masks = rare(3, (12, 16))
    chosen = choose(problems, masks, learner="likelihood", C=np.inf, calibration=None)
    value, _ = cl.likelihood(problems, masks, chosen.w)
    assert chosen.judged["training"] == pytest.approx(value, rel=1e-9)
    assert np.inf == chosen.result.C


def test_the_steps_of_every_training_are_told():
    problems, masks = rare(4)
    told = []
    chosen = choose(problems, masks, C="auto", callback=told.append)
    starts = [step for step in told if step.number == 1]
    assert len(starts) == 2 * len(PATH) + 1
    assert tuple(told[-len(chosen.result.steps) :]) == chosen.result.steps


def test_images_are_prepared_on_the_threads_of_the_plan(monkeypatch):
    seen = []

    class Seen(Threads):
        def map(self, *given):
            seen.append(self.threads)
            return super().map(*given)

    monkeypatch.setattr(pool, "WORTH_THREADS", 0)
    monkeypatch.setattr(Threads, "local", property(lambda self: Seen(self.threads)))
    problems, masks = rare(4)
    choose(problems, masks, n_jobs=2)
    assert set(seen) == {2}


def test_segmenter_tells_how_it_was_judged():
    worlds = [cl.images.cells(seed, (40, 50)) for seed in range(4)]
    model = cl.Segmenter(features="linear", n_jobs=1)
    model.fit([w.image for w in worlds], [w.labels for w in worlds])
    assert model.card_["metrics"] == model.validation_
    assert model.validation_["judge"] == "pooled IoU"
    assert 0.2 <= model.validation_["training"] <= 1


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


def served(problems, masks, w, model=None):
    return Trainer(problems, masks, model or Model(), n_jobs=1).served(w)


def best_iou(problems, masks, borders):
    """The best pooled IoU of any border on the log-odds, by trying them all."""
    z = [p.node_features[:, 1].reshape(SHAPE) for p in problems]
    return max(pooled_iou(masks, [(a >= t).astype(np.uint8) for a in z]) for t in borders)


@pytest.mark.parametrize("share", [-4.0, -2.0, 0.0])
@pytest.mark.parametrize("w", [(0.0, -1.0), (2.0, -1.0), (-30.0, -7.0)])
def test_the_border_lies_where_the_odds_are_the_iou_that_is_reached(share, w):
    problems, masks = believed(share=share)
    shift, J, scores = served(problems, masks, np.array(w))
    # Costs are w_0 + shift + w_1 z: 0 where z is the log-odds of the border.
    border = -(w[0] + shift) / w[1]
    assert border == pytest.approx(np.log(J), abs=0.15)  # of 19,200 pixels drawn
    reached = Overlap(Model()).value(scores)
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
    shift, J, scores = served(told, masks, np.array([0.0, -1.0]))
    assert shift == pytest.approx(np.log(J), abs=0.35)  # one fit of all pixels is 0.77 off
    assert Overlap(Model()).value(scores) >= 0.99 * best_iou(told, masks, np.linspace(-3, 3, 121))


def test_the_shift_has_the_scale_of_the_weights_and_undoes_a_shift():
    problems, masks = believed()
    w = np.array([0.3, -1.2])
    first, J, scores = served(problems, masks, w)
    scaled, _, _ = served(problems, masks, 50 * w)
    assert scaled == pytest.approx(50 * first, rel=1e-3)
    moved, _, again = served(problems, masks, shifted(w, 4.0))
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
    shift, _, _ = served(told, masks, np.array([0.0, -1.0]))
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
    shift, _, scores = served(problems, masks, w)
    assert shift == 0
    assert scores == confusions(masks, [Model().mask(p, w) for p in problems])


def test_the_shift_counts_what_envelopes_add_to_a_pixel():
    """Envelopes of one line over single pixels are a bias: the same masks, the same shift."""
    problems, masks = believed(2)
    single = [with_regions(p, np.arange(p.n_nodes)) for p in problems]
    model = model_of(single[0], EnvelopeSpec(1, per="node"))
    plain, _, scores = served(problems, masks, np.array([3.0, -1.0]))
    found, _, same = served(single, masks, np.array([0.0, -1.0, 0.0, 3.0]), model)
    assert found == pytest.approx(plain, abs=1e-6)
    assert same == scores


def test_odds_are_asked_once_where_nothing_was_held_out(monkeypatch):
    asked, of = [], Odds.of
    monkeypatch.setattr(Odds, "of", lambda *given: asked.append(1) or of(*given))
    problems, masks = believed()
    chosen = choose(problems, masks, C=10.0, calibration=None)
    assert len(asked) == 1
    assert chosen.judged["shift"] != 0
