"""Probabilities, areas and decisions of models: sums, held-out honesty, files, coverage."""

import numpy as np
import pytest

import cutlearn as cl
from cutlearn.arrays import VOID
from cutlearn.energy.model import Model, unary_of
from cutlearn.images import cells, pasture
from cutlearn.model.calibration import (
    CALIBRATIONS,
    Calibration,
    Map,
    MixedLikelihood,
    Temperature,
    calibrate,
    costs_alone,
    drawn,
    margin_of,
    uncalibrated,
)
from cutlearn.model.decisions import expected_iou

WORLDS = [cells(seed, (40, 48)) for seed in range(10)]
IMAGES, MASKS = [w.image for w in WORLDS], [w.labels.copy() for w in WORLDS]
MASKS[0][:5] = VOID
NEW, TRUTH = IMAGES[6:], MASKS[6:]


def model(**parameters):
    return cl.Segmenter(**({"features": "linear", "C": 100.0, "n_jobs": 1} | parameters))


@pytest.fixture(scope="module", params=["temperature", "isotonic", None])
def fitted(request):
    return model(calibration=request.param).fit(IMAGES[:6], MASKS[:6])


def held_out(rng, n=20, size=400, wrong=0.3, bias=0.0):
    """Min-marginals whose true probabilities are known: logit = scale * margin + offset."""
    rows = []
    for _ in range(n):
        margin = rng.normal(0, 2, size)
        q = 1 / (1 + np.exp(-(wrong * margin + bias)))
        labels = (rng.random(size) < q).astype(np.uint8)
        rows.append(drawn(np.stack([margin, np.zeros(size)], axis=-1), labels))
    return rows


def log_likelihood(models, q, masks):
    return np.mean([np.log(np.take_along_axis(p, np.where(m == VOID, 0, m)[..., None].astype(int),
                                              -1)[..., 0][m != VOID]).mean()
                    for p, m in zip(q, masks)])  # fmt: skip


def test_probabilities_sum_to_one_in_the_image_shape(fitted):
    for q, image in zip(fitted.predict_proba(NEW), NEW):
        assert q.shape == (*image.shape[:2], 2)
        assert q.dtype == np.float32
        assert np.abs(q.sum(axis=-1) - 1).max() < 1e-6
        assert 0 <= q.min() < 0.2 < 0.8 < q.max() <= 1


def test_probabilities_rise_with_what_the_map_sees(fitted):
    problem, made = fitted.featurizer_.problem(cl.Sample(NEW[0])), fitted.calibration_
    least, own = Model().min_marginals(problem, fitted.w_), costs_alone(Model(), problem, fitted.w_)
    assert np.array_equal(own[..., 1].ravel(), unary_of(problem, fitted.w_))
    assert not own[..., 0].any()
    seen = (1 - made.mixed) * least + made.mixed * own
    order = np.argsort(margin_of(seen, 1).ravel())
    assert (np.diff(made.probabilities(least, own)[..., 1].ravel()[order]) >= -1e-12).all()
    if made.mixed:
        with pytest.raises(cl.InputError, match="costs"):
            made.probabilities(least)


def test_own_costs_count_as_far_as_they_tell_more():
    """Margins end early, as within a piece that turns as a whole; the costs do not."""
    rng = np.random.default_rng(5)
    rows, plain = [], []
    for _ in range(12):
        logit = rng.normal(0, 3, 500)
        labels = (rng.random(500) < 1 / (1 + np.exp(-logit))).astype(np.uint8)
        least = np.stack([np.clip(logit, -1, 1) + rng.normal(0, 1, 500), np.zeros(500)], axis=-1)
        own = np.stack([np.zeros(500), -20 * logit], axis=-1)
        rows.append(drawn(least, labels, alone=own))
        plain.append(drawn(least, labels))
    made, without = (calibrate(part, "temperature", True) for part in (rows, plain))
    # Psi = (1 - c) Phi + c U, in which the logit is all that counts: s c 20 = 1.
    assert made.map.scale * made.mixed * 20 == pytest.approx(1, abs=0.1)
    assert made.map.scale * (1 - made.mixed) < 0.1
    assert without.mixed == 0
    noise = [drawn(part.min_marginals, part.labels, alone=rng.normal(0, 1, (500, 2)))
             for part in held_out(rng, size=500)]  # fmt: skip
    assert calibrate(noise, "temperature", True).mixed < 0.05
    assert calibrate(rows, None, True).mixed == 0


