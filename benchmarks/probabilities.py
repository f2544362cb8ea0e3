"""Probabilities on real images: calibration beside rivals, decisions, areas, active annotation.

    python benchmarks/probabilities.py --data DIR [--sets nuclei ...] [--seeds 1] [--active 8]

DIR is that of benchmarks/splits.py, whose splits are taken with fewer images and smaller
sides (SMALLER), to fit into minutes. Rows: our default model with a temperature, with isotonic
steps, and with plain softmaxed min-marginals; the votes of a forest of 100 trees on scikit-image's
basic features. Active annotation: linear features, batches of 2 chosen by `rank`, by entropy alone
or at random (the mean of DRAWS orders), IoU on images that are never annotated.
"""

import argparse
import json
import tempfile
import time
from functools import cache, reduce
from operator import add
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from PIL import Image
from rivals import basic, drawn
from sklearn.ensemble import RandomForestClassifier
from splits import USUAL as SETS
from splits import split

import cutlearn as cl
from cutlearn.metrics import (
    beliefs,
    bootstrap,
    calibration_error_of,
    confusions,
    count_error,
    entropy,
    mean_iou,
    total,
)
from cutlearn.model.decisions import best_for_count, best_for_iou

# Training and test images at most, and the smaller side of an image at most.
SMALLER = {"train": 24, "test": 40, "side": 160}
KINDS = {"temperature": "temperature", "isotonic": "isotonic", "plain softmax": None}
LEVEL = 0.9
# Annotated images: the first ones at random, then a batch a round; random orders for each seed.
FIRST, BATCH, MOST, POOL, TEST, SIDE, DRAWS = 3, 2, 11, 40, 80, 80, 3


def smaller(pair, side):
    """An image and its mask, scaled down."""
    image, mask = (Image.fromarray(np.ascontiguousarray(a)) for a in pair)
    scale = min(1.0, side / min(image.size))
    size = tuple(round(n * scale) for n in image.size)
    image = image.resize(size, Image.Resampling.LANCZOS)
    return np.asarray(image), np.asarray(mask.resize(size, Image.Resampling.NEAREST))


def figures(truth, q, masks=None):
    """ECE, log-likelihood and AUC of probabilities; IoU and count error of decisions."""
    each = [beliefs(t, p) for t, p in zip(truth, q)]
    ece = bootstrap([part.bins for part in each], calibration_error_of, draws=200)
    mean_area = np.mean([(t == 1).sum() for t in truth])
    row = {
        "ece": [100 * ece.value, 100 * ece.low, 100 * ece.high],
        "log_likelihood": float(np.mean([b.mean_log_likelihood() for b in each])),
        "auc": reduce(add, each).auc(),
    }
    for name, found in (masks or {}).items():
        row[name] = {
            "mean_iou": 100 * mean_iou(truth, found),
            "pooled_iou": 100 * total(confusions(truth, found)).iou(1),
            "count_error": 100 * count_error(truth, found) / mean_area,
        }
    return row


def votes(train, test, seed):
    """The forest's own probabilities, (h, w, 2)."""
    rng = np.random.default_rng(seed)
    x, y = drawn([basic(i) for i, _ in train], [m for _, m in train], rng)
    forest = RandomForestClassifier(100, min_samples_leaf=5, n_jobs=2, random_state=seed).fit(x, y)
    return [forest.predict_proba(basic(i)).reshape(*m.shape, 2) for i, m in test]


def calibration(name, data, seed):
    """All rows of one set."""
    train, groups, test = split(name, data, seed)
    pick = np.random.default_rng(seed).permutation
    if groups is None:
        train = [train[i] for i in sorted(pick(len(train))[: SMALLER["train"]])]
    test = [test[i] for i in sorted(pick(len(test))[: SMALLER["test"]])]
    train, test = ([smaller(p, SMALLER["side"]) for p in part] for part in (train, test))
    samples, truth = [cl.Sample(i) for i, _ in test], [m for _, m in test]
    area = np.array([(t == 1).sum() for t in truth])
    rows, least = {}, None
    with tempfile.TemporaryDirectory() as folder:
        for row, kind in KINDS.items():
            # The checkpoint holds features and trainings, so only the first fit takes its time.
            begin = time.process_time()
            model = cl.Segmenter(calibration=kind, n_jobs=2)
            model.fit(*zip(*train), groups, checkpoint=folder)
            fit = time.process_time() - begin
            # The weights of all rows are the same, so min-marginals are computed once.
            least = model._all_min_marginals(samples) if least is None else least
            q = [model.calibration_.probabilities(part) for part in least]
            masks = {
                "map": [part.argmin(axis=-1) for part in least],
                "iou": [best_for_iou(part) for part in q],
                "count": [best_for_count(part) for part in q],
            }
            rows[row] = figures(truth, q, masks) | {"fit_cpu_s": fit}
            if kind is not None:
                interval = np.array([model.calibration_.area(p, 1, LEVEL)[1:] for p in q])
                inside = (interval[:, 0] <= area) & (area <= interval[:, 1])
                width = np.diff(interval)[:, 0] / max(area.mean(), 1)
                rows[row] |= {"covered": inside.mean(), "width": float(np.median(width))}
    rows["forest votes"] = figures(truth, votes(train, test, seed))
    return {"set": name, "train": len(train), "test": len(test), "seed": seed, "rows": rows}


