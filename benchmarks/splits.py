"""Sets of real images and their splits: what the benchmarks learn from, and what they judge on.

DIR/set/images and DIR/set/masks hold files of the same names. A seed draws another split; slices
of a stack are split in blocks along z instead, with slices between them left out, since neighbours
are nearly the same picture. Photographs that a set has under several names stay on one side.
"""

import json
import re
from typing import NamedTuple

import numpy as np
from PIL import Image

VOID = 255
# Training images, smallest side to scale down to, factor; of stacks, the blocks of each seed:
# training slices, of which two after each other share a fold, and ranges of test slices.
USUAL = {
    "weizmann_horses": {"train": 60},
    "penn_fudan": {"train": 40, "side": 240},
    "nuclei": {"train": 14, "factor": 0.5},
    "em_epfl_ca1": {"factor": 0.5, "blocks": [
        ((0, 3, 13, 17, 24, 28), [(42, 164)]),
        ((61, 63, 75, 89, 161, 164), [(0, 42)]),
        ((42, 45, 48, 61, 63, 75), [(0, 24), (161, 164)]),
    ]},
    "em_drosophila_vnc": {"factor": 0.5, "blocks": [
        ((0, 1, 2, 3, 4, 5), [(8, 14)]),
        ((9, 10, 11, 12, 13, 14), [(0, 6)]),
        ((4, 5, 6, 7, 8, 9), [(0, 1), (12, 14)]),
    ]},
}  # fmt: skip
ISBI = {"em_isbi2012": {"blocks": [
    ((0, 1, 2, 3, 4, 5), [(9, 22)]),
    ((17, 18, 19, 20, 21, 22), [(0, 13)]),
    ((8, 9, 10, 11, 12, 13), [(0, 4), (17, 22)]),
]}}  # fmt: skip
# Two thirds of the images of a class to learn from.
VOC = {f"voc2010_coseg {name}": {"side": 100} for name in ("aeroplane", "car", "cow", "dog")}
# The usual 21 labels: void, horse and mountain are left out.
MSRC, LEFT_OUT = "msrc21", (0, 5, 8)
# Twenty photographs of 300 x 400 pixels: how long a fit takes.
TIMED = "weizmann_horses, 300 x 400"
RULES = {TIMED: {}, **USUAL, **ISBI, **VOC, MSRC: {"side": 100}}


class Split(NamedTuple):
    """Pairs of image and mask to learn from, their groups, and pairs to judge on."""

    train: list
    groups: list | None
    test: list

    @property
    def n_labels(self):
        """One more than the largest label of all masks."""
        return 1 + max(int(m[m != VOID].max(initial=1)) for _, m in self.train + self.test)


def read(file, masks, side=None, factor=None, size=None, codes=None):
    """An image and its mask, both scaled: an object is 1, or `codes` has the labels of values."""
    mask = Image.open(masks / f"{file.stem}.png")
    scale = factor or (min(1.0, side / min(mask.size)) if side else 1.0)
    size = size or tuple(round(n * scale) for n in mask.size)
    image = Image.open(file).resize(size, Image.Resampling.LANCZOS)
    labels = np.asarray(mask.resize(size, Image.Resampling.NEAREST))
    return np.asarray(image), codes[labels] if codes is not None else (labels > 0).astype(np.uint8)


def split(name, data, seed):
    """The split of a set that belongs to a seed."""
    rule = RULES[name]
    if name == TIMED:
        files = sorted((data / "weizmann_horses" / "images").iterdir())
        chosen = np.random.default_rng(seed).permutation(len(files))[:60]
        masks = data / "weizmann_horses" / "masks"
        pairs = [read(files[i], masks, size=(400, 300)) for i in chosen]
        return Split(pairs[:20], None, pairs[20:])
    folder = data / name.split()[0]
    files = sorted((folder / "images").iterdir())
    if "blocks" in rule:
        train, groups, test = blocks(files, *rule["blocks"][seed])
    elif name in VOC:
        train, groups, test = by_photograph(files, name, folder, seed)
    elif name == MSRC:
        train, groups, test = textonboost(files, folder, seed)
    else:
        order = np.random.default_rng(seed).permutation(len(files))
        train = [files[i] for i in sorted(order[: rule["train"]])]
        test, groups = [files[i] for i in sorted(order[rule["train"] :])], None
    how = {k: rule[k] for k in ("side", "factor") if k in rule}
    if name == MSRC:
        how["codes"] = labels_of_msrc()
    pairs = [[read(f, folder / "masks", **how) for f in part] for part in (train, test)]
    return Split(pairs[0], groups, pairs[1])


def blocks(files, slices, ranges):
    """Slices of a stack to learn from, in pairs that share a fold, and those in ranges of z."""
    z = {int(re.findall(r"\d+", file.stem)[-1]): file for file in files}
    test = [f for k, f in sorted(z.items()) if any(a <= k <= b for a, b in ranges)]
    return [z[k] for k in slices], [i // 2 for i in range(len(slices))], test


def by_photograph(files, name, folder, seed):
    """A class of voc2010_coseg, photographs in random order, two thirds to learn from."""
    files = [file for file in files if file.stem.rpartition("_")[0] == name.split()[1]]
    same = json.loads((folder / "same_image_groups.json").read_text())
    group = {stem: k for k, stems in enumerate(same) for stem in stems}
    groups = [group.get(file.stem, file.stem) for file in files]
    # The images of a class are all different today; were they not, this would have to be told.
    assert len(set(groups)) == len(files), f"{name}: one photograph has two names"
    order = np.random.default_rng(seed).permutation(len(files))
    shuffled = [files[i] for i in order]
    return shuffled[: 2 * len(files) // 3], None, shuffled[2 * len(files) // 3 :]


def textonboost(files, folder, seed):
    """The split that papers use (seed 0), or others of the same images and sizes."""
    lists = [(folder / f"textonboost_{part}.txt").read_text().split() for part in ("train", "test")]
    known = {file.stem: file for file in files}
    codes = labels_of_msrc()
    both = [[s for s in part if (codes[mask_of(folder, s)] != VOID).any()] for part in lists]
    if seed:
        stems = sorted(both[0] + both[1])
        order = [stems[i] for i in np.random.default_rng(seed).permutation(len(stems))]
        both = [order[: len(both[0])], order[len(both[0]) :]]
    return [known[s] for s in both[0]], None, [known[s] for s in both[1]]


def labels_of_msrc():
    """The label of each value of a mask, 0 to 20 or void."""
    codes = np.full(256, VOID, np.uint8)
    kept = [value for value in range(24) if value not in LEFT_OUT]
    codes[kept] = np.arange(len(kept))
    return codes


def mask_of(folder, stem):
    """The values of a mask as they are in its file."""
    return np.asarray(Image.open(folder / "masks" / f"{stem}.png"))
