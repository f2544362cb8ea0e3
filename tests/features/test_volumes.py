"""Features of volumes: what a slice sees beside it, and edges of three axes."""

import numpy as np
import pytest

import cutlearn as cl
from cutlearn.features.edges import volume_edge_features
from cutlearn.features.featurizer import neighbours_annotated, with_neighbours
from cutlearn.grid import grid_edges
from volume_worlds import balls, sparse


def test_a_slice_sees_the_mean_of_those_beside_it():
    rows = [np.array([[1.0, k, 10.0 * k]], np.float32) for k in (1, 2, 4)]
    made = with_neighbours(rows, [1])
    assert made.tolist() == [[1, 1, 10, 2], [1, 2, 20, 2.5], [1, 4, 40, 2]]
    assert with_neighbours(rows[:1], [1, 2]).tolist() == [[1, 1, 10, 1, 10]]


@pytest.mark.parametrize("connectivity", [6, 10, 18])
def test_edges_between_slices_have_columns_of_their_own(connectivity):
    shape = (3, 4, 5)
    values = np.random.default_rng(0).random(shape, np.float32)
    own = volume_edge_features(values, connectivity, True, 1.0)
    ends = np.concatenate(grid_edges(shape, connectivity))
    between = ends[:, 0] // 20 != ends[:, 1] // 20
    assert (own[between, :4] == 0).all()
    assert (own[~between, 4:] == 0).all()
    assert (own[between, 4] == 1).all()
    difference = np.abs(values.ravel()[ends[:, 0]] - values.ravel()[ends[:, 1]])
    assert np.abs(own[:, 2] + own[:, 6] - difference).max() < 1e-6
    shared = volume_edge_features(values, connectivity, False, 0.25)
    assert (shared[between] == np.float32(0.25) * own[between, 4:]).all()
    assert (shared[~between] == own[~between, :4]).all()


def test_whether_neighbours_are_annotated():
    mask = balls(0)[1]
    assert neighbours_annotated([mask])
    assert neighbours_annotated([sparse(mask, [2, 3])])
    assert not neighbours_annotated([sparse(mask, [2, 4, 6])])
    assert not neighbours_annotated([mask[:1]])


def test_a_problem_of_a_volume_is_a_grid_of_three_axes():
    images, masks = zip(*(balls(seed) for seed in (0, 1)))
    volumes = [cl.Volume(image) for image in images]
    made = cl.Featurizer("linear")
    rows = made.fit_transform(volumes, masks)
    problem = made.problem(volumes[0], rows[0], regions=True)
    assert problem.shape == (8, 24, 32)
    assert problem.connectivity == 10
    assert problem.n_node_features == len(made.node_names_)
    assert problem.n_edge_features == len(made.edge_names_) == 8
    assert (made.node_features(volumes[0]) == rows[0]).all()
    again = cl.Featurizer.from_arrays(*made.to_arrays())
    assert again.depth_ == made.depth_
    assert again.node_names_ == made.node_names_
    made.fit(volumes[0].slices(), list(masks[0]))
    assert made.depth_ is None


def test_several_questions_have_a_column_beside_each():
    images, masks = zip(*(balls(seed, noise=0.02) for seed in (0, 1)))
    asked = [np.stack([mask, 1 - mask], axis=-1) for mask in masks]
    made = cl.Featurizer("trees")
    made.fit([cl.Volume(image) for image in images], asked)
    beside = [made.node_names_[columns[-1]] for columns in made.logit_columns()]
    assert beside == ["logit1 of 0 beside", "logit1 of 1 beside"]


def test_masks_of_another_shape_are_refused():
    image, mask = balls(0)
    with pytest.raises(cl.InputError, match=r"masks\[0\] has shape .* its image is"):
        cl.Featurizer("linear").fit([cl.Volume(image)], [mask[1:]])