def test_each_label_costs_alone_what_its_features_say():
    rng = np.random.default_rng(6)
    problem = cl.Problem(rng.normal(size=(6, 2)), edges=[[0, 1]], edge_features=[[1.0]])
    for labels, w in (("unordered", rng.normal(size=3 * 2 + 9)), ("surrogate", rng.random(9))):
        many = Model(labels=labels, n_labels=3)
        rows = w[:6].reshape(3, 2) if labels == "unordered" else w.reshape(3, 3)[:, :2]
        assert costs_alone(many, problem, w) == pytest.approx(
            problem.node_features @ rows.T, abs=1e-12
        )


def test_calibration_makes_new_images_likelier():
    raw, warm = (
        model(calibration=kind).fit(IMAGES[:6], MASKS[:6]) for kind in (None, "temperature")
    )
    assert np.array_equal(raw.w_, warm.w_)
    q = [m.predict_proba(NEW) for m in (raw, warm)]
    assert log_likelihood(raw, q[1], TRUTH) > log_likelihood(raw, q[0], TRUTH) + 0.01
    assert warm.calibration_.held_out
    assert warm.calibration_.n_images == 6


@pytest.mark.parametrize("n_labels", [2, 4])
def test_the_likelihood_of_blocks_is_that_of_the_softmax(n_labels, monkeypatch):
    from scipy.special import log_softmax

    monkeypatch.setattr("cutlearn.model.calibration.BLOCK", 7)
    rng = np.random.default_rng(0)
    tables = [rng.normal(size=(40, n_labels)), 300 * rng.normal(size=(40, n_labels))]
    y, weight = rng.integers(0, n_labels, 40).astype(np.uint8), rng.uniform(size=40)
    scales, offsets = np.array([0.7, 0.05]), rng.normal(size=n_labels - 1)

    def plain(scales, offsets):
        z = np.concatenate([[0], offsets]) - sum(s * t for s, t in zip(scales, tables))
        return -float(weight @ log_softmax(z, axis=1)[np.arange(40), y])

    loss, slopes, residual = MixedLikelihood(tables, y, weight)(scales, offsets)
    assert loss == pytest.approx(plain(scales, offsets), rel=1e-12)
    for found, k in [(slopes[j], j) for j in (0, 1)] + [(r, 2 + j) for j, r in enumerate(residual)]:
        step = 1e-6 * np.eye(2 + len(offsets))[k]
        up, down = (plain(scales + s * step[:2], offsets + s * step[2:]) for s in (1, -1))
        assert found == pytest.approx((up - down) / 2e-6, rel=1e-4, abs=1e-6)


def test_the_temperature_is_found_whatever_the_units():
    rows = held_out(np.random.default_rng(0), bias=0.5)
    found = calibrate(rows, "temperature", True)
    assert abs(found.map.scale - 0.3) < 0.03
    assert abs(found.map.offsets[1] - 0.5) < 0.06
    assert found.map.offsets[0] == 0
    for row in rows:
        row.min_marginals[:] *= 1e-6
    assert abs(calibrate(rows, "temperature", True).map.scale * 1e-6 / found.map.scale - 1) < 1e-3


def test_isotonic_steps_follow_the_shares():
    found = calibrate(held_out(np.random.default_rng(1), wrong=1.0), "isotonic", True)
    margin = np.linspace(-4, 4, 9)
    q = found.probabilities(np.stack([margin, np.zeros(9)], axis=-1))
    assert np.abs(q[:, 1] - 1 / (1 + np.exp(-margin))).max() < 0.06
    assert np.abs(q.sum(axis=-1) - 1).max() < 1e-12


def test_perfectly_separated_labels_stay_finite():
    margin = np.array([-3.0, -1.0, 1.0, 3.0])
    rows = [drawn(np.stack([margin, np.zeros(4)], axis=-1), (margin > 0).astype(np.uint8))]
    for kind in ("temperature", "isotonic"):
        q = calibrate(rows, kind, True).probabilities(rows[0].min_marginals)
        assert np.isfinite(q).all()
        assert np.array_equal(q.argmax(axis=-1), rows[0].labels)


def test_settled_pixels_are_sure(fitted):
    seeds = np.full(NEW[0].shape[:2], -1)
    seeds[3, 4], seeds[5, 6] = 1, 0
    (q,) = fitted.predict_proba([cl.Sample(NEW[0], seeds=seeds)])
    assert q[3, 4].tolist() == [0, 1]
    assert q[5, 6].tolist() == [1, 0]


