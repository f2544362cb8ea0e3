"""Train the net that `cutlearn.model.session.guided` asks; read by `learn_defaults.py`.

A pupil is a lesson and how far it got. Whenever it is drawn, the net sees what a person gave so
far and what the net itself said before, and a step is taken; then a robot looks at what the net
said and marks an error, for the next time. So strokes are always at the net's own errors, and cost
no pass of their own. After strokes, windows around the last one are shown, too.
"""

import time
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from defaults_data import FRAME, STEPS, Lesson, Object, in_steps, lessons, stroke
from PIL import Image
from scipy import ndimage

from cutlearn.features.mixtures import fit_mixture
from cutlearn.features.net.body import NetShape, Pass, Weights, folded
from cutlearn.features.net.train import Optimiser, loss_of
from cutlearn.model.session.defaults import Net, packed, unpacked
from cutlearn.model.session.guided import BEFORE, CHANNELS, MOST_ODDS, ODDS, View, channels
from cutlearn.run.executor import one_thread

WIDTHS = (12, 24, 48, 64, 64)
SHAPE = NetShape(CHANNELS, 1, WIDTHS, True)
BATCH, SETTLE, SAVED = 8, 24, 500
# Sides of the cells in which colours of a frame are counted, in Lab / 100.
CELL = 0.04
# A pupil begins anew after so many looks, or any time with this chance.
LOOKS, ANEW = 7, 0.1
# How often: a stroke before the second look; a window from then on, and that around the last
# stroke; no word of before.
STROKE, WINDOW, STROKED, FORGET = 0.5, 0.6, 0.65, 0.1
# An error of fewer pixels of the frame is left alone.
FEWEST = 20


@dataclass
class Pupil:
    """A lesson, and what was said so far."""

    lesson: Lesson
    looks: int = 0
    seeds: np.ndarray = field(init=False)
    before: np.ndarray | None = field(init=False)
    odds: np.ndarray = field(init=False)
    last: tuple[int, int] | None = field(init=False)

    def __post_init__(self) -> None:
        self.begin()

    def begin(self) -> None:
        """Forget all but what the person gave first."""
        self.looks, self.seeds, self.before, self.last = 0, self.lesson.seeds, None, None
        self.odds = self.lesson.odds[1]

    def view(self, rng: np.random.Generator) -> View:
        """The box with some room; after the first look also windows, most at the last stroke."""
        whole = View.of(self.lesson.box, (FRAME, FRAME), rng.uniform(0.12, 0.3))
        chance = rng.random()
        if self.before is None or chance > WINDOW:
            return whole
        low, high = np.array([whole.top, whole.left]), np.array([whole.bottom, whole.right])
        sides = np.maximum((high - low) * rng.uniform(0.3, 0.75), 24).astype(int)
        corner = low + (rng.uniform(0, 1, 2) * np.maximum(high - low - sides, 0)).astype(int)
        if self.last is not None and chance < STROKED * WINDOW:
            corner = self.last - (sides * rng.uniform(0.3, 0.7, 2)).astype(int)
        corner = np.clip(corner, 0, FRAME - sides)
        return View(*corner.tolist(), *(corner + sides).tolist())

    def planes(self, view: View, rng: np.random.Generator) -> np.ndarray:
        """What the net sees."""
        one, before = self.lesson, self.before
        if before is not None and self.looks > 1 and rng.random() < FORGET:
            before = None
        found = channels(one.lab, one.box, self.seeds, (one.odds[0], self.odds), view, before)
        found[[0, 1, 2, 4, ODDS, BEFORE]] /= STEPS
        return found

    def hear(self, view: View, logits: np.ndarray, rng: np.random.Generator) -> None:
        """Take what the net said; mark an error of it."""
        if self.before is None:
            self.before = np.full((FRAME, FRAME), -127, np.int8)
        size = (view.right - view.left, view.bottom - view.top)
        part = Image.fromarray(logits).resize(size, Image.Resampling.BILINEAR)
        self.before[view.part] = in_steps(np.clip(part, -MOST_ODDS, MOST_ODDS))
        inside = np.ones((FRAME, FRAME), bool)
        if self.lesson.box is not None:
            inside[:] = False
            top, left, bottom, right = self.lesson.box
            inside[top:bottom, left:right] = True
        mask = np.where(self.seeds >= 0, self.seeds == 1, (self.before > 0) & inside)
        if self.looks == 0:
            self.odds = own_odds(self.lesson.lab, mask)
        self.looks += 1
        if self.looks > 1 or rng.random() < STROKE:
            self.mark(mask, rng)
        if self.looks >= LOOKS or rng.random() < ANEW:
            self.begin()

    def mark(self, mask: np.ndarray, rng: np.random.Generator) -> None:
        """A stroke at one of the largest errors."""
        truth = self.lesson.share > 127
        numbers, count = ndimage.label((mask != truth) & (self.lesson.known > 127))
        sizes = np.bincount(numbers.ravel())[1:]
        if not count or sizes.max() < FEWEST:
            self.begin()
            return
        chance = sizes.astype(np.float64) ** 3
        part = numbers == 1 + int(rng.choice(count, p=chance / chance.sum()))
        label = int(truth[part][0])
        after = stroke(part & (truth == label), label, self.seeds, rng, 0.6)
        rows, columns = np.nonzero(after != self.seeds)
        if len(rows):
            self.last = int(rows.mean()), int(columns.mean())
        self.seeds = after


