"""How long a fit takes: the measured fits of docs/first-contact.md, and what makes it longer."""

import pytest

import cutlearn as cl

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
