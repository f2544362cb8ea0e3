"""What to annotate next: what tells most of all images, no two of a kind."""

import itertools
from collections import Counter

import numpy as np
import pytest

import cutlearn as cl
from cutlearn.features.nodes import windows
from cutlearn.images import cells
from cutlearn.model.ranking import (
    DOUBTLESS,
    REACH,
    Described,
    areas,
    describe,
    likeness,
    median_square,
    rank,
)

STEPS = 200
NONE = np.empty((0, 2))


def told(seen_by):
    """The mutual information of a fair coin with what is seen of it: tables of all outcomes.

    The coin is seen through any window whose likeness is beyond a reach of STEPS values.
    """
    joint = Counter()
    for y, t in itertools.product((0, 1), (np.arange(STEPS) + 0.5) / STEPS):
        joint[y, y if any(k > t for k in seen_by) else None] += 1 / (2 * STEPS)
    shown = Counter()
    for (_, z), p in joint.items():
        shown[z] += p
    return sum(p * np.log2(2 * p / shown[z]) for (_, z), p in joint.items())


def image(center, shape=(4, 4), rng=None):
    """An image whose windows are all alike, or vary."""
    n = len(areas(shape))
    spread = 0 if rng is None else rng.normal(size=(n, 2))
    return Described(shape, np.full((n, 2), np.asarray(center, float)) + spread)


def test_the_order_is_that_of_the_mutual_information_by_enumeration():
    rng = np.random.default_rng(0)
    shapes = [(1, 1), (1, 2), (2, 2), (1, 3)]
    for _ in range(3):
        images = [image(rng.normal(size=2), shape, rng) for shape in shapes]
        annotated = rng.normal(size=(2, 2))
        everything = np.concatenate([annotated, *(i.centers for i in images)])
        unit = REACH**2 * median_square(everything)

        def information(chosen, annotated=annotated, images=images, unit=unit):
            known = np.concatenate([annotated, *(c.centers for c in chosen)])
            parts = [
                [told(likeness(known, v[None], unit)[:, 0]) for v in i.centers] for i in images
            ]
            return np.mean([np.mean(part) for part in parts])

        chosen = []
        for r in rank(images, annotated):
            before = information(chosen)
            gains = {
                i: information([*chosen, one]) - before
                for i, one in enumerate(images)
                if not any(one is c for c in chosen)
            }
            assert abs(r.score - gains[r.image]) < 1 / STEPS
            assert r.score > max(gains.values()) - 1 / STEPS
            parts = zip(images[r.image].centers, areas(images[r.image].shape))
            alone = [information([*chosen, Described((1, 1), u[None])]) - before for u, _ in parts]
            found = [window.score for window in r.windows]
            assert found == pytest.approx(sorted(alone, reverse=True), abs=1 / STEPS)
            chosen.append(images[r.image])


def test_likeness_and_its_unit_are_those_of_the_definition():
    centers = np.random.default_rng(2).normal(size=(5, 3))
    square = [[((a - b) ** 2).sum() for b in centers] for a in centers]
    m2 = np.median([square[i][j] for i in range(5) for j in range(i)])
    assert median_square(centers) == pytest.approx(m2)
    assert median_square(np.ones((3, 2))) == median_square(np.ones((1, 2))) == 1.0
    for i, j in itertools.product(range(5), repeat=2):
        wanted = np.exp(-square[i][j] / (2 * 0.7))
        assert likeness(centers, centers, 0.7)[i, j] == pytest.approx(wanted)


def test_the_typical_comes_first_and_its_double_last():
    found = rank([image(c) for c in ([0, 0], [0, 0.1], [0.1, 0], [4, 0], [0, 4])], NONE)
    assert found[0].image in (0, 1, 2)
    assert {r.image for r in found[1:3]} == {3, 4}
    scores = [r.score for r in found]
    assert scores == sorted(scores, reverse=True)
    # In the end all is settled.
    assert sum(scores) == pytest.approx(1.0)


def test_what_is_like_annotated_windows_comes_late():
    images = [image(c) for c in ([0, 0], [0, 0.1], [4, 0])]
    assert rank(images, NONE)[0].image in (0, 1)
    assert rank(images, np.array([[0.1, 0.0]]))[0].image == 2


def test_what_the_model_is_sure_of_is_worth_little():
    """Much clear sky, little doubtful ground: without doubts the sky would come first."""
    sky, ground = [image([0, 0]) for _ in range(4)], [image([9, 9]) for _ in range(2)]
    assert rank([*sky, *ground], NONE)[0].image < 4
    sure = [Described(one.shape, one.centers, np.zeros(len(one.centers))) for one in sky]
    open_ = [Described(one.shape, one.centers, np.ones(len(one.centers))) for one in ground]
    found = rank([*sure, *open_], NONE)
    assert found[0].image >= 4
    assert sum(one.score for one in found) == pytest.approx(1.0)
    open_part, sure_part = 2 * (DOUBTLESS + 1), 4 * DOUBTLESS
    assert found[0].score == pytest.approx(open_part / (open_part + sure_part))


def test_doubts_are_the_mean_entropies_of_the_windows():
    q = np.zeros((8, 8, 2))
    q[..., 0] = 1
    q[:2, :2] = 0.5
    q[:2, 2:4] = [0.25, 0.75]
    doubts = describe(np.zeros((64, 1)), (8, 8), q).doubts
    wanted = -(0.25 * np.log2(0.25) + 0.75 * np.log2(0.75))
    assert doubts[:2] == pytest.approx([1.0, wanted])
    assert (doubts[2:] == 0).all()


def test_size_does_not_matter():
    small, large = [image([k, 0], (4, 4)) for k in (0, 0.1)], image([4, 0], (4, 16))
    assert rank([*small, large], NONE)[0].image != 2
    assert areas((4, 16)).sum() == pytest.approx(1.0)


def test_windows_of_a_ranked_image_cover_it_and_tell_where_the_new_is():
    features = np.zeros((8, 12, 2))
    features[4:, 6:] = 3.0
    found = rank([describe(features.reshape(-1, 2), (8, 12))], np.zeros((1, 2)))[0]
    seen = np.zeros((8, 12))
    for part in found.windows:
        seen[part.top : part.bottom, part.left : part.right] += 1
        new = part.top >= 4 and part.left >= 6
        assert part.score == pytest.approx(found.score if new else 0.0)
    assert (seen == 1).all()
    assert found.score == pytest.approx(0.25)
    assert len(found.windows) == np.prod([len(ends) - 1 for ends in windows((8, 12))])


def test_a_model_ranks_what_it_was_fitted_on_last():
    worlds = [cells(seed, (40, 48)) for seed in range(5)]
    images, masks = [w.image for w in worlds], [w.labels for w in worlds]
    model = cl.Segmenter(features="linear", C=100.0, calibration=None, n_jobs=1)
    model.fit(images[:3], masks[:3])
    found = model.rank(images)
    assert sorted(r.image for r in found[:2]) == [3, 4]
    assert [r.score for r in found[2:]] == pytest.approx([0.0] * 3, abs=1e-6)
