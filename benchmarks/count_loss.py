"""Count-trained against Hamming-trained models on the world of cells, over several seeds.

    python benchmarks/count_loss.py [--features few|linear|boosted] [--seeds 5] [--C auto]

Each seed makes its own training and test images. Three models see the same images and features:
the Hamming loss as it stands, the default (Hamming, C and bias chosen for pooled IoU) and the count
loss. Told are the figures on the test images: mean over seeds +- deviation over seeds, and
the differences to the first model, seed by seed, which the draw of the images hardly touches.
"""

import argparse
import json
import time
import warnings

import numpy as np
from scipy import ndimage

import cutlearn as cl
from cutlearn.features.featurizer import Featurizer
from cutlearn.features.trees import Recipe
from cutlearn.images import Sample, cells
from cutlearn.learn.losses import Count, Hamming
from cutlearn.report.evaluate import evaluate

LOSSES = {"Hamming": Hamming(), "default (for IoU)": "hamming", "count": Count()}
FIGURES = ("count_error", "relative_count_error", "bias", "pixel_error", "iou")
# A tenth of the default's work: many models are trained here.
SMALL = Recipe(trees=30, rows=20_000, folds=3, stages=1)


FEATURES = {
    "few": Featurizer("given"),
    "linear": "linear",
    "boosted": Featurizer("trees", recipe=SMALL),
}


def blurs(image):
    """Give an image at three scales: the three node features of "few"."""
    return np.stack([ndimage.gaussian_filter(image, width) for width in (1, 4, 16)], axis=-1)


def one_seed(seed, options):
    """Train the three models of a seed; give their figures on its test images."""
    shape = (options.rows, options.columns)
    worlds = [cells(10_000 * seed + i, shape) for i in range(options.train + options.test)]
    images, masks = [w.image for w in worlds], [w.labels for w in worlds]
    if options.features == "few":
        images = [Sample(x, extra=blurs(x)) for x in images]
    n = options.train
    found = {}
    for name, loss in LOSSES.items():
        begin = time.perf_counter()
        model = cl.Segmenter(
            loss=loss,
            C=options.C if options.C == "auto" else float(options.C),
            features=FEATURES[options.features],
            n_jobs=options.jobs,
        ).fit(images[:n], masks[:n])
        seconds = time.perf_counter() - begin
        guesses = model.predict(images[n:])
        figures = evaluate([str(i) for i in range(options.test)], masks[n:], guesses)
        values = {k: getattr(figures, k).value for k in FIGURES if k != "bias"}
        areas = [(i.predicted_area, i.true_area) for i in figures.images]
        values["bias"] = sum(p for p, _ in areas) / sum(t for _, t in areas) - 1
        found[name] = values | {"C": model.C_, "gap": model.gap_, "seconds": seconds}
        told = ", ".join(f"{k} {v:.4g}" for k, v in found[name].items())
        print(f"seed {seed}, {name:20s} {told}", flush=True)
    return found


def main():
    """Run all seeds and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name, default in (("seeds", 5), ("train", 24), ("test", 40), ("rows", 96),
                          ("columns", 128), ("jobs", 1)):  # fmt: skip
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--C", default="auto")
    parser.add_argument("--features", choices=FEATURES, default="linear")
    parser.add_argument("--json", help="file for all figures")
    options = parser.parse_args()
    warnings.simplefilter("ignore", cl.ConvergenceWarning)
    runs = [one_seed(seed, options) for seed in range(options.seeds)]
    print(f"\n{'trained with':20s} " + " ".join(f"{name:>22s}" for name in FIGURES))
    for name in LOSSES:
        table = np.array([[run[name][k] for k in FIGURES] for run in runs])
        base = np.array([[run["Hamming"][k] for k in FIGURES] for run in runs])
        for title, part in ((name, table), ("  minus Hamming", table - base)):
            if title.startswith(" ") and name == "Hamming":
                continue
            cells_ = [f"{m:+.4f} +- {s:.4f}" for m, s in zip(part.mean(0), part.std(0, ddof=1))]
            print(f"{title:20s} " + " ".join(f"{cell:>22s}" for cell in cells_))
    lower = sum(run["count"]["count_error"] < run["Hamming"]["count_error"] for run in runs)
    print(f"\ncount error lower with the count loss in {lower} of {len(runs)} seeds")
    if options.json:
        with open(options.json, "w") as file:  # noqa: PTH123
            json.dump(runs, file, indent=1)


if __name__ == "__main__":
    main()
