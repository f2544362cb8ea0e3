"""Default models on real images beside what people write by hand: pooled IoU, time and memory.

    python benchmarks/segmentation.py --data DIR [--sets nuclei ...] [--seed 0] [--json FILE]

DIR holds weizmann_horses, penn_fudan, nuclei and em_epfl_ca1, each with images/ and masks/. Each
set runs in its own process, so that the peak memory is its own. Rivals: (a) logistic regression on
the same linear filters, (b) our boosted logits without edges, thresholded for IoU out of fold,
(c) a forest on scikit-image's basic features with a contrast cut tuned for IoU out of fold.
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from answers import best_threshold
from rivals import drawn, forest
from sklearn.linear_model import LogisticRegression
from splits import USUAL, split

import cutlearn as cl
from cutlearn.features.featurizer import Featurizer
from cutlearn.metrics import bootstrap, confusions, iou_of, stack_tables
from cutlearn.model.model_files import load
from cutlearn.run.checkpoint import load_checkpoint


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
    notes = {"C": model.C_, "steps": model.n_steps_, "gap": model.gap_, **model.validation_}
    notes["w"] = dict(zip(model.w_names_, np.round(model.w_, 3).tolist()))
    return found, figures, [p.astype(np.uint8) for p in plain], notes


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


def measure(name, data, seed):
    """All rows of one set."""
    given = split(name, data, seed)
    train, groups, test = given
    truth = [m for _, m in test]
    found, figures, plain, notes = ours(train, groups, test)
    rows = {"cutlearn": found, "(b) logits, no edges": plain}
    rows["(a) logistic, 0.5"], rows["(a) logistic, IoU threshold"] = logistic(train, test, seed)
    grown = forest(given, seed)
    rows["(c) forest + tuned cut"], notes["forest"] = grown.cut, grown.remark
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
    parser.add_argument("--sets", nargs="+", choices=USUAL, default=list(USUAL))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path, help="write the figures of all sets here")
    parser.add_argument("--one", choices=USUAL, help=argparse.SUPPRESS)
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