def test_decisions_serve_what_they_name(fitted):
    q = fitted.predict_proba(NEW)
    labels = {name: fitted.predict(NEW, decision=name) for name in ("map", "iou", "count")}
    for i, p in enumerate(q):
        best = expected_iou(p, labels["iou"][i])
        assert best >= max(expected_iou(p, labels[name][i]) for name in labels) - 1e-6
        assert abs(labels["count"][i].sum() - p[..., 1].sum()) <= 0.51
        assert labels["iou"][i].dtype == np.uint8
    assert any((a != b).any() for a, b in zip(labels["map"], labels["count"]))


def test_calibrating_later_is_remembered_and_saved(fitted, tmp_path):
    later = model(calibration=fitted.calibration).fit(IMAGES[:2], MASKS[:2])
    before = later.predict_proba(NEW)[0]
    assert later.calibrate(IMAGES[2:6], MASKS[2:6]) is later
    assert later.calibration_.n_images == 4
    after = later.predict_proba(NEW)[0]
    assert np.array_equal(before, after) == (fitted.calibration is None)
    later.save(tmp_path / "m")
    loaded = cl.load(tmp_path / "m")
    assert np.array_equal(loaded.predict_proba(NEW)[0], after)
    assert np.array_equal(loaded.area(NEW)[1], later.area(NEW)[1])


def test_ordered_labels_have_probabilities_and_decisions():
    worlds = [pasture(seed, (30, 40)) for seed in range(5)]
    images, masks = [w.image for w in worlds], [w.labels for w in worlds]
    fitted = model(labels="ordered", connectivity=4, C=1000.0).fit(images[:4], masks[:4])
    (q,) = fitted.predict_proba(images[4:])
    assert q.shape == (30, 40, 3)
    assert np.abs(q.sum(axis=-1) - 1).max() < 1e-6
    assert np.mean(q.argmax(axis=-1) == masks[4]) > 0.85
    (y,) = fitted.predict(images[4:], decision="iou")
    assert expected_iou(q, y) >= expected_iou(q, q.argmax(axis=-1)) - 1e-9
    (y,) = fitted.predict(images[4:], decision="count")
    assert np.abs(np.bincount(y.ravel(), minlength=3) - q.sum(axis=(0, 1))).max() < 1.01
    value, interval = fitted.area(images[4:], label=2)
    assert abs(value[0] - q[..., 2].sum()) < 1e-3 * q.size
    assert interval[0, 0] <= value[0] <= interval[0, 1]


def test_one_image_is_calibrated_on_itself_and_says_so():
    one = model().fit(IMAGES[1:2], MASKS[1:2])
    assert (one.calibration_.held_out, one.calibration_.n_images) == (False, 1)


def test_areas_need_held_out_images():
    plain = model(calibration=None).fit(IMAGES[:2], MASKS[:2])
    with pytest.raises(cl.InputError, match="Call calibrate"):
        plain.area(NEW)
    plain.calibrate(IMAGES[2:6], MASKS[2:6])
    assert plain.area(NEW)[0].shape == (4,)
    with pytest.raises(cl.InputError, match="level"):
        plain.area(NEW, level=1.0)
    with pytest.raises(cl.InputError, match="label"):
        plain.area(NEW, label=2)


def test_a_file_without_calibration_asks_for_one(tmp_path):
    fitted = model().fit(IMAGES[:2], MASKS[:2])
    fitted.calibration_ = uncalibrated(2)
    with pytest.raises(cl.InputError, match="Call calibrate"):
        fitted.predict_proba(NEW)
    with pytest.raises(cl.InputError, match="Call calibrate"):
        fitted.predict(NEW, decision="iou")
    assert len(fitted.predict(NEW)) == 4


def test_images_that_vary_together_widen_the_interval():
    rows = held_out(np.random.default_rng(6), n=10)
    alone = calibrate(rows, "temperature", True)
    pairs = calibrate(rows, "temperature", True, groups=[0, 0, 1, 1, 2, 2, 3, 3, 4, 4])
    assert (alone.n_groups, pairs.n_groups) == (10, 5)
    q, labels = np.full((30, 30, 2), 0.5), np.zeros((30, 30), np.uint8)
    width = [np.subtract(*c.area(q, labels, 1, 0.9)[:0:-1]) for c in (alone, pairs)]
    assert width[0] < width[1]


