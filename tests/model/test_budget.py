"""Large images: their size, estimated memory and refusal; estimated and measured times of fits."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import cutlearn as cl
from cutlearn.energy.compiled import Compiled
from cutlearn.energy.label_space import labels_of
from cutlearn.model import budget, size
from cutlearn.model.budget import (
    Load,
    free_bytes,
    images_at_once,
    needed_bytes,
    refuse_beyond,
    worked_bytes,
)

GB = 2**30


def test_large_images_are_worked_at_a_smaller_size_of_the_same_proportions():
    assert size.worked_shape((1000, 2000), None) == (1000, 2000)
    rows, columns = size.worked_shape((4000, 6000), None)
    assert 0.99 * size.MOST_WORKED < rows * columns <= size.MOST_WORKED
    assert abs(columns / rows - 1.5) < 0.002
    assert size.worked_shape((4000, 6000), 500) == (500, 750)


def test_masks_of_large_images_have_their_size(monkeypatch):
    from cutlearn.images import cells

    worlds = [cells(seed, (40, 60)) for seed in range(3)]
    monkeypatch.setattr(size, "MOST_WORKED", 600)
    model = cl.Segmenter(features="linear", C=10.0, tol=0.05, n_jobs=1)
    with pytest.warns(cl.errors.InputWarning, match="60 x 40 pixels .* worked at 30 x 20"):
        model.fit([w.image for w in worlds[:2]], [w.labels for w in worlds[:2]])
    assert model.card_["data"]["largest"] == [20, 30]
    with pytest.warns(cl.errors.InputWarning, match="worked at 30 x 20.*min_side"):
        (mask,) = model.predict([worlds[2].image])
    assert mask.shape == (40, 60)
    assert np.array_equal(mask, np.kron(mask[::2, ::2], np.ones((2, 2), np.uint8)))


def test_as_many_images_at_once_as_fit_and_a_refusal_that_names_a_size_that_does():
    shapes = [(1000, 1000)] * 5
    one, two = (needed_bytes(shapes, None, k) for k in (1, 2))
    assert two > one
    assert images_at_once(shapes, None, 8, free=int(two / 0.89)) == 2
    assert images_at_once(shapes, None, 1, free=100 * GB) == 1
    assert images_at_once(shapes, None, 8, free=1000 * GB) == 5
    free = GB // 3
    with pytest.raises(
        cl.InputError, match=r"about 0\.4 GB .* 1000 x 1000.*min_side=(\d+)"
    ) as told:
        images_at_once(shapes, None, 8, free=free)
    side = int(str(told.value).split("min_side=")[1].split(",")[0])
    assert images_at_once(shapes, side, 8, free=free) >= 1


def test_a_fit_keeps_something_of_every_image():
    assert needed_bytes([(100, 100)] * 9, None, 1, keeps=True) > needed_bytes(
        [(100, 100)] * 9, None, 1
    )


def test_the_system_tells_what_is_free_or_nothing():
    free = free_bytes()
    assert free is None or free > 10 * 2**20


GROWTH = """
import ctypes, sys
from pathlib import Path
import subprocess
import sys
from pathlib import Path

import numpy as np
from cutlearn.features.trees import Recipe
from cutlearn.features.featurizer import Featurizer

def memory(field):
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(1024 * int(line.split()[1]) for line in lines if line.startswith(field))

def grown(shape):
    image = np.random.default_rng(2).uniform(size=shape).astype(np.float32)
    ctypes.CDLL(None).malloc_trim(0)
    Path("/proc/self/clear_refs").write_text("5")
    before = memory("VmRSS")
    featurizer.node_features(image)
    return memory("VmHWM") - before

