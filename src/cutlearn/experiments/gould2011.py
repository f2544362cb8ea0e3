"""gould2011, section 5.1: a checkerboard under noise, found by envelopes learned over its squares.

A weight for the noisy input x and an envelope of K = 10 lines over the 64 squares are learned at
C = 1000 from one board: E(y) = w x . y + sum_c psi(p_c). Two settings: equal signals, and a signal
five times stronger on black squares. The picture has the panels of the paper's figure 5.
"""

import io
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cutlearn.energy.energy import Energy
from cutlearn.energy.forms import EnvelopeSpec
from cutlearn.energy.model import model_of
from cutlearn.experiments.reproduction import Reproduction, Tell, markdown_table
from cutlearn.features.problem import Problem
from cutlearn.images.synth import Checkerboard, checkerboard
from cutlearn.learn.losses import Hamming
from cutlearn.learn.margin.bundle import Bundle
from cutlearn.learn.oracle import oracle_of, task_of
from cutlearn.learn.results import TrainResult
from cutlearn.learn.train import train
from cutlearn.store import atomic_write

Mask = NDArray[np.uint8]
Floats = NDArray[np.float64]

SEEDS = 20
SPEC = EnvelopeSpec(lines=10)
C = 1000.0
# Optima are 1e-8 to 1e-4 of the largest loss: training goes on until nothing is left of the gap.
TOL = 1e-8
# Where a run counts as converged: this gap, relative to the optimum.
CONVERGED = 0.01
# The default stop of `train`, as a gap relative to the largest loss.
USUAL = 1e-5
# Signals of black and white squares, and the paper's number of iterations.
SETTINGS = {"equal signals": (0.1, 0.1, 48), "strong black": (0.5, 0.1, 43)}
STRENGTHS = np.linspace(0.1, 1.2, 23)
TABLE, PICTURE = "gould2011.md", "gould2011.png"


@dataclass(frozen=True, eq=False)
class Trial:
    """One board: what was learned from it, and what it says of this board and of another."""

    world: Checkerboard
    result: TrainResult
    labels: Mask
    third: Mask
    wrong_elsewhere: float
    seconds: float

    @property
    def recovered(self) -> bool:
        """Whether every pixel of the board is right."""
        return bool((self.labels == self.world.labels).all())

    def iterations(self, gap: float) -> int:
        """The first step at which the certified gap was so small."""
        return next(s.number for s in self.result.steps if s.gap <= gap)

    @property
    def envelope(self) -> Floats:
        """psi(k / K) - psi(0) over the unary weight, k = 0 .. K."""
        samples = SPEC.convert(self.result.layout.split(self.result.w)["envelope"], "samples")
        return np.asarray((samples - samples[0]) / self.result.w[0])


def problem_of(world: Checkerboard) -> Problem:
    """Give the problem of a board: its noisy input as the one feature, its squares as regions."""
    return Problem(world.x[..., None], regions=world.regions, shape=world.x.shape)


def learn(world: Checkerboard) -> TrainResult:
    """Learn from one board."""
    return train(
        [problem_of(world)], [world.labels], C=C, tol=TOL, normalize="loss", envelope=SPEC, n_jobs=1
    )


def early_weights(world: Checkerboard, iterations: int) -> Floats:
    """Give the weights after so many iterations of the paper's algorithm 1.

    It asks at the master's own minimiser, where `train` asks half-way, and so has a w to show
    early.
    """
    problem = problem_of(world)
    model = model_of(problem, SPEC)
    oracle = oracle_of(task_of(problem, world.labels, model, 0, Hamming(), "loss"))
    layout = oracle.task.layout
    master = Bundle(layout.size, 1, 1 / C, *model.constraints(problem))
    w = layout.inside(master.start(1.0))
    best = np.inf
    for _ in range(iterations):
        plane = oracle(w)
        best = min(best, 0.5 / C * float(w @ w) + max(plane.value(w), 0.0))
        master.add(np.array([plane.b]), plane.a[None], np.array([True]))
        w = layout.inside(master.minimum(best))
    return w


def best_labels(world: Checkerboard, w: Floats) -> Mask:
    """Give the labels of a board under weights w."""
    return Energy.of(problem_of(world), w, SPEC).minimize().labels.astype(np.uint8)


def best_pairwise(world: Checkerboard) -> Mask:
    """The baseline: a grid cut, its strength chosen with the truth in hand."""
    cuts = [Energy.grid(world.x, strength).minimize().labels for strength in STRENGTHS]
    return min(cuts, key=lambda y: int((y != world.labels).sum())).astype(np.uint8)


def trial(seed: int, eta0: float, eta1: float) -> Trial:
    """Learn from the board of a seed, and look at it and at one with other noise."""
    world, other = checkerboard(seed, eta0, eta1), checkerboard(10_000 + seed, eta0, eta1)
    begin = time.process_time()
    result = learn(world)
    seconds = time.process_time() - begin
    elsewhere = float(np.mean(best_labels(other, result.w) != other.labels))
    third = best_labels(world, early_weights(world, 3))
    return Trial(world, result, best_labels(world, result.w), third, elsewhere, seconds)


