"""Stacks of electron micrographs as volumes: IoU with and without the third dimension.

    python benchmarks/volumes.py --data DIR --json FOLDER [--features trees] [--sets NAME ...]
    python benchmarks/volumes.py --table FOLDER

DIR holds em_epfl_ca1 and em_drosophila_vnc, each with images/ and masks/. Slices whose numbers
follow each other are a volume; of em_drosophila_vnc, which is one run, the first and the last
seven. Volumes are learned from and tested on in two parts, in turn. "slices": every slice by
itself. "volume": with logits beside and edges between slices. "beside": the same weights without
those of the edges between slices. These three have the same slices, groups and logits (`memory`).
"channels" (--ways channels): slices by themselves, but nets and trees see the two beside each one
as further channels.
Pooled IoU of label 1 on all slices that were not learned from; intervals draw runs of two slices,
as neighbours are nearly the same picture.
"""

import argparse
import json
import re
import tempfile
import time
from functools import partial
from pathlib import Path

import numpy as np
from PIL import Image

import cutlearn as cl
from cutlearn.features.featurizer import Featurizer
from cutlearn.metrics import bootstrap, confusion, iou_of
from cutlearn.model.pieces import in_pieces
from cutlearn.model.size import at_side, mask_at_side

# Thickness of slices and size of pixels in nm, the side at which slices are worked (half of their
# own), and which volumes are the first part.
SETS = {
    "em_epfl_ca1": ((5, 5, 5), 384, (0, 2, 4)),
    "em_drosophila_vnc": ((50, 4.6, 4.6), 512, (0,)),
}
LEAST = 3  # slices of a volume


def runs(folder):
    """The volumes of a set: image and mask of slices whose numbers follow each other."""
    files = sorted((folder / "images").iterdir())
    number = [int(re.search(r"(\d+)$", file.stem)[1]) for file in files]
    found = [[0]]
    for k in range(1, len(files)):
        if number[k] == number[k - 1] + 1:
            found[-1].append(k)
        else:
            found.append([k])
    found = [run for run in found if len(run) >= LEAST]
    if len(found) == 1:
        found = [found[0][:7], found[0][-7:]]
    for run in found:
        names = [files[k] for k in run]
        image = np.stack([np.asarray(Image.open(name).convert("L")) for name in names])
        mask = [np.asarray(Image.open(folder / "masks" / f"{name.stem}.png")) for name in names]
        yield image, np.stack(mask).astype(np.uint8)


def arms(features, seed, memory):
    """Fit and ask each way; gives the masks of volumes."""
    source = Featurizer(features, random_state=seed, n_jobs=1, memory=memory)
    settings = {"features": source, "min_side": None, "n_jobs": 1, "calibration": None}

    def one_by_one(parted, train, masks, test):
        pieces, truth, groups = in_pieces(train, masks)
        flat = [one for piece in pieces for one in parted(piece)]
        names = [g for g, piece in zip(groups, pieces) for _ in range(piece.shape[0])]
        model = cl.Segmenter(**settings).fit(flat, [y for mask in truth for y in mask], names)
        return model, [np.stack(model.predict(parted(volume))) for volume in test]

    slices = partial(one_by_one, lambda volume: volume.slices())
    channels = partial(one_by_one, with_channels)

    fitted = {}

    def volume(train, masks, test):
        model = fitted[id(test[0])] = cl.Segmenter(**settings).fit(train, masks)
        return model, model.predict(test)

    def beside(train, masks, test):
        model = fitted.pop(id(test[0]))
        between = np.array(["between slices" in name for name in model.w_names_])
        model.w_ = np.where(between, 0.0, model.w_)
        return model, model.predict(test)

    return {"slices": slices, "volume": volume, "beside": beside, "channels": channels}


def with_channels(volume):
    """The slices of a volume, each with the two beside it; the first and last stand for one."""
    image, last = volume.image, volume.shape[0] - 1
    near = [np.stack([image[max(z - 1, 0)], image[min(z + 1, last)]], -1) for z in range(last + 1)]
    return [cl.Sample(image[z], extra=near[z]) for z in range(last + 1)]


def measure(data, name, features, seed, ways):
    """One set: a row for every way, with a table of labels for each tested slice."""
    spacing, side, first = SETS[name]
    volumes = []
    for image, mask in runs(data / name):
        small = at_side(cl.Volume(image, spacing), side)
        volumes.append((small, mask_at_side(mask, side), mask))
    parts = list(first), [k for k in range(len(volumes)) if k not in first]
    rows = {}
    with tempfile.TemporaryDirectory() as memory:
        for way, ask in arms(features, seed, memory).items():
            if way not in ways:
                continue
            begin, tables, weights, held_out = time.process_time(), [], [], []
            for test, train in (parts, parts[::-1]):
                model, masks = ask([volumes[k][0] for k in train], [volumes[k][1] for k in train],
                                   [volumes[k][0] for k in test])  # fmt: skip
                held_out.append(model.validation_.get("held_out"))
                weights.append(dict(zip(model.w_names_, model.w_.round(4).tolist())))
                for k, found in zip(test, masks):
                    for y, truth in zip(found, volumes[k][2]):
                        large = np.asarray(Image.fromarray(y).resize(truth.shape[::-1], 0))
                        tables.append(confusion(truth, large).counts.tolist())
            seconds = time.process_time() - begin
            rows[way] = {
                "tables": tables, "seconds": seconds, "weights": weights, "held out": held_out,
            }  # fmt: skip
            print(name, way, iou(tables), round(seconds), held_out, flush=True)
    return rows


def iou(tables):
    """Pooled IoU in percent."""
    return float(100 * iou_of(np.sum(tables, axis=0, dtype=float), 1))


def pairs(tables):
    """Sums of two neighbours in the list."""
    table = np.array(tables, float)
    return np.stack([table[k : k + 2].sum(axis=0) for k in range(0, len(table), 2)])


def difference(a, b):
    """How much higher the IoU of b is, in points, with its interval over draws of pairs."""
    both = np.stack([pairs(a), pairs(b)], axis=1)
    return bootstrap(both, lambda s: 100 * (iou_of(s[:, 1], 1) - iou_of(s[:, 0], 1)))


def table(folder):
    """Print the rows of all files."""
    print(
        "| set | source | way | IoU | over slices | CPU s |\n| --- | --- | --- | --- | --- | --- |"
    )
    for file in sorted(folder.glob("*.json")):
        said = json.loads(file.read_text())
        for way, row in said["rows"].items():
            gain = "-"
            if way != "slices":
                s = difference(said["rows"]["slices"]["tables"], row["tables"])
                gain = f"{s.value:+.2f} [{s.low:+.2f}, {s.high:+.2f}]"
            print(f"| {said['set']} | {said['features']} | {way} | {iou(row['tables']):.2f} "
                  f"| {gain} | {row['seconds']:.0f} |")  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--table", type=Path)
    parser.add_argument("--features", default="trees")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--ways", nargs="*", default=["slices", "volume", "beside"])
    parser.add_argument("--sets", nargs="*", default=list(SETS))
    given = parser.parse_args()
    if given.table:
        return table(given.table)
    given.json.mkdir(parents=True, exist_ok=True)
    for name in given.sets:
        file = given.json / f"{name}-{given.features}-{given.seed}.json"
        before = json.loads(file.read_text())["rows"] if file.exists() else {}
        rows = before | measure(given.data, name, given.features, given.seed, given.ways)
        said = {"set": name, "features": given.features, "seed": given.seed, "rows": rows}
        file.write_text(json.dumps(said))
    return None


if __name__ == "__main__":
    main()
