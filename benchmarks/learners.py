"""Learned for masks or for probabilities: one Segmenter by several learners, on real images.

    python benchmarks/learners.py --data DIR [--sets nuclei ...] [--train 20] [--side 100]

DIR and the splits are those of benchmarks/splits.py. All learners see the same boosted
features, computed once; each chooses its own C, and the likelihood whether it keeps its edges, but
for the last row, which keeps them. CPU seconds are those of the trainings (the path of
C and the calibration among them), features left out. Every row is told before and after the
calibration: the plain softmax of min-marginals, and with a temperature.
"""

import argparse
import shutil
import tempfile
import time
from pathlib import Path

import numpy as np
from probabilities import figures, smaller
from splits import USUAL as SETS
from splits import split

import cutlearn as cl
from cutlearn.model.calibration import uncalibrated
from cutlearn.model.decisions import best_for_iou

LEARNERS = {
    "bundle": {"learner": "bundle"},
    "logistic": {"learner": "logistic"},
    "likelihood": {"learner": "likelihood"},
    "with edges": {"learner": "likelihood", "C": 300.0},
}
FEATURES = "features.safetensors"


def fitted(learner, train, groups, folder):
    """A model on the features of the first call, and the CPU seconds of its trainings."""
    own = folder / learner.replace(" ", "_")
    own.mkdir()
    if (folder / FEATURES).exists():
        shutil.copy(folder / FEATURES, own / FEATURES)
    told = []

    def progress(*_):
        told[:] = [time.process_time()]

    begin = time.process_time()
    model = cl.Segmenter(n_jobs=2, **LEARNERS[learner])
    model.fit(*zip(*train), groups, checkpoint=own, progress=progress)
    shutil.copy(own / FEATURES, folder / FEATURES)
    return model, time.process_time() - (told[0] if told else begin)


def rows(name, data, most, side, seed):
    """Rows of one set, one for each learner before and after calibration."""
    train, groups, test = split(name, data, seed)
    if groups is None:
        train = [
            train[i] for i in sorted(np.random.default_rng(seed).permutation(len(train))[:most])
        ]
    train, test = ([smaller(p, side) for p in part] for part in (train, test[: 2 * most]))
    samples, truth = [cl.Sample(i) for i, _ in test], [m for _, m in test]
    print(f"{name}: {len(train)} training, {len(test)} test images", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        for learner in LEARNERS:
            model, seconds = fitted(learner, train, groups, Path(folder))
            least = model._all_min_marginals(samples)
            notes = f"C {model.C_:g}, {seconds:.0f} s, scale {model.calibration_.map.scale:.3g}"
            for word, scale in (("plain", uncalibrated(2)), ("temperature", model.calibration_)):
                q = [scale.probabilities(part) for part in least]
                masks = {"map": model.predict(samples), "iou": [best_for_iou(p) for p in q]}
                r = figures(truth, q, masks)
                print(
                    f"  {learner:10s} {word:11s} log-likelihood {r['log_likelihood']:.4f}  "
                    f"ECE {r['ece'][0]:.2f} %  AUC {r['auc']:.4f}  IoU (mean/pooled) map "
                    f"{r['map']['mean_iou']:.1f}/{r['map']['pooled_iou']:.1f}, iou "
                    f"{r['iou']['mean_iou']:.1f}/{r['iou']['pooled_iou']:.1f}  {notes}",
                    flush=True,
                )
            print(f"    {model.validation_}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--sets", nargs="+", default=["weizmann_horses", "nuclei"], choices=SETS)
    parser.add_argument("--train", type=int, default=20)
    parser.add_argument("--side", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    for name in args.sets:
        rows(name, args.data, args.train, args.side, args.seed)


if __name__ == "__main__":
    main()