def run(
    output: Path, data: Path | None = None, tell: Tell = print, seeds: int | None = None
) -> Reproduction:
    """Learn from `seeds` boards (20) in both settings; write a table and the picture."""
    seeds = seeds or SEEDS
    trials = {}
    for name, (eta0, eta1, _) in SETTINGS.items():
        tell(f"{name}: {seeds} boards")
        trials[name] = [trial(seed, eta0, eta1) for seed in range(seeds)]
    figures = {name: figures_of(done) for name, done in trials.items()}
    table = table_of(figures)
    output.mkdir(parents=True, exist_ok=True)
    atomic_write(output / TABLE, (table + "\n").encode())
    atomic_write(output / PICTURE, draw({name: done[0] for name, done in trials.items()}))
    return Reproduction(table, figures, (output / TABLE, output / PICTURE))


def figures_of(trials: Sequence[Trial]) -> dict[str, Any]:
    """Give the figures of one setting."""
    steps = [t.iterations(CONVERGED * t.result.objective) for t in trials]
    usual = [t.iterations(USUAL) for t in trials]
    envelopes = [t.envelope for t in trials]
    peaks = [float(v.argmax()) / SPEC.lines for v in envelopes]
    tilts = [float(v[-1] / v.max()) for v in envelopes]
    calls = sum(len(t.result.steps) for t in trials)
    return {
        "boards": len(trials),
        "recovered": sum(t.recovered for t in trials),
        "wrong": float(np.mean([np.mean(t.labels != t.world.labels) for t in trials])),
        "wrong_after_three": float(np.mean([np.mean(t.third != t.world.labels) for t in trials])),
        "wrong_elsewhere": float(np.mean([t.wrong_elsewhere for t in trials])),
        "iterations": _three(steps),
        "usual_iterations": _three(usual),
        "cpu_seconds": _three([t.seconds for t in trials]),
        "oracle_milliseconds": 1000 * sum(
            s.oracle_seconds for t in trials for s in t.result.steps) / calls,
        "objective": _three([t.result.objective for t in trials]),
        "peak": _three(peaks),
        "tilt": _three(tilts),
    }  # fmt: skip


def table_of(figures: dict[str, dict[str, Any]]) -> str:
    """Write the figures beside the paper's."""
    titles = ["", *(f"{name}, eta = {SETTINGS[name][0]}, {SETTINGS[name][1]}" for name in figures)]
    columns = list(figures.items())

    def row(title: str, write: Any) -> list[str]:
        return [title, *(write(f) for _, f in columns)]

    rows = [
        row("boards recovered to the last pixel", lambda f: f"{f['recovered']} of {f['boards']}"),
        row("wrong pixels, training boards", lambda f: f"{f['wrong']:.3%}"),
        row("wrong pixels after the third iteration of algorithm 1",
            lambda f: f"{f['wrong_after_three']:.1%}"),
        row("wrong pixels, boards with other noise", lambda f: f"{f['wrong_elsewhere']:.3%}"),
        row("iterations to a gap of 1 % of the optimum", lambda f: _span(f["iterations"])),
        row("iterations to the usual stop (1e-5 of the largest loss)",
            lambda f: _span(f["usual_iterations"])),
        ["iterations, paper", *(str(SETTINGS[name][2]) for name in figures)],
        row("CPU seconds of the whole training", lambda f: _span(f["cpu_seconds"], ".2f")),
        row("milliseconds an inference (paper: 120)",
            lambda f: f"{f['oracle_milliseconds']:.0f}"),
        row("objective at the optimum", lambda f: _span(f["objective"], ".1e")),
        row("peak of the envelope, at p =", lambda f: _span(f["peak"], ".1f")),
        row("(psi(1) - psi(0)) / height of the peak", lambda f: _span(f["tilt"], ".2f")),
    ]  # fmt: skip
    note = (
        "Median [least .. most] over the boards, C = 1000, K = 10, curvatures, one board to learn "
        "from. Envelopes are symmetric where the last two rows are 0.5 and 0."
    )
    return f"{markdown_table(titles, rows)}\n\n{note}"


def draw(trials: dict[str, Trial]) -> bytes:
    """Draw the panels of figure 5, a row for each setting; gives a PNG."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(15, 5.4), layout="constrained")
    rows: Any = figure.subplots(len(trials), 6, squeeze=False)
    for axes, (name, done) in zip(rows, trials.items()):
        world = done.world
        last = f"(e) envelopes, iteration {len(done.result.steps)}"
        pictures = {
            "(a) truth": world.labels,
            "(b) noisy input": -world.x,
            "(c) pairwise": best_pairwise(world),
            "(d) envelopes, iteration 3": done.third,
            last: done.labels,
        }
        for ax, (title, picture) in zip(axes, pictures.items()):
            ax.imshow(picture, cmap="gray", interpolation="nearest")
            wrong = "" if title[1] in "ab" else f"\n{np.mean(picture != world.labels):.1%} wrong"
            ax.set(title=title + wrong, xticks=[], yticks=[])
        axes[0].set_ylabel(name)
        ax = axes[-1]
        ax.plot(np.linspace(0, 1, SPEC.lines + 1), done.envelope, marker="o", color="#0072b2")
        ax.axvline(0.5, color="0.8", zorder=0)
        ax.axhline(0, color="0.8", zorder=0)
        ax.set(title="(f) envelope / unary weight", xlabel="fraction p of the square at 1")
    file = io.BytesIO()
    figure.savefig(file, dpi=80, format="png")
    return file.getvalue()


def _three(values: Sequence[float]) -> list[float]:
    """Median, least and most."""
    return [float(statistics.median(values)), float(min(values)), float(max(values))]


def _span(three: Sequence[float], spec: str = ".0f") -> str:
    middle, low, high = (format(value, spec) for value in three)
    return f"{middle} [{low} .. {high}]"
