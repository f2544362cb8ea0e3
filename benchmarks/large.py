"""Memory and time against the size of images: `predict` with each source of logits, and `fit`.

    python benchmarks/large.py --data DIR --models FOLDER [--json FILE] [--fit 0.25 1 24]
    python benchmarks/large.py --draw FILE docs/pictures/large.png

DIR holds images/ and masks/ of photographs; three of them, enlarged, are the images of a fit, the
first one that of a prediction. FOLDER gets a model of five photographs of 240 rows for each source,
and keeps them. Every number comes from a fresh process on one thread: the growth of its largest
memory over the loaded model (or the loaded images), and seconds of processor time. Images above
two megapixels are worked at two by default, and so they are here.
"""

import argparse
import json
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
from cell import watched
from PIL import Image

import cutlearn as cl

SOURCES = ("trees", "stacked", "net")
MEGAPIXELS = (0.1, 0.25, 0.5, 1, 2, 4, 8, 24)


def read(data, k, megapixels=None, side=None):
    """The k-th image and its mask, at so many megapixels or rows."""
    path = sorted((data / "images").iterdir())[k]
    image = Image.open(path).convert("RGB")
    mask = Image.open(next((data / "masks").glob(path.stem + ".*"))).convert("L")
    pixels = image.width * image.height
    factor = side / image.height if side else (1e6 * megapixels / pixels) ** 0.5
    size = round(image.width * factor), round(image.height * factor)
    labels = np.asarray(mask.resize(size, Image.Resampling.NEAREST)) > 0
    return np.asarray(image.resize(size, Image.Resampling.BICUBIC)), labels.astype(np.uint8)


def make_models(data, folder):
    """Fit the models that are missing."""
    folder.mkdir(parents=True, exist_ok=True)
    for source in SOURCES:
        file = folder / f"{source}.safetensors"
        if not file.exists():
            pairs = [read(data, k, side=240) for k in range(5)]
            cl.Segmenter(features=source, n_jobs=1).fit(*zip(*pairs)).save(file)


def predicted(data, model, megapixels, sure):
    """Memory and time of a prediction, with or without probabilities."""
    model = cl.load(model)
    model.n_jobs = 1
    small, _ = read(data, 0, 0.02)
    image, _ = read(data, 0, megapixels)
    model.segment([small])  # what is imported late
    return watched(lambda: model.segment([image]) if sure else model.predict([image]))[:2]


def fitted(data, megapixels):
    """Memory and time of a fit of three images with the default features."""
    tiny = [read(data, k, 0.005) for k in range(3)]
    cl.Segmenter(features="linear", C=1.0, n_jobs=1).fit(*zip(*tiny))
    pairs = [read(data, k, megapixels) for k in range(3)]
    return watched(lambda: cl.Segmenter(n_jobs=1).fit(*zip(*pairs)))[:2]


def one(*given):
    """A row of the table, from a process of its own."""
    command = [sys.executable, __file__, "--cell", *map(str, given)]
    made = subprocess.run(command, check=True, capture_output=True, text=True)
    row = json.loads(made.stdout.splitlines()[-1])
    print(row, file=sys.stderr, flush=True)
    return row


def cell(kind, data, megapixels, model=""):
    """Print what a process of its own has measured."""
    warnings.simplefilter("ignore")
    data, size = Path(data), float(megapixels)
    grown, spent = (
        fitted(data, size) if kind == "fit" else predicted(data, model, size, kind == "segment")
    )
    row = {"kind": kind, "source": Path(model).stem, "megapixels": size}
    print(json.dumps(row | {"mb": round(grown), "seconds": round(spent / 1e3, 2)}))


def measure(data, models, fits, file):
    """All rows; what is in the file already is kept."""
    rows = json.loads(file.read_text()) if file.exists() else []
    done = {(row["kind"], row["source"], row["megapixels"]) for row in rows}
    jobs = [("predict", source, size) for source in SOURCES for size in MEGAPIXELS]
    jobs += [("segment", "trees", size) for size in MEGAPIXELS]
    jobs += [("fit", "", size) for size in fits]
    for kind, source, size in jobs:
        if (kind, source, float(size)) not in done:
            model = [models / f"{source}.safetensors"] if source else []
            rows.append(one(kind, data, size, *model))
            file.write_text(json.dumps(rows, indent=1))


def draw(file, picture):
    """Memory and seconds against megapixels."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    rows = json.loads(Path(file).read_text())
    lines = [("predict", source, f"predict, {source}") for source in SOURCES]
    lines += [("segment", "trees", "masks and probabilities, trees"), ("fit", "", "fit, 3 images")]
    figure, axes = plt.subplots(1, 2, figsize=(10, 4.2), constrained_layout=True)
    for axis, key, title in zip(axes, ("mb", "seconds"), ("memory, MB", "processor seconds")):
        for kind, source, name in lines:
            part = [r for r in rows if (r["kind"], r["source"]) == (kind, source)]
            part.sort(key=lambda row: row["megapixels"])
            if not part:
                continue
            axis.plot(
                [r["megapixels"] for r in part], [r[key] for r in part], marker="o", label=name
            )
        axis.set(xscale="log", yscale="log", xlabel="megapixels of an image", title=title)
        axis.set_xticks(MEGAPIXELS, [f"{size:g}" for size in MEGAPIXELS])
        axis.minorticks_off()
        axis.grid(alpha=0.3)
    ends = np.array([0.1, 24])
    axes[0].plot(ends, 150 * ends, color="grey", linestyle=":", label="150 MB a megapixel")
    axes[1].axhline(30, color="grey", linestyle=":", label="30 s")
    for axis in axes:
        axis.axvline(2, color="grey", linewidth=0.8, label="above: worked at 2")
        axis.legend(fontsize=7)
    figure.savefig(picture, dpi=110)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path)
    parser.add_argument("--models", type=Path)
    parser.add_argument("--json", type=Path, default=Path("large.json"))
    parser.add_argument("--fit", type=float, nargs="*", default=[0.25, 1, 24])
    parser.add_argument("--draw", nargs=2, metavar=("FILE", "PICTURE"))
    parser.add_argument("--cell", nargs="+", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.cell:
        cell(*given.cell)
    elif given.draw:
        draw(*given.draw)
    else:
        make_models(given.data, given.models)
        measure(given.data, given.models, given.fit, given.json)


if __name__ == "__main__":
    main()
