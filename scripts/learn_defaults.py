"""Learn what `cutlearn.Session` and `cutlearn.refine` come with, from real image sets.

    python scripts/learn_defaults.py --data DIR [--steps 2000] [--keep FOLDER]

DIR holds the sets that `defaults_data.py` names, a folder with images/ and masks/ each. Boxes and
strokes are simulated from the masks. An eighth of the images never reaches the net: there the
weights of the cut are learned, on one half, and the calibration on the other. The images of the
set `grabcut` are used nowhere, so that all of them can be a test.
"""

import argparse
import hashlib
import time
from collections import Counter
from pathlib import Path

import numpy as np
from defaults_data import LEARNED, Object, lessons, objects
from defaults_refine import learn_refine

import cutlearn as cl
from cutlearn.features.edges import edge_features
from cutlearn.features.guided import CHANNELS
from cutlearn.features.net.body import Pass, Shape, Weights, folded
from cutlearn.features.net.optimise import Optimiser, loss_of
from cutlearn.features.net.single import one_thread
from cutlearn.images import Sample, read_image
from cutlearn.images.resize import resize_image, resize_labels
from cutlearn.images.robot import drawn_box, next_stroke
from cutlearn.model.defaults import Defaults, Net, packed, unpacked
from cutlearn.model.engines import Own
from cutlearn.model.probability.calibrate import calibrate, drawn, uncalibrated

WIDTHS = (12, 24, 40, 48, 48)
BATCH, VARIANTS, SETTLE = 8, 2, 16
# Of a hundred images so many are held out from the net.
HELD = 12
# The largest side at which the weights of the cut are learned, and their C.
SIDE, C = 320, 100.0


def is_held(one: Object) -> bool:
    """Whether an image is held out from the net; all objects of an image are, or none."""
    return int(hashlib.md5(one.image.name.encode()).hexdigest(), 16) % 100 < HELD


class Crops:
    """Lessons in memory, from which batches are drawn: mirrored, in other colours."""

    def __init__(self, found: list[Object]) -> None:
        made = [given for _, given in lessons(found, VARIANTS, 1)]
        self.planes = np.stack([given.planes for given in made])
        self.share = np.stack([given.share for given in made])
        self.weight = np.stack([given.weight for given in made])

    def draw(self, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Pictures (c, n, h, w), shares of label 1 and weights (1, n, h, w)."""
        rows = rng.choice(len(self.planes), BATCH, replace=False)
        parts = [part[rows].astype(np.float32) for part in (self.planes, self.share, self.weight)]
        for j in range(BATCH):
            if rng.random() < 0.5:
                for part in parts:
                    part[j] = part[j, ..., ::-1].copy()
            gain, shift = np.exp(rng.uniform(-0.22, 0.22, 3)), rng.uniform(-0.3, 0.3, 3)
            lab = parts[0][j, :3]
            parts[0][j, :3] = lab * gain[:, None, None] + shift[:, None, None]
            if rng.random() < 0.1:
                parts[0][j, 1:3] = 0  # a grey image
        return np.ascontiguousarray(parts[0].swapaxes(0, 1)), parts[1][None], parts[2][None]


def learn_net(crops: Crops, steps: int) -> Net:
    """Train the net; its weights come back as the package will read them, in 8 bits."""
    shape, rng = Shape(CHANNELS, 1, WIDTHS, True), np.random.default_rng(0)
    optimiser = Optimiser(shape.begin(np.array([0.35]), rng), steps)
    begin, value = time.time(), 0.0
    with one_thread():
        for step in range(steps):
            planes, share, weight = crops.draw(rng)
            one = Pass(shape, optimiser.weights)
            loss, slope = loss_of(one.logits(planes), share, weight)
            optimiser.take(one.gradient(slope))
            value += loss
            if (step + 1) % 100 == 0:
                print(
                    f"step {step + 1}: {value / 100:.4f}, {time.time() - begin:.0f} s", flush=True
                )
                value = 0.0
        return Net(shape, unpacked(packed(settled(shape, optimiser, crops, rng)), shape))


def settled(shape: Shape, optimiser: Optimiser, crops: Crops, rng: np.random.Generator) -> Weights:
    """The averaged weights, with statistics of fresh batches worked in."""
    seen = []
    for _ in range(SETTLE):
        one = Pass(shape, optimiser.average)
        one.logits(crops.draw(rng)[0])
        seen.append(one.statistics)
    mean = {
        name: tuple(np.mean([s[name][k] for s in seen], axis=0) for k in (0, 1)) for name in seen[0]
    }
    return folded(shape, optimiser.average, mean)


def small(one: Object) -> tuple[np.ndarray, np.ndarray]:
    """An image and its truth, at most SIDE pixels long."""
    image, truth = read_image(one.image), one.truth
    factor = min(1.0, SIDE / max(truth.shape))
    shape = (max(1, round(factor * truth.shape[0])), max(1, round(factor * truth.shape[1])))
    return resize_image(image, shape), resize_labels(truth, shape)


def situations(found: list[Object], defaults: Defaults, seed: int):
    """Of every object: the engine of its image, and what a person may have given of it.

    A box with some room; for every other object also strokes at the errors of the net.
    """
    for k, one in enumerate(found):
        rng = np.random.default_rng([seed, k])
        image, truth = small(one)
        if not (truth == 1).any():
            continue
        engine = Own(image, defaults)
        box = drawn_box(truth, rng.uniform(0, 0.12, 4) * rng.uniform())
        seeds = np.full(truth.shape, -1, np.int16)
        for _ in range(int(rng.integers(0, 3)) if k % 2 else 0):
            logit = engine.columns(Sample(image, box, seeds))[1]
            seeds = next_stroke(truth, (logit > 0).astype(np.uint8), seeds)
        yield engine, Sample(image, box, seeds), truth


def learn_cut(found: list[Object], net: Net, sets: dict) -> Defaults:
    """Learn the weights of the cut on one half of the objects, the calibration on the other."""
    start = Defaults(net, np.ones(4), (0.0, 1.0), uncalibrated(2), {}, sets)
    problems, truths = [], []
    for engine, sample, truth in situations(found[::2], start, 2):
        columns = np.moveaxis(-engine.columns(sample), 0, -1).astype(np.float64)
        edges = edge_features(sample.image, 8)[:, :2].astype(np.float64)
        # What is fixed is as void for learning: no weight can change it.
        void = np.where(sample.fixed() >= 0, 255, truth).astype(np.uint8)
        problems.append(
            cl.Problem(columns, edge_features=edges, shape=sample.shape, connectivity=8)
        )
        truths.append(void)
    result = cl.train(problems, truths, C=C, tol=0.01)
    print("weights", result.w, "gap", result.relative_gap, flush=True)
    made = Defaults(net, result.w[:4], (result.w[4], result.w[5]), uncalibrated(2), {}, sets)
    rows = []
    for engine, sample, truth in situations(found[1::2], made, 3):
        rows.append(drawn(engine.solve(sample).min_marginals(), truth))
    calibration = calibrate(rows, "temperature", True)
    return Defaults(net, made.nodes, made.edges, calibration, {}, sets)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--steps", type=int, default=2000)
    options = parser.parse_args()
    found = list(objects(options.data, LEARNED))
    sets = dict(Counter(one.source for one in found))
    print(sets, flush=True)
    net = learn_net(Crops([one for one in found if not is_held(one)]), options.steps)
    made = learn_cut([one for one in found if is_held(one)], net, sets)
    refine = learn_refine(options.data)
    Defaults(net, made.nodes, made.edges, made.calibration, refine, sets).save()


if __name__ == "__main__":
    main()
