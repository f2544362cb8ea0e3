"""Default models on real images beside what people write by hand: pooled IoU, time and memory.

    python benchmarks/segmentation.py --data DIR [--sets nuclei ...] [--seed 0] [--json FILE]

DIR holds weizmann_horses, penn_fudan, nuclei and em_epfl_ca1, each with images/ and masks/. Each
set runs in its own process, so that the peak memory is its own. Rivals: (a) logistic regression on
the same linear filters, (b) our boosted logits without edges, thresholded for IoU out of fold,
(c) a forest on scikit-image's basic features with a contrast cut tuned for IoU out of fold.
"""

import argparse
import json
import re
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from PIL import Image
from skimage.feature import multiscale_basic_features
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GroupKFold

import cutlearn as cl
from cutlearn.features.featurizer import Featurizer
from cutlearn.grid import grid_slices
from cutlearn.metrics import bootstrap, confusions, iou_of, stack_tables, total
from cutlearn.model.files import load
from cutlearn.run.checkpoint import load_checkpoint

# Training images, smallest side to scale down to, factor. The slices of the micrographs: training
# ones at one end of the stack, in pairs that share a fold; those between them are left out.
SETS = {
    "weizmann_horses": {"train": 60},
    "penn_fudan": {"train": 40, "side": 240},
    "nuclei": {"train": 14, "factor": 0.5},
    "em_epfl_ca1": {"slices": (0, 3, 13, 17, 24, 28), "test_from": 42, "factor": 0.5},
    "em_drosophila_vnc": {"slices": (0, 1, 2, 3, 4, 5), "test_from": 8, "factor": 0.5},
}
ROWS = 60_000
STRENGTHS = (0.0, 1.0, 2.0, 4.0, 8.0, 16.0)
BIASES = (-0.5, 0.0, 0.5, 1.0, 1.5)
TUNED_ON = 24


def read(file, masks, side=None, factor=None):
    """An image and its mask, both scaled."""
    mask = Image.open(masks / f"{file.stem}.png")
    scale = factor or (min(1.0, side / min(mask.size)) if side else 1.0)
    size = tuple(round(n * scale) for n in mask.size)
    image = Image.open(file).resize(size, Image.Resampling.LANCZOS)
    labels = np.asarray(mask.resize(size, Image.Resampling.NEAREST)) > 0
    return np.asarray(image), labels.astype(np.uint8)


