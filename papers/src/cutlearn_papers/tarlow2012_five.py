"""tarlow2012, section 7.3: five labels, by the surrogate and by loopy belief propagation.

Background and four classes. Both models start from logistic regression of five labels without
edges. The surrogate is learned by the package's likelihood training; the field of all labels (see
`belief_propagation`) by L-BFGS on Bethe's log-likelihood, whose gradient is that of the beliefs:
the paper's gradients with steps that need no tuning. Each is learned without a regulariser, and
with one that a quarter of the training images chooses. IoU is the paper's, see `paper_iou`, before
and after the decision for IoU.
"""

import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import minimize

from cutlearn.arrays import Floats, Mask
from cutlearn.energy.compiled import probabilities
from cutlearn.energy.model import Model
from cutlearn.energy.problem import Problem
from cutlearn.errors import ConvergenceWarning
from cutlearn.images.resize import resize_image, resize_labels, side_shape
from cutlearn.learn.train import train
from cutlearn.metrics import confusion
from cutlearn.model.decisions import best_for_iou
from cutlearn_papers.belief_propagation import Field, believe, log_likelihood
from cutlearn_papers.course import Course, Figures
from cutlearn_papers.pictures import Pictures
from cutlearn_papers.tarlow2012_features import Filters
from cutlearn_papers.tarlow2012_tables import Scale

Told = list[list[float]]
Learn = Callable[[Sequence[Problem], Sequence[Mask], float, int], tuple[Floats, Told]]
Believe = Callable[[Problem, Floats], tuple[Floats, bool]]
PLAIN, OURS, LOOPY = "logistic", "surrogate", "loopy belief propagation"
# Rows with a regulariser, and the values of C that held-out images choose from.
CHOSEN, STRENGTHS = ", C chosen", (np.inf, 300.0, 30.0, 3.0)
# Test images whose inference is timed.
TIMED = 20


def run_five(
    course: Course, classes: Mapping[str, Callable[[], Pictures]], scale: Scale
) -> Figures:
    """Run the part, or read it."""

    def work() -> Figures:
        return learned({name: read() for name, read in classes.items()}, scale)

    settings = {"images": scale.five, "side": scale.five_side,
                "steps": [scale.five_steps, scale.five_tries]}  # fmt: skip
    return course.parts("five labels", {"both": work}, **settings)["both"]


def divided(
    classes: Mapping[str, Pictures], scale: Scale
) -> tuple[tuple[list[Any], list[Mask]], tuple[list[Any], list[Mask]]]:
    """Give images and label maps to learn from, and others to test, evenly from the classes.

    A photograph that occurs under two classes is taken once.
    """
    parts: tuple[tuple[list[Any], list[Mask]], tuple[list[Any], list[Mask]]] = ([], []), ([], [])
    seen: set[bytes] = set()
    most = scale.five // len(classes)
    for k, pictures in enumerate(classes.values(), 1):
        drawn = np.random.default_rng(0).permutation(len(pictures))
        order = [i for i in drawn if pictures.images[i].tobytes() not in seen]
        seen |= {pictures.images[i].tobytes() for i in order}
        count = min(most, len(order) // 2)
        for (images, maps), chosen in zip(parts, (order[:count], order[count : 2 * count])):
            for i in chosen:
                shape = side_shape(pictures.masks[i].shape, scale.five_side)
                images.append(resize_image(pictures.images[i], shape))
                maps.append((k * (resize_labels(pictures.masks[i], shape) == 1)).astype(np.uint8))
    return parts


class Method(NamedTuple):
    """A model of five labels: how it is learned, and what it believes.

    Parameters
    ----------
    learn : callable (problems, maps, C, steps) -> w, what its evaluations told
    believe : callable (problem, w) -> probabilities (n, L), whether they settled
    """

    learn: Learn
    believe: Believe


def learned(classes: Mapping[str, Pictures], scale: Scale) -> Figures:
    """Learn all models; give IoU of test images, times, and what did not settle."""
    (images, maps), (others, truth) = divided(classes, scale)
    maker, L = Filters.fit(images), len(classes) + 1
    problems, unseen = ([maker.problem(i) for i in some] for some in (images, others))
    figures: Figures = {"train": len(problems), "test": len(unseen)}
    for name, method in methods_of(L).items():
        begin = time.process_time()
        w, told = method.learn(problems, maps, np.inf, scale.five_steps)
        seconds = time.process_time() - begin
        found = judged(method.believe, unseen, truth, w) | {"cpu": seconds, "told": told}
        if name == PLAIN:
            first = w
        else:
            # The first iteration has no edges yet; a trace of them shows what a message costs.
            weak = with_edges(first, L, problems[0])
            found["first"] = timed(method.believe, unseen[:TIMED], weak)
            found["last"] = timed(method.believe, unseen[:TIMED], w)
        figures[name] = found
        begin = time.process_time()
        tried = held_out(method, problems, maps, scale.five_tries)
        C = max(tried, key=lambda one: tried[one])
        if np.isfinite(C):
            w, _ = method.learn(problems, maps, C, scale.five_steps)
        figures[name + CHOSEN] = judged(method.believe, unseen, truth, w) | {
            "C": C, "tried": list(tried.items()), "cpu": time.process_time() - begin,
        }  # fmt: skip
    return figures


def methods_of(L: int) -> dict[str, Method]:
    """Give logistic regression, the surrogate and loopy belief propagation, of L labels."""
    model = Model(labels="surrogate", n_labels=L)

    def by(learner: str) -> Learn:
        def learn(problems: Any, maps: Any, C: float, steps: int) -> tuple[Floats, Told]:
            # Regression without edges is quick: it runs to its end.
            most = 1000 if learner == PLAIN else steps
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)
                return train(problems, maps, model=model, learner=learner, C=C, tol=1e-3,
                             max_steps=most, n_jobs=-1).w, []  # fmt: skip

        return learn

    # Of all images and of those that are left where some are held out, by their number.
    known: dict[tuple[int, float], Floats] = {}

    def regression(problems: Any, maps: Any, C: float, steps: int) -> tuple[Floats, Told]:
        key = len(problems), C
        if key not in known:
            known[key] = by(PLAIN)(problems, maps, C, steps)[0]
        return known[key], []

    def messages(problems: Any, maps: Any, C: float, steps: int) -> tuple[Floats, Told]:
        first, _ = regression(problems, maps, C, steps)
        rows, told = by_beliefs(problems, maps, first.reshape(L, -1), steps, C)
        return rows.ravel(), told

    def surrogate(problem: Problem, w: Floats) -> tuple[Floats, bool]:
        return probabilities(problem, w, model), True

    def loopy(problem: Problem, w: Floats) -> tuple[Floats, bool]:
        found = believe(Field.of(problem, w.reshape(L, -1)))
        return found.nodes, found.settled

    return {PLAIN: Method(regression, surrogate), OURS: Method(by("likelihood"), surrogate),
            LOOPY: Method(messages, loopy)}  # fmt: skip