def drawn(
    pupils: list[Pupil], rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray, np.ndarray, list]:
    """Pictures (c, n, h, w), shares of label 1, weights (1, n, h, w), and whose they are."""
    whose, pictures, shares, weights = [], [], [], []
    for k in rng.choice(len(pupils), BATCH, replace=False):
        pupil = pupils[k]
        view = pupil.view(rng)
        planes = pupil.planes(view, rng)
        gain, shift = np.exp(rng.uniform(-0.22, 0.22, 3)), rng.uniform(-0.3, 0.3, 3)
        planes[:3] = planes[:3] * gain[:, None, None] + shift[:, None, None]
        if rng.random() < 0.1:
            planes[1:3] = 0  # a grey image
        found = [planes, *(view.small(p) / 255 for p in (pupil.lesson.share, pupil.lesson.known))]
        side = -1 if rng.random() < 0.5 else 1
        for part, one in zip((pictures, shares, weights), found):
            part.append(one[..., ::side])
        whose.append((pupil, view, side))
    x = np.ascontiguousarray(np.stack(pictures, axis=1), np.float32)
    return x, np.stack(shares)[None], np.stack(weights)[None], whose


def learn_net(found: list[tuple[int, Object]], steps: int, kept: Path | None = None) -> Net:
    """Train the net; its weights come back as the package will read them, in 8 bits.

    `kept`: a file of what changes, written every SAVED steps, from which it goes on.
    """
    rng = np.random.default_rng(0)
    optimiser = Optimiser(SHAPE.begin(np.array([0.35]), rng), steps)
    if kept is not None and kept.exists():
        with np.load(kept) as state:
            kept_state = {k: state[k] for k in state.files}
        optimiser.restore(int(kept_state["step"]), kept_state)
        if optimiser.step == steps:
            made = {name: kept_state[f"made.{name}"] for name in SHAPE.sizes(folded=True)}
            return Net(SHAPE, unpacked(packed(made), SHAPE))
    pupils = [Pupil(one) for one in lessons(found)]
    print(len(pupils), "lessons", flush=True)
    begin, value = time.process_time(), 0.0
    with one_thread():
        while optimiser.step < steps:
            planes, share, weight, whose = drawn(pupils, rng)
            one = Pass(SHAPE, optimiser.weights)
            logits = one.logits(planes)
            loss, slope = loss_of(logits, share, weight)
            optimiser.take(one.gradient(slope))
            for (pupil, view, side), said in zip(whose, logits[0]):
                pupil.hear(view, np.ascontiguousarray(said[:, ::side]), rng)
            value += loss
            if optimiser.step % 100 == 0:
                spent = time.process_time() - begin
                print(f"step {optimiser.step}: {value / 100:.4f}, {spent:.0f} s", flush=True)
                value = 0.0
            if kept is not None and optimiser.step % SAVED == 0:
                made = _settled(optimiser, pupils, rng)
                extra = {f"made.{name}": array for name, array in made.items()}
                np.savez(kept, step=optimiser.step, **optimiser.state(), **extra)
        made = _settled(optimiser, pupils, rng)
    return Net(SHAPE, unpacked(packed(made), SHAPE))


def _settled(optimiser: Optimiser, pupils: list[Pupil], rng: np.random.Generator) -> Weights:
    """The averaged weights, with statistics of fresh batches worked in."""
    seen = []
    for _ in range(SETTLE):
        one = Pass(SHAPE, optimiser.average)
        one.logits(drawn(pupils, rng)[0])
        seen.append(one.statistics)
    mean = {
        name: tuple(np.mean([s[name][k] for s in seen], axis=0) for k in (0, 1)) for name in seen[0]
    }
    return folded(SHAPE, optimiser.average, mean)


def own_odds(lab: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """Log-odds of the colours of a frame under the net's own mask of it, in STEPS of a unit."""
    x = lab.astype(np.float32).reshape(3, -1) / STEPS
    x = np.stack([(x[0] + 2) / 4, x[1] / 5, x[2] / 5])
    cells = np.floor(x / CELL).astype(np.int64)
    cells -= cells.min(axis=1, keepdims=True)
    n = cells.max(axis=1) + 1
    key = (cells[0] * n[1] + cells[1]) * n[2] + cells[2]
    found = np.bincount(key, minlength=n.prod())
    place, used = np.cumsum(found > 0) - 1, np.flatnonzero(found)
    index, number = place[key], found[used]
    mean = np.stack([np.bincount(index, column) for column in x], axis=1) / number[:, None]
    ones = np.bincount(index, mask.ravel(), minlength=len(number))
    if not 0 < ones.sum() < mask.size:
        return np.zeros(mask.shape, np.int8)
    one, zero = (fit_mixture(mean, n).log_density(mean) for n in (ones, number - ones))
    odds = np.clip(one - zero, -MOST_ODDS, MOST_ODDS)[index].reshape(mask.shape)
    return in_steps(odds)
