"""Recipe: a loss of your own, here one that charges mistakes near the border of the truth twice.

A loss gives -Delta(y) as pieces that are linear in the labels; sums with others, void pixels,
oracles and certificates follow.
"""

import numpy as np

import cutlearn as cl
from cutlearn.images import cells
from cutlearn.learn.losses import BoundLoss, Loss


class Bordered(Loss):
    """Delta(y) = sum_i m_i [y_i != y*_i], m_i = 2 beside another true label in the row, else 1."""

    def bind(self, image, labels, counted, n_labels):
        turns = np.flatnonzero(np.diff(labels.astype(int)))
        m = np.where(counted, 1.0, 0.0)
        m[np.concatenate([turns, turns + 1])] *= 2
        ones = labels == 1
        return BoundLoss(np.array([-m[ones].sum()]), np.where(ones, m, -m)[None], m.sum())

    def __repr__(self):
        return "Bordered()"


def test_it_trains_to_a_certified_gap_alone_and_in_a_sum():
    worlds = [cells(seed, (32, 32)) for seed in range(3)]
    images, masks = [w.image for w in worlds], [w.labels for w in worlds]
    for loss in (Bordered(), Bordered() + 0.5 * cl.Count()):
        model = cl.Segmenter(loss=loss, features="linear", C=10.0).fit(images, masks)
        assert model.certified_
        assert model.converged_
    bound = Bordered().bind(0, np.array([0, 0, 1, 1, 1], np.uint8), np.ones(5, bool), 2)
    assert bound.value([0, 0, 1, 1, 1]) == 0
    assert bound.value([1, 1, 1, 1, 1]) == 3