def held_out(
    method: Method, problems: Sequence[Problem], maps: Sequence[Mask], steps: int
) -> dict[float, float]:
    """Give the log-likelihood of every fourth image, learned from the others, for every C."""
    held = range(0, len(problems), 4)
    kept = [i for i in range(len(problems)) if i not in held]
    found = {}
    for C in STRENGTHS:
        w, _ = method.learn([problems[i] for i in kept], [maps[i] for i in kept], C, steps)
        some = judged(method.believe, [problems[i] for i in held], [maps[i] for i in held], w)
        found[C] = float(np.mean(some["each"], axis=0)[0])
    return found


def with_edges(w: Floats, L: int, problem: Problem, strength: float = 0.01) -> Floats:
    """Give weights with weak edges: those after the first step."""
    rows = w.reshape(L, -1).copy()
    rows[:, problem.n_node_features] = strength
    return np.asarray(rows.ravel())


def by_beliefs(
    problems: Sequence[Problem],
    maps: Sequence[Mask],
    rows: Floats,
    steps: int,
    C: float = np.inf,
) -> tuple[Floats, Told]:
    """Raise Bethe's log-likelihood less |rows|^2 / 2C from rows; give the best rows and, of every
    evaluation, the value, the share of images that did not settle, and CPU seconds.
    """
    told: Told = []
    best: list[Any] = [-np.inf, rows]

    def value(flat: Floats) -> tuple[float, Floats]:
        begin = time.process_time()
        now = flat.reshape(rows.shape)
        found = [log_likelihood(p, y, now) for p, y in zip(problems, maps)]
        mean = float(np.mean([one[0] for one in found])) - float(flat @ flat) / (2 * C)
        restless = float(np.mean([not one[2].settled for one in found]))
        told.append([mean, restless, time.process_time() - begin])
        if mean > best[0]:
            best[:] = mean, now.copy()
        return -mean, flat / C - np.mean([one[1] for one in found], axis=0).ravel()

    nodes = problems[0].n_node_features
    bounds = [(None, None) if c < nodes else (0, None) for _ in rows for c in range(rows.shape[1])]
    minimize(value, rows.ravel(), jac=True, method="L-BFGS-B", bounds=bounds,
             options={"maxfun": steps, "maxiter": steps})  # fmt: skip
    return best[1], told


def judged(
    ask: Believe,
    problems: Sequence[Problem],
    truth: Sequence[Mask],
    w: Floats,
) -> Figures:
    """Give log-likelihood, accuracy, and IoU before and after the decision of every image."""
    each = []
    for problem, y in zip(problems, truth):
        q = ask(problem, w)[0]
        q = q.reshape(*y.shape, q.shape[-1])
        mode = q.argmax(axis=-1).astype(np.uint8)
        own = np.take_along_axis(q, y[..., None].astype(np.int64), axis=-1)
        each.append([
            float(np.log(np.maximum(own, 1e-12)).mean()),
            100 * float((mode == y).mean()),
            paper_iou(y, mode, q.shape[-1]),
            paper_iou(y, best_for_iou(q), q.shape[-1]),
        ])  # fmt: skip
    return {"each": each}


def paper_iou(truth: Mask, found: Mask, labels: int) -> float:
    """Give the paper's score: the sum of IoU (%) over labels, by the number of all labels.

    A label that is neither there nor found adds nothing, so that one class in an image of five
    labels has 40 at most.

    Examples
    --------
    >>> truth, found = np.array([[0, 0, 1, 1]], np.uint8), np.array([[0, 0, 0, 1]], np.uint8)
    >>> round(paper_iou(truth, found, 5), 2)
    23.33
    """
    counts = confusion(truth, found, labels).counts
    met = np.diag(counts)
    joined = counts.sum(axis=0) + counts.sum(axis=1) - met
    return 100 * float((met / np.maximum(joined, 1)).sum()) / labels


def timed(ask: Believe, problems: Sequence[Problem], w: Floats) -> list[float]:
    """Give mean and deviation of CPU seconds of an inference, and the share that did not settle."""
    seconds, settled = [], []
    for problem in problems:
        begin = time.process_time()
        settled.append(ask(problem, w)[1])
        seconds.append(time.process_time() - begin)
    return [float(np.mean(seconds)), float(np.std(seconds)), 1 - float(np.mean(settled))]
