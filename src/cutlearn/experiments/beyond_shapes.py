"""A Boltzmann prior of shapes and boosted logits in one energy, the label step by a cut.

E(y, h) = -y'W h - c'h - y'(b + a x) + t sum_e g_e [y_i != y_j]: W, b and c are those of an RBM of
masks, x the logits, g the contrast of edges. The strengths a and t are chosen on training images
whose masks the RBM has not seen. Masks, images and logits are brought to one small size, and the
logits of all rows are shifted by the one number that gives training images the best IoU, so that
nothing gains by repairing it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import product

import numpy as np
from numpy.typing import NDArray

from cutlearn.experiments.pictures import VOID, Pictures
from cutlearn.features.edges import edge_contrast
from cutlearn.grid import grid_edges
from cutlearn.images.resize import Shape, resize_channels, resize_image, resize_labels
from cutlearn.metrics import pooled_iou
from cutlearn.shape.boltzmann import Boltzmann, sigmoid
from cutlearn.shape.generative import Shapes, train_layers
from cutlearn.shape.journal import Journal
from cutlearn.shape.training import filled

Mask = NDArray[np.uint8]
Floats = NDArray[np.float64]
STARTS = 4
TRUSTS = (0.5, 1.0, 2.0, 4.0)
STRENGTHS = (0.0, 0.5, 1.0, 2.0, 4.0)
# Which strengths a row may have: those of the logits beside the shapes, and of the edges.
ROWS = {
    "logits": (False, False),
    "logits and edges": (False, True),
    "logits and shapes": (True, False),
    "logits, shapes and edges": (True, True),
}


@dataclass(frozen=True, eq=False)
class Small:
    """An image at the small size: its logits, the contrast of its edges, and its mask."""

    logits: Floats
    contrast: Floats
    mask: Mask


def small_of(pictures: Pictures, logits: Sequence[Floats], shape: Shape) -> list[Small]:
    """Bring images to the small size."""
    return [
        Small(
            resize_channels(logit[..., None].astype(np.float32), shape)[..., 0].astype(np.float64),
            edge_contrast(resize_image(image, shape), 4).astype(np.float64),
            resize_labels(mask, shape),
        )
        for image, logit, mask in zip(pictures.images, logits, pictures.masks)
    ]


def shifted(train: Sequence[Small], *others: Sequence[Small]) -> list[list[Small]]:
    """Shift all logits so that the threshold 0 has the best pooled IoU on training images."""
    masks = [one.mask for one in train]
    every = np.concatenate([one.logits.ravel() for one in train])

    def iou(by: float) -> float:
        return pooled_iou(masks, [(one.logits > by).astype(np.uint8) for one in train])

    by = max(np.quantile(every, np.linspace(0.05, 0.95, 37)), key=iou)
    return [[replace(one, logits=one.logits - by) for one in part] for part in (train, *others)]


def machine_of(one: Small, shapes: Shapes | None, trust: float, strength: float) -> Boltzmann:
    """Give the machine of an image; without shapes it has one idle hidden unit."""
    n = one.logits.size
    edges = np.concatenate(grid_edges(one.logits.shape, 4))
    pairs = (edges, strength * one.contrast) if strength else (None, None)
    if shapes is None:
        return Boltzmann(np.zeros((n, 1)), np.zeros(1), one.logits.ravel(), None, None, *pairs)
    known = shapes.machine()
    return Boltzmann(known.W, known.c, known.b + trust * one.logits.ravel(), None, None, *pairs)


def labels_of(one: Small, shapes: Shapes | None, trust: float, strength: float) -> Mask:
    """Give the labels of the lowest energy that was found from four starts."""
    machine = machine_of(one, shapes, trust, strength)
    alone = sigmoid(machine.b) @ machine.W + machine.c > 0
    rng = np.random.default_rng(0)
    others = rng.integers(0, 2, (STARTS - 1, machine.c.size), dtype=np.int8)
    y, _ = machine.best(np.concatenate([alone[None].astype(np.int8), others]))
    return np.asarray(y, np.uint8).reshape(one.mask.shape)


def compared(
    train: Sequence[Small], test: Sequence[Small], hidden: int, epochs: int, seed: int
) -> dict[str, dict[str, float]]:
    """Give the pooled IoU of every row on test images, and the strengths that were chosen."""
    train, test = shifted(train, test)
    first = train[: 2 * len(train) // 3]
    judges = train[2 * len(train) // 3 :]

    def learn(part: Sequence[Small]) -> Shapes:
        masks = np.stack([filled(np.where(one.mask == VOID, VOID, one.mask)) for one in part])
        return train_layers(masks, (hidden,), (epochs,), Journal(seed))

    known: dict[str, Shapes] = {"choice": learn(first), "test": learn(train)}
    found = {}
    for name, (shaped, joined) in ROWS.items():

        def iou(of: Sequence[Small], trust: float, strength: float, which: str,
                shaped: bool = shaped) -> float:  # fmt: skip
            shapes = known[which] if shaped else None
            return pooled_iou([one.mask for one in of],
                              [labels_of(one, shapes, trust, strength) for one in of])  # fmt: skip

        ways = list(product(TRUSTS if shaped else (1.0,), STRENGTHS if joined else (0.0,)))
        trust, strength = max(ways, key=_judge(iou, judges))
        found[name] = {"iou": iou(test, trust, strength, "test"), "trust": trust,
                       "strength": strength}  # fmt: skip
    return found


def _judge(
    iou: Callable[..., float], judges: Sequence[Small]
) -> Callable[[tuple[float, float]], float]:
    return lambda way: iou(judges, *way, "choice")