def test_few_groups_have_no_interval():
    rows = held_out(np.random.default_rng(6), n=6)
    q, labels = np.full((30, 30, 2), 0.5), np.zeros((30, 30), np.uint8)
    for g, known in ((1, False), (3, False), (4, True)):
        made = calibrate(rows, "temperature", True, groups=[i % g for i in range(6)])
        assert made.n_groups == g
        assert made.has_intervals is known
        value, low, high = made.area(q, labels, 1, 0.9)
        assert 0 < value < 900
        assert (low < value < high) if known else np.isnan([low, high]).all()
        again = Calibration.from_header(*made.to_header(), 2)
        assert np.array_equal(again.area(q, labels, 1, 0.9), (value, low, high), equal_nan=True)
    few = model().fit(IMAGES[:2], MASKS[:2])
    with pytest.warns(UserWarning, match="4 groups"):
        area, interval = few.area(NEW)
    assert np.isfinite(area).all()
    assert np.isnan(interval).all()


def test_the_interval_is_that_of_a_prediction_from_few_draws():
    """Student's law of the errors themselves, one degree less where a was fitted."""
    from scipy.stats import t

    rows = held_out(np.random.default_rng(8), n=6)
    made = calibrate(rows, "temperature", True)
    for label in (0, 1):
        z = []
        for row in rows:
            q = made.probabilities(row.min_marginals)
            own = (row.min_marginals.argmin(-1) == label).sum()
            area = (1 - made.mask_weight[label]) * q[:, label].sum() + made.mask_weight[label] * own
            part = q[:, label]
            z.append(((row.labels == label).sum() - area) / (1 + np.sqrt(part * (1 - part)).sum()))
        degrees = 5 - (made.mask_weight[label] > 0)
        q, labels = np.full((30, 30, 2), 0.5), np.zeros((30, 30), np.uint8)
        value, low, high = made.area(q, labels, label, 0.95)
        half = t.ppf(0.975, degrees) * np.sqrt(np.sum(np.square(z)) / 6 * 7 / degrees) * 451
        assert high - value == pytest.approx(half, rel=1e-9)
        assert value - low == pytest.approx(half, rel=1e-9)


def test_areas_of_old_files_are_unchanged():
    plain, arrays = calibrate(held_out(np.random.default_rng(8), n=6), None, True).to_header()
    q, labels = np.full((30, 30, 2), 0.5), np.zeros((30, 30), np.uint8)
    del plain["degrees"]
    plain |= {"spread": [0.2, 0.2], "lean": [0.0, 0.0]}
    _, low, high = Calibration.from_header(plain, arrays, 2).area(q, labels, 1, 0.9)
    assert (high - low) / 2 == pytest.approx(2.1318467863 * 0.2 * 451, rel=1e-9)  # t of 4 degrees
    _, low, high = Calibration.from_header(plain | {"lean": None}, arrays, 2).area(
        q, labels, 1, 0.9
    )
    assert (high - low) / 2 == pytest.approx(2.0150483733 * 0.2 * 451, rel=1e-9)


@pytest.mark.parametrize("level", [0.5, 0.9])
def test_intervals_of_areas_cover_as_often_as_they_say(level):
    """Pixels go wrong together: each image has its own shift of the logit."""
    rng = np.random.default_rng(2)

    def image():
        margin = rng.normal(0, 2, 400)
        q = 1 / (1 + np.exp(-(margin + rng.normal(0, 0.5))))
        return np.stack([margin, np.zeros(400)], -1), (rng.random(400) < q).astype(np.uint8)

    hits, narrow = [], []
    for _ in range(12):
        made = calibrate([drawn(*image()) for _ in range(15)], "temperature", True)
        for _ in range(30):
            least, labels = image()
            q = made.probabilities(least)
            mask = least.argmin(axis=-1).astype(np.uint8)
            value, low, high = made.area(q, mask, 1, level)
            assert low <= value <= high
            hits.append(low <= labels.sum() <= high)
            alone = np.sqrt((q[:, 1] * (1 - q[:, 1])).sum())
            narrow.append(abs(labels.sum() - value) <= (1.645 if level > 0.6 else 0.674) * alone)
    assert abs(np.mean(hits) - level) < 0.06
    assert np.mean(narrow) < level - 0.15  # what independent pixels would promise


