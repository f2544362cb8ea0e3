"""Learning curves: pooled IoU by number of annotated images, ours beside a forest and a U-Net.

    python benchmarks/curves.py --data DIR [--sets nuclei ..] [--draws 0 1] [--sources auto ..]
    python benchmarks/curves.py --table FOLDER [--page docs/results/learning_curves.md]
        [--picture docs/pictures/learning_curves.png]

The sets of splits.py, smaller: photographs with a shorter side of 128 pixels, at most 40 test
images. A draw orders the training images; every method learns from the first 1, 2, 4, .. of them.
A single image leaves nothing to hold out but parts of itself: ours takes quarters, the forest tunes
its cut on halves. The U-Net has 45 CPU seconds. Every point is a file in the folder of --json that
is not measured again.
"""

import json
from functools import partial
from itertools import product

import numpy as np
from answers import row_of
from matplotlib.figure import Figure
from PIL import Image
from rows import into_page, kept, measured, parser_of
from sources import method
from splits import Split, split

SIZES = (1, 2, 4, 8, 16, 32)
SETS = ("weizmann_horses", "penn_fudan", "nuclei", "em_drosophila_vnc")
SOURCES = ("auto", "pretrained", "forest", "unet")
SIDE, TEST, SECONDS = 128, 40, 45.0
# What is shown of each: our cut and the tuned one; the U-Net's own label.
SHOWN = {"auto": "cut", "pretrained": "cut", "forest": "cut", "unet": "plain"}
NAMES = {
    "auto": "cutlearn, auto", "pretrained": "cutlearn, pretrained",
    "forest": "forest + tuned cut", "unet": "U-Net",
}  # fmt: skip


def smaller(pair, side):
    """An image and its mask, scaled down; micrographs stay as they are."""
    if pair[0].ndim == 2:
        return pair
    image, mask = (Image.fromarray(np.ascontiguousarray(a)) for a in pair)
    size = tuple(round(n * min(1.0, side / min(image.size))) for n in image.size)
    image = image.resize(size, Image.Resampling.LANCZOS)
    return np.asarray(image), np.asarray(mask.resize(size, Image.Resampling.NEAREST))


def first(whole, n, draw):
    """The split of a draw with n training images; slices of a stack are taken far apart first."""
    rng = np.random.default_rng(draw)
    order = list(rng.permutation(len(whole.train)))
    if whole.groups is not None:
        order = sorted(range(len(whole.train)), key=lambda i: f"{i:b}"[::-1].ljust(8, "0"))
    groups = None
    if whole.groups is not None:
        groups = [whole.groups[i] for i in order[:n]]
        groups = groups if len(set(groups)) > 1 else None
    some = sorted(rng.permutation(len(whole.test))[:TEST])
    return Split([smaller(whole.train[i], SIDE) for i in order[:n]], groups,
                 [smaller(whole.test[i], SIDE) for i in some])  # fmt: skip


def measure(name, data, draw, n, source, file):
    """One point."""
    given = first(split(name, data, draw), n, draw)
    answer = method(source, SECONDS)(given, draw)
    row = {"set": name, "draw": draw, "n": n, "source": source, "test": len(given.test)}
    file.write_text(json.dumps(row | row_of(answer, [m for _, m in given.test]), indent=1))


def curve(rows, name, source):
    """Numbers of images and mean IoU over draws, where every draw was measured."""
    found = {}
    for row in rows:
        if (row["set"], row["source"]) == (name, source):
            found.setdefault(row["n"], {})[row["draw"]] = row[SHOWN[source]][0]
    most = max((len(part) for part in found.values()), default=0)
    sizes = sorted(n for n, part in found.items() if len(part) == most)
    return sizes, [float(np.mean(list(found[n].values()))) for n in sizes], most


def needed(sizes, values, wanted):
    """Images that a curve needs to reach a figure, linear in log n; infinite if it never does."""
    best = np.maximum.accumulate(values)
    if wanted > best[-1]:
        return np.inf
    if wanted <= best[0]:
        return float(sizes[0])
    return float(2 ** np.interp(wanted, best, np.log2(sizes)))


def tables(rows):
    """The curves, and how many images the others need for what ours reaches."""
    out = []
    for name in SETS:
        drawn = {source: curve(rows, name, source) for source in SOURCES}
        lines = []
        for source, (sizes, values, draws) in drawn.items():
            cells = dict(zip(sizes, (f"{v:.1f}" for v in values)))
            lines.append((f"{NAMES[source]} ({draws})", cells))
        for source in SOURCES[1:]:
            sizes, values, _ = drawn[source]
            if sizes:
                many = {n: needed(sizes, values, v) for n, v in zip(*drawn["auto"][:2])}
                cells = {n: f"{k:.0f}" if k < np.inf else f"> {sizes[-1]}" for n, k in many.items()}
                lines.append((f"images that the {NAMES[source]} needs for ours", cells))
        sizes = " | ".join(map(str, SIZES))
        out += [f"\n### {name}\n", f"| pooled IoU, % (draws) | {sizes} |", "| --- " * 7 + "|"]
        out += [f"| {title} | {' | '.join(cells.get(n, '') for n in SIZES)} |"
                for title, cells in lines]  # fmt: skip
    return "\n".join(out)


def draw_curves(rows, file):
    """The curves of every set, single draws as points."""
    figure = Figure(figsize=(12, 3.2), layout="constrained")
    axes = figure.subplots(1, len(SETS))
    for ax, name in zip(axes, SETS):
        for source, style in zip(SOURCES, ("C0-", "C2--", "C1:")):
            sizes, values, _ = curve(rows, name, source)
            ax.plot(sizes, values, style, marker="o", ms=4, label=NAMES[source])
            points = [(r["n"], r[SHOWN[source]][0]) for r in rows
                      if (r["set"], r["source"]) == (name, source)]  # fmt: skip
            ax.plot(*zip(*points), style[:2] + ".", ms=3, alpha=0.6) if points else None
        ax.set_xscale("log", base=2)
        ax.set_xticks(SIZES, [str(n) for n in SIZES])
        ax.set(title=name, xlabel="annotated images")
        ax.grid(alpha=0.3)
    axes[0].set_ylabel("pooled IoU, %")
    axes[0].legend(loc="upper left", fontsize=8)
    figure.savefig(file, dpi=100)


def main():
    parser = parser_of(__doc__, "curves")
    parser.add_argument("--sets", nargs="+", choices=SETS, default=SETS)
    parser.add_argument("--draws", nargs="+", type=int, default=[0])
    parser.add_argument("--sizes", nargs="+", type=int, choices=SIZES, default=SIZES)
    parser.add_argument("--sources", nargs="+", choices=SOURCES, default=SOURCES)
    given = parser.parse_args()
    if given.table:
        rows = kept(given.table)
        into_page(given.page, "curves", tables(rows)) if given.page else print(tables(rows))
        if given.picture:
            draw_curves(rows, given.picture)
        return
    for draw, name in product(given.draws, given.sets):
        most = len(split(name, given.data, draw).train)
        for n, source in product((n for n in given.sizes if n <= most), given.sources):
            measured(
                __file__, given, (name, draw, n, source),
                {"--sets": name, "--draws": draw, "--sizes": n, "--sources": source},
                partial(measure, name, given.data, draw, n, source),
            )  # fmt: skip


if __name__ == "__main__":
    main()
