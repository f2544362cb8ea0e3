"""antoniuk2012, section 4: ACCPM against BMRM for lambda from 50 to 0.

The paper's model (10 colour coefficients a label, one table for each direction) on cows (three
ordered labels) and horses (two). Table 1: error against lambda, which is chosen on a validation
part. Table 2: rounds, CPU seconds and objective of both masters to a certified gap of 1 %: ACCPM to
the letter of the paper, both masters of this package one plane a round, and `train`.
"""

import math
import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from cutlearn.arrays import Floats, Mask
from cutlearn.energy.label_space import Ordered
from cutlearn.energy.model import Model
from cutlearn.energy.ordered import OrderedEnergy
from cutlearn.energy.problem import Problem
from cutlearn.errors import ConvergenceWarning
from cutlearn.images.resize import Shape
from cutlearn.learn.learners import MarginLearner, learner_of
from cutlearn.learn.margin import FLOOR
from cutlearn.learn.pool import Pool
from cutlearn.learn.run import Step
from cutlearn.learn.train import train
from cutlearn.metrics import pixel_error
from cutlearn_papers.antoniuk2012_accpm import minimise
from cutlearn_papers.antoniuk2012_pictures import draw_examples, draw_races
from cutlearn_papers.antoniuk2012_tables import (
    LAMBDAS,
    PERCENT,
    Split,
    claims_of,
    error_section,
    race_section,
)
from cutlearn_papers.color import color_problem
from cutlearn_papers.course import Course, Figures
from cutlearn_papers.label_order import choose_order
from cutlearn_papers.pictures import Pictures, read_pictures

GAP, MOST = 0.01, 500
SHOWN = 4
# At which ACCPM is run to the letter: those of the paper, and the lowest at which BMRM is.
LETTERS = (50.0, 10.0, 1.0, 0.01, 0.0)


@dataclass(frozen=True)
class Set:
    """A set of images: where it is, its size here, its labels, and how it is divided.

    Attributes
    ----------
    folder : str
    shape : rows and columns
        The paper's for horses; half of it for cows.
    values : dict
        Values of the masks, and the labels that they mean.
    images : int
        As many as the paper has.
    parts : tuple of int
        Training, validation and test images.
    splits : int
        The paper has 3: too few for an interval.
    letters : tuple of float
        Lambdas at which ACCPM is run to the letter.
    most : int
        Rounds of these runs at most.
    """

    folder: str
    shape: Shape
    values: dict[int, int]
    images: int
    parts: tuple[int, int, int]
    splits: int = 10
    letters: tuple[float, ...] = LETTERS
    most: int = MOST


HORSES = Set("weizmann_horses", (200, 300), {0: 0, 1: 1}, 28, (9, 9, 10))
COWS = Set("msrc_cows", (107, 160), {1: 0, 2: 1, 3: 2}, 32, (10, 10, 12))
SETS = {
    "full": {"horses": HORSES, "cows": COWS},
    "brief": {"horses": HORSES, "cows": replace(COWS, splits=3, letters=(50.0, 1.0, 0.0))},
    "quick": {
        name: replace(known, shape=(20, 30), images=9, parts=(3, 3, 3), splits=2,
                      letters=(50.0, 0.0), most=40)
        for name, known in (("horses", HORSES), ("cows", COWS))
    },
}  # fmt: skip


@dataclass(frozen=True, eq=False)
class World:
    """Images as problems, with their labels in the order of the model."""

    problems: list[Problem]
    labels: list[Mask]
    model: Model

    @staticmethod
    def of(pictures: Pictures, n_labels: int, order: Sequence[int]) -> "World":
        """Make the problems; `order` has the label at each place."""
        places = np.full(256, 255, np.uint8)
        places[list(order)] = range(n_labels)
        masks = [places[mask] for mask in pictures.masks]
        problems = [color_problem(image) for image in pictures.images]
        return World(problems, masks, Model(labels=Ordered(n_labels)))

    def take(self, index: Sequence[int]) -> "World":
        """Give some of the images."""
        return World([self.problems[i] for i in index], [self.labels[i] for i in index], self.model)

    def pool(self) -> Pool:
        """A pool without any planes."""
        return Pool(self.problems, self.labels, model=self.model)


