"""Which images to annotate next: `rank` beside random order, with features that are learned.

    python benchmarks/active.py --data DIR [--sets ..] [--features trees net] [--seeds 0 1 ..]
    python benchmarks/active.py --table FOLDER [--page docs/results/active.md]
        [--picture docs/pictures/active_learned.png]

Photographs with a shorter side of 80 pixels. From 3 random images on, 2 more a round out of 40 are
annotated, chosen by `rank` or at random, and a model is fitted anew; pooled IoU on 60 images that
are never annotated. Nets take 100 steps, and C is not searched for, so that seeds are affordable.
Every curve is a file in the folder of --json that is not measured again. The same with linear
features is in benchmarks/probabilities.py.
"""

import json
from functools import partial
from itertools import product

import numpy as np
from answers import COMMIT, Clock
from curves import smaller
from matplotlib.figure import Figure
from rows import into_page, kept, measured, parser_of
from splits import split

import cutlearn as cl
from cutlearn.features.net.learn import NetRecipe
from cutlearn.metrics import confusions, total

FIRST, BATCH, MOST, POOL, TEST, SIDE, STEPS = 3, 2, 9, 40, 60, 80, 100
COUNTS = list(range(FIRST, MOST + 1, BATCH))
WAYS = ("random", "rank")
SETS = ("weizmann_horses", "penn_fudan")
FEATURES = ("linear", "trees", "net", "stacked")


def fitted(pairs, features):
    """A model of the images that are annotated so far."""
    own = cl.Featurizer(features, net=NetRecipe(steps=STEPS), n_jobs=1)
    model = cl.Segmenter(features=own, C=1000.0, tol=0.05, n_jobs=1)
    return model.fit(*zip(*pairs))


def measure(name, data, features, way, seed, file):
    """One curve."""
    whole, clock = split(name, data, seed), Clock()
    pairs = whole.train + whole.test
    order = np.random.default_rng(seed).permutation(len(pairs))[: POOL + TEST]
    pairs = [smaller(pairs[i], SIDE) for i in order]
    pool, (images, truth) = pairs[:POOL], zip(*pairs[POOL:])
    chosen, rng, values = list(range(FIRST)), np.random.default_rng([seed, 1]), []
    while True:
        model = fitted([pool[i] for i in chosen], features)
        values.append(100 * total(confusions(truth, model.predict(images))).iou(1))
        if len(chosen) >= MOST:
            break
        rest = [i for i in range(POOL) if i not in chosen]
        if way == "rank":
            next_ = [r.image for r in model.rank([pool[i][0] for i in rest])]
        else:
            next_ = rng.permutation(len(rest))
        chosen += [rest[k] for k in next_[:BATCH]]
    row = {"set": name, "seed": seed, "features": features, "way": way, "iou": values,
           "seconds": clock(), "commit": COMMIT}  # fmt: skip
    file.write_text(json.dumps(row, indent=1))


def pairs_of(rows, name, features):
    """Curves of random order and of `rank` with the same seeds, (seeds, 2, rounds)."""
    found = {(r["seed"], r["way"]): r["iou"] for r in rows
             if (r["set"], r["features"]) == (name, features)}  # fmt: skip
    seeds = sorted({seed for seed, _ in found if all((seed, way) in found for way in WAYS)})
    return np.array([[found[seed, way] for way in WAYS] for seed in seeds])


def tables(rows):
    """Mean curves, and the gain of `rank` with its standard error over seeds."""
    out = ["| set, features (seeds) | order | " + " | ".join(map(str, COUNTS))
           + " | over random | seeds ahead |", "| --- " * (len(COUNTS) + 4) + "|"]  # fmt: skip
    for name in SETS:
        for features in FEATURES:
            curves = pairs_of(rows, name, features)
            if len(curves) < 2:
                continue
            gain = (curves[:, 1] - curves[:, 0])[:, 1:].mean(axis=1)
            said = f"{gain.mean():+.2f} ± {gain.std(ddof=1) / len(gain) ** 0.5:.2f}"
            ends = {"random": " | ", "rank": f"{said} | {(gain > 0).sum()} of {len(gain)}"}
            for k, way in enumerate(WAYS):
                means = " | ".join(f"{v:.1f}" for v in curves[:, k].mean(axis=0))
                title = f"{name}, {features} ({len(curves)})" if not k else ""
                out.append(f"| {title} | {way} | {means} | {ends[way]} |")
    return "\n".join(out)


def draw_curves(rows, file):
    """Mean curves of every set and source; bars are the standard error of the gain."""
    shown = [(n, f) for n in SETS for f in FEATURES if len(pairs_of(rows, n, f)) > 1]
    figure = Figure(figsize=(3.6 * len(shown), 3.2), layout="constrained")
    for ax, (name, features) in zip(np.atleast_1d(figure.subplots(1, len(shown))), shown):
        curves = pairs_of(rows, name, features)
        error = (curves[:, 1] - curves[:, 0]).std(axis=0, ddof=1) / len(curves) ** 0.5
        ax.plot(COUNTS, curves[:, 0].mean(axis=0), "k--o", ms=4, label="random")
        ax.errorbar(COUNTS, curves[:, 1].mean(axis=0), error, fmt="C0-o", ms=4, label="rank")
        ax.set(title=f"{name}, {features}, {len(curves)} seeds", xlabel="annotated images",
               xticks=COUNTS, ylabel="pooled IoU, %")  # fmt: skip
        ax.legend(loc="lower right")
    figure.savefig(file, dpi=100)


def main():
    parser = parser_of(__doc__, "active")
    parser.add_argument("--sets", nargs="+", choices=SETS, default=SETS)
    parser.add_argument("--features", nargs="+", choices=FEATURES, default=["trees", "net"])
    parser.add_argument("--seeds", nargs="+", type=int, default=list(range(8)))
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=WAYS)
    given = parser.parse_args()
    if given.table:
        rows = kept(given.table)
        into_page(given.page, "active", tables(rows)) if given.page else print(tables(rows))
        if given.picture:
            draw_curves(rows, given.picture)
        return
    for seed, name, features, way in product(given.seeds, given.sets, given.features, given.ways):
        measured(
            __file__, given, (name, features, way, seed),
            {"--sets": name, "--features": features, "--ways": way, "--seeds": seed},
            partial(measure, name, given.data, features, way, seed),
        )  # fmt: skip


if __name__ == "__main__":
    main()
