"""Learn the weights of `cutlearn.refine` on out-of-fold logits of pixel classifiers; measure them.

    python scripts/defaults_refine.py --data DIR      gains on sets that the weights have not seen

The logits stand for those of any network: forests and boosted trees without context, which know
nothing of edges. Read by `learn_defaults.py`. Measured beside them: a small convolutional network,
and, where `pip install pydensecrf2` was done, a dense CRF by mean field with its usual parameters.
"""

import argparse
import functools
import importlib.util
import time
from pathlib import Path
from typing import Any

import numpy as np
from skimage.feature import multiscale_basic_features
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier

import cutlearn as cl
from cutlearn.features.describe import Bank
from cutlearn.features.edges import edge_features
from cutlearn.features.mixtures import palette
from cutlearn.features.net.learn import NetRecipe, fit_nets
from cutlearn.images import read_image, read_values
from cutlearn.images.resize import resize_image, resize_labels, side_shape
from cutlearn.model.calibration import calibrate, drawn
from cutlearn.model.session.engines import edge_weights, grid_energy
from cutlearn.model.session.refine import columns

# The sets on which the weights are learned, and those on which the gain is measured, by the number
# of images and the smaller side at which they are taken.
LEARNED = {"weizmann_horses": (20, 160), "nuclei": (10, 200), "em_epfl_ca1": (8, 256)}
MEASURED = {"penn_fudan": (24, 200), "msrc_cows": (24, 160), "em_drosophila_vnc": (8, 256)}
BIASES = (-0.2, 0.0, 0.2, 0.4, 0.6, 0.9)
FOLDS, ROWS = 3, 24_000
CLASSIFIERS = {
    "forest": lambda: RandomForestClassifier(
        30, min_samples_leaf=8, max_features="sqrt", random_state=0
    ),
    "boosted": lambda: HistGradientBoostingClassifier(
        max_iter=60, learning_rate=0.15, random_state=0
    ),
}


