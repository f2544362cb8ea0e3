"""Train the net that `cutlearn.features.guided` asks; read by `learn_defaults.py`.

First on what it sees when it is asked for the first time, then on: in half of the crops it sees the
log-odds of colours under its own first mask, as when it is asked for the second time.
"""

import time

import numpy as np
from defaults_data import Object, lessons
from PIL import Image

from cutlearn.features.guided import CHANNELS, MOST_ODDS, ODDS, SIDE, net_logits
from cutlearn.features.mixtures import fit_mixture
from cutlearn.features.net.body import LEAST, Pass, Shape, Weights, folded
from cutlearn.features.net.optimise import Optimiser, loss_of
from cutlearn.model.defaults import Net, packed, unpacked
from cutlearn.run.single import one_thread

WIDTHS = (12, 24, 40, 48, 48)
SHAPE = Shape(CHANNELS, 1, WIDTHS, True)
BATCH, VARIANTS, SETTLE, LOOK = 8, 2, 16, 500
# Sides of the cells in which colours of a crop are counted, in Lab / 100.
CELL = 0.04


class Crops:
    """Lessons in memory, from which batches are drawn: mirrored, in other colours.

    With `own`, log-odds of colours under the net's own masks, half of a batch sees these instead
    of the first ones, and crops are drawn nearer.
    """

    def __init__(self, found: list[tuple[int, Object]]) -> None:
        made = [given for _, given in lessons(found, VARIANTS)]
        self.planes = np.stack([given.planes for given in made])
        self.share = np.stack([given.share for given in made])
        self.weight = np.stack([given.weight for given in made])
        self.own: np.ndarray | None = None

    def draw(self, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Pictures (c, n, h, w), shares of label 1 and weights (1, n, h, w)."""
        rows = rng.choice(len(self.planes), BATCH, replace=False)
        parts = [part[rows].astype(np.float32) for part in (self.planes, self.share, self.weight)]
        if self.own is not None:
            parts[0][::2, ODDS] = self.own[rows[::2]]
        for j in range(BATCH):
            if self.own is not None:
                _draw_nearer([*parts[0][j], parts[1][j], parts[2][j]], rng)
            if rng.random() < 0.5:
                for part in parts:
                    part[j] = part[j, ..., ::-1].copy()
            gain, shift = np.exp(rng.uniform(-0.22, 0.22, 3)), rng.uniform(-0.3, 0.3, 3)
            lab = parts[0][j, :3]
            parts[0][j, :3] = lab * gain[:, None, None] + shift[:, None, None]
            if rng.random() < 0.1:
                parts[0][j, 1:3] = 0  # a grey image
        return np.ascontiguousarray(parts[0].swapaxes(0, 1)), parts[1][None], parts[2][None]


def _draw_nearer(planes: list[np.ndarray], rng: np.random.Generator) -> None:
    cut = SIDE * rng.uniform(0, 0.08, 4)
    frame = (cut[0], cut[1], SIDE - cut[2], SIDE - cut[3])
    for plane in planes:
        zoomed = Image.fromarray(plane)
        plane[:] = zoomed.resize((SIDE, SIDE), Image.Resampling.BILINEAR, box=frame)


def learn_net(found: list[tuple[int, Object]], steps: int, more: int) -> Net:
    """Train the net; its weights come back as the package will read them, in 8 bits."""
    crops, rng = Crops(found), np.random.default_rng(0)
    first = _run(crops, SHAPE.begin(np.array([0.35]), rng), steps, rng, True)
    net = Net(SHAPE, unpacked(packed(first), SHAPE))
    crops.own = np.stack([own_odds(net, planes) for planes in crops.planes])
    rng = np.random.default_rng(0)
    again = _resumed(first, crops, SHAPE.begin(np.array([0.35]), rng))
    return Net(SHAPE, unpacked(packed(_run(crops, again, more, rng, False)), SHAPE))


def _run(
    crops: Crops, weights: Weights, steps: int, rng: np.random.Generator, looks: bool
) -> Weights:
    """Take steps from weights; give the averaged ones, batch statistics worked in."""
    optimiser = Optimiser(weights, steps)
    begin, value = time.time(), 0.0
    with one_thread():
        for step in range(steps):
            planes, share, weight = crops.draw(rng)
            one = Pass(SHAPE, optimiser.weights)
            loss, slope = loss_of(one.logits(planes), share, weight)
            optimiser.take(one.gradient(slope))
            value += loss
            if (step + 1) % 100 == 0:
                print(
                    f"step {step + 1}: {value / 100:.4f}, {time.time() - begin:.0f} s", flush=True
                )
                value = 0.0
            if looks and (step + 1) % LOOK == 0:
                made = _settled(optimiser, crops, rng)
        return made if looks else _settled(optimiser, crops, np.random.default_rng(1))


def _settled(optimiser: Optimiser, crops: Crops, rng: np.random.Generator) -> Weights:
    """The averaged weights, with statistics of fresh batches worked in."""
    seen = []
    for _ in range(SETTLE):
        one = Pass(SHAPE, optimiser.average)
        one.logits(crops.draw(rng)[0])
        seen.append(one.statistics)
    mean = {
        name: tuple(np.mean([s[name][k] for s in seen], axis=0) for k in (0, 1)) for name in seen[0]
    }
    return folded(SHAPE, optimiser.average, mean)


def _resumed(first: Weights, crops: Crops, weights: Weights) -> Weights:
    """Weights to train on from folded ones: gains and shifts that give the same, unit by unit."""
    rng = np.random.default_rng(2)
    for name in weights:
        if name in first:
            weights[name][:] = first[name]
    for name, _, _ in SHAPE.units():
        seen = []
        for _ in range(3):
            one = Pass(SHAPE, weights)
            one.logits(crops.draw(rng)[0])
            seen.append(one.statistics[name])
        mean, variance = (np.mean([s[k] for s in seen], axis=0) for k in (0, 1))
        weights[f"{name}.gain"][:] = np.sqrt(variance + LEAST)
        weights[f"{name}.shift"][:] = mean + first[f"{name}.shift"]
    return weights


def own_odds(net: Net, planes: np.ndarray) -> np.ndarray:
    """Log-odds of the colours of a crop under the net's own mask of it, (SIDE, SIDE)."""
    x = planes.astype(np.float32)
    inside = (x[3] > 0.5) | (x[3].max() < 0.5)
    mask = (net_logits(net.shape, net.weights, x) > 0) & inside
    mask = np.where(x[7] > 0.99, True, np.where(x[6] > 0.99, False, mask)).ravel()
    lab = np.stack([(x[0] + 2) / 4, x[1] / 5, x[2] / 5], axis=-1).reshape(-1, 3)
    cells = np.floor(lab / CELL).astype(np.int64)
    cells -= cells.min(axis=0)
    key = (cells[:, 0] * 100 + cells[:, 1]) * 100 + cells[:, 2]
    _, index, number = np.unique(key, return_inverse=True, return_counts=True)
    mean = np.stack([np.bincount(index, column) for column in lab.T], axis=1) / number[:, None]
    ones = np.bincount(index, mask, minlength=len(number))
    if not 0 < ones.sum() < mask.size:
        return np.zeros((SIDE, SIDE), np.float16)
    one, zero = (fit_mixture(mean, n).log_density(mean) for n in (ones, number - ones))
    return np.clip(one - zero, -MOST_ODDS, MOST_ODDS)[index].reshape(SIDE, SIDE).astype(np.float16)
