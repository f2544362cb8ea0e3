"""Large images: the size at which they are worked, the memory that is estimated, the refusal."""

import numpy as np
import pytest

import cutlearn as cl
from cutlearn.model.fitting import size
from cutlearn.model.memory import free_bytes, images_at_once, needed_bytes

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
    with pytest.raises(
        cl.InputError, match=r"about 1\.5 GB .* 1000 x 1000.*min_side=(\d+)"
    ) as told:
        images_at_once(shapes, None, 8, free=GB)
    side = int(str(told.value).split("min_side=")[1].split(",")[0])
    assert images_at_once(shapes, side, 8, free=GB) >= 1


def test_a_fit_keeps_something_of_every_image():
    assert needed_bytes([(100, 100)] * 9, None, 1, keeps=True) > needed_bytes(
        [(100, 100)] * 9, None, 1
    )


def test_the_system_tells_what_is_free_or_nothing():
    free = free_bytes()
    assert free is None or free > 10 * 2**20
