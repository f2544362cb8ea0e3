"""antoniuk2012, section 4: ACCPM against BMRM for lambda from 50 to 0, three ordered labels.

The paper's model (10 colour coefficients a label, one table for each direction) on pastures,
synthetic pictures of grass, animals and sky in place of its cows. Table 1: error against lambda,
which is chosen on a validation part. Table 2: rounds, CPU seconds and objective of both masters to
a certified gap of 1 %, by the paper's own rules and by those of `train`.
"""

import io
import math
import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cutlearn.energy.labels import Ordered
from cutlearn.energy.model import Model
from cutlearn.energy.ordered import OrderedEnergy
from cutlearn.errors import ConvergenceWarning
from cutlearn.experiments.reproduction import Reproduction, Tell, markdown_table
from cutlearn.features.color import color_problem
from cutlearn.features.problem import Problem
from cutlearn.images.synth import Pasture, pasture
from cutlearn.learn.learners import MarginLearner, learner_of
from cutlearn.learn.margin.run import FLOOR
from cutlearn.learn.pool import Pool
from cutlearn.learn.results import Step
from cutlearn.learn.train import train
from cutlearn.metrics import pixel_error
from cutlearn.store import atomic_write

Mask = NDArray[np.uint8]
Floats = NDArray[np.float64]

IMAGES, SHAPE = 18, (107, 160)
SPLITS = 3
LABELS = 3
MODEL = Model(labels=Ordered(LABELS))
LAMBDAS = (50.0, 10.0, 1.0, 0.1, 0.01, 0.0)
# Objectives are in percent of the pixels, so lambda is a hundred times that of `train`.
PERCENT = 100.0
GAP = 0.01
MOST = 500
# Table 2 of the paper, cows: iterations of ACCPM and BMRM; 500 was its most.
PAPER = {50.0: ("266", "54"), 10.0: ("240", "112"), 1.0: ("235", "500*"), 0.0: ("165", "-")}
RULES = ("paper", "train")
TABLE, PICTURE = "antoniuk2012.md", "antoniuk2012.png"


@dataclass(frozen=True, eq=False)
class World:
    """Pastures and their problems."""

    pictures: list[Pasture]
    problems: list[Problem]

    @property
    def labels(self) -> list[Mask]:
        """The true labels."""
        return [picture.labels for picture in self.pictures]

    def pool(self) -> Pool:
        """A pool without any planes."""
        return Pool(self.problems, self.labels, model=MODEL)


@dataclass(eq=False)
class Race:
    """One master on its way to the optimum: what it knew and had spent after each round.

    Rounds are oracle calls over the number of pictures: `train` begins on a quarter of them.
    """

    lam: float
    learner: str
    rules: str
    best: list[float] = field(default_factory=list)
    bound: list[float] = field(default_factory=list)
    rounds: list[float] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    converged: bool = False

    @property
    def gaps(self) -> Floats:
        """The relative gap after each round."""
        return np.asarray(1 - np.maximum(self.bound, 0.0) / np.array(self.best))

    def figures(self) -> dict[str, Any]:
        """Give what the table says, as JSON can hold it."""
        return {
            "lambda": self.lam, "learner": self.learner, "rules": self.rules,
            "rounds": self.rounds[-1], "cpu_seconds": self.seconds[-1], "objective": self.best[-1],
            "lower_bound": self.bound[-1], "converged": self.converged,
        }  # fmt: skip


def world_of(images: int, shape: tuple[int, int]) -> World:
    """Make the pastures of the seeds 0, 1, ..."""
    pictures = [pasture(seed, shape) for seed in range(images)]
    return World(pictures, [color_problem(picture.image) for picture in pictures])


