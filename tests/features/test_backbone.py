"""Maps of a network: where they are read, how they are combined, and what stays in memory."""

import numpy as np
import pytest
from scipy.ndimage import map_coordinates

import cutlearn as cl
from cutlearn.features import backbone
from cutlearn.features.backbone import (
    CALLABLES,
    Function,
    Installed,
    MapCache,
    Maps,
    backbone_of,
    color_triples,
    enlarged,
)

RNG = np.random.default_rng(0)


def halves(image):
    """A function as users give it: (h, w, channels) -> maps (channels, h', w')."""
    return [image[::2, ::2].transpose(2, 0, 1), image[::4, ::4].transpose(2, 0, 1) ** 2]


@pytest.fixture(autouse=True)
def own_callables(monkeypatch):
    monkeypatch.setattr(backbone, "CALLABLES", {})


def random_maps(shape=(9, 13)):
    planes = (RNG.normal(size=(5, 7, 3)), RNG.normal(size=(2, 3, 4)))
    return Maps(shape, tuple(plane.astype(np.float16) for plane in planes))


def test_maps_are_enlarged_bilinearly_between_the_centres_of_their_cells():
    plane = RNG.normal(size=(5, 7, 2)).astype(np.float32)
    h, w = 12, 9
    y, x = np.meshgrid((np.arange(h) + 0.5) * 5 / h - 0.5, (np.arange(w) + 0.5) * 7 / w - 0.5,
                       indexing="ij")  # fmt: skip
    for k in range(2):
        wanted = map_coordinates(plane[..., k], [y, x], order=1, mode="nearest")
        np.testing.assert_allclose(enlarged(plane, (h, w))[..., k], wanted, atol=1e-5)


def test_linear_functions_of_maps_are_those_of_rows():
    maps = random_maps()
    weights = RNG.normal(size=(maps.channels, 2)).astype(np.float32)
    whole = maps.linear(weights, maps.shape).reshape(-1, 2)
    index = RNG.permutation(len(whole))[:40]
    np.testing.assert_allclose(maps.rows(index) @ weights, whole[index], atol=2e-5)


def test_a_map_of_one_cell_is_constant():
    assert (enlarged(np.full((1, 1, 2), 3, np.float32), (4, 5)) == 3).all()


def test_channels_are_shown_as_colours():
    image = RNG.uniform(size=(2, 3, 7)).astype(np.float32)
    for n in range(1, 8):
        shown = color_triples(image[..., :n])
        assert all(one.shape == (2, 3, 3) for one in shown)
        seen = np.concatenate(shown, axis=2)
        assert all((seen == image[..., k : k + 1]).all(axis=(0, 1)).any() for k in range(n))


def test_a_function_is_a_network_with_its_own_name():
    found = backbone_of(halves)
    assert found.name.endswith("halves")
    assert backbone_of(found) is found
    assert backbone_of(found.name).digest == found.digest == backbone_of(halves).digest
    assert [a.shape for a in found.maps(np.zeros((8, 12, 2), np.float32))] == [(4, 6, 2), (2, 3, 2)]


@pytest.mark.parametrize("made", [[], [np.zeros((2, 3))], [np.zeros((1, 0, 3))],
                                  [np.full((1, 2, 2), "a")]])  # fmt: skip
def test_what_is_no_map_is_refused(made):
    with pytest.raises(cl.InputError, match="maps"):
        Function(lambda image: made).maps(np.zeros((4, 4, 1), np.float32))


def test_numbers_that_are_none_are_refused():
    network = Function(lambda image: [np.full((1, 2, 2), np.nan)])
    with pytest.raises(cl.InputError, match="numbers"):
        MapCache().maps(network, np.zeros((4, 4), np.float32))


@pytest.mark.parametrize("given", ["unknown", 7, None, np.zeros(3)])
def test_what_is_no_network_is_refused(given):
    with pytest.raises(cl.InputError, match="mobile-sam"):
        backbone_of(given)


def test_maps_are_computed_once_and_the_oldest_are_dropped():
    seen = []

    def network(image):
        seen.append(image)
        return halves(image)

    found = Function(network)
    images = RNG.uniform(size=(3, 8, 8)).astype(np.float32)
    cache = MapCache()
    first = cache.maps(found, images[0])
    assert cache.maps(found, images[0].copy()) is first
    assert len(seen) == 1
    small = MapCache(2 * first.nbytes, 0)
    for image in images:
        small.maps(found, image)
    small.maps(found, images[2])
    assert len(seen) == 4
    small.maps(found, images[0])
    assert len(seen) == 5


def test_other_weights_have_other_maps():
    class Weights:
        name = "weights"

        def __init__(self, factor):
            self.factor, self.digest = factor, str(factor)

        def __call__(self, image):
            return [self.factor * image.transpose(2, 0, 1)]

    cache, image = MapCache(), np.ones((4, 4), np.float32)
    one, two = (cache.maps(Function(Weights(k)), image).planes[0] for k in (1, 2))
    assert (two == 2 * one).all()


def test_an_installed_network_sees_a_fixed_size(monkeypatch):
    seen = []

    def run(image):
        seen.append(image.shape)
        return [np.zeros((*(n // 16 for n in image.shape[:2]), 4), np.float32)]

    monkeypatch.setattr(backbone, "load", lambda name: run)
    network = Installed("mobile-sam", 64)
    maps = network.maps(np.zeros((30, 60, 4), np.float32))
    assert seen == [(32, 64, 3)] * 2
    assert [a.shape for a in maps] == [(2, 4, 8)]
    network.maps(np.zeros((300, 10, 1), np.float32))
    assert seen[-1] == (64, 16, 3)


def test_functions_are_found_by_their_names_while_the_process_lives():
    network = Function(halves)
    assert backbone.is_installed(network.name)
    assert not backbone.is_installed("another")
    assert CALLABLES is not backbone.CALLABLES
