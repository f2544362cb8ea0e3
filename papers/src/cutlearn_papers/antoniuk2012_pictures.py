"""The pictures of antoniuk2012: rounds, seconds and errors against lambda; images and labels."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from cutlearn.arrays import VOID
from cutlearn_papers.antoniuk2012_tables import LAMBDAS, LEARNERS, RULES, WAYS, Split
from cutlearn_papers.course import Figures
from cutlearn_papers.pictures import Pictures

COLORS = np.array([[0.55, 0.3, 0.15], [0.35, 0.65, 0.25], [0.55, 0.75, 0.95]])
# The lambda whose gaps are drawn.
DRAWN = 1.0
STYLES = {"letter": ":", "paper": "--", "train": "-"}
HUES = {"accpm": "#d55e00", "bundle": "#0072b2"}


def draw_races(races: Sequence[Figures], splits: Sequence[Split]) -> Any:
    """Draw rounds and seconds against lambda (figure 1), errors, and gaps by round."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(15, 4), layout="constrained")
    axes: Any = figure.subplots(1, 4)
    for rules, learner in WAYS:
        mine = [r for r in races if (r["rules"], r["learner"]) == (rules, learner)]
        mine.sort(key=lambda r: LAMBDAS.index(r["lambda"]))
        at = [LAMBDAS.index(r["lambda"]) for r in mine]
        look = {"color": HUES[learner], "linestyle": STYLES[rules]}
        name = f"{LEARNERS[learner]}, {RULES[rules]}"
        axes[0].semilogy(at, [r["rounds"] for r in mine], marker="o", label=name, **look)
        axes[1].semilogy(at, [r["seconds"] for r in mine], marker="o", **look)
        for r in mine:
            if r["lambda"] == DRAWN:
                rounds, _, best, bound = r["path"]
                axes[3].loglog(rounds, 1 - np.maximum(bound, 0) / best, **look)
    for name, marker in (("training", "v"), ("validation", "o"), ("test", "^")):
        means = [np.mean([s.at(name, lam) for s in splits]) for lam in LAMBDAS]
        axes[2].plot(range(len(LAMBDAS)), means, marker=marker, label=name)
    for ax, title in zip(axes, ("rounds", "CPU seconds", "wrong pixels, %")):
        ax.set(title=title, xlabel="lambda", xticks=range(len(LAMBDAS)))
        ax.set_xticklabels([f"{lam:g}" for lam in LAMBDAS])
    axes[2].set_ylim(bottom=0)
    axes[3].axhline(0.01, color="0.7", zorder=0)
    axes[3].set(title=f"relative gap, lambda = {DRAWN:g}", xlabel="rounds")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=5)
    axes[2].legend()
    return figure


def draw_examples(pictures: Pictures, order: Sequence[int], split: Figures) -> Any:
    """Draw test images of the first split, their true labels, and those that were found."""
    from matplotlib.figure import Figure

    shown = [int(i) for i in split["shown"]]
    figure = Figure(figsize=(3.4 * len(shown), 7), layout="constrained")
    axes: Any = figure.subplots(3, len(shown), squeeze=False)
    for k, i in enumerate(shown):
        truth, found = pictures.masks[i], np.asarray(order)[split[f"labels_{k}"]]
        wrong = float(np.mean(found[truth != VOID] != truth[truth != VOID]))
        blank = np.where((truth == VOID)[..., None], 1.0, COLORS[np.minimum(truth, 2)])
        rows = (pictures.images[i], blank, COLORS[found])
        titles = (pictures.names[i], "truth (white: void)", f"found, {wrong:.1%} wrong")
        for ax, picture, title in zip(axes[:, k], rows, titles):
            ax.imshow(picture)
            ax.set(title=title, xticks=[], yticks=[])
    return figure