@dataclass(eq=False)
class Race:
    """One master on its way to the optimum: what it knew and had spent after each round.

    Rounds are oracle calls over the number of images: `train` begins on a quarter of them.
    """

    lam: float
    learner: str
    rules: str
    best: list[float] = field(default_factory=list)
    bound: list[float] = field(default_factory=list)
    rounds: list[float] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    converged: bool = False

    def figures(self) -> Figures:
        """Give what the table says, and the path to it."""
        return {
            "lambda": self.lam, "learner": self.learner, "rules": self.rules,
            "rounds": self.rounds[-1], "seconds": self.seconds[-1], "objective": self.best[-1],
            "lower_bound": self.bound[-1], "converged": self.converged,
            "path": np.array([self.rounds, self.seconds, self.best, self.bound]),
        }  # fmt: skip


def to_the_letter(pool: Pool, lam: float, most: int = MOST) -> Race:
    """Run the paper's algorithm 1 as it is written."""
    race = Race(lam, "accpm", "letter")
    rows, least = pool.layout.constraints(pool.images[0].problem)
    begin = time.process_time()

    def objective(w: Floats) -> tuple[float, Floats]:
        plane = PERCENT * pool.ask(w)[1].mean(axis=0)
        return 0.5 * lam * float(w @ w) + float(plane[0] + plane[1:] @ w), lam * w + plane[1:]

    def note(best: float, bound: float) -> None:
        race.best.append(best)
        race.bound.append(max(bound, 0.0))
        race.rounds.append(len(race.best))
        race.seconds.append(time.process_time() - begin)

    _, race.converged = minimise(objective, rows, least, GAP, most, note)
    return race


def by_the_paper(pool: Pool, lam: float, learner: str) -> Race:
    """Run a master of this package one plane a round, asked at the master's own point."""
    race = Race(lam, learner, "paper")
    rows, least = pool.layout.constraints(pool.images[0].problem)
    begin = time.process_time()
    chosen = learner_of(learner)
    assert isinstance(chosen, MarginLearner)
    master = chosen.master()(pool.n_weights, 1, lam / PERCENT, rows, least)
    w = pool.layout.inside(master.start(pool.largest))
    best = math.inf
    while not race.converged and len(race.best) < MOST:
        plane = pool.ask(w)[1].mean(axis=0)
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
            tol=GAP, model=world.model, max_steps=MOST, n_jobs=1, pool=pool,
            callback=note,
        )  # fmt: skip
    race.converged = result.converged
    return race, result.w


def race(world: World, lam: float, learner: str, rules: str, most: int = MOST) -> Figures:
    """Run one master from nothing to the gap; to the letter in at most so many rounds."""
    if rules == "letter":
        return to_the_letter(world.pool(), lam, most).figures()
    if rules == "paper":
        return by_the_paper(world.pool(), lam, learner).figures()
    return by_train(world, world.pool(), lam, learner)[0].figures()


def labels_of(problem: Problem, w: Floats) -> Mask:
    """Give the labels of an image under weights w."""
    return OrderedEnergy.of(problem, w).minimize().labels.astype(np.uint8)


def error_of(world: World, w: Floats) -> float:
    """Give the percentage of wrong pixels, mean over the images."""
    found = [labels_of(problem, w) for problem in world.problems]
    return PERCENT * pixel_error(world.labels, found)


def split_errors(world: World, parts: Sequence[int], seed: int) -> Figures:
    """Learn on the training part for every lambda; errors on it and on the other parts.

    Of the first split also the labels of a few test images at lambda = 0.
    """
    order = np.random.default_rng(seed).permutation(len(world.problems))
    ends = np.cumsum(parts)
    names = ("training", "validation", "test")
    three = {k: world.take(v.tolist()) for k, v in zip(names, np.split(order, ends)[:3])}
    found: Figures = {name: {} for name in names}
    for lam in LAMBDAS:
        _, w = by_train(three["training"], three["training"].pool(), lam, "accpm")
        for name, part in three.items():
            found[name][f"{lam:g}"] = error_of(part, w)
    if seed == 0:
        shown = order[ends[1] :][:SHOWN]
        found["shown"] = shown
        for k, i in enumerate(shown):
            found[f"labels_{k}"] = labels_of(world.problems[i], w)
    return found


