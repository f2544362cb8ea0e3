"""Quadratic colours, written out."""

import numpy as np
import pytest

from cutlearn.errors import InputError
from cutlearn_papers.color import color_problem, quadratic_colors


def test_the_ten_products():
    x = quadratic_colors(np.array([[[1.0, 0.75, 0.25]]]))[0, 0]
    r, g, b = 1.0, 0.5, -0.5
    assert x.tolist() == [1, r, g, b, r * r, g * g, b * b, r * g, g * b, b * r]


def test_the_problem_has_a_feature_for_each_direction():
    p = color_problem(np.zeros((3, 4, 3)))
    assert (p.n_nodes, p.n_node_features, p.n_edges) == (12, 10, 9 + 8)
    assert p.edge_features.sum(axis=0).tolist() == [9, 8]
    with pytest.raises(InputError, match="must be a colour image"):
        quadratic_colors(np.zeros((3, 4)))