def split(name, data, seed):
    """Training pairs, their groups, and test pairs of a set."""
    rule = SETS[name]
    files = sorted((data / name / "images").iterdir())
    how = {k: rule[k] for k in ("side", "factor") if k in rule}
    groups = None
    if "slices" in rule:
        z = {int(re.findall(r"\d+", f.stem)[-1]): f for f in files}
        train = [z[k] for k in rule["slices"]]
        test = [f for k, f in sorted(z.items()) if k >= rule["test_from"]]
        groups = [i // 2 for i in range(len(train))]
    else:
        order = np.random.default_rng(seed).permutation(len(files))
        train = [files[i] for i in sorted(order[: rule["train"]])]
        test = [files[i] for i in sorted(order[rule["train"] :])]
    masks = data / name / "masks"
    pairs = [[read(f, masks, **how) for f in part] for part in (train, test)]
    return pairs[0], groups, pairs[1]


def best_threshold(scores, masks):
    """The threshold of the best pooled IoU."""
    score = np.concatenate([s.ravel() for s in scores])
    ones = np.concatenate([m.ravel() for m in masks]) == 1
    order = np.argsort(-score)
    right = np.cumsum(ones[order])
    either = ones.sum() + np.arange(1, len(order) + 1) - right
    return score[order[np.argmax(right / either)]]


def ours(train, groups, test):
    """Our default model, and rival (b) from its own logits; masks and figures of both."""
    images, masks = [i for i, _ in train], [m for _, m in train]
    with tempfile.TemporaryDirectory() as folder:
        wall, cpu = time.perf_counter(), time.process_time()
        model = cl.Segmenter(n_jobs=2).fit(images, masks, groups, checkpoint=folder)
        figures = {"fit_s": time.perf_counter() - wall, "fit_cpu_s": time.process_time() - cpu}
        _, arrays = load_checkpoint(Path(folder) / "features.safetensors", "features")
        model.save(Path(folder) / "model")
        model = load(Path(folder) / "model")
        figures["model_kB"] = (Path(folder) / "model").stat().st_size / 1000
    f = model.featurizer_
    logits = [f.logit(arrays[f"nodes.{i}"]) for i in range(len(train))]
    threshold = best_threshold(logits, masks)
    wall, cpu = time.perf_counter(), time.process_time()
    found = model.predict([i for i, _ in test])
    figures["predict_s"] = (time.perf_counter() - wall) / len(test)
    figures["predict_cpu_s"] = (time.process_time() - cpu) / len(test)
    figures["peak_GB"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    plain = [f.logit(f.node_features(i)).reshape(m.shape) >= threshold for i, m in test]
    notes = {"C": model.C_, "steps": model.n_steps_, "gap": model.gap_, **model.judged_}
    notes["w"] = dict(zip(model.w_names_, np.round(model.w_, 3).tolist()))
    return found, figures, [p.astype(np.uint8) for p in plain], notes


def drawn(rows, masks, rng):
    """Rows and labels of evenly drawn pixels of all images."""
    quota = ROWS // len(rows)
    index = [rng.choice(len(r), min(quota, len(r)), replace=False) for r in rows]
    x = np.concatenate([r[k] for r, k in zip(rows, index)])
    return x, np.concatenate([m.ravel()[k] for m, k in zip(masks, index)])


def logistic(train, test, seed):
    """Rival (a), thresholded at 0.5 and for IoU on the training images."""
    images, masks = [i for i, _ in train], [m for _, m in train]
    f = Featurizer("linear", n_jobs=2)
    rows = f.fit_transform(images, masks)
    x, y = drawn(rows, masks, np.random.default_rng(seed))
    model = LogisticRegression(max_iter=1000).fit(x, y)
    threshold = best_threshold([model.decision_function(r) for r in rows], masks)
    scores = [model.decision_function(f.node_features(i)).reshape(m.shape) for i, m in test]
    return [
        [(s >= t).astype(np.uint8) for s in scores]
        for t in (np.float64(0), threshold)
    ]  # fmt: skip


def basic(image):
    """The rows of a forest; photographs get row and column too, which helps the rival."""
    if image.ndim == 2:
        made = multiscale_basic_features(image, sigma_max=16)
    else:
        made = multiscale_basic_features(image, sigma_max=16, channel_axis=-1)
        place = np.moveaxis(np.mgrid[: image.shape[0], : image.shape[1]], 0, -1)
        made = np.concatenate([made, place / image.shape[:2]], axis=-1, dtype=np.float32)
    return made.reshape(-1, made.shape[-1])


def glue(image, logit, strength, bias):
    """The contrast cut that people write by hand."""
    x = np.asarray(image, float).reshape(*logit.shape, -1)
    parts = []
    for tail, head in grid_slices(logit.shape, 8):
        parts.append((((x[tail] - x[head]) ** 2).sum(axis=-1), tail, head))
    beta = np.mean(np.concatenate([p.ravel() for p, _, _ in parts])) or 1.0
    weights = []
    for k, (square, _, _) in enumerate(parts):
        weights.append(strength * np.exp(-square / (2 * beta)) / (1 if k < 2 else 2**0.5))
    return cl.Energy.grid(-(logit + bias), weights, 8).minimize().labels


def forest(train, groups, test, seed):
    """Rival (c): strength and bias of the cut tuned for IoU, out of fold."""
    images, masks = [i for i, _ in train], [m for _, m in train]
    rows = [basic(i) for i in images]
    rng = np.random.default_rng(seed)

    def grown(chosen):
        x, y = drawn([rows[i] for i in chosen], [masks[i] for i in chosen], rng)
        made = RandomForestClassifier(100, min_samples_leaf=5, n_jobs=2, random_state=seed)
        return made.fit(x, y)

    def logit(model, table, shape):
        p = np.clip(model.predict_proba(table)[:, 1], 0.005, 0.995).reshape(shape)
        return np.log(p / (1 - p))

    named = list(range(len(train))) if groups is None else groups
    logits = {}
    for kept, out in GroupKFold(3).split(images, masks, named):
        model = grown(kept)
        logits |= {i: logit(model, rows[i], masks[i].shape) for i in out[: TUNED_ON // 3]}
    tuned = sorted(logits)
    best, setting = -1.0, (0.0, 0.0)
    for strength in STRENGTHS:
        for bias in BIASES:
            found = [glue(images[i], logits[i], strength, bias) for i in tuned]
            iou = total(confusions([masks[i] for i in tuned], found)).iou(1)
            if iou > best:
                best, setting = iou, (strength, bias)
    model = grown(range(len(train)))
    found = []
    for image, mask in test:
        found.append(glue(image, logit(model, basic(image), mask.shape), *setting))
    return found, {"strength": setting[0], "bias": setting[1]}


def measure(name, data, seed):
    """All rows of one set."""
    train, groups, test = split(name, data, seed)
    truth = [m for _, m in test]
    found, figures, plain, notes = ours(train, groups, test)
    rows = {"cutlearn": found, "(b) logits, no edges": plain}
    rows["(a) logistic, 0.5"], rows["(a) logistic, IoU threshold"] = logistic(train, test, seed)
    rows["(c) forest + tuned cut"], notes["glue"] = forest(train, groups, test, seed)
    tables = {row: confusions(truth, masks) for row, masks in rows.items()}
    result = {"set": name, "train": len(train), "test": len(test), **figures, "notes": notes}
    result["rows"] = {}
    for row, counts in tables.items():
        both = np.stack([stack_tables(tables["cutlearn"]), stack_tables(counts)], axis=1)
        spread = bootstrap(both[:, 1], lambda sums: 100 * iou_of(sums))
        ahead = bootstrap(both, lambda sums: 100 * (iou_of(sums[:, 0]) - iou_of(sums[:, 1])))
        result["rows"][row] = {
            "iou": spread.value, "low": spread.low, "high": spread.high, "deviation":
            spread.deviation, "ours_ahead": [ahead.value, ahead.low, ahead.high],
        }  # fmt: skip
    return result


def show(result):
    """One set as a table."""
    print(f"\n{result['set']}: {result['train']} training, {result['test']} test images")
    fit = "fit {fit_s:.0f} s ({fit_cpu_s:.0f} CPU s)".format(**result)
    predict = "predict {predict_s:.2f} s ({predict_cpu_s:.2f} CPU s)".format(**result)
    size = "peak {peak_GB:.2f} GB, model {model_kB:.0f} kB".format(**result)
    print(f"  {fit}, {predict} an image, {size}")
    for row, r in result["rows"].items():
        value = f"{r['iou']:5.1f} +- {r['deviation']:.1f}  [{r['low']:.1f}, {r['high']:.1f}]"
        ahead = "ours ahead by {:.1f} [{:.1f}, {:.1f}]".format(*r["ours_ahead"])
        print(f"  {row:30s} {value}   {ahead}")
    print(f"  {json.dumps(result['notes'])}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--sets", nargs="+", choices=SETS, default=list(SETS))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path, help="write the figures of all sets here")
    parser.add_argument("--one", choices=SETS, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        print(json.dumps(measure(given.one, given.data, given.seed)))
        return
    results = []
    for name in given.sets:
        call = [sys.executable, __file__, "--data", given.data, "--one", name, "--seed", given.seed]
        told = subprocess.run([str(c) for c in call], check=True, stdout=subprocess.PIPE, text=True)
        results.append(json.loads(told.stdout))
        show(results[-1])
    if given.json:
        given.json.write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
