"""Logits of a linear head over a pretrained network's maps, out of fold, in two passes.

In: maps of images (`backbone.Maps`) and masks. Out: a `Head`, and each training image's logits by
models that never saw it. The head is a logistic regression,

    min_w  1/n sum_i c_i log(1 + exp(-y_i (w . x_i + b))) + strength/2 |w|^2,

on drawn pixels x_i with standardised channels; its strength is chosen by the log loss of held-out
pixels. The second pass also sees the context of the first one's logits: probabilities around the
pixel, blurred and at offsets, their means over row, column and image, and the place in the image.
All folds, strengths and questions are solved together: they share every product with the pixels.
A linear function of the channels is applied to every map at its own resolution.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Any

import numpy as np
from scipy import ndimage
from scipy.special import expit

from cutlearn.arrays import VOID, AnyArray, Floats, Image, Indices, Mask
from cutlearn.errors import InputError
from cutlearn.features.backbone import Maps, enlarged

# Pixels that are drawn of all images together, and at most of one.
ROWS, ROWS_EACH = 40_000, 8_000
# Weights of the penalty that are compared, of many questions fewer.
STRENGTHS, STRENGTHS_OF_MANY = (1e-3, 1e-2, 1e-1, 1.0), (1e-2, 1e-1)
# If regions of images are held out, and no image: they are too much alike to compare strengths.
STRENGTH_OF_REGIONS = 1.0
# Steps of L-BFGS of each pass, and the pairs that it remembers.
STEPS, PAIRS = 60, 8
# Lengths of a step that are tried, and the relative gain of a step that ends a solution.
MOST_TRIED, TOLERANCE = 4, 3e-4
# Cells along the longer side of the grid on which context is computed.
CELLS = 128
# Of the context: blurs, and radii of offsets in cells with their blurs.
BLURS = (1, 2, 4, 8, 16, 32)
OFFSETS = ((4, 1), (8, 2), (16, 4), (32, 8))
# Questions at most for which offsets are context, too: each has 32; and from which they are many.
MOST_OFFSETS = 2
MANY = 4
CLIP = 8.0
# The names of the passes, and how work is mapped over items.
PASSES = ("first pass", "second pass")
Each = Callable[[Callable[[Any], Any], Sequence[Any]], list[Any]]


@dataclass(frozen=True)
class LinearLayer:
    """One pass: a linear function of maps, and of context if there was a pass before."""

    weights: Image  # (channels + context, T) of raw channels: the standardisation is folded in
    bias: Image  # (T,)

    def logits(self, maps: Maps, context: Image | None, shape: tuple[int, int]) -> Image:
        """Return logits (rows, columns, T) at a shape."""
        count = maps.channels
        made = maps.linear(self.weights[:count], shape) + self.bias
        if context is not None:
            made += enlarged(context @ self.weights[count:], shape)
        return made


@dataclass(frozen=True)
class Head:
    """Two passes; a value, stored as plain arrays."""

    first: LinearLayer
    second: LinearLayer
    position: bool

    def logits(self, maps: Maps) -> Image:
        """Return the logits of a new image, (h, w, T) float32."""
        if maps.channels != len(self.first.weights):
            raise InputError(
                f"image: the backbone returned {maps.channels} channels, but the model was fitted "
                f"on {len(self.first.weights)}. Give images and a backbone as in fit."
            )
        before = self.first.logits(maps, None, cells_of(maps.shape))
        return self.second.logits(maps, context(before, self.position), maps.shape)

    def to_arrays(self) -> dict[str, AnyArray]:
        """Return the arrays that `of_arrays` reads."""
        return {
            "head.first": self.first.weights, "head.first.bias": self.first.bias,
            "head.second": self.second.weights, "head.second.bias": self.second.bias,
        }  # fmt: skip

    @staticmethod
    def of_arrays(arrays: dict[str, AnyArray], position: bool) -> "Head":
        """Invert `to_arrays`; damage is a `ValueError` or `KeyError`."""
        layers = []
        for name in ("head.first", "head.second"):
            weights, bias = arrays[name], arrays[f"{name}.bias"]
            whole = weights.ndim == 2 and bias.shape == weights.shape[1:] and bias.size
            if not whole or any(a.dtype != np.float32 for a in (weights, bias)):
                raise ValueError("a head of a wrong shape")
            if not all(np.isfinite(a).all() for a in (weights, bias)):
                raise ValueError("a head of numbers that are none")
            layers.append(LinearLayer(weights, bias))
        first, second = layers
        more = context(np.zeros((1, 1, first.bias.size), np.float32), position).shape[2]
        if second.weights.shape != (len(first.weights) + more, first.bias.size):
            raise ValueError("a head whose passes do not fit each other")
        return Head(first, second, position)


def head_seconds(images: int, questions: int, folds: int, channels: int = 1000) -> float:
    """Return what `fit_head` may cost, in seconds of one core."""
    rows = min(ROWS, ROWS_EACH * images)
    strengths = len(STRENGTHS if questions < MANY else STRENGTHS_OF_MANY)
    problems = questions * (folds + 1) * strengths
    step = 0.8e-9 * rows * channels + rows * problems * (5e-11 * channels + 15e-9)
    return len(PASSES) * STEPS * step


def fit_head(
    maps: Sequence[Maps],
    labels: Sequence[Mask],
    folds: Sequence[AnyArray],
    position: bool,
    seed: int = 0,
    each: Each = lambda work, items: list(map(work, items)),
    done: Callable[[str], None] = lambda _: None,
) -> tuple[Head, list[Image]]:
    """Return the head of all images, and each image's logits (h, w, T) out of fold.

    Parameters
    ----------
    maps : n `Maps`
    labels : n arrays (h, w, T) of 0, 1 and 255 (void)
    folds : n arrays that broadcast to (h, w)
        The fold of every pixel: one number for an image, or regions of it.
    position : bool
        Whether the place in the image is context.
    each : callable (work, items)
        Maps work over items; by default in a loop.
    done : callable (str)
        Called with the name of each of `PASSES` when it is solved.
    """
    count = 1 + max(int(np.max(fold)) for fold in folds)
    compared: Sequence[float] = STRENGTHS if labels[0].shape[2] < MANY else STRENGTHS_OF_MANY
    if any(np.ndim(fold) for fold in folds):
        compared = (STRENGTH_OF_REGIONS,)
    drawn = [
        draw(mask, max(200, min(ROWS_EACH, ROWS // len(maps))), (seed, i))
        for i, mask in enumerate(labels)
    ]
    every = range(len(maps))
    shapes = [(mask.shape[0], mask.shape[1]) for mask in labels]
    table = _Table(
        np.concatenate(each(lambda i: maps[i].rows(drawn[i].index), every)),
        np.concatenate([part.answers for part in drawn]),
        np.concatenate([part.weights for part in drawn]),
        np.concatenate([
            np.broadcast_to(fold, shape).reshape(-1)[part.index]
            for fold, shape, part in zip(folds, shapes, drawn)
        ]),
        count,
        compared,
    )  # fmt: skip
    (first,) = each(_Table.solve, [table])
    done(PASSES[0])

    def around(i: int) -> Image:
        grid = cells_of(shapes[i])
        held = _nearest(np.broadcast_to(folds[i], shapes[i]), grid)
        return context(_out_of_fold(first, maps[i], None, held, grid), position)

    cells = each(around, every)
    more = [Maps(shapes[i], (cells[i],)).rows(drawn[i].index) for i in every]
    (second,) = each(_Table.solve, [table.joined(np.concatenate(more))])
    done(PASSES[1])

    def answer(i: int) -> Image:
        fold = np.broadcast_to(folds[i], shapes[i])
        return _out_of_fold(second, maps[i], cells[i], fold, shapes[i])

    return Head(first[-1], second[-1], position), each(answer, every)


# -- drawn pixels -----------------------------------------------------------------------------


@dataclass(frozen=True)
class _Drawn:
    index: Indices
    answers: Mask  # (n, T)
    weights: Image  # the pixels that each one stands for


def draw(labels: Mask, quota: int, seed: Sequence[int]) -> _Drawn:
    """Draw labelled pixels of (h, w, T): of rare labels a larger part, with smaller weights."""
    flat = labels.reshape(-1, labels.shape[2])
    known = np.flatnonzero((flat != VOID).all(axis=1))
    kind = flat[known] @ (1 << np.arange(flat.shape[1], dtype=np.int64) % 62)
    kinds, whose, counts = np.unique(kind, return_inverse=True, return_counts=True)
    share = np.sqrt(counts) / np.sqrt(counts).sum()
    rng = np.random.default_rng([*seed, 9])
    index, weights = [], []
    for k in range(len(kinds)):
        of_kind = known[whose == k]
        n = min(len(of_kind), max(1, round(quota * float(share[k]))))
        index.append(np.sort(rng.choice(of_kind, n, replace=False)))
        weights.append(np.full(n, len(of_kind) / n, np.float32))
    if not index:
        return _Drawn(known, flat[known], np.empty(0, np.float32))
    chosen = np.concatenate(index)
    return _Drawn(chosen, flat[chosen], np.concatenate(weights))


class _Table:
    """Drawn pixels as rows: standardised columns, answers, weights, and the fold of each."""

    def __init__(
        self,
        rows: Image,
        answers: Mask,
        weights: Image,
        folds: AnyArray,
        count: int,
        compared: Sequence[float],
    ) -> None:
        self.mean, self.scale = rows.mean(axis=0), rows.std(axis=0)
        self.scale[self.scale < 1e-6] = 1
        self.rows = (rows - self.mean) / self.scale
        self.answers, self.weights, self.folds, self.count = answers, weights, folds, count
        self.compared = compared
        self.start: Floats | None = None

    def joined(self, more: Image) -> "_Table":
        """Return the table with further columns; it starts from what was found without them."""
        made = _Table(more, self.answers, self.weights, self.folds, self.count, self.compared)
        made.mean = np.concatenate([self.mean, made.mean])
        made.scale = np.concatenate([self.scale, made.scale])
        made.rows = np.concatenate([self.rows, made.rows], axis=1)
        if self.start is not None:
            zeros = np.zeros((more.shape[1], self.start.shape[1]))
            made.start = np.concatenate([self.start[:-1], zeros, self.start[-1:]])
        return made

    def solve(self) -> list[LinearLayer]:
        """Return the layers without each fold in turn, and last that of all rows."""
        t, parts = self.answers.shape[1], self.count + 1
        many = len(self.compared)
        seen = np.stack([self.folds != k for k in range(parts)], axis=1) * self.weights[:, None]
        seen /= np.maximum(seen.sum(axis=0), 1e-9)
        # Columns in the order strength, part, question.
        shares = np.tile(np.repeat(seen, t, axis=1), (1, many)).astype(np.float32)
        signs = np.tile(2 * self.answers.astype(np.float32) - 1, (1, parts * many))
        strengths = np.repeat(np.array(self.compared), parts * t)
        found = logistic(self.rows, signs, shares, strengths, self.start)
        self.start = found
        # The log loss of every row by the part that has not seen it.
        weights = found.reshape(len(found), many, parts, t)
        losses = np.zeros(many)
        for k in range(self.count):
            held = self.folds == k
            y = 2 * self.answers[held].astype(np.float32) - 1
            for s in range(many):
                z = self.rows[held] @ weights[:-1, s, k] + weights[-1, s, k]
                losses[s] += float((np.logaddexp(0, -y * z).sum(axis=1) * self.weights[held]).sum())
        best = int(np.argmin(losses))
        layers = []
        for k in range(parts):
            raw = weights[:-1, best, k] / self.scale[:, None]
            bias = weights[-1, best, k] - self.mean.astype(np.float64) @ raw
            layers.append(LinearLayer(raw.astype(np.float32), bias.astype(np.float32)))
        return layers


def logistic(
    rows: Image,
    signs: Image,
    shares: Image,
    strengths: Floats,
    start: Floats | None = None,
    steps: int = STEPS,
) -> Floats:
    """Solve many logistic regressions on the same rows by L-BFGS, each with its own steps.

    Parameters
    ----------
    rows : (n, d) float32
    signs : (n, m) of -1 and 1, the answers of m problems
    shares : (n, m) float32, the weights of the rows in each problem
    strengths : (m,), the weights of the penalties
    start : (d + 1, m), optional

    Returns
    -------
    (d + 1, m), the weights of each problem and last its constant, which has no penalty
    """
    d, m = rows.shape[1], signs.shape[1]
    penalty = np.concatenate([np.repeat(strengths[None], d, axis=0), np.zeros((1, m))])
    w = np.zeros((d + 1, m)) if start is None else start.copy()

    def value(w: Floats, active: Indices) -> tuple[Floats, Floats]:
        margin = rows @ w[:-1].astype(np.float32)
        margin += w[-1].astype(np.float32)
        margin *= signs[:, active]
        far = np.exp(-np.abs(margin))
        # log(1 + exp(-z)) and its slope, without overflow.
        loss = np.log1p(far)
        loss -= np.minimum(margin, 0)
        slope = np.where(margin > 0, far, 1) / (1 + far)
        slope *= shares[:, active]
        total = np.einsum("nm,nm->m", loss, shares[:, active], dtype=np.float64)
        slope *= -signs[:, active]
        gradient = np.concatenate([rows.T @ slope, slope.sum(axis=0, keepdims=True)])
        punished = penalty[:, active] * w
        return total + (punished * w).sum(axis=0) / 2, gradient + punished

    active = np.arange(m)
    f, g = value(w, active)
    pairs: list[tuple[Floats, Floats, Floats]] = []
    for _ in range(steps):
        q, alphas = g.copy(), []
        for s, y, rho in reversed(pairs):
            alphas.append(rho * (s * q).sum(axis=0))
            q -= alphas[-1] * y
        if pairs:
            s, y, rho = pairs[-1]
            q *= np.where(rho > 0, (s * y).sum(axis=0) / np.maximum((y * y).sum(axis=0), 1e-30), 1)
        else:
            q /= np.maximum(np.sqrt((g * g).sum(axis=0)), 1e-12)
        for (s, y, rho), alpha in zip(pairs, reversed(alphas)):
            q += s * (alpha - rho * (y * q).sum(axis=0))
        before, step = w[:, active], np.ones(len(active))
        for _ in range(MOST_TRIED):
            moved = before - step * q
            new, slope = value(moved, active)
            falls = new <= f - 1e-4 * step * (q * g).sum(axis=0)
            if falls.all():
                break
            step = np.where(falls, step, step / 4)
        # A problem whose value no longer falls is solved as far as float32 allows.
        s, y = np.where(falls, moved - before, 0), np.where(falls, slope - g, 0)
        inner = (s * y).sum(axis=0)
        pairs.append((s, y, np.where(inner > 0, 1 / np.where(inner > 0, inner, 1), 0)))
        w[:, active] = np.where(falls, moved, before)
        more = falls & (f - new > TOLERANCE * f)
        active, f, g = active[more], new[more], slope[:, more]
        pairs = [(s[:, more], y[:, more], rho[more]) for s, y, rho in pairs[-PAIRS:]]
        if not active.size:
            break
    return w


# -- context ----------------------------------------------------------------------------------


def cells_of(shape: tuple[int, int]) -> tuple[int, int]:
    """Return the shape of the grid on which the context of an image is computed."""
    factor = min(1.0, CELLS / max(shape))
    return ceil(shape[0] * factor), ceil(shape[1] * factor)


def context(logits: Image, position: bool) -> Image:
    """Return what the logits of a grid, (h, w, T), look like around each cell, (h, w, k)."""
    h, w, t = logits.shape
    made: list[Image] = []
    for k in range(t):
        logit = np.clip(logits[..., k], -CLIP, CLIP)
        likely = expit(logit).astype(np.float32)
        near = {s: ndimage.gaussian_filter(likely, s, mode="nearest", truncate=3) for s in BLURS}
        made += [logit, *near.values()]
        across, down = likely.mean(axis=1, keepdims=True), likely.mean(axis=0, keepdims=True)
        made += [np.broadcast_to(part, (h, w)) for part in (across, down, likely.mean())]
        for radius, blur in OFFSETS if t <= MOST_OFFSETS else ():
            padded = np.pad(near[blur], radius, mode="edge")
            for turn in range(8):
                angle = turn * np.pi / 4
                y = radius + round(radius * np.sin(angle))
                x = radius + round(radius * np.cos(angle))
                made.append(padded[y : y + h, x : x + w])
    if position:
        y, x = ((np.arange(n, dtype=np.float32) + 0.5) / n - 0.5 for n in (h, w))
        for part in (y[:, None], x[None], y[:, None] ** 2, x[None] ** 2, y[:, None] * x[None]):
            made.append(np.broadcast_to(part, (h, w)))
    return np.stack(made, axis=-1).astype(np.float32)


def _out_of_fold(
    layers: Sequence[LinearLayer],
    maps: Maps,
    around: Image | None,
    folds: AnyArray,
    shape: tuple[int, int],
) -> Image:
    """Return the logits at a shape, of every place by the layer that has not seen its fold."""
    made = np.empty((*shape, layers[0].bias.size), np.float32)
    for k in np.unique(folds):
        held = folds == k
        made[held] = layers[k].logits(maps, around, shape)[held]
    return made


def _nearest(values: AnyArray, shape: tuple[int, int]) -> AnyArray:
    """Return an image of numbers at a shape, each place by its nearest pixel."""
    rows, columns = (
        ((np.arange(n) + 0.5) * size / n).astype(np.intp) for n, size in zip(shape, values.shape)
    )
    return np.asarray(values[np.ix_(rows, columns)])
