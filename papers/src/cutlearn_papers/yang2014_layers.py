"""Why two layers do, or do not, beat one in yang2014: the steps between them, each alone.

The paper's machine of two layers differs from that of one in two things: four patches share the
weights of the first layer, and a second layer joins them. Machines with one of both tell which of
them gains or loses. Shapes alone, without images, are judged by what they fill in where a quarter
of a test mask is hidden; and machines of both kinds learn from fewer horses, since the paper
supposes that shared weights help with few samples.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from cutlearn_papers.course import Claim, Figures, Section
from cutlearn_papers.intervals import Interval, over_images
from cutlearn_papers.yang2014_tables import (
    BOTH,
    DEEP,
    PATCHED,
    RANDOM,
    TWO,
    ahead,
    shapes_name,
)

HEADING = "Between one layer and two"
SHAPES = "Shapes alone"
FEWER = "Fewer horses"
# What is added to what.
STEPS = {
    "a second layer, no patches": (DEEP, BOTH),
    "patches, no second layer": (PATCHED, BOTH),
    "a second layer on patches": (TWO, PATCHED),
    "patches on two layers": (TWO, DEEP),
    "patches and a second layer": (TWO, BOTH),
}
STARTS = {"V from regressions": "", "V at random": RANDOM}
ONE, SHAPEBM = shapes_name((1, False)), shapes_name((2, True))

Splits = Sequence[Figures]


def steps_section(tables: Mapping[str, Splits]) -> Section:
    """What each step from one layer to two does to IoU, in every table that has it."""
    rows = []
    for name, splits in tables.items():
        for start, end in STARTS.items():
            cells = [
                ahead(splits, ours + end, other + end).text(1)
                if {ours + end, other + end} <= set(splits[0]) else ""
                for ours, other in STEPS.values()
            ]  # fmt: skip
            if any(cells):
                rows.append([f"{name}, {start}", *cells])
    words = (
        "Points of pooled IoU that a step adds, with 95 % intervals by a bootstrap over "
        "photographs. Without patches all units of the first layer see the whole mask and the HOG "
        "of the whole image; with them, a quarter of the units sees a patch and its HOG, and all "
        "patches share their weights."
    )
    return Section(HEADING, ["table", *STEPS], rows, words)


def shapes_section(tables: Mapping[str, Splits]) -> Section:
    """How many labels of a hidden quarter are wrong, by shapes that see no image."""
    rows = []
    for name, splits in tables.items():
        kinds = [key.removesuffix("|wrong") for key in splits[0] if key.endswith("|wrong")]
        for kind in kinds:
            mean = np.mean([100 * s[f"{kind}|wrong"].mean() for s in splits])
            gap = "" if kind == ONE else more_wrong(splits, kind).text(2)
            rows.append([name, kind, f"{mean:.2f}", gap])
    words = (
        "Each quarter of every test mask is hidden in turn, the other three are held, and Gibbs "
        "sampling fills it in (100 sweeps, the mean of the second half). The last column is the "
        "difference to one layer without patches (the RBM), with an interval over photographs: "
        "below 0 is better."
    )
    return Section(SHAPES, ["table", "shapes", "labels wrong, %", "minus the RBM"], rows, words)


def more_wrong(splits: Splits, kind: str) -> Interval:
    """Give how many more labels of a hidden quarter than the RBM a kind has wrong, in points."""
    gaps = np.concatenate([s[f"{kind}|wrong"] - s[f"{ONE}|wrong"] for s in splits])
    groups = np.concatenate([s["groups"] for s in splits])
    return over_images(100 * gaps, groups)


def fewer_section(tables: Mapping[int, Splits]) -> Section:
    """One layer and two by the number of horses that they learn from."""
    rows = []
    for splits in tables.values():
        cells = [f"{splits[0]['train']}"]
        for end in STARTS.values():
            for row in (BOTH + end, TWO + end):
                cells.append(f"{np.mean([100 * s[row]['iou'] for s in splits]):.1f}")
            cells.append(ahead(splits, TWO + end, BOTH + end).text(1))
        rows.append(cells)
    titles = ["horses to learn from", "one layer", "two layers", "difference",
              "one layer, random V", "two layers, random V", "difference"]  # fmt: skip
    words = (
        "IoU in percent of the same test horses, before refinement; photographs to learn from are "
        "spread evenly over those of the split, and the last row has all of them."
    )
    return Section(FEWER, titles, rows, words)


def layers_claims(tables: Mapping[str, Splits], fewer: Mapping[int, Splits]) -> list[Claim]:
    """Judge what the paper supposes, and what these tables say."""
    found = []
    if fewer:
        count = min(fewer)
        gap = ahead(fewer[count], TWO + RANDOM, BOTH + RANDOM)
        other = ahead(fewer[count], TWO, BOTH)
        found.append(Claim.of(
            "horses: with few samples two layers, whose patches share weights, beat one",
            "supposed, section 5.3",
            f"{fewer[count][0]['train']} horses: {gap.text(1)} points of IoU; V from regressions "
            f"{other.text(1)}", gap.low > 0, FEWER,
        ))  # fmt: skip
    for name, splits in tables.items():
        wrong = more_wrong(splits, SHAPEBM)
        found.append(Claim.of(
            f"{name}: shapes of two layers with patches fill in hidden parts better than an RBM",
            "not in it", f"{wrong.text(2)} points of wrong labels", wrong.high < 0, SHAPES,
        ))  # fmt: skip
        for step in list(STEPS)[:2]:
            ours, other_row = STEPS[step]
            if not {ours + RANDOM, ours} <= set(splits[0]):
                continue
            plain, drawn = (ahead(splits, ours + end, other_row + end) for end in ("", RANDOM))
            found.append(Claim.of(
                f"{name}: {step}, gains", "not in it", f"{drawn.text(1)} points of IoU; V from "
                f"regressions {plain.text(1)}", drawn.low > 0, HEADING,
            ))  # fmt: skip
    return found
