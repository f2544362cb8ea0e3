"""Sessions: what holds for every answer, and that generated objects are found."""

import numpy as np
import pytest
from simulated_user import drawn_box, next_stroke
from sklearn.exceptions import NotFittedError

import cutlearn as cl
from cutlearn.images import cells, pasture
from cutlearn.images.resize import resize_labels
from cutlearn.model.session.engines import UntrainedEngine
from cutlearn.model.session.session import Border


def scene(shape=(96, 128), seed=0):
    """An ellipse of two colours on a background of two other ones."""
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[: shape[0], : shape[1]]
    h, w = shape
    truth = (((y - 0.5 * h) / (0.3 * h)) ** 2 + ((x - 0.48 * w) / (0.22 * w)) ** 2) < 1
    image = np.empty((*shape, 3))
    image[:] = (0.25, 0.5, 0.25)
    image[: h // 3] = (0.5, 0.6, 0.8)
    image[truth] = (0.7, 0.3, 0.2)
    image[truth & (y > 0.55 * h)] = (0.85, 0.75, 0.6)
    image += rng.normal(0, 0.04, image.shape)
    return np.clip(image, 0, 1).astype(np.float32), truth.astype(np.uint8)


def iou(a, b):
    return (a & b).sum() / (a | b).sum()


@pytest.fixture
def opened():
    image, truth = scene()
    session = cl.Session()
    session.set_image(image)
    return session, truth


@pytest.mark.parametrize("seed", range(3))
def test_a_box_finds_a_generated_object(seed):
    image, truth = scene(seed=seed)
    session = cl.Session()
    session.set_image(image)
    box = drawn_box(truth, 0.1)
    labels, probability = session.segment(box=box)
    assert iou(labels, truth) > 0.9
    outside = np.ones(truth.shape, bool)
    outside[box[0] : box[2], box[1] : box[3]] = False
    assert not labels[outside].any()
    assert probability.shape == (*truth.shape, 2)
    assert probability.dtype == np.float32
    assert probability.sum(axis=-1) == pytest.approx(np.ones(truth.shape), abs=1e-5)
    assert (probability[outside, 0] == 1).all()


def test_seeds_alone_find_it_too(opened):
    session, truth = opened
    seeds = np.full(truth.shape, -1, np.int16)
    seeds[30:70, 58:62] = 1
    seeds[10:14, 10:118] = 0
    seeds[80:84, 10:118] = 0
    labels = session.segment(seeds=seeds).labels
    assert iou(labels, truth) > 0.9
    assert (labels[seeds >= 0] == seeds[seeds >= 0]).all()


def test_grey_images_are_answered():
    truth = scene()[1]
    session = cl.Session()
    session.set_image(np.where(truth == 1, 0.8, 0.3).astype(np.float32))
    assert iou(session.segment(box=drawn_box(truth, 0.1)).labels, truth) > 0.9


def strokes(truth, box, count, seed=0):
    """Seeds with one stroke more each time, of random labels anywhere in the box."""
    seeds = np.full(truth.shape, -1, np.int16)
    rng = np.random.default_rng(seed)
    for _ in range(count):
        row, column = rng.integers(box[0] + 4, box[2] - 4), rng.integers(box[1] + 4, box[3] - 4)
        seeds = seeds.copy()
        free = seeds[row - 2 : row + 2, column - 2 : column + 2]
        free[free < 0] = rng.integers(2)
        yield seeds


@pytest.mark.parametrize("color", [True, False])
def test_dark_images_are_answered_like_bright_ones(color):
    """12 bits in a 16-bit file, and even darker floats: the masks of the same bytes."""
    image, truth = scene()
    bright = np.rint(255 * (image if color else image[..., 0])).astype(np.uint8)
    box, found = drawn_box(truth), []
    for given in (bright, bright.astype(np.uint16) * 15, bright.astype(np.float32) / 1e6):
        session = cl.Session()
        session.set_image(given)
        found.append(session.segment(box=box).labels)
    assert iou(found[0], truth) > 0.8
    for other in found[1:]:
        assert (found[0] != other).mean() < 0.002


def test_an_answer_depends_on_what_was_said_and_on_nothing_else(opened):
    """Stroke after stroke, with looks elsewhere in between: as a session that heard just these."""
    session, truth = opened
    box = drawn_box(truth, 0.15)
    fresh = cl.Session()
    fresh.set_image(session.image)
    session.segment(box=box)
    fresh.segment(box=box)
    for seeds in strokes(truth, box, 4):
        elsewhere = np.where(seeds < 0, -1, 1 - seeds).astype(np.int16)
        session.segment(box=box, seeds=elsewhere)
        session.undo()
        found = session.segment(box=box, seeds=seeds)
        expected = fresh.segment(box=box, seeds=seeds)
        assert (found.labels == expected.labels).all()
        assert (found.labels[seeds >= 0] == seeds[seeds >= 0]).all()
        assert found.probability == pytest.approx(expected.probability, abs=1e-6)


def test_a_preview_is_the_answer_to_come_and_keeps_nothing(opened):
    """Also the first one: `segment` afterwards answers as if nobody had looked."""
    session, truth = opened
    box = drawn_box(truth, 0.15)
    first, second = strokes(truth, box, 2)
    fresh = cl.Session()
    fresh.set_image(session.image)
    for seeds in (first, second):  # a part of the first stroke alone would lead elsewhere
        session.after(None, seeds=seeds).labels  # noqa: B018
    with pytest.raises(cl.InputError, match="no answer yet"):
        session.answer  # noqa: B018
    before = None
    for seeds in (first, second):
        preview = session.after(before, seeds=seeds)
        expected = fresh.segment(seeds=seeds)
        before = session.segment(seeds=seeds)
        assert (preview.labels == expected.labels).all()
        assert (before.labels == expected.labels).all()
        assert before.probability == pytest.approx(expected.probability, abs=1e-6)
    session.undo()
    session.after(session.answer, box=box, seeds=first)
    assert session.redo() is before
    session.set_image(session.image)
    with pytest.raises(cl.InputError, match="another image"):
        session.after(before, seeds=first)


def test_a_stroke_brings_pixels_to_its_label_only(opened):
    """What was right elsewhere stays: labels change towards the new stroke, or not at all."""
    session, truth = opened
    box = drawn_box(truth, 0.15)
    before, marked = session.segment(box=box).labels, np.full(truth.shape, -1, np.int16)
    for seeds in strokes(truth, box, 6, seed=3):
        label = int(seeds[seeds != marked][0])
        labels = session.segment(box=box, seeds=seeds).labels
        assert (labels[labels != before] == label).all()
        before, marked = labels, seeds


def test_seeds_that_are_taken_back_are_forgotten(opened):
    session, truth = opened
    box = drawn_box(truth, 0.15)
    first, second = strokes(truth, box, 2)
    session.segment(box=box, seeds=second)
    fresh = cl.Session()
    fresh.set_image(session.image)
    expected = fresh.segment(box=box, seeds=first)
    assert (session.segment(box=box, seeds=first).labels == expected.labels).all()


def test_undo_and_redo_bring_answers_back(opened, monkeypatch):
    session, truth = opened
    assert not session.can_undo
    first = session.segment(box=drawn_box(truth, 0.1))
    second = session.segment(box=drawn_box(truth, 0.3))
    assert session.can_undo
    assert not session.can_redo
    monkeypatch.setattr(UntrainedEngine, "solve", lambda *given: pytest.fail("computed again"))
    assert session.undo() is first
    assert session.answer is first
    assert session.can_redo
    assert session.redo() is second
    session.undo()
    monkeypatch.undo()
    session.segment(box=drawn_box(truth, 0.2))  # what was undone is gone
    assert not session.can_redo
    with pytest.raises(cl.InputError, match="no later answer"):
        session.redo()


def test_strokes_at_errors_help(opened):
    session, truth = opened
    box = (0, 0, *truth.shape)
    labels, seeds = session.segment(box=box).labels, np.full(truth.shape, -1, np.int16)
    for _ in range(6):
        seeds = next_stroke(truth, labels, seeds)
        labels = session.segment(box=box, seeds=seeds).labels
    assert iou(labels, truth) > 0.95


def test_area_and_window(opened):
    session, truth = opened
    session.segment(box=drawn_box(truth, 0.1))
    value, (low, high) = session.area()
    assert low <= value <= high
    assert abs(value - truth.sum()) < 0.15 * truth.sum()
    top, left, bottom, right = session.where_next()
    assert 0 <= top < bottom <= truth.shape[0]
    assert 0 <= left < right <= truth.shape[1]
    doubt = np.minimum(*np.moveaxis(session.answer.probability, -1, 0))
    assert doubt[top:bottom, left:right].mean() > doubt.mean()


def test_a_large_image_is_worked_smaller_and_made_sharp():
    image, truth = scene((750, 1000))
    session = cl.Session()
    session.set_image(image)
    seeds = np.full(truth.shape, -1, np.int16)
    seeds[100:110, 480:490] = 0
    labels, probability = session.segment(box=drawn_box(truth, 0.1), seeds=seeds)
    assert labels.shape == truth.shape
    assert probability.shape == (*truth.shape, 2)
    assert iou(labels, truth) > 0.95
    assert (labels[seeds == 0] == 0).all()


def test_three_labels_from_seeds():
    image = np.zeros((40, 60, 3), np.float32)
    image[:, :20], image[:, 20:40], image[:, 40:] = (
        (0.8, 0.2, 0.2),
        (0.2, 0.7, 0.2),
        (0.2, 0.2, 0.9),
    )
    image += np.random.default_rng(0).normal(0, 0.03, image.shape)
    truth = np.repeat(np.arange(3), 20)[None].repeat(40, axis=0)
    session = cl.Session(n_labels=3)
    session.set_image(np.clip(image, 0, 1))
    seeds = np.full(truth.shape, -1, np.int16)
    seeds[18:22, 8:12], seeds[18:22, 28:32], seeds[18:22, 48:52] = 0, 1, 2
    labels, probability = session.segment(seeds=seeds)
    assert (labels == truth).all()
    assert probability.shape == (40, 60, 3)
    with pytest.raises(cl.InputError, match="label 2 has no seed"):
        session.segment(seeds=np.where(seeds == 2, -1, seeds))
    with pytest.raises(cl.InputError, match="two labels apart"):
        session.segment(box=(0, 0, 40, 60), seeds=seeds)


def test_a_fitted_model_answers_with_its_own_weights():
    worlds = [cells(seed, (48, 64)) for seed in range(4)]
    images, masks = [w.image for w in worlds], [w.labels for w in worlds]
    model = cl.Segmenter(features="linear", C=1.0, calibration=None).fit(images[:3], masks[:3])
    session = cl.Session(model)
    session.set_image(images[3])
    assert (session.segment().labels == model.predict(images[3:])[0]).all()
    seeds = np.full((48, 64), -1, np.int16)
    seeds[20:24, 30:40] = 1
    box = (10, 10, 40, 60)
    sample = cl.Sample(images[3], box=box, seeds=seeds)
    answer = session.segment(box=box, seeds=seeds)
    assert (answer.labels == model.predict([sample])[0]).all()
    assert answer.probability == pytest.approx(model.predict_proba([sample])[0], abs=1e-5)


def test_colors_are_joined_to_a_model_once_a_person_has_said_something():
    """Half of an object has colours that the model never met; a stroke there brings it in."""
    rng = np.random.default_rng(0)
    truth = np.zeros((48, 64), np.uint8)
    truth[12:36, 16:48] = 1
    plain = np.where(truth[..., None] == 1, (0.8, 0.2, 0.2), (0.3, 0.3, 0.3))
    images = [np.clip(plain + rng.normal(0, 0.1, plain.shape), 0, 1) for _ in range(4)]
    model = cl.Segmenter(features="linear", C=1.0).fit(images, [truth] * 4)
    strange = plain.copy()
    strange[12:36, 32:48] = (0.2, 0.3, 0.7)
    session = cl.Session(model)
    session.set_image(np.clip(strange + rng.normal(0, 0.03, plain.shape), 0, 1))
    assert (session.segment().labels == model.predict([session.image])[0]).all()
    seeds = np.full(truth.shape, -1, np.int16)
    seeds[22:26, 36:44] = 1
    joined = session.segment(seeds=seeds).labels
    held = model.predict([cl.Sample(session.image, seeds=seeds)])[0]
    assert (joined[seeds == 1] == 1).all()
    assert iou(joined, truth) > iou(held, truth)


def test_samples_with_boxes_and_seeds_are_fitted_and_predicted_as_a_session_answers():
    """One code: what a person gave is held fast in fit, in predict and in a session."""
    worlds = [pasture(seed, (40, 56)) for seed in range(4)]
    marked = []
    for world in worlds:
        seeds = np.full(world.labels.shape, -1, np.int16)
        seeds[::9, ::7] = world.labels[::9, ::7]
        marked.append(cl.Sample(world.image, seeds=seeds))
    model = cl.Segmenter(features="linear", labels="ordered", C=1.0, calibration=None)
    model.fit(marked[:3], [world.labels for world in worlds[:3]])
    assert len(model.classes_) == 3
    session = cl.Session(model)
    session.set_image(worlds[3].image)
    answer = session.segment(seeds=marked[3].seeds)
    held = marked[3].seeds >= 0
    assert (answer.labels[held] == marked[3].seeds[held]).all()
    assert (answer.labels == model.predict(marked[3:])[0]).all()
    assert answer.probability == pytest.approx(model.predict_proba(marked[3:])[0], abs=1e-5)
    # Another label in the same place holds, too.
    other = np.where(held, (marked[3].seeds + 1) % 3, -1).astype(np.int16)
    assert (session.segment(seeds=other).labels[held] == other[held]).all()


@pytest.mark.parametrize("more", [(0, 0, 0, 0), (-7, -9, 30, 500), (-7, 0, 0, 2)])
def test_a_box_that_overhangs_is_clipped(opened, more):
    session, truth = opened
    h, w = truth.shape
    inside = (10, 20, h, w)
    given = tuple(v + m if m > 0 else v for v, m in zip(inside, more))
    answer = session.segment(box=given)
    assert answer.box == inside
    assert (answer.labels == session.segment(box=inside).labels).all()
    assert session.segment(box=(-5, -5, h + 5, w + 5)).box == (0, 0, h, w)


@pytest.mark.parametrize(
    "box",
    [(0, 0, 0, 10), (9, 9, 9, 12), (10, 20, 10, 50), (-9, 4, 0, 9), (0, 128, 9, 140), (5, 5, 2, 9),
     (96, 0, 300, 10), (1, 2, 3), (1.5, 2, 3, 4), (0, 0, np.inf, 9), (0, 0, np.nan, 9), "abcd"],
)  # fmt: skip
def test_an_empty_box_is_refused(opened, box):
    with pytest.raises(cl.InputError, match=r"box is .*top, left, bottom, right"):
        opened[0].segment(box=box)


@pytest.mark.parametrize("kind", [cl.Segmenter, cl.BoltzmannSegmenter])
def test_models_that_are_not_fitted_are_refused_when_the_session_is_made(kind):
    with pytest.raises(NotFittedError, match="Call fit"):
        cl.Session(kind())
    for wrong in (kind, "a.model", 3):
        with pytest.raises(cl.InputError, match="model is"):
            cl.Session(wrong)


def test_volumes_are_refused_in_words(opened):
    session, _ = opened
    image = session.image
    volume = cl.Volume(np.zeros((3, 40, 50), np.uint8))
    with pytest.raises(cl.InputError, match=r"volume.*slices"):
        session.set_image(volume)
    assert session.image is image  # as it was
    session.set_image(volume.slices()[1])
    assert session.shape == (40, 50)
    truth = np.zeros((4, 24, 32), np.uint8)
    truth[1:3, 8:16, 8:20] = 1
    noise = np.random.default_rng(0).integers(0, 50, truth.shape)
    voxels = cl.Volume((100 * truth + noise).astype(np.uint8))
    model = cl.Segmenter(features="linear", C=1.0, calibration=None).fit([voxels], [truth])
    with pytest.raises(cl.InputError, match="fitted on volumes"):
        cl.Session(model)


def test_what_is_wrong_is_said(opened):
    session, truth = opened
    with pytest.raises(cl.InputError, match="set_image"):
        cl.Session().segment(box=(0, 0, 1, 1))
    with pytest.raises(cl.InputError, match="n_labels"):
        cl.Session(n_labels=1)
    with pytest.raises(cl.InputError, match="neither a box nor seeds"):
        session.segment()
    with pytest.raises(cl.InputError, match="no answer yet"):
        session.area()
    with pytest.raises(cl.InputError, match="top, left, bottom, right"):
        session.segment(box=(5, 5, 2, 9))
    seeds = np.full(truth.shape, 2, np.int16)
    with pytest.raises(cl.InputError, match="labels 0 to 1"):
        session.segment(seeds=seeds)
    session.segment(box=drawn_box(truth))
    with pytest.raises(cl.InputError, match="labels 0 to 1"):
        session.area(label=2)


def disc(n=120):
    y, x = np.mgrid[:n, :n]
    truth = ((y - 57) ** 2 + (x - 63) ** 2 < 34**2).astype(np.uint8)
    noise = np.random.default_rng(0).normal(0, 0.03, (n, n, 3))
    image = np.where(truth[..., None] == 1, (0.8, 0.3, 0.2), (0.2, 0.4, 0.5)) + noise
    return np.clip(image, 0, 1).astype(np.float32), truth


def test_the_border_follows_the_full_image():
    image, truth = disc()
    labels = resize_labels(truth, (30, 30))
    unary = np.where(labels == 1, -1.0, 1.0)
    free = np.full(truth.shape, -1, np.int16)
    before = (resize_labels(labels, truth.shape) != truth).sum()
    found = Border(image).sharpened(labels, unary, free, (0.0, 8.0))
    assert before > 100
    assert (found != truth).sum() <= 10


def test_fixed_pixels_hold_and_far_ones_stay():
    image, truth = disc()
    labels = resize_labels(truth, (30, 30))
    fixed = np.full(truth.shape, -1, np.int16)
    fixed[55:60, 95:98] = 1  # against the image, close to the border
    fixed[2:4, 2:4] = 1
    unary = np.where(labels == 1, -1.0, 1.0)
    found = Border(image).sharpened(labels, unary, fixed, (0.0, 8.0))
    assert (found[fixed == 1] == 1).all()
    assert found[:40, 110:].sum() == 0


def test_a_mask_without_a_border_stays_as_it_is():
    image, _ = disc()
    nothing = np.zeros((30, 30), np.uint8)
    free = np.full(image.shape[:2], -1, np.int16)
    assert not Border(image).sharpened(nothing, np.ones((30, 30)), free, (0.0, 8.0)).any()
