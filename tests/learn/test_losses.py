"""Every loss has its plain meaning, and its pieces are the loss at every labelling."""

import numpy as np
import pytest

from cutlearn.errors import InputError
from cutlearn.learn.losses import Count, CountFunction, Hamming, loss_of
from tiny_problems import count, hamming, labellings, regional_count


def bound(loss, truth, image=0):
    truth = np.asarray(truth)
    known = truth != 255
    return loss.bind(image, np.where(known, truth, 0).astype(np.uint8), known, 2)


TRUTHS = [[0, 1, 1, 0, 1], [0, 0, 0, 0], [1, 1, 1], [1, 255, 0, 255, 1, 0]]


@pytest.mark.parametrize("truth", TRUTHS)
@pytest.mark.parametrize("weights", [None, (0.5, 3.0)])
def test_hamming(truth, weights):
    image = bound(Hamming(weights), truth)
    values = []
    for y in labellings(len(truth)):
        plain = hamming(y, np.array(truth), weights or (1.0, 1.0))
        assert image.value(y) == pytest.approx(plain, abs=1e-12)
        values.append(plain)
    assert image.largest == pytest.approx(max(values))
    assert len(image.constant) == 1


def test_hamming_with_pixel_weights():
    image = bound(Hamming(pixel_weights=[[9, 9], [1, 2, 4]]), [0, 1, 255], image=1)
    assert [image.value(y) for y in ([0, 1, 0], [1, 1, 1], [0, 0, 1])] == [0, 1, 2]


@pytest.mark.parametrize("truth", TRUTHS)
@pytest.mark.parametrize("side", ["both", "over", "under"])
@pytest.mark.parametrize("tolerance", [0, 1, 1.5, 9])
def test_count(truth, side, tolerance):
    image = bound(Count(side=side, tolerance=tolerance), truth)
    values = []
    for y in labellings(len(truth)):
        plain = count(y, np.array(truth), side, tolerance)
        assert image.value(y) == pytest.approx(plain, abs=1e-12)
        values.append(plain)
    assert image.largest == pytest.approx(max(values))
    assert 1 <= len(image.constant) <= 3


def test_count_needs_no_useless_cut():
    assert len(bound(Count(), [0, 1, 1]).constant) == 2
    assert len(bound(Count(), [0, 0, 0]).constant) == 1  # too many, or just right
    assert len(bound(Count(tolerance=1), [0, 0, 0]).constant) == 2
    assert len(bound(Count(tolerance=1), [0, 0, 1, 1, 1]).constant) == 3
    assert len(bound(Count(side="under"), [0, 0]).constant) == 1


def test_count_with_areas():
    image = bound(Count(weights=[[2.0, 3.0, 5.0]]), [1, 0, 0])
    assert [image.value(y) for y in ([1, 0, 0], [0, 1, 0], [1, 1, 1])] == [0, 1, 8]


@pytest.mark.parametrize("many", [False, True])
@pytest.mark.parametrize("side", ["both", "over", "under"])
@pytest.mark.parametrize("tolerance", [0, 0.5])
def test_counts_of_regions(many, side, tolerance):
    truth = np.array([0, 1, 1, 0, 1, 255, 0, 1])
    regions = [[0, 1, 2], [2, 3, 4, 5], *([[6, 7], [0, 7], [1, 4, 6]] if many else [])]
    image = bound(Count(side=side, tolerance=tolerance, regions=[regions]), truth)
    values = []
    for y in labellings(8):
        plain = regional_count(y, truth, regions, side, tolerance)
        assert image.value(y) == pytest.approx(plain, abs=1e-12)
        values.append(plain)
    assert max(values) <= image.largest <= max(values) + 4
    assert bool(image.counts) == (many or (side == "both" and tolerance > 0))


def test_pure_regions_need_neither_cuts_nor_auxiliary_nodes():
    truth = np.repeat([0, 1, 1, 0], 5)
    image = bound(Count(regions=[np.repeat([0, 1, 2, 3], 5).astype(int)]), truth)
    assert image.counts == ()
    assert len(image.constant) == 1
    assert image.value(1 - truth) == 20


def test_functions_of_the_count():
    truth = np.array([0, 1, 255, 0, 1])
    image = bound(CountFunction(lambda d: d**2.0) + 2 * CountFunction(np.abs) + Hamming(), truth)
    for y in labellings(5):
        off = int(y[truth != 255].sum()) - 2
        assert image.value(y) == off**2 + 2 * abs(off) + hamming(y, truth)


def test_sums():
    truth = np.array([0, 1, 1, 0])
    a, b = Hamming((1.0, 2.0)), Count(side="over")
    image = bound(2 * a + b * 0.5, truth)
    for y in labellings(4):
        plain = 2 * hamming(y, truth, (1.0, 2.0)) + 0.5 * count(y, truth, "over")
        assert image.value(y) == pytest.approx(plain, abs=1e-12)
    assert len(bound(0 * a + b, truth).constant) == len(bound(b, truth).constant)


def test_sums_of_many_counts_are_refused():
    many = Count(tolerance=1) + Count(tolerance=0.5) + Count(tolerance=0.25)
    with pytest.raises(InputError, match="at most 16"):
        bound(many, [0, 0, 0, 1, 1, 1])


@pytest.mark.parametrize(
    "make",
    [
        lambda: bound(Hamming((1.0,)), [0, 1]),
        lambda: Hamming(((1.0,),)),
        lambda: Hamming((1.0, -1.0)),
        lambda: Count(side="left"),
        lambda: Count(tolerance=-1),
        lambda: bound(Count(regions=[[[0]]]), [0, 1], image=1),
        lambda: bound(Count(regions=[[[0, 5]]]), [0, 1]),
        lambda: bound(Count(regions=[[[[0]], [[1]]]]), [0, 1]),
        lambda: CountFunction("square"),
        lambda: bound(CountFunction(np.cos), [0, 1]),
        lambda: bound(CountFunction(lambda d: -np.square(d)), [0, 1]),
        lambda: bound(CountFunction(lambda d: np.sqrt(np.abs(d))), [0, 1, 0, 0]),
        lambda: bound(CountFunction(lambda d: 3.0), [0, 1]),
        lambda: bound(CountFunction(lambda d: np.where(d == 0, 0, np.inf)), [0, 1]),
        lambda: -1 * Hamming(),
        lambda: loss_of("hinge"),
        lambda: bound(Hamming(pixel_weights=[[1.0]]), [0, 1]),
        lambda: bound(Hamming(pixel_weights=[[1.0, -1.0]]), [0, 1]),
        lambda: bound(Count(weights=[]), [0, 1]),
    ],
)
def test_refusals(make):
    with pytest.raises(InputError):
        make()


def test_names():
    assert isinstance(loss_of("count"), Count)
    assert isinstance(loss_of("hamming"), Hamming)


def test_repr_tells_losses_apart():
    same = Hamming(pixel_weights=[[1.0, 2.0]])
    assert repr(same) == repr(Hamming(pixel_weights=[np.array([1, 2])]))
    assert repr(same) != repr(Hamming(pixel_weights=[[1.0, 3.0]]))
    assert repr(Count()) != repr(Count(side="over"))
    assert repr(Count(regions=[[[0]]])) != repr(Count(regions=[[[1]]]))
    assert repr(CountFunction(lambda d: d**2)) == repr(CountFunction(lambda d: d * d))
    assert repr(CountFunction(np.square)) != repr(CountFunction(np.abs))
