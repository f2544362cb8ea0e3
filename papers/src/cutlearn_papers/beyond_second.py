"""A second look at an image: what its first cut says of its colours and of its shape.

    E(y, h, q) = -sum_i y_i (w . x_i + u log q1(c_i)/q0(c_i)) - v (y'W h + c'h + b'y) + edges

x are the boosted logits, q the mixtures of the image's own colours under each label (the GrabCut of
gould2011), and W, b, c an RBM of masks (yang2014). Labels are found by a cut, then q and the
expected h given these labels, then labels again by a cut: given q and h all of it is a cost of
single labels. w, u, v and the strength of edges are learned together, by the same margin as
without.

An RBM that has seen the mask of a training image knows it by heart; training images therefore have
RBMs of the other folds. Their first labels come from logits out of fold.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cutlearn.arrays import Mask
from cutlearn.features.mixtures import palette
from cutlearn.images.resize import Shape, resize_channels, resize_labels
from cutlearn.model.session.guided import MOST_ODDS, colors_of
from cutlearn.shape.boltzmann import Boltzmann, sigmoid
from cutlearn.shape.frame import filled
from cutlearn.shape.generative import train_layers
from cutlearn.shape.journal import Journal
from cutlearn_papers.pictures import Pictures

Float32 = NDArray[np.float32]
FOLDS = 3


@dataclass(frozen=True)
class Rbm:
    """The size of the masks that an RBM learns, its units, and its epochs."""

    shape: Shape
    hidden: int
    epochs: int

    def learn(self, masks: Sequence[Mask], seed: int) -> Boltzmann:
        """Learn the shapes of some masks."""
        small = np.stack([filled(resize_labels(mask, self.shape)) for mask in masks])
        return train_layers(small, (self.hidden,), (self.epochs,), Journal(seed)).machine()

    def odds(self, machine: Boltzmann, labels: Mask) -> Float32:
        """Log-odds W h + b of every label in the image's size, h expected given its labels."""
        ones = np.asarray(labels == 1, np.float32)
        y = resize_channels(ones[..., None], self.shape).ravel().astype(np.float64)
        found = machine.W @ sigmoid(y @ machine.W + machine.c) + machine.b
        planes = np.clip(found, -MOST_ODDS, MOST_ODDS).astype(np.float32).reshape(*self.shape, 1)
        return np.asarray(resize_channels(planes, labels.shape)[..., 0], np.float32)


def color_columns(pictures: Pictures, labels: Sequence[Mask]) -> list[Float32]:
    """Log-odds of each image's own colours under its labels."""
    return [colors_of(palette(image), y == 1) for image, y in zip(pictures.images, labels)]


def shape_columns(
    rbm: Rbm, masks: Sequence[Mask], seed: int, inside: Sequence[Mask], outside: Sequence[Mask]
) -> tuple[list[Float32], list[Float32]]:
    """Log-odds of shapes, given the labels of training images (out of fold) and of others."""
    folds = [
        rbm.learn([mask for i, mask in enumerate(masks) if i % FOLDS != k], seed)
        for k in range(FOLDS)
    ]
    every = rbm.learn(masks, seed)
    return (
        [rbm.odds(folds[i % FOLDS], y) for i, y in enumerate(inside)],
        [rbm.odds(every, y) for y in outside],
    )