rng = np.random.default_rng(0)
images = [rng.uniform(size=(40, 50, 3)).astype(np.float32) for _ in range(3)]
masks = [(image[..., 0] > 0.5).astype(np.uint8) for image in images]
recipe = Recipe(trees=3, rows=900, folds=2, min_leaf=5)
featurizer = Featurizer("trees", kind=sys.argv[1], recipe=recipe, n_jobs=1).fit(images, masks)
small, large = (300, 400, 3), (900, 1000, 3)
print((grown(large) - grown(small)) / (900 * 1000 - 300 * 400))
"""


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="needs Linux's /proc")
@pytest.mark.parametrize("kind", ["photograph", "microscopy"])
def test_describing_an_image_takes_few_bytes_a_pixel(kind):
    made = subprocess.run(
        [sys.executable, "-c", GROWTH, kind], check=True, capture_output=True, text=True
    )
    # About 100; all planes of a bank at once would be 800 and more.
    assert 20 < float(made.stdout) < 250


def test_an_energy_copies_what_others_can_change_and_nothing_else():
    unary, weight = np.zeros((4, 5)), [np.ones((4, 4)), np.ones((3, 5))]
    ours = cl.Energy.grid(unary, weight)
    unary[:], weight[0][:] = -1, 7
    assert ours.minimize().value == 0
    read_only = np.full((4, 5), -1.0)
    view = read_only[:]
    view.flags.writeable = False  # the array behind it can still be written to
    ours = cl.Energy.grid(view, 0.0)
    read_only[:] = 1
    assert ours.minimize().value == -20
    read_only.flags.writeable = False
    assert cl.Energy.grid(read_only, 0.0)._terms.unary.base is read_only


def test_what_answers_for_a_problem_says_what_the_model_says():
    rng = np.random.default_rng(0)
    problem = cl.Problem(rng.normal(size=(6, 7, 2)), edge_features=rng.uniform(size=(71, 1)),
                         shape=(6, 7), connectivity=4)  # fmt: skip
    for labels, L in (("binary", 2), ("surrogate", 3)):
        model = cl.Model(labels=labels, n_labels=L)
        w = np.abs(rng.normal(size=model.layout(problem).size))
        asked = Compiled(model, problem)
        assert np.array_equal(asked.cut(w, last=True), model.mask(problem, w))
        assert np.array_equal(
            Compiled(model, problem).min_marginals(w, last=True), model.min_marginals(problem, w)
        )


def test_a_large_image_needs_little_more_for_every_pixel():
    small, large = worked_bytes(1 << 24), worked_bytes(1 << 27)
    assert large < 1.2 * small
    assert worked_bytes((1 << 27) + 1000) - large == 12_000
    refuse_beyond(10**8, free=8 * 2**30)
    with pytest.raises(cl.InputError, match=r"3\.1 GB of memory are needed for 100 million"):
        refuse_beyond(10**8, free=3 * 2**30)


def test_more_labels_take_more_and_are_cut_in_smaller_strips():
    three = Load.of(labels_of("ordered", 3))
    assert Load() == Load.of(labels_of("binary")) == Load.of(labels_of("unordered", 2))
    assert three.whole < Load().whole
    assert three.strip * three.bytes <= Load().strip * Load().bytes
    # Measured at 5000 x 5000: 3.67 GB.
    assert 3.67e9 < worked_bytes(25_000_000, three) < 5e9
    with pytest.raises(cl.InputError, match="memory are needed for 25 million"):
        refuse_beyond(25_000_000, free=4 * GB, load=three)
    many = Load.of(labels_of("ordered", 20))
    assert many.whole == budget.ALWAYS


def test_slices_count():
    one = needed_bytes([(100, 100)], None, 1)
    assert needed_bytes([(100, 100)], None, 1, depths=[50]) - one == 49 * 10_000 * 228


def test_what_does_not_stream_is_refused_before_the_features(monkeypatch):
    volume = cl.Volume(np.random.default_rng(0).uniform(size=(6, 40, 50)))
    mask = (volume.image > 0.5).astype(np.uint8)
    monkeypatch.setattr(budget, "free_bytes", lambda: 150 * 2**20)
    with pytest.raises(cl.InputError, match=r"6 slices of up to 50 x 40.*fewer annotated slices"):
        cl.Segmenter(features="linear").fit(volume, mask)
    images = list(volume.image)
    with pytest.raises(cl.InputError, match=r"images of up to 50 x 40.*fewer images"):
        cl.BoltzmannSegmenter().fit(images, list(mask))


def test_what_nearly_fits_is_refused_with_a_reason():
    need = worked_bytes(10_000_000)
    with pytest.raises(cl.InputError, match=r"1\.9 GB .* 2\.0 GB are free, a tenth of which"):
        refuse_beyond(10_000_000, free=int(1.05 * need))
    with pytest.raises(cl.InputError, match=r"but 0\.9 GB are free\. Work"):
        refuse_beyond(10_000_000, free=need // 2)


# Shapes, colour, labels, parameters of the fit; processor seconds of one thread, measured.
MEASURED = {
    "horses, auto": ([(160, 204)] * 10, True, 2, {}, 37),
    "horses, small, auto": ([(100, 128)] * 3, True, 2, {}, 3),
    "nuclei, auto": ([(200, 262)] * 3, False, 2, {}, 18),
    "cows, trees": ([(100, 150)] * 4, True, 3, {"features": "trees", "labels": "unordered"}, 6.3),
    "neurons, trees": ([(200, 200)] * 4, False, 2, {"features": "trees"}, 5.8),
    "horses, trees": ([(150, 194)] * 12, True, 2, {"features": "trees", "C": 10.0}, 9.2),
    "horses, linear": ([(150, 191)] * 10, True, 2, {"features": "linear"}, 5.2),
    "pedestrians, net": ([(100, 145)] * 3, True, 2, {"features": "net"}, 44),
    "mitochondria, linear": ([(200, 267)] * 4, False, 2, {"features": "linear"}, 3.4),
    "depth of nuclei": (
        [(120, 120)] * 3,
        False,
        3,
        {"features": "linear", "labels": "ordered"},
        2.6,
    ),
    "4 depths": ([(120, 120)] * 2, False, 4, {"features": "linear", "labels": "ordered"}, 2.5),
    "5 depths": ([(120, 120)] * 2, False, 5, {"features": "linear", "labels": "ordered"}, 2.6),
    "cows, linear": ([(150, 225)] * 4, True, 3, {"features": "linear", "labels": "unordered"}, 16),
}


def seconds(shapes, color, n_labels, parameters):
    return sum(cl.Segmenter(n_jobs=1, **parameters).phases(shapes, color, n_labels).values())


@pytest.mark.parametrize("name", MEASURED)
def test_measured_fits_are_reckoned_within_a_half(name):
    *given, measured = MEASURED[name]
    assert measured / 1.5 <= seconds(*given) <= 1.5 * measured


def test_more_of_everything_takes_longer():
    shapes, trees = [(100, 150)] * 4, {"features": "trees"}
    one = seconds(shapes, True, 2, trees)
    assert seconds(shapes * 2, True, 2, trees) > one
    assert seconds([(200, 300)] * 4, True, 2, trees) > one
    assert seconds(shapes, True, 3, {"features": "linear", "labels": "unordered"}) > 2 * seconds(
        shapes, True, 2, {"features": "linear"}
    )
    assert seconds(shapes, True, 2, trees | {"C": 10.0}) < one
    two = cl.Segmenter(n_jobs=2, **trees).phases(shapes, True, 2)
    assert sum(two.values()) == pytest.approx(one / 2)


def test_nobody_knows_how_long_shapes_take():
    assert list(cl.BoltzmannSegmenter().phases([(64, 64)], True, 2)) == ["training"]