def show(result):
    """One set as a table."""
    print(f"\n{result['set']}, seed {result['seed']}: {result['train']} training, "
          f"{result['test']} test images")  # fmt: skip
    for row, r in result["rows"].items():
        line = "ECE {:5.2f} % [{:.2f}, {:.2f}]".format(*r["ece"])
        line += f"  log-likelihood {r['log_likelihood']:7.4f}  AUC {r['auc']:.4f}"
        for d in ("map", "iou", "count"):
            if d in r:
                line += "  {} {mean_iou:.1f}/{pooled_iou:.1f}/{count_error:.1f}".format(d, **r[d])
        if "covered" in r:
            line += f"  areas covered {r['covered']:.2f}, width {r['width']:.2f}"
        print(f"  {row:14s} {line}", flush=True)


def active(name, data, seed):
    """Pooled IoU by number of annotated images, for each way of choosing them."""
    train, _, test = split(name, data, seed)
    whole = [smaller(p, SIDE) for p in train + test]
    order = np.random.default_rng(seed).permutation(len(whole))
    pool = [whole[i] for i in order[:POOL]]
    images, truth = zip(*(whole[i] for i in order[POOL : POOL + TEST]))

    @cache
    def fitted(chosen):
        model = cl.Segmenter(features="linear", C=1000.0, tol=0.05, n_jobs=2)
        model.fit(*zip(*(pool[i] for i in sorted(chosen))))
        return model, 100 * total(confusions(truth, model.predict(images))).iou(1)

    def curve(choose):
        chosen, scores = list(range(FIRST)), []
        while True:
            model, iou = fitted(frozenset(chosen))
            scores.append(iou)
            if len(chosen) >= MOST:
                return scores
            rest = [i for i in range(POOL) if i not in chosen]
            chosen += [rest[k] for k in choose(model, [pool[i][0] for i in rest])[:BATCH]]

    def doubtful(model, rest):
        return np.argsort([-entropy(q).mean() for q in model.predict_proba(rest)])

    rng = np.random.default_rng(seed)
    draws = [curve(lambda _, rest: rng.permutation(len(rest))) for _ in range(DRAWS)]
    return {
        "set": name,
        "seed": seed,
        "random": np.mean(draws, axis=0).tolist(),
        "entropy": curve(doubtful),
        "rank": curve(lambda model, rest: [r.image for r in model.rank(rest)]),
    }


def show_active(results):
    """Mean curves of one set over seeds, and the mean gain of each way over random order."""
    counts = list(range(FIRST, MOST + 1, BATCH))
    print(f"\n{results[0]['set']}: pooled IoU by annotated images {counts}, {len(results)} seeds")
    base = np.array([r["random"] for r in results])
    for way in ("random", "entropy", "rank"):
        curve = np.array([r[way] for r in results])
        gain = (curve - base)[:, 1:].mean(axis=1)
        spread = gain.std(ddof=1) / len(gain) ** 0.5 if len(gain) > 1 else float("nan")
        means = " ".join(f"{v:5.1f}" for v in curve.mean(axis=0))
        print(f"  {way:8s} {means}   over random {gain.mean():+.2f} +- {spread:.2f}", flush=True)


def draw(runs, file):
    """The curves of every set: means over seeds, with the standard error of their gain."""
    figure = Figure(figsize=(4.5 * len(runs), 3.4), layout="constrained")
    counts = np.arange(FIRST, MOST + 1, BATCH)
    for ax, (name, part) in zip(np.atleast_1d(figure.subplots(1, len(runs))), runs.items()):
        base = np.array([r["random"] for r in part])
        for way, style in {"random": "k--", "entropy": "C1-", "rank": "C0-"}.items():
            curve = np.array([r[way] for r in part])
            spread = (curve - base).std(axis=0, ddof=1) / len(part) ** 0.5
            ax.errorbar(counts, curve.mean(axis=0), spread, fmt=style, marker="o", ms=4, label=way)
        ax.set(title=f"{name}, {len(part)} seeds", xlabel="annotated images", xticks=counts)
        ax.set_ylabel("pooled IoU, %")
        ax.legend(loc="lower right")
    figure.savefig(file, dpi=100)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--sets", nargs="*", choices=SETS, default=list(SETS))
    parser.add_argument("--seeds", type=int, default=1, help="splits of the calibration rows")
    parser.add_argument("--active", type=int, default=8, help="seeds of active annotation")
    parser.add_argument("--active-sets", nargs="*", choices=SETS,
                        default=["weizmann_horses", "penn_fudan"])  # fmt: skip
    parser.add_argument("--picture", type=Path, help="draw the curves of active annotation here")
    parser.add_argument("--json", type=Path, help="write all figures here")
    given = parser.parse_args()
    results = []

    def keep(result):
        results.append(result)
        if given.json:
            given.json.write_text(json.dumps(results, indent=1))

    for name in given.sets:
        for seed in range(given.seeds):
            keep(calibration(name, given.data, seed))
            show(results[-1])
    runs = {name: [] for name in given.active_sets if given.active}
    for seed in range(given.active):
        for name, part in runs.items():
            part.append(active(name, given.data, seed))
            keep(part[-1])
            show_active(part)
    if given.picture:
        draw(runs, given.picture)


if __name__ == "__main__":
    main()
