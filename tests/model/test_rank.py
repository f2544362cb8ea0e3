"""What to annotate next: what tells most of all images, no two of a kind, windows by doubt."""

import itertools
from collections import Counter

import numpy as np
import pytest

import cutlearn as cl
from cutlearn.images import cells
from cutlearn.model.rank import Doubt, entropy, likeness, rank, windows_of

NONE = np.empty((0, 2))


def doubt(bits, center, shape=(8, 8)):
    return Doubt(np.full(shape, bits), np.asarray(center, float))


def information(chosen, alike, bits):
    """I(A) by its model: tables of all outcomes of labels (fair coins) and of a reach of 40 values.

    Image j, bits[j] coins in all, is seen through image i only where alike[i, j] is beyond the
    reach; the mutual information is that of the joint distribution.
    """
    steps, told = 40, 0.0
    for j, n in enumerate(bits):
        coins = list(itertools.product((0, 1), repeat=n))
        joint = Counter()
        for y, u in itertools.product(coins, (np.arange(steps) + 0.5) / steps):
            seen = any(alike[i, j] > u for i in chosen)
            joint[y, y if seen else None] += 1 / (len(coins) * steps)
        shown = Counter()
        for (_, z), p in joint.items():
            shown[z] += p
        told += sum(p * np.log2(p / shown[z] * len(coins)) for (_, z), p in joint.items())
    return told


def test_entropy_is_that_of_the_definition():
    rng = np.random.default_rng(0)
    q = rng.dirichlet(np.ones(3), 50)
    wanted = [-sum(p * np.log2(p) for p in row) for row in q]
    assert np.abs(entropy(q) - wanted).max() < 1e-12
    assert entropy([[1.0, 0.0, 0.0]]).tolist() == [0.0]


def test_the_order_is_that_of_the_mutual_information_by_enumeration():
    rng = np.random.default_rng(0)
    for _ in range(5):
        centers, bits = rng.normal(size=(6, 2)), rng.integers(1, 4, 5)
        alike = np.round(40 * likeness(centers)) / 40
        found = rank([doubt(b, c) for b, c in zip(bits, centers[1:])], centers[:1], 4)
        chosen, pool = [0], alike[:, 1:]
        for r in found:
            before = information(chosen, pool, bits)
            gains = {
                i: (information([*chosen, i + 1], pool, bits) - before) / len(bits)
                for i in range(len(bits))
                if i + 1 not in chosen
            }
            # The reach comes in 40 steps there, K rounded to them.
            off = bits.mean() / 40
            assert abs(r.score - gains[r.image]) < off
            assert r.score > max(gains.values()) - off
            chosen.append(r.image + 1)


def test_likeness_is_that_of_the_definition():
    centers = np.random.default_rng(2).normal(size=(5, 3))
    square = [[((a - b) ** 2).sum() for b in centers] for a in centers]
    unit = np.median([square[i][j] for i in range(5) for j in range(i)])
    for i, j in itertools.product(range(5), repeat=2):
        assert likeness(centers)[i, j] == pytest.approx(np.exp(-square[i][j] / (2 * unit)))
    assert likeness(np.ones((3, 2))).tolist() == np.ones((3, 3)).tolist()


def test_the_typical_doubt_comes_first_and_its_double_late():
    given = [(0.5, [0, 0]), (0.5, [0, 0.1]), (0.5, [0.1, 0]), (0.6, [4, 0]), (0.1, [0, 4])]
    found = rank([doubt(*one) for one in given], NONE, 4)
    assert found[0].image in (0, 1, 2)
    assert [r.image for r in found[1:3]] == [3, 4]
    assert [r.entropy for r in found[:3]] == pytest.approx([0.5, 0.6, 0.1])
    scores = [r.score for r in found]
    assert scores == sorted(scores, reverse=True)
    # Nothing is left: every image is settled by itself.
    assert sum(scores) == pytest.approx(np.mean([b for b, _ in given]))


def test_what_is_like_annotated_images_comes_late():
    given = [(0.5, [0, 0]), (0.5, [0, 0.1]), (0.4, [4, 0])]
    assert rank([doubt(*one) for one in given], NONE, 4)[0].image in (0, 1)
    assert rank([doubt(*one) for one in given], np.array([[0.1, 0.0]]), 4)[0].image == 2


def test_size_does_not_matter_but_doubt_does():
    found = rank([doubt(0.4, [0, 0], (40, 40)), doubt(0.5, [1, 0], (4, 4))], NONE, 8)
    assert found[0].image == 1


def test_windows_cover_the_image_and_share_its_score():
    bits = np.random.default_rng(1).random((10, 13))
    found = windows_of(bits, 0.3, 4)
    seen, shared = np.zeros_like(bits), np.zeros_like(bits)
    for part in found:
        seen[part.top : part.bottom, part.left : part.right] += 1
        shared[part.top : part.bottom, part.left : part.right] = part.score
        mean = bits[part.top : part.bottom, part.left : part.right].mean()
        assert part.score / mean == pytest.approx(0.3 / bits.mean())
    assert (seen == 1).all()
    assert shared.mean() == pytest.approx(0.3)
    assert [p.score for p in found] == sorted((p.score for p in found), reverse=True)
    assert [p.score for p in windows_of(np.zeros((4, 4)), 0.3, 2)] == [0.0] * 4


def test_a_model_ranks_images_and_finds_its_doubt():
    worlds = [cells(seed, (40, 48)) for seed in range(5)]
    model = cl.Segmenter(features="linear", C=100.0, n_jobs=1)
    model.fit([w.image for w in worlds[:3]], [w.labels for w in worlds[:3]])
    images = [w.image for w in worlds[3:]]
    found = model.rank(images, window=16)
    assert sorted(r.image for r in found) == [0, 1]
    bits = [entropy(q) for q in model.predict_proba(images)]
    for r in found:
        assert r.entropy == pytest.approx(bits[r.image].mean(), abs=1e-5)
        best = r.windows[0]
        shown = bits[r.image][best.top : best.bottom, best.left : best.right].mean()
        whole = bits[r.image].mean()
        assert best.score == pytest.approx(r.score * shown / whole, rel=1e-4)
    # An annotated image comes after one that is new, though it is in no less doubt.
    again = model.rank([worlds[0].image, *images])
    assert [r.image for r in again].index(0) > 0
    with pytest.raises(cl.InputError, match="window: 0 found"):
        model.rank(images, window=0)
