"""What to annotate next: doubt first, no two of a kind, windows where the doubt is."""

import numpy as np
import pytest

import cutlearn as cl
from cutlearn.images import cells
from cutlearn.model.rank import Doubt, entropy, rank, windows_of


def doubt(bits, center, shape=(8, 8)):
    return Doubt(np.full(shape, bits), np.asarray(center, float))


def test_entropy_is_that_of_the_definition():
    rng = np.random.default_rng(0)
    q = rng.dirichlet(np.ones(3), 50)
    wanted = [-sum(p * np.log2(p) for p in row) for row in q]
    assert np.abs(entropy(q) - wanted).max() < 1e-12
    assert entropy([[1.0, 0.0, 0.0]]).tolist() == [0.0]


def test_the_most_doubtful_comes_first_and_its_double_late():
    given = [(0.1, [5, 0]), (0.9, [0, 0]), (0.89, [0, 0]), (0.5, [0, 5])]
    found = rank([doubt(*one) for one in given], 4)
    assert [r.image for r in found] == [1, 3, 0, 2]
    assert [r.entropy for r in found] == pytest.approx([0.9, 0.5, 0.1, 0.89])
    scores = [r.score for r in found]
    assert scores == sorted(scores, reverse=True)
    assert scores[-1] == 0


def test_size_does_not_matter_but_doubt_does():
    found = rank([doubt(0.4, [0], (40, 40)), doubt(0.5, [1], (4, 4))], 8)
    assert found[0].image == 1


def test_windows_cover_the_image_and_are_sorted():
    bits = np.random.default_rng(1).random((10, 13))
    found = windows_of(bits, 4)
    seen = np.zeros_like(bits)
    for part in found:
        seen[part.top : part.bottom, part.left : part.right] += 1
        assert part.score == bits[part.top : part.bottom, part.left : part.right].mean()
    assert (seen == 1).all()
    assert [p.score for p in found] == sorted((p.score for p in found), reverse=True)


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
        assert best.score == pytest.approx(shown, abs=1e-5)
    with pytest.raises(cl.InputError, match="window: 0 found"):
        model.rank(images, window=0)