class Halfway(Map):
    """A calibration from outside of the package: half of the softmax, half of a coin."""

    name = "halfway"

    def __init__(self, part):
        self.part = part

    @classmethod
    def fit(cls, least, labels, weight):
        assert len(least) == len(labels) == len(weight)
        return cls(0.5)

    def probabilities(self, least):
        plain = CALIBRATIONS[None].fit(least, None, None).probabilities(least)
        return self.part * plain + (1 - self.part) / least.shape[-1]

    def to_plain(self):
        return {"part": self.part}, {"part": np.array([self.part])}

    @classmethod
    def from_plain(cls, plain, arrays, n_labels):
        if plain["part"] != arrays["part"][0]:
            raise ValueError("parts differ")
        return cls(plain["part"])


@pytest.mark.parametrize("name", ["temperature", "isotonic", None, "halfway"])
def test_a_calibration_from_outside_is_as_good_as_the_others(name, monkeypatch, tmp_path):
    with pytest.raises(cl.InputError, match="'isotonic', None"):
        model(calibration="halfway").fit(IMAGES[:3], MASKS[:3])
    monkeypatch.setitem(CALIBRATIONS, "halfway", Halfway)
    fitted = model(calibration=name).fit(IMAGES[:2], MASKS[:2])
    fitted.calibrate(IMAGES[2:6], MASKS[2:6]).save(tmp_path / "m")
    loaded = cl.load(tmp_path / "m")
    assert loaded.calibration_.kind == name
    q = loaded.predict_proba(NEW)
    assert np.array_equal(q, fitted.predict_proba(NEW))
    assert np.array_equal(loaded.area(NEW)[1], fitted.area(NEW)[1])
    if name == "halfway":
        assert 0.25 <= q[0].min() <= q[0].max() <= 0.75
    with pytest.raises(cl.InputError, match="'isotonic', None, 'halfway'"):
        model(calibration="odd").fit(IMAGES[:3], MASKS[:3])


@pytest.mark.parametrize(
    "change",
    [{"scale": 0.0}, {"scale": "1"}, {"offsets": [0.0]}, {"spread": [-1.0, 0.0]}, {"kind": "odd"},
     {"n_images": -1}, {"n_groups": 1}, {"n_images": 1.5}, {"held_out": 1}, {"kind": "isotonic"},
     {"lean": [2.0, 0.0]}, {"lean": [0.5]}, {"lean": ["a", "b"]}, {"mixed": 1.5}, {"mixed": "1"},
     {"degrees": [0.0, 1.0]}, {"degrees": [1.0]}, {"degrees": ["a", "b"]}],
)  # fmt: skip
def test_lying_headers_are_refused(change):
    plain, arrays = uncalibrated(2).to_header()
    assert Calibration.from_header(plain, arrays, 2).kind is None
    with pytest.raises((ValueError, TypeError)):
        Calibration.from_header(plain | change, arrays, 2)


def test_areas_lean_on_masks_where_held_out_images_say_so():
    """A smooth background: its margins end early, so one temperature leaves it much doubt."""
    rng = np.random.default_rng(3)

    def image():
        sure, cell = rng.integers(1000, 9000), rng.integers(50, 900)
        # Far from borders nothing is wrong, and near them margins of every size are a coin.
        near = rng.uniform(-2.9, 2.9, 800)
        margin = np.concatenate([np.full(sure, -3.0), np.full(cell, 3.0), near])
        chance = np.concatenate([np.zeros(sure), np.ones(cell), np.full(800, 0.5)])
        truth = (rng.random(len(margin)) < chance).astype(np.uint8)
        return np.stack([margin, np.zeros(len(margin))], -1), truth

    made = calibrate([drawn(*image()) for _ in range(12)], "temperature", True)
    plain = Calibration(made.map, made.n_images, made.n_groups, True, made.area_scale)
    error = {"leaning": [], "expected": []}
    for _ in range(40):
        least, truth = image()
        q, mask = made.probabilities(least), least.argmin(axis=-1).astype(np.uint8)
        for name, one in (("leaning", made), ("expected", plain)):
            error[name].append(abs(one.area(q, mask, 1, 0.9)[0] - truth.sum()))
    assert made.mask_weight[1] > 0.5
    assert np.mean(error["leaning"]) < 0.6 * np.mean(error["expected"])


def test_what_cannot_be_stays_so_where_only_a_pixels_own_costs_count():
    map_ = Temperature(1.0, np.zeros(2))
    made = Calibration(map_, 1, 1, True, np.zeros(2), mixed=1.0)
    q = made.probabilities(np.array([[0.0, np.inf], [0.0, 3.0]]), np.array([[0.0, 1.0]] * 2))
    assert q[0].tolist() == [1, 0]
    assert q[1, 1] == pytest.approx(1 / (1 + np.e), rel=1e-12)
