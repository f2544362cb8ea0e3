"""The order of labels by validation, and the world of three ordered labels that needs it."""

import numpy as np
import pytest

import cutlearn as cl
from cutlearn.grid import direction_features
from cutlearn.images import pasture
from cutlearn_papers.label_order import choose_order


def color_problem(image):
    """Quadratic colours of every pixel, and a table of labels for each of the four directions."""
    x = 2 * np.asarray(image, np.float32) - 1
    quadratic = np.concatenate([x[..., :1] ** 0, x, x * x, x * np.roll(x, -1, axis=2)], axis=2)
    shape = x.shape[:2]
    edges = np.concatenate(direction_features(shape, 4))
    return cl.Problem(quadratic, edge_features=edges, shape=shape, connectivity=4)


WORLDS = [pasture(seed, (32, 48)) for seed in range(4)]
PROBLEMS = [color_problem(world.image) for world in WORLDS]


def error(w, problem, truth):
    return np.mean(cl.OrderedEnergy.of(problem, w).minimize().labels != truth)


def test_tables_of_directions_find_what_colours_alone_miss():
    truth = [world.labels for world in WORLDS]
    r = cl.train(PROBLEMS[:3], truth[:3], C=1000.0, model=cl.Model(labels="ordered"))
    assert r.certified
    assert r.w.size == 10 * 3 + 2 * 9
    colours = r.w.copy()
    colours[r.layout.slice_of("tables")] = 0
    found = error(r.w, PROBLEMS[3], truth[3])
    assert found < 0.08
    assert found < 0.5 * error(colours, PROBLEMS[3], truth[3])


def test_the_best_order_is_chosen_and_undone():
    swapped = np.array([1, 0, 2], np.uint8)  # animals are 0 now, grass is 1
    truth = [swapped[world.labels] for world in WORLDS[:3]]
    choice = choose_order(PROBLEMS[:3], truth, 3, C=100.0, tol=0.05)
    assert set(choice.errors) == {(0, 1, 2), (0, 2, 1), (1, 0, 2)}
    assert choice.errors[choice.order] == min(choice.errors.values())
    assert (choice.labels(choice.places(truth[0])) == truth[0]).all()
    assert choice.places([255, choice.order[0], choice.order[2]]).tolist() == [255, 0, 2]
    # Errors are those of a run by hand.
    by_hand = []
    for k in range(3):
        seen = [i for i in range(3) if i != k]
        placed = [choice.places(y) for y in truth]
        r = cl.train(
            [PROBLEMS[i] for i in seen], [placed[i] for i in seen], C=100.0, tol=0.05,
            model=cl.Model(labels="ordered", n_labels=3),
        )  # fmt: skip
        by_hand.append(error(r.w, PROBLEMS[k], placed[k]))
    assert choice.errors[choice.order] == pytest.approx(np.mean(by_hand), abs=1e-12)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"n_labels": 6}, "n_labels must be 2 to 5, not 6"),
        ({"n_labels": 3, "folds": 5}, "folds must be .* \\(4\\), not 5"),
    ],
)
def test_refusals(options, words):
    with pytest.raises(cl.InputError, match=words):
        choose_order(PROBLEMS, [world.labels for world in WORLDS], **options)


def test_labels_that_there_are_not_are_refused():
    """They became void without a word."""
    problem = cl.Problem(np.eye(3), [[0, 1]])
    with pytest.raises(cl.InputError, match="labels has the value 2"):
        choose_order([problem] * 2, [[0, 1, 2]] * 2, n_labels=2, folds=2)
