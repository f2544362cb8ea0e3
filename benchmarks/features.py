"""Sources of logits on real images: auto, trees, net, stacked, both; with and without the cut.

    python benchmarks/features.py --data DIR [--sets nuclei ...] [--seeds 0 1] [--sources auto ...]
    python benchmarks/features.py --table FOLDER > docs/results/features.md

DIR holds the folders of `SETS`, each with images/ and masks/. Every set and seed runs in its own
process, on one thread. Every row is a file in the folder of --json, and one that is there is not
measured again, so that a run can be stopped. Nets and trees are fitted once and shared: "stacked"
is the same nets and one stage of trees, "both" the same nets and the same trees, so its seconds are
sums. "threshold": the last logit (of both: the mean of the two) at the threshold of the best pooled
IoU out of fold. "cut": a `Segmenter` on these logits, given as extra arrays beside raw channels.
"""

import argparse
import json
import resource
import subprocess
import sys
import time
from functools import cached_property
from pathlib import Path

import numpy as np
from PIL import Image
from segmentation import SETS as USUAL
from segmentation import best_threshold, read
from segmentation import split as usual_split

import cutlearn as cl
from cutlearn.features.auto import fit_auto
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


# Twenty photographs of 300 x 400 pixels: how long a fit takes.
TIMED = "weizmann_horses, 300 x 400"
# Two thirds of the images of a class to learn from; the smaller side is 100 pixels.
VOC = {f"voc2010_coseg {name}": name for name in ("aeroplane", "car", "cow", "dog")}
SETS = [TIMED, *USUAL, *VOC]
# Test images whose probabilities are compared with the truth; they take longer than masks.
BELIEVED = 40
SOURCES = ("auto", "net", "trees", "stacked", "both")


