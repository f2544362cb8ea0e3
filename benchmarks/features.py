"""Sources of logits on real images: trees, net, stacked, both; with and without the trained cut.

    python benchmarks/features.py --data DIR [--sets nuclei ...] [--seed 0] [--json FOLDER]
    python benchmarks/features.py --table FOLDER > docs/results/features.md

DIR holds the folders of `SETS`, each with images/ and masks/. Every set runs in its own process, on
one thread. Nets and trees are fitted once and shared: "stacked" is the same nets and one stage of
trees, "both" the same nets and the same trees, so its seconds are sums. "threshold": the last logit
(of both: the mean of the two) at the threshold of the best pooled IoU out of fold. "cut": a
`Segmenter` on these logits, given as extra arrays beside raw channels.
"""

import argparse
import json
import resource
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
from segmentation import SETS, best_threshold, split

import cutlearn as cl
from cutlearn.features.auto import judge, small_recipe
from cutlearn.features.boosted import default_recipe
from cutlearn.features.describe import Bank, Picture
from cutlearn.features.featurizer import Featurizer
from cutlearn.features.folds import find_groups
from cutlearn.features.net.learn import NetRecipe
from cutlearn.features.sources import (
    BothLogits,
    NetLogits,
    StackedLogits,
    Task,
    TreeLogits,
)
from cutlearn.metrics import beliefs, bootstrap, confusions, iou_of, stack_tables


class Clock:
    """CPU seconds of this process between two calls."""

    def __init__(self):
        self.last = time.process_time()

    def __call__(self):
        self.last, before = time.process_time(), self.last
        return self.last - before


def sources(task):
    """Each source with its out-of-fold maps and the seconds of its fit."""
    clock = Clock()
    net, net_maps = NetLogits.fit(task)
    net_s = clock()
    yield "net", net, net_maps, net_s
    clock()
    trees, tree_maps = TreeLogits.fit(task)
    trees_s = clock()
    yield "trees", trees, tree_maps, trees_s
    clock()
    stacked, maps = StackedLogits.over(task, net, net_maps)
    yield "stacked", stacked, maps, net_s + clock()
    _, pilot = TreeLogits.fit(replace(task, recipe=small_recipe(task.recipe)))
    print(task.bank.kind, *judge(task, net_maps, pilot), f"{clock():.0f} s", flush=True)
    joined = [[b + a for a, b in zip(*pair)] for pair in zip(net_maps, tree_maps)]
    yield "both", BothLogits(trees, net), joined, net_s + trees_s


def said(name, answers):
    """The logit that is thresholded: the last one, of both the mean of the last of each."""
    (logits,) = answers
    return (logits[-1] + logits[-2]) / 2 if name == "both" else logits[-1]


def measure(name, data, seed, save):
    """All rows of one set; kept after every source."""
    train, groups, test = split(name, data, seed)
    images = [np.asarray(image, np.float32) / 255 for image, _ in train]
    masks = [mask for _, mask in train]
    new = [np.asarray(image, np.float32) / 255 for image, _ in test]
    truth = [mask for _, mask in test]
    bank = Bank.choose(images)
    task = Task(
        images, [m[..., None] for m in masks], [None] * len(images), find_groups(images, groups),
        bank, default_recipe(bank), NetRecipe(), seed,
    )  # fmt: skip
    result = {"set": name, "train": len(train), "test": len(test), "seed": seed, "rows": {}}
    tables = {}
    for source_name, source, maps, seconds in sources(task):
        clock = Clock()
        answers = [source.answers(Picture(image), None) for image in new]
        row = {"fit_s": seconds, "predict_s": clock() / len(new)}
        cut = best_threshold([said(source_name, a) for a in maps], masks)
        plain = [(said(source_name, a) >= cut).astype(np.uint8) for a in answers]
        stacks = [[np.stack(a[0], axis=-1) for a in part] for part in (maps, answers)]
        features = Featurizer("given", kind=bank.kind, channels=("raw",))
        given = [cl.Sample(i, extra=e) for i, e in zip(images, stacks[0])]
        clock()
        model = cl.Segmenter(features=features, n_jobs=1, random_state=seed)
        model.fit(given, masks, groups=task.groups)
        row["cut_s"] = clock()
        both = model.answer([cl.Sample(i, extra=e) for i, e in zip(new, stacks[1])])
        row["cut_predict_s"] = clock() / len(new)
        believed = [beliefs(m, a[1]) for m, a in zip(truth, both)]
        row["calibration_error"] = sum(believed[1:], believed[0]).calibration_error()
        for way, found in (("threshold", plain), ("cut", [a[0] for a in both])):
            tables[source_name, way] = stack_tables(confusions(truth, found))
            spread = bootstrap(tables[source_name, way], lambda sums: 100 * iou_of(sums))
            row[way] = [spread.value, spread.deviation]
        pair = np.stack([tables[source_name, k] for k in ("cut", "threshold")], axis=1)
        gain = bootstrap(pair, lambda sums: 100 * (iou_of(sums[:, 0]) - iou_of(sums[:, 1])))
        row["gain"] = [gain.value, gain.low, gain.high]
        row["peak_GB"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
        result["rows"][source_name] = row
        save(result)


def table(folder):
    """All sets that were measured, as markdown."""
    print("# Sources of logits, measured\n")
    print("Pooled IoU in % with its bootstrap deviation; CPU seconds of one thread on a machine")
    print("that others used at the same time; made by `benchmarks/features.py`, which says how.")
    for file in sorted(folder.glob("*.json")):
        result = json.loads(file.read_text())
        print("\n## {set}, {train} training and {test} test images, seed {seed}\n".format(**result))
        print("| source | threshold | trained cut | the cut adds (95 %) | calibration error, % "
              "| fit; cut, s | predict, s an image | peak, GB |")  # fmt: skip
        print("| --- | --- | --- | --- | --- | --- | --- | --- |")
        for name, row in result["rows"].items():
            print(
                f"| {name} | {row['threshold'][0]:.1f} +- {row['threshold'][1]:.1f} "
                f"| {row['cut'][0]:.1f} +- {row['cut'][1]:.1f} "
                "| {:+.1f} ({:+.1f} to {:+.1f})".format(*row["gain"])
                + f" | {100 * row['calibration_error']:.2f} "
                f"| {row['fit_s']:.0f}; {row['cut_s']:.0f} "
                f"| {row['predict_s'] + row['cut_predict_s']:.2f} | {row['peak_GB']:.2f} |"
            )


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--data", type=Path)
    parser.add_argument("--sets", nargs="+", choices=SETS, default=list(SETS))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path, default=Path("features"), help="folder for figures")
    parser.add_argument("--table", type=Path, help="print the figures of this folder and stop")
    parser.add_argument("--one", choices=SETS, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.table:
        table(given.table)
    elif given.one:
        given.json.mkdir(parents=True, exist_ok=True)
        file = given.json / f"{given.one}-{given.seed}.json"
        measure(given.one, given.data, given.seed,
                lambda result: file.write_text(json.dumps(result, indent=1)))  # fmt: skip
    else:
        for name in given.sets:
            call = [sys.executable, __file__, "--data", given.data, "--one", name,
                    "--seed", given.seed, "--json", given.json]  # fmt: skip
            subprocess.run([str(part) for part in call], check=True)


if __name__ == "__main__":
    main()
