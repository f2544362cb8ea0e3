"""Learn what `cutlearn.Session` and `cutlearn.refine` come with, from real image sets.

    python scripts/learn_defaults.py --data DIR [--steps 7500] [--kept FILE]

DIR holds the sets that `defaults_data.py` names, a folder with images/ and masks/ each. Boxes and
strokes are simulated from the masks. An eighth of the images never reaches the net: there the
weights of the cut are learned, on one half, and the calibration on the other. The images of the
set `grabcut` are used nowhere, so that all of them can be a test.
"""

import argparse
import hashlib
import json
from collections import Counter
from pathlib import Path

import numpy as np
from defaults_data import LEARNED, Object, objects
from defaults_net import learn_net
from defaults_refine import learn_refine
from simulated_user import drawn_box, next_stroke

import cutlearn as cl
from cutlearn.features.edges import edge_features
from cutlearn.images import Sample, read_image
from cutlearn.images.resize import resize_image, resize_labels
from cutlearn.model.calibration import calibrate, drawn, uncalibrated
from cutlearn.model.session.defaults import Defaults, Net
from cutlearn.model.session.engines import UntrainedEngine, grid_energy

# Of a hundred images so many are held out from the net.
HELD = 12
# The largest side at which the weights of the cut are learned, and their C.
LONGEST, C = 320, 100.0


def is_held(one: Object) -> bool:
    """Whether an image is held out from the net; all objects of an image are, or none."""
    return int(hashlib.md5(one.image.name.encode()).hexdigest(), 16) % 100 < HELD


def unseen(found: list[Object], data: Path) -> list[Object]:
    """The held-out objects whose photograph is under no other name among the others."""
    groups = json.loads((data / "voc2010_coseg" / "same_image_groups.json").read_text())
    same = {name: group for group in groups for name in group}
    names = {one.image.stem for one in found if not is_held(one)}
    held = [one for one in found if is_held(one)]
    return [one for one in held if not names & set(same.get(one.image.stem, ()))]


def small(one: Object) -> tuple[np.ndarray, np.ndarray]:
    """An image and its truth, at most LONGEST pixels long."""
    image, truth = read_image(one.image), one.truth
    factor = min(1.0, LONGEST / max(truth.shape))
    shape = (max(1, round(factor * truth.shape[0])), max(1, round(factor * truth.shape[1])))
    return resize_image(image, shape), resize_labels(truth, shape)


def situations(found: list[Object], defaults: Defaults, seed: int):
    """Of every object: the engine of its image, what a person may have given of it, and the truth.

    A box with some room; for two of three objects also strokes at the errors of the net.
    """
    for k, one in enumerate(found):
        rng = np.random.default_rng([seed, k])
        image, truth = small(one)
        if not (truth == 1).any():
            continue
        engine = UntrainedEngine(image, defaults)
        box = drawn_box(truth, rng.uniform(0, 0.12, 4) * rng.uniform())
        state, seeds = engine.state(Sample(image, box)), np.full(truth.shape, -1, np.int16)
        for _ in range(int(rng.integers(1, 4)) if k % 3 else 0):
            labels = (state.logit > 0) & (state.sample.fixed() != 0)
            seeds = next_stroke(truth, labels.astype(np.uint8), seeds)
            state = engine.state(Sample(image, box, seeds), state)
        yield engine, state, truth


def learn_cut(found: list[Object], net: Net, sets: dict) -> Defaults:
    """Learn the weights of the cut on one half of the objects, the calibration on the other."""
    start = Defaults(net, np.ones(5), (0.0, 1.0), uncalibrated(2), {}, sets)
    problems, truths = [], []
    for engine, state, truth in situations(found[::2], start, 2):
        sample = state.sample
        columns = np.moveaxis(-engine.columns(state), 0, -1).astype(np.float64)
        edges = edge_features(sample.image, 8)[:, :2].astype(np.float64)
        # What is fixed is as void for learning: no weight can change it.
        void = np.where(sample.fixed() >= 0, 255, truth).astype(np.uint8)
        problems.append(
            cl.Problem(columns, edge_features=edges, shape=sample.shape, connectivity=8)
        )
        truths.append(void)
    result = cl.train(problems, truths, C=C, tol=0.01)
    print("weights", result.w, "gap", result.relative_gap, flush=True)
    made = Defaults(net, result.w[:5], (result.w[5], result.w[6]), uncalibrated(2), {}, sets)
    rows = []
    for engine, state, truth in situations(found[1::2], made, 3):
        energy = grid_energy(state.unary, engine.live.weights)
        rows.append(drawn(energy.min_marginals(state.sample.fixed()), truth))
    calibration = calibrate(rows, "temperature", True)
    return Defaults(net, made.nodes, made.edges, calibration, {}, sets)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--steps", type=int, default=7500)
    parser.add_argument("--kept", type=Path, help="A file from which the net's training goes on.")
    options = parser.parse_args()
    found = list(objects(options.data, LEARNED))
    sets = dict(Counter(one.source for one in found))
    print(sets, flush=True)
    seen = [(k, one) for k, one in enumerate(found) if not is_held(one)]
    net = learn_net(seen, options.steps, options.kept)
    made = learn_cut(unseen(found, options.data), net, sets)
    refine = learn_refine(options.data)
    Defaults(net, made.nodes, made.edges, made.calibration, refine, sets).save()


if __name__ == "__main__":
    main()