class Source:
    """A set of images that is read when the first of its parts is missing."""

    def __init__(self, course: Course, name: str, chosen: Set) -> None:
        self.name, self.set = name, chosen
        self._folder = course.folder(chosen.folder)
        self._pictures: Pictures | None = None
        self._world: World | None = None
        self.order = list(range(len(chosen.values)))

    @property
    def pictures(self) -> Pictures:
        """The images, those with all labels first, as many as the paper has."""
        if self._pictures is None:
            pictures = read_pictures(self._folder, shape=self.set.shape, values=self.set.values)
            rich = [-len(np.unique(mask[mask != 255])) for mask in pictures.masks]
            self._pictures = pictures.take(np.argsort(rich, kind="stable")[: self.set.images])
        return self._pictures

    @property
    def world(self) -> World:
        """The problems in the chosen order of labels."""
        if self._world is None:
            self._world = World.of(self.pictures, len(self.set.values), self.order)
        return self._world

    def find_order(self) -> Figures:
        """Give the order of labels with the fewest mistakes on images left out."""
        count = len(self.set.values)
        world = World.of(self.pictures, count, range(count))
        every = range(0, len(world.problems), max(1, len(world.problems) // 9))
        few = world.take(list(every))
        chosen = choose_order(few.problems, few.labels, count, C=PERCENT, tol=0.1, n_jobs=1)
        errors = {str(order): error for order, error in chosen.errors.items()}
        return {"order": list(chosen.order), "errors": errors}


def run(course: Course) -> Figures:
    """Run both experiments on both sets; leave two tables and two pictures a set."""
    sections, claims, figures = [], [], {}
    for name, chosen in SETS[course.scale].items():
        source = Source(course, name, chosen)
        size = {"shape": list(chosen.shape), "images": chosen.images}
        if len(chosen.values) > 2:
            works = {"order": source.find_order}
            order = course.parts(f"{name} order", works, **size)["order"]
            source.order = order["order"]
        races = course.parts(f"{name} races", _race_works(source), gap=GAP, most=MOST, **size)
        splits = course.parts(
            f"{name} splits",
            {f"split {k}": _later(source, split_errors, chosen.parts, k)
             for k in range(chosen.splits)},
            parts=chosen.parts, lambdas=LAMBDAS, **size,
        )  # fmt: skip
        told = [Split.of(part) for part in splits.values()]
        first = splits["split 0"]
        pictures = [
            course.picture(f"{name}-races", draw_races(list(races.values()), told)),
            course.picture(f"{name}-examples", draw_examples(source.pictures, source.order, first)),
        ]
        sections += [error_section(name, told, chosen, pictures[1:]),
                     race_section(name, list(races.values()), chosen, pictures[:1])]  # fmt: skip
        claims += claims_of(name, list(races.values()), told)
        figures[name] = {
            "order": source.order,
            "races": [{k: v for k, v in r.items() if k != "path"} for r in races.values()],
            "splits": [split.errors for split in told],
        }
    return course.finish(sections, claims, figures)


def _race_works(source: Source) -> dict[str, Any]:
    """Every master by its rules for every lambda; BMRM cannot without a regulariser."""
    letters = {
        f"lambda {lam:g}, accpm, to the letter": _later(
            source, race, lam, "accpm", "letter", source.set.most
        )
        for lam in source.set.letters
    }
    return letters | {
        f"lambda {lam:g}, {learner}, rules of {rules}": _later(source, race, lam, learner, rules)
        for lam in LAMBDAS
        for learner in (("accpm", "bundle") if lam else ("accpm",))
        for rules in ("paper", "train")
    }


def _later(source: Source, work: Any, *arguments: Any) -> Any:
    """Give the work on the source's world, which is made when the work is done."""
    return partial(lambda: work(source.world, *arguments))