def by_the_paper(pool: Pool, lam: float, learner: str) -> Race:
    """Run algorithm 1, or BMRM: one plane a round, asked at the master's own point."""
    race = Race(lam, learner, "paper")
    rows, least = pool.layout.constraints(pool.tasks[0].problem)
    begin = time.process_time()
    chosen = learner_of(learner)
    assert isinstance(chosen, MarginLearner)
    master = chosen.master()(pool.n_weights, 1, lam / PERCENT, rows, least)
    w = pool.layout.inside(master.start(pool.largest))
    best = math.inf
    while not race.converged and len(race.best) < MOST:
        plane = pool.ask(w, 1)[1].mean(axis=0)
        best = min(best, 0.5 * master.lam * float(w @ w) + float(plane[0] + plane[1:] @ w))
        fine = GAP * max(best, FLOOR * pool.largest)
        master.add(plane[:1], plane[None, 1:], np.array([True]))
        following = master.solve(best, fine)
        race.best.append(PERCENT * best)
        race.bound.append(PERCENT * master.lower_bound)
        race.rounds.append(len(race.best))
        race.seconds.append(time.process_time() - begin)
        race.converged = best - master.lower_bound <= fine
        if following is None:
            break
        w = pool.layout.inside(following)
    return race


def by_train(world: World, pool: Pool, lam: float, learner: str) -> tuple[Race, Floats]:
    """Run `train` with its defaults; the weights too."""
    race = Race(lam, learner, "train")
    begin = time.process_time()

    def note(step: Step) -> None:
        race.best.append(PERCENT * step.best)
        race.bound.append(PERCENT * step.lower_bound)
        race.rounds.append(sum(race.rounds[-1:]) + step.calls / len(pool))
        race.seconds.append(time.process_time() - begin)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        result = train(
            world.problems, world.labels, learner=learner, C=PERCENT / lam if lam else math.inf,
            tol=GAP, model=MODEL, max_steps=MOST, n_jobs=1, pool=pool,
            callback=note,
        )  # fmt: skip
    race.converged = result.converged
    return race, result.w


def races_of(world: World, tell: Tell) -> list[Race]:
    """Run every master by both rules for every lambda; BMRM cannot without a regulariser."""
    races = []
    for lam in LAMBDAS:
        for learner in ("accpm", "bundle") if lam else ("accpm",):
            races.append(by_the_paper(world.pool(), lam, learner))
            races.append(by_train(world, world.pool(), lam, learner)[0])
            for race in races[-2:]:
                tell(
                    f"lambda {lam:g}, {learner}, rules of {race.rules}: {race.rounds[-1]:.0f} "
                    f"rounds, {race.seconds[-1]:.1f} s, objective {race.best[-1]:.3f}"
                )
    return races


def disagreement(races: Sequence[Race]) -> float | None:
    """Give how far apart the objectives of one lambda are, relative; bounds must lie below all.

    None when fewer than two runs reached the gap.
    """
    finals = [race.best[-1] for race in races if race.converged]
    if max(race.bound[-1] for race in races) > min(race.best[-1] for race in races) * (1 + 1e-9):
        raise RuntimeError(f"lambda {races[0].lam:g}: a certified bound above an objective")
    return max(finals) / min(finals) - 1 if len(finals) > 1 else None


def labels_of(problem: Problem, w: Floats) -> Mask:
    """Give the labels of a picture under weights w."""
    return OrderedEnergy.of(problem, w).minimize().labels.astype(np.uint8)


def error_of(world: World, w: Floats, images: Sequence[int]) -> float:
    """Give the percentage of wrong pixels, mean over some of the pictures."""
    found = [labels_of(world.problems[i], w) for i in images]
    return PERCENT * pixel_error([world.labels[i] for i in images], found)


def split_errors(world: World, seed: int) -> dict[str, dict[float, float]]:
    """Learn on a third of the pictures for every lambda; errors there and on the other thirds."""
    order = np.random.default_rng(seed).permutation(len(world.problems))
    parts = dict(zip(("training", "validation", "test"), np.array_split(order, 3)))
    chosen = parts["training"].tolist()
    part = World([world.pictures[i] for i in chosen], [world.problems[i] for i in chosen])
    errors: dict[str, dict[float, float]] = {name: {} for name in parts}
    for lam in LAMBDAS:
        _, w = by_train(part, part.pool(), lam, "accpm")
        for name, images in parts.items():
            errors[name][lam] = error_of(world, w, images.tolist())
    return errors


