"""Sources of logits on real images beside rivals, with and without the cut: a row a file.

    python benchmarks/sources.py --data DIR [--sets nuclei ..] [--seeds 0 1] [--sources auto ..]
    python benchmarks/sources.py --table FOLDER [--page docs/results/features.md]

DIR holds the folders of the sets (splits.py). Sources: ours by their names in `Segmenter`
("auto-best", "auto-fast": with another budget); `forest`, scikit-image's features and a tuned cut
(rivals.py); `unet` and `unet-long`, a U-Net trained for 90 and for 270 CPU seconds (unet.py, needs
`pip install torch`). Every row runs in its
own process, on one thread, and is a file in the folder of --json; one that is there is not measured
again, so that a run can be stopped and goes on. "threshold": the logits without edges, at the
threshold of the best pooled IoU out of fold (the U-Net: its likeliest label). "cut": the trained
one; the forest's is tuned by hand, the U-Net's is `cl.refine`, learned once from other images.
"""

import json
from dataclasses import replace
from functools import partial
from itertools import product

from answers import ours, row_of
from rows import into_page, kept, measured, page_of, parser_of
from splits import RULES, split

OURS = ("auto", "auto-best", "auto-fast", "net", "trees", "stacked", "both", "pretrained")
SOURCES = (*OURS, "forest", "unet", "unet-long")


def method(source, seconds=None):
    """The function of a split and a seed that a source is; torch is asked for only if needed."""
    if source == "forest":
        from rivals import forest

        return forest
    if "unet" not in source:
        return partial(ours, source=source)
    from unet import RECIPE, unet

    times = 3 if source == "unet-long" else 1
    return partial(unet, recipe=replace(RECIPE, seconds=times * (seconds or RECIPE.seconds)))


def measure(name, data, seed, source, file):
    """One row."""
    given = split(name, data, seed)
    answer = method(source)(given, seed)
    row = {"set": name, "seed": seed, "source": source, "train": len(given.train),
           "test": len(given.test)}  # fmt: skip
    row |= row_of(answer, [mask for _, mask in given.test], given.n_labels)
    file.write_text(json.dumps(row, indent=1))


def possible(name, seed):
    """Whether a set has a split of this seed: stacks have as many as blocks."""
    return seed < len(RULES[name].get("blocks", range(seed + 1)))


def main():
    parser = parser_of(__doc__, "features")
    parser.add_argument("--sets", nargs="+", choices=RULES, default=list(RULES))
    parser.add_argument("--seeds", nargs="+", type=int, default=[0])
    parser.add_argument("--sources", nargs="+", choices=SOURCES, default=["auto"])
    given = parser.parse_args()
    if given.table:
        text = page_of(kept(given.table), SOURCES)
        into_page(given.page, "features", text) if given.page else print(text)
        return
    for seed, name, source in product(given.seeds, given.sets, given.sources):
        if possible(name, seed):
            measured(
                __file__, given, (name, seed, source),
                {"--sets": name, "--seeds": seed, "--sources": source},
                partial(measure, name, given.data, seed, source),
            )  # fmt: skip


if __name__ == "__main__":
    main()