def taken(data: Path, name: str, count: int, side: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """Images and masks of a set, evenly drawn."""
    folder = data / name
    paths = sorted((folder / "images").iterdir())
    paths = [paths[k] for k in np.linspace(0, len(paths) - 1, min(count, len(paths))).astype(int)]
    found = []
    for path in paths:
        image = read_image(path)
        truth = read_values(folder / "masks" / f"{path.stem}.png")
        truth = _binary(name, truth)
        shape = side_shape(truth.shape, min(side, *truth.shape))
        found.append((resize_image(image, shape), resize_labels(truth, shape)))
    return found


def _binary(name: str, truth: np.ndarray) -> np.ndarray:
    if name == "msrc_cows":  # three labels; the cow is 1 there
        return np.where(truth == 255, 255, truth == 1).astype(np.uint8)
    return np.where(truth == 255, 255, truth > 0).astype(np.uint8)


def logits_of(cases: list[tuple[np.ndarray, np.ndarray]], kind: str) -> list[np.ndarray]:
    """Log-odds of every image by a classifier that never saw it."""
    described = [
        multiscale_basic_features(
            image, sigma_max=8, channel_axis=-1 if image.ndim == 3 else None
        ).astype(np.float32)
        for image, _ in cases
    ]
    rng, out = np.random.default_rng(0), [np.empty(0)] * len(cases)
    for fold in range(FOLDS):
        inside = [k for k in range(len(cases)) if k % FOLDS != fold]
        x, y = [], []
        for k in inside:
            truth = cases[k][1].ravel()
            rows = np.flatnonzero(truth != 255)
            rows = rng.choice(rows, min(len(rows), ROWS // len(inside)), replace=False)
            x.append(described[k].reshape(truth.size, -1)[rows])
            y.append(truth[rows])
        model = CLASSIFIERS[kind]().fit(np.concatenate(x), np.concatenate(y))
        for k in range(fold, len(cases), FOLDS):
            rows = described[k].reshape(cases[k][1].size, -1)
            p = np.clip(model.predict_proba(rows)[:, 1], 1e-3, 1 - 1e-3)
            out[k] = np.log(p / (1 - p)).reshape(cases[k][1].shape)
    return out


def network_logits(cases: list[tuple[np.ndarray, np.ndarray]]) -> list[np.ndarray]:
    """Log-odds of every image by a small U-Net that never saw it."""
    images, truths = [image for image, _ in cases], [truth for _, truth in cases]
    fold = np.arange(len(cases)) % FOLDS
    bank = Bank.choose(images)
    maps = fit_nets(
        images, [truth[..., None] for truth in truths], [None] * len(cases), bank, NetRecipe(), fold
    )[1]
    return [np.clip(z[0].astype(np.float64), -7, 7) for z in maps]


# Of a dense CRF: deviation and weight of the Gaussian of places; deviations of places and levels,
# and weight, of the other one. The package's own example, and what segmentation networks came with.
DENSE = {"dense CRF": (3, 3, 80, 13, 10), "dense CRF, mild": (1, 3, 67, 3, 4)}


def dense_crf(
    given: tuple[int, int, int, int, int], z: np.ndarray, image: np.ndarray
) -> np.ndarray:
    """Labels by mean field, ten rounds."""
    from pydensecrf import densecrf

    h, w = z.shape
    colors = image if image.ndim == 3 else np.repeat(image[..., None], 3, axis=2)
    crf = densecrf.DenseCRF2D(w, h, 2)
    # - log of the probabilities of both labels
    costs = np.stack([np.logaddexp(0, z), np.logaddexp(0, -z)]).reshape(2, -1)
    crf.setUnaryEnergy(np.ascontiguousarray(costs, np.float32))
    near, smooth, far, levels_apart, alike = given
    crf.addPairwiseGaussian(sxy=near, compat=smooth)
    levels = np.ascontiguousarray((255 * colors + 0.5).astype(np.uint8))
    crf.addPairwiseBilateral(sxy=far, srgb=levels_apart, rgbim=levels, compat=alike)
    return np.asarray(crf.inference(10)).argmax(axis=0).reshape(h, w).astype(np.uint8)


def learn_refine(data: Path) -> dict[str, Any]:
    """Learn the five weights and the scale of probabilities."""
    cases, logits = [], []
    for name, (count, side) in LEARNED.items():
        found = taken(data, name, count, side)
        for kind in CLASSIFIERS:
            cases += found
            logits += logits_of(found, kind)
    problems = [
        cl.Problem(
            np.moveaxis(-columns(z, palette(image)), 0, -1),
            edge_features=edge_features(image, 8)[:, :2].astype(np.float64),
            shape=truth.shape,
            connectivity=8,
        )
        for (image, truth), z in zip(cases, logits)
    ]
    result = cl.train(problems, [truth for _, truth in cases], C=100.0, tol=0.01)
    nodes, edges = result.w[:3].copy(), result.w[3:]
    nodes[0] = best_bias(cases, logits, nodes, edges)
    rows = []
    for (image, truth), z in list(zip(cases, logits))[::3]:
        weights = edge_weights(image, edges)
        unary = -np.tensordot(nodes, columns(z, palette(image)), 1)
        energy = grid_energy(unary, weights)
        rows.append(drawn(energy.min_marginals(), truth))
    found = calibrate(rows, "temperature", True).map.to_plain()[0]
    print("refine", result.w, found, flush=True)
    return {"nodes": nodes.tolist(), "edges": edges.tolist(), "scale": found["scale"]}


def best_bias(cases: list, logits: list, nodes: np.ndarray, edges: np.ndarray) -> float:
    """The first weight by IoU: trained for wrong pixels, a cut wipes out what is rare."""
    prepared = []
    for (image, truth), z in zip(cases, logits):
        weights = edge_weights(image, edges)
        prepared.append((columns(z, palette(image)), weights, truth))
    found = {}
    for bias in BIASES:
        w = np.array([bias, *nodes[1:]])
        cuts = [grid_energy(-np.tensordot(w, f, 1), e).minimize().labels for f, e, _ in prepared]
        found[bias] = np.mean([iou(truth, cut) for cut, (*_, truth) in zip(cuts, prepared)])
        print("bias", bias, found[bias], flush=True)
    return max(found, key=lambda bias: found[bias])


def iou(truth: np.ndarray, labels: np.ndarray) -> float:
    """IoU of label 1, void left out."""
    known = truth != 255
    one, other = (truth == 1) & known, (labels == 1) & known
    return float((one & other).sum() / max(1, (one | other).sum()))


def measure(data: Path) -> None:
    """Print mean IoU of raw logits and of refined ones, and the spread of the gains."""
    ways = {"refine": lambda z, image: np.asarray(cl.refine(z, image))}
    if importlib.util.find_spec("pydensecrf") is not None:
        ways |= {name: functools.partial(dense_crf, given) for name, given in DENSE.items()}
    rng = np.random.default_rng(0)
    for name, (count, side) in MEASURED.items():
        cases = taken(data, name, count, side)
        for kind in (*CLASSIFIERS, "network"):
            logits = network_logits(cases) if kind == "network" else logits_of(cases, kind)
            raw = np.array([iou(t, z > 0) for (_, t), z in zip(cases, logits)])
            print(f"{name}, {kind} ({len(cases)} images): raw {100 * raw.mean():.1f}", flush=True)
            for way, asked in ways.items():
                begin = time.process_time()
                found = [iou(t, asked(z, image)) for (image, t), z in zip(cases, logits)]
                spent = (time.process_time() - begin) / len(cases)
                gain = np.array(found) - raw
                draws = gain[rng.integers(0, len(gain), (1000, len(gain)))].mean(axis=1)
                print(
                    f"  {way}: {100 * np.mean(found):.1f}, gain {100 * gain.mean():.1f} "
                    f"+-{100 * draws.std():.1f}, {spent:.2f} s an image",
                    flush=True,
                )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    measure(parser.parse_args().data)