def run(output: Path, data: Path | None = None, tell: Tell = print) -> Reproduction:
    """Run both experiments on pastures; write two tables and the picture."""
    world = world_of(IMAGES, SHAPE)
    tell(f"table 2: both masters on {IMAGES} pastures")
    races = races_of(world, tell)
    tell(f"table 1: {SPLITS} splits")
    splits = [split_errors(world, seed) for seed in range(SPLITS)]
    figures: dict[str, Any] = {
        "masters": [race.figures() for race in races],
        "disagreement": {f"{lam:g}": disagreement(_at(races, lam)) for lam in LAMBDAS},
        "errors": {name: {f"{lam:g}": _spread(splits, name, lam) for lam in LAMBDAS}
                   for name in splits[0]},
        "test": _chosen(splits),
    }  # fmt: skip
    table = f"{error_table(figures)}\n\n{race_table(races, figures['disagreement'])}"
    output.mkdir(parents=True, exist_ok=True)
    atomic_write(output / TABLE, (table + "\n").encode())
    atomic_write(output / PICTURE, draw(world, races, splits))
    return Reproduction(table, figures, (output / TABLE, output / PICTURE))


def _at(races: Sequence[Race], lam: float) -> list[Race]:
    return [race for race in races if race.lam == lam]


def _spread(splits: Sequence[dict[str, dict[float, float]]], name: str, lam: float) -> list[float]:
    """Mean and deviation over the splits."""
    values = [errors[name][lam] for errors in splits]
    return [float(np.mean(values)), float(np.std(values))]


def _chosen(splits: Sequence[dict[str, dict[float, float]]]) -> dict[str, Any]:
    """The lambda that each split's validation part chooses, of all and of those above 0."""
    out: dict[str, Any] = {}
    for name, known in (("accpm", LAMBDAS), ("bundle", LAMBDAS[:-1])):
        best = [min(known, key=errors["validation"].__getitem__) for errors in splits]
        wrong = [errors["test"][lam] for errors, lam in zip(splits, best)]
        out[name] = {"lambdas": best, "error": [float(np.mean(wrong)), float(np.std(wrong))]}
    return out


def error_table(figures: dict[str, Any]) -> str:
    """Write table 1: errors against lambda."""
    errors = figures["errors"]
    rows = [
        [f"{lam:g}", *("{:.2f} +- {:.2f}".format(*errors[name][f"{lam:g}"]) for name in errors)]
        for lam in LAMBDAS
    ]
    table = markdown_table(["lambda", *(f"{name} error, %" for name in errors)], rows)
    ours, above = figures["test"]["accpm"], figures["test"]["bundle"]
    return (
        f"{table}\n\nMean +- deviation over {SPLITS} splits of {IMAGES} pastures into thirds. Test "
        f"error at the lambda with the least validation error: {ours['error'][0]:.2f} % (chosen: "
        f"{', '.join(f'{lam:g}' for lam in ours['lambdas'])}); of those above 0, which BMRM "
        f"can: {above['error'][0]:.2f} %."
    )