def split(name, data, seed):
    """Training pairs, their groups, and test pairs of a set."""
    if name in VOC:
        folder = data / "voc2010_coseg"
        files = sorted((folder / "images").glob(f"{VOC[name]}_*"))
        order = np.random.default_rng(seed).permutation(len(files))
        pairs = [read(files[i], folder / "masks", side=100) for i in order]
        return pairs[: 2 * len(pairs) // 3], None, pairs[2 * len(pairs) // 3 :]
    if name != TIMED:
        return usual_split(name, data, seed)
    files = sorted((data / "weizmann_horses" / "images").iterdir())
    pairs = []
    for i in np.random.default_rng(seed).permutation(len(files))[:60]:
        mask = Image.open(data / "weizmann_horses" / "masks" / f"{files[i].stem}.png")
        image = Image.open(files[i]).convert("RGB").resize((400, 300), Image.Resampling.LANCZOS)
        labels = np.asarray(mask.resize((400, 300), Image.Resampling.NEAREST)) > 0
        pairs.append((np.asarray(image), labels.astype(np.uint8)))
    return pairs[:20], None, pairs[20:]


class Fits:
    """Sources with their out-of-fold maps, seconds and a remark; fitted when asked for, once."""

    def __init__(self, task):
        self.task = task

    @cached_property
    def auto(self):
        clock = Clock()
        choice, source, maps = fit_auto(self.task, "normal")
        steps = choice.task.net.steps
        return source, maps, clock(), f"{choice.why}; nets of up to {steps} steps"

    @cached_property
    def net(self):
        clock = Clock()
        return *NetLogits.fit(self.task), clock(), ""

    @cached_property
    def trees(self):
        clock = Clock()
        return *TreeLogits.fit(self.task), clock(), ""

    @cached_property
    def stacked(self):
        net, first, before, _ = self.net
        clock = Clock()
        return *StackedLogits.over(self.task, net, first), before + clock(), ""

    @cached_property
    def both(self):
        (net, first, a, _), (trees, second, b, _) = self.net, self.trees
        joined = [[y + x for x, y in zip(*pair)] for pair in zip(first, second)]
        return BothLogits(trees, net), joined, a + b, ""


def said(name, answers):
    """The logit that is thresholded: the last one, of both the mean of the last of each."""
    (logits,) = answers
    return (logits[-1] + logits[-2]) / 2 if name == "both" else logits[-1]


def measure(name, data, seed, wanted, folder):
    """All rows of one set and seed that are not in the folder yet."""
    files = {w: folder / f"{name.replace(', ', '-').replace(' ', '')}-{seed}-{w}.json"
             for w in wanted}  # fmt: skip
    files = {w: file for w, file in files.items() if not file.exists()}
    if not files:
        return
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
    fits = Fits(task)
    for source_name, file in files.items():
        source, maps, seconds, remark = getattr(fits, source_name)
        clock = Clock()
        answers = [source.answers(Picture(image), None) for image in new]
        row = {"set": name, "train": len(train), "test": len(test), "seed": seed,
               "source": source_name, "remark": remark, "fit_s": seconds,
               "predict_s": clock() / len(new)}  # fmt: skip
        cut = best_threshold([said(source_name, a) for a in maps], masks)
        plain = [(said(source_name, a) >= cut).astype(np.uint8) for a in answers]
        stacks = [[np.stack(a[0], axis=-1) for a in part] for part in (maps, answers)]
        features = Featurizer("given", kind=bank.kind, channels=("raw",))
        given = [cl.Sample(i, extra=e) for i, e in zip(images, stacks[0])]
        clock()
        model = cl.Segmenter(features=features, n_jobs=1, random_state=seed)
        model.fit(given, masks, groups=task.groups)
        row["cut_s"] = clock()
        unseen = [cl.Sample(i, extra=e) for i, e in zip(new, stacks[1])]
        masks_of_cut = model.predict(unseen)
        row["cut_predict_s"] = clock() / len(new)
        shown = model.predict_proba(unseen[:BELIEVED])
        believed = [beliefs(m, p) for m, p in zip(truth, shown)]
        row["calibration_error"] = sum(believed[1:], believed[0]).calibration_error()
        tables = {}
        for way, found in (("threshold", plain), ("cut", masks_of_cut)):
            tables[way] = stack_tables(confusions(truth, found))
            spread = bootstrap(tables[way], lambda sums: 100 * iou_of(sums))
            row[way] = [spread.value, spread.deviation]
        pair = np.stack([tables[k] for k in ("cut", "threshold")], axis=1)
        gain = bootstrap(pair, lambda sums: 100 * (iou_of(sums[:, 0]) - iou_of(sums[:, 1])))
        row["gain"] = [gain.value, gain.low, gain.high]
        row["peak_GB"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
        file.write_text(json.dumps(row, indent=1))


def table(folder):
    """All sets that were measured, as markdown."""
    print("# Sources of logits, measured\n")
    print("Pooled IoU in % with its bootstrap deviation; CPU seconds of one thread on a machine")
    print("that others used at the same time; made by `benchmarks/features.py`, which says how.")
    rows = [json.loads(file.read_text()) for file in folder.glob("*.json")]
    rows.sort(key=lambda row: (row["set"], row["seed"], SOURCES.index(row["source"])))
    last = None
    for row in rows:
        title = "\n## {set}, {train} training and {test} test images, seed {seed}\n".format(**row)
        if title != last:
            print(last := title)
            print("| source | threshold | trained cut | the cut adds (95 %) | calibration error, % "
                  "| fit; cut, s | predict, s an image | peak, GB |")  # fmt: skip
            print("| --- | --- | --- | --- | --- | --- | --- | --- |")
        print(
            f"| {row['source']} | {row['threshold'][0]:.1f} +- {row['threshold'][1]:.1f} "
            f"| {row['cut'][0]:.1f} +- {row['cut'][1]:.1f} "
            "| {:+.1f} ({:+.1f} to {:+.1f})".format(*row["gain"])
            + f" | {100 * row['calibration_error']:.2f} "
            f"| {row['fit_s']:.0f}; {row['cut_s']:.0f} "
            f"| {row['predict_s'] + row['cut_predict_s']:.2f} | {row['peak_GB']:.2f} |"
        )
    print("\n## What auto said\n")
    for row in rows:
        if row["remark"]:
            print("- {set}, seed {seed}: {remark}".format(**row))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--data", type=Path)
    parser.add_argument("--sets", nargs="+", choices=SETS, default=SETS)
    parser.add_argument("--seeds", nargs="+", type=int, default=[0])
    parser.add_argument("--sources", nargs="+", choices=SOURCES, default=SOURCES)
    parser.add_argument("--json", type=Path, default=Path("features"), help="folder for figures")
    parser.add_argument("--table", type=Path, help="print the figures of this folder and stop")
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.table:
        table(given.table)
        return
    given.json.mkdir(parents=True, exist_ok=True)
    for name in given.sets:
        for seed in given.seeds:
            if given.here:
                measure(name, given.data, seed, given.sources, given.json)
                continue
            call = [sys.executable, __file__, "--here", "--data", given.data, "--sets", name,
                    "--seeds", seed, "--json", given.json, "--sources", *given.sources]  # fmt: skip
            subprocess.run([str(part) for part in call], check=True)


if __name__ == "__main__":
    main()