def race_table(races: Sequence[Race], apart: dict[str, float | None]) -> str:
    """Write table 2: rounds and CPU seconds of the masters, by both rules."""
    kinds = [(rules, learner) for rules in RULES for learner in ("accpm", "bundle")]
    words = {"accpm": "ACCPM", "bundle": "BMRM", "paper": "paper's rules", "train": "`train`"}
    rows = []
    for lam in LAMBDAS:
        found = {(race.rules, race.learner): race for race in _at(races, lam)}
        cells = [
            f"{found[k].rounds[-1]:.0f}{'' if found[k].converged else '*'} "
            f"({found[k].seconds[-1]:.1f} s)" if k in found else "cannot"
            for k in kinds
        ]  # fmt: skip
        least = min(race.best[-1] for race in found.values())
        paper = " / ".join(PAPER.get(lam, ()))
        far = apart[f"{lam:g}"]
        differ = "-" if far is None else f"{far:.2%}"
        rows.append([f"{lam:g}", *cells, f"{least:.3f}", differ, paper])
    titles = [
        "lambda", *(f"{words[learner]}, {words[rules]}" for rules, learner in kinds),
        "objective", "objectives differ by", "paper, cows: ACCPM / BMRM",
    ]  # fmt: skip
    return (
        f"{markdown_table(titles, rows)}\n\nRounds (CPU seconds) to a certified gap of 1 % on all "
        f"{IMAGES} pastures, 48 weights; a round is one oracle call a pasture; * not converged "
        f"after {MOST} rounds. The objective is in percent of the pixels."
    )


def draw(world: World, races: Sequence[Race], splits: Sequence[dict[str, Any]]) -> bytes:
    """Draw rounds, seconds and errors against lambda, gaps by round, and a pasture; a PNG."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(14, 7.5), layout="constrained")
    axes: Any = figure.subplots(2, 3)
    places = range(len(LAMBDAS))
    for learner, color in (("accpm", "#d55e00"), ("bundle", "#0072b2")):
        for rules, style in (("paper", "--"), ("train", "-")):
            name = f"{'ACCPM' if learner == 'accpm' else 'BMRM'}, rules of {rules}"
            mine = [r for r in races if (r.learner, r.rules) == (learner, rules)]
            at = [LAMBDAS.index(race.lam) for race in mine]
            look = {"color": color, "linestyle": style}
            axes[0, 0].semilogy(at, [r.rounds[-1] for r in mine], marker="o", label=name, **look)
            axes[0, 1].semilogy(at, [r.seconds[-1] for r in mine], marker="o", **look)
            for race in mine:
                if race.lam == LAMBDAS[-2]:
                    axes[1, 0].loglog(race.rounds, race.gaps, **look)
                    axes[1, 1].loglog(race.seconds, race.gaps, **look)
    for name, marker in (("training", "v"), ("validation", "o"), ("test", "^")):
        means = [_spread(splits, name, lam)[0] for lam in LAMBDAS]
        axes[0, 2].semilogy(places, means, marker=marker, label=name)
    for ax, title in zip(axes[0], ("rounds", "CPU seconds", "wrong pixels, %")):
        ax.set(title=title, xlabel="lambda", xticks=places)
        ax.set_xticklabels([f"{lam:g}" for lam in LAMBDAS])
    for ax, unit in zip(axes[1], ("rounds", "CPU seconds")):
        ax.axhline(GAP, color="0.7", zorder=0)
        ax.set(title=f"relative gap, lambda = {LAMBDAS[-2]:g}", xlabel=unit)
    axes[0, 0].legend()
    axes[0, 2].legend()
    _draw_pasture(axes[1, 2], world)
    file = io.BytesIO()
    figure.savefig(file, dpi=80, format="png")
    return file.getvalue()


def _draw_pasture(ax: Any, world: World) -> None:
    """A pasture that nothing was learned from, its truth and its labels, side by side."""
    some = World(world.pictures[1:], world.problems[1:])
    _, w = by_train(some, some.pool(), LAMBDAS[-2], "accpm")
    found, truth = labels_of(world.problems[0], w), world.labels[0]
    colors = np.array([[0.35, 0.6, 0.25], [0.5, 0.3, 0.2], [0.6, 0.75, 0.95]])
    gap = np.ones((len(truth), 4, 3))
    ax.imshow(np.hstack([world.pictures[0].image, gap, colors[truth], gap, colors[found]]))
    wrong = f"{np.mean(found != truth):.1%} wrong"
    ax.set(title=f"a new pasture, truth, labels ({wrong})", xticks=[], yticks=[])
