"""Interactive segmentation of one image: a box or strokes in, a mask out, again and again.

    session = cl.Session()
    session.set_image(image)                       # once: colours, contrast, the graph
    labels, probability = session.segment(box=box)
    labels, probability = session.segment(box=box, seeds=seeds)  # the same graph, solved further

The loop seeds <-> mask is here and nowhere else. A call costs what it changes. A mask of
a downsampled image is made sharp by one more cut in a band along its border.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from PIL import Image
from scipy.ndimage import maximum_filter, minimum_filter

from cutlearn.arrays import AnyArray, Floats, Indices, Mask
from cutlearn.checks import as_array, is_one_of
from cutlearn.energy.energy import Energy
from cutlearn.errors import InputError, quoted
from cutlearn.features.nodes import window_means, windows
from cutlearn.images.resize import resize_image, resize_labels
from cutlearn.images.sample import FREE, Sample, Volume
from cutlearn.metrics import entropy
from cutlearn.model.session.defaults import defaults
from cutlearn.model.session.engines import Solution, engine_for
from cutlearn.model.size import (
    at_side,
    probabilities_at_full_size,
    to_full_size,
    worked_shape,
)

Box = tuple[int, int, int, int]

MOST_LABELS = 16
# Without a model, an image of more pixels is worked at so many, and its border made sharp after.
MOST_WORKED = 400_000
# Width of the band on each side of the border, in pixels of the smaller image.
WIDTH = 2
STEPS = ((0, 1), (1, 0), (1, 1), (1, -1), (0, -1), (-1, 0), (-1, -1), (-1, 1))


class OpenImage:
    """An image of a session, with all that is computed once."""

    def __init__(self, image: NDArray[np.float32], model: Any, n_labels: int) -> None:
        self.image = image
        self.shape = image.shape[0], image.shape[1]
        self.side = _working_side(self.shape) if model is None else model.min_side
        self.small = resize_image(image, worked_shape(self.shape, self.side))
        self.engine = engine_for(self.small, model, n_labels)

    @cached_property
    def border(self) -> Border:
        """The border of masks at full size."""
        return Border(self.image)


def _working_side(shape: tuple[int, int]) -> int | None:
    """The smaller side at which an image is worked without a model; None: as it is."""
    h, w = shape
    if h * w <= MOST_WORKED:
        return None
    return max(1, int(min(h, w) * math.sqrt(MOST_WORKED / (h * w))))


def _check_model(model: Any) -> None:
    from cutlearn.model.base import Estimator

    if not isinstance(model, Estimator):
        raise InputError(
            f"model is {quoted(model)}, but must be a fitted model such as a Segmenter. Read a "
            "model file with cutlearn.load(path)."
        )
    model._check_fitted()
    if model.of_volumes:
        raise InputError(
            "model was fitted on volumes, but a session segments one image. Fit a model on images."
        )


def _within(box: Sequence[float], shape: tuple[int, int]) -> Box:
    """The part of a box that lies within the image."""
    values = as_array("box", box)
    numbers = values.shape == (4,) and values.dtype.kind in "iuf" and np.isfinite(values).all()
    if numbers and (values % 1 == 0).all():
        top, left, bottom, right = (int(v) for v in values)
        top, left, bottom, right = (
            max(top, 0),
            max(left, 0),
            min(bottom, shape[0]),
            min(right, shape[1]),
        )
        if top < bottom and left < right:
            return top, left, bottom, right
    raise InputError(
        f"box is {quoted(box)}, but must be whole numbers (top, left, bottom, right) with "
        f"top < bottom and left < right, and share pixels with the image of {shape[0]} rows and "
        f"{shape[1]} columns. Put rows before columns."
    )


class Border:
    """The border of masks of an image at full size, cut again in a narrow band.

    Only pixels within a few of the enlarged border are open; their costs are those of the smaller
    image, interpolated, and the edges between them are those of the full image. So a large image
    costs what its border is long.

    Parameters
    ----------
    image : (H, W) or (H, W, 3)
    """

    def __init__(self, image: NDArray[np.float32]) -> None:
        self.shape = image.shape[0], image.shape[1]
        grid = image.reshape(*self.shape, -1)
        parts = [np.diff(grid, axis=axis) for axis in (0, 1)]
        total = sum(float(np.einsum("ijk,ijk->", d, d, dtype=np.float64)) for d in parts)
        # Of a flat image it may be anything; of a dark one it is small.
        self.beta = total / max(sum(d.shape[0] * d.shape[1] for d in parts), 1) or 1.0
        self.pixels = grid.reshape(-1, grid.shape[2])
        # The number of a pixel in the band; -1 between two calls.
        self._number = np.full(len(self.pixels), -1, np.int32)

    def sharpened(
        self,
        labels: Mask,
        unary: Floats,
        fixed: NDArray[np.int16],
        strength: tuple[float, float],
    ) -> Mask:
        """Return the labels at the size of the image.

        Parameters
        ----------
        labels, unary : (h, w)
            Of the smaller image: its mask, and what label 1 costs more than label 0.
        fixed : (H, W), -1 where a pixel is free
        strength : weights of the edge features "bias" and "contrast"
        """
        large = np.where(fixed >= 0, fixed, resize_labels(labels, self.shape)).ravel()
        width = 2 * WIDTH + 1
        rim = maximum_filter(labels, width, mode="nearest")
        rim -= minimum_filter(labels, width, mode="nearest")
        near = resize_labels(rim, self.shape).ravel() > 0
        nodes = np.flatnonzero(near & (fixed.ravel() < 0))
        if len(nodes):
            self._number[nodes] = np.arange(len(nodes), dtype=np.int32)
            costs = self._interpolated(unary, nodes)
            edges, weights = self._edges(nodes, large, costs, strength)
            self._number[nodes] = -1
            large[nodes] = Energy(costs, edges, weights).minimize().labels
        return large.reshape(self.shape).astype(np.uint8)

    def _edges(
        self,
        nodes: Indices,
        large: NDArray[np.int16],
        costs: Floats,
        strength: tuple[float, float],
    ) -> tuple[Indices, Floats]:
        """Edges within the band; those that leave it become costs of their node alone."""
        edges, weights = [], []
        rows, columns = np.divmod(nodes, self.shape[1])
        for down, across in STEPS:
            y, x = rows + down, columns + across
            inside = (y >= 0) & (y < self.shape[0]) & (x >= 0) & (x < self.shape[1])
            forward = down > 0 or (down == 0 and across > 0)
            other = np.where(inside, y * self.shape[1] + x, nodes)
            within = self._number[other] >= 0
            # An edge within the band is met from both of its ends; one is enough.
            used = np.flatnonzero(inside & (~within | forward))
            other, within = other[used], within[used]
            difference = self.pixels[nodes[used]] - self.pixels[other]
            square = np.einsum("ij,ij->i", difference, difference)
            contrast = np.exp(-square / (2 * self.beta)) / np.hypot(down, across)
            weight = strength[0] + strength[1] * contrast.astype(np.float64)
            outer = ~within
            # A neighbour outside of the band has its label already. Each node occurs once.
            costs[used[outer]] += np.where(large[other[outer]] == 1, -weight[outer], weight[outer])
            if forward:
                edges.append(np.stack([used[within], self._number[other[within]]], axis=1))
                weights.append(weight[within])
        return np.concatenate(edges), np.concatenate(weights)

    def _interpolated(self, unary: Floats, nodes: Indices) -> Floats:
        """Costs at some pixels of the large image.

        Costs are areas and edges are lengths: n times as fine, there are n^2 times the pixels but n
        times the border. Divided by n, costs keep their proportion.
        """
        row, column = (
            np.clip((place + 0.5) * (small / large) - 0.5, 0, small - 1)
            for place, small, large in zip(np.divmod(nodes, self.shape[1]), unary.shape, self.shape)
        )
        top, left = row.astype(np.int64), column.astype(np.int64)
        bottom, right = (
            np.minimum(top + 1, len(unary) - 1),
            np.minimum(left + 1, unary.shape[1] - 1),
        )
        down, across = row - top, column - left
        above = (1 - across) * unary[top, left] + across * unary[top, right]
        below = (1 - across) * unary[bottom, left] + across * unary[bottom, right]
        found = (1 - down) * above + down * below
        return np.asarray(found * np.sqrt(unary.size / (self.shape[0] * self.shape[1])), np.float64)


class Answer:
    """The labels of an image for a box and seeds. It unpacks: `labels, probability = answer`.

    Whatever takes long is computed when it is first read. An answer depends on its box, its seeds
    and the answers that it follows, and on nothing else.

    Attributes
    ----------
    box : (top, left, bottom, right), or None
        The box within the image.
    labels : (h, w) uint8
    probability : (h, w, L) float32
    """

    def __init__(self, image: OpenImage, sample: Sample, before: Answer | None = None) -> None:
        self.box = sample.box
        self._image, self._sample = image, sample
        self._worked = at_side(sample, image.side, image.small)
        state: Any = None if before is None else before._state
        self._state: Any = image.engine.state(self._worked, state)

    @cached_property
    def _solved(self) -> Solution:
        return self._image.engine.solve(self._worked, self._state)

    @cached_property
    def labels(self) -> Mask:
        """The labels, (h, w) uint8; read-only, because undo returns the same array."""
        labels = self._at_full_size()
        labels.flags.writeable = False
        return labels

    def _at_full_size(self) -> Mask:
        solved, sample = self._solved, self._sample
        if solved.labels.shape == sample.shape:
            return solved.labels
        if solved.unary is None:
            return to_full_size(solved.labels, sample)
        fixed, edges = sample.fixed(), defaults().edges
        return self._image.border.sharpened(solved.labels, solved.unary, fixed, edges)

    @cached_property
    def probability(self) -> NDArray[np.float32]:
        """The probability of every label at every pixel, (h, w, L) float32."""
        solved, calibration = self._solved, self._image.engine.calibration
        q = calibration.probabilities(solved.min_marginals(), solved.alone)
        return probabilities_at_full_size(q.astype(np.float32), self._sample)

    def release(self) -> None:
        """Drop labels and probability from memory; they are computed again when they are read."""
        for name in ("_solved", "labels", "probability"):
            self.__dict__.pop(name, None)

    def __iter__(self) -> Iterator[AnyArray]:
        yield self.labels
        yield self.probability

    def area(self, label: int = 1, level: float = 0.95) -> tuple[float, tuple[float, float]]:
        """Return the area of a label in pixels, and a prediction interval for the true one.

        As `Segmenter.area`; nan where the model was calibrated on too few groups of images.
        """
        engine = self._image.engine
        if not is_one_of(label, range(engine.n_labels)):
            raise InputError(
                f"label is {quoted(label)}, but this session has the labels 0 to "
                f"{engine.n_labels - 1}."
            )
        calibration = engine.calibration
        value, low, high = calibration.area(self.probability, self.labels, label, level)
        return float(value), (float(low), float(high))

    def where_next(self) -> Box:
        """Return the window (top, left, bottom, right) whose labels are most in doubt."""
        shape = self._sample.shape
        doubt = window_means(entropy(self.probability).reshape(-1, 1), shape)[:, 0]
        rows, columns = windows(shape)
        i, j = divmod(int(doubt.argmax()), len(columns) - 1)
        return int(rows[i]), int(columns[j]), int(rows[i + 1]), int(columns[j + 1])


class Session:
    """Interactive segmentation of one image by a box or seeds, step by step.

    Without a model nothing is trained: the colours of the box, or of the seeds, separate the object
    from the rest.

    Parameters
    ----------
    model : Segmenter, optional
        A fitted model: its features and weights, with box and seeds as hard constraints.
    n_labels : int
        Without a model, the number of labels that seeds may have; 2: object and background.

    Examples
    --------
    >>> import numpy as np, cutlearn as cl
    >>> image = np.zeros((40, 60, 3)); image[10:30, 20:40] = 1
    >>> session = cl.Session()
    >>> session.set_image(image)
    >>> labels = session.segment(box=(5, 15, 35, 45)).labels
    >>> bool(labels[12:28, 22:38].all()), bool(labels[:5].any())
    (True, False)
    """

    def __init__(self, model: Any = None, n_labels: int = 2) -> None:
        if not is_one_of(n_labels, range(2, MOST_LABELS + 1)):
            raise InputError(
                f"n_labels is {quoted(n_labels)}, but must be a whole number from 2 to "
                f"{MOST_LABELS}."
            )
        if model is not None:
            _check_model(model)
        self.model = model
        self.n_labels = n_labels if model is None else len(model.classes_)
        self._image: OpenImage | None = None
        self._answers: list[Answer] = []
        self._at = 0

    @property
    def image(self) -> NDArray[np.float32]:
        """The image, (h, w) or (h, w, 3) float32 in [0, 1]."""
        return self._here.image

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns of the image."""
        return self._here.shape

    @property
    def _here(self) -> OpenImage:
        if self._image is None:
            raise InputError("session: there is no image yet. Call set_image(image) first.")
        return self._image

    def set_image(self, image: ArrayLike | Image.Image | Sample) -> None:
        """Set the image and compute once what every answer needs; earlier answers are dropped."""
        if isinstance(image, Volume):
            raise InputError(
                "image is a volume, but a session segments one image. Pass one of its slices, "
                "volume.slices()[k]."
            )
        pixels = (image if isinstance(image, Sample) else Sample(image)).image
        self._image = OpenImage(pixels, self.model, self.n_labels)
        self._answers, self._at = [], 0

    def segment(self, box: Sequence[float] | None = None, seeds: ArrayLike | None = None) -> Answer:
        """Return the labels for all that the user has given so far: the box, and every seed.

        Parameters
        ----------
        box : (top, left, bottom, right), optional
            Half-open, in pixels; everything outside of it is label 0. What lies outside of the
            image is clipped: `answer.box` is the box that was used.
        seeds : (h, w) integers, optional
            -1 where there is no mark, else the label.

        Returns
        -------
        Answer
            `labels, probability = session.segment(...)`
        """
        answer = self.after(self._answers[self._at - 1] if self._at else None, box, seeds)
        answer.labels  # noqa: B018 - computed here, so that what is wrong is raised here
        self._answers[self._at :] = [answer]
        self._at += 1
        return answer

    def after(
        self,
        before: Answer | None,
        box: Sequence[float] | None = None,
        seeds: ArrayLike | None = None,
    ) -> Answer:
        """Return the answer that `segment` would return after the answer `before`.

        Nothing of it is kept: use it to preview a stroke that is still being drawn.

        Parameters
        ----------
        before : Answer of this image, or None
            None: the first answer.
        box, seeds : as for `segment`

        Returns
        -------
        Answer
            Its labels are computed when they are first read.

        Examples
        --------
        >>> import numpy as np, cutlearn as cl
        >>> session = cl.Session()
        >>> session.set_image(np.pad(np.ones((20, 20)), 10))
        >>> first = session.segment(box=(5, 5, 35, 35))
        >>> seeds = np.full((40, 40), -1)
        >>> seeds[18:22, 18:22] = 0
        >>> preview = session.after(first, box=(5, 5, 35, 35), seeds=seeds)
        >>> int(preview.labels[20, 20]), int(session.answer.labels[20, 20])
        (0, 1)
        """
        if before is not None and before._image is not self._here:
            raise InputError(
                "before is an answer of another image. Pass an answer since the last set_image."
            )
        sample = Sample(self.image, None if box is None else _within(box, self.shape), seeds)
        self._check(sample)
        return Answer(self._here, sample, before)

    def _check(self, sample: Sample) -> None:
        """Refuse seeds of unknown labels, and, without a model, neither box nor seeds."""
        highest = FREE if sample.seeds is None else int(sample.seeds.max())
        if highest >= self.n_labels:
            raise InputError(
                f"seeds has label {highest}, but this session has the labels 0 to "
                f"{self.n_labels - 1}. Use these, or make a session with more labels."
            )
        if self.model is None and sample.box is None and highest == FREE:
            raise InputError(
                "session: there are neither a box nor seeds. Draw a box around the "
                "object, or mark it and the background."
            )
        if self.n_labels > 2 and sample.box is not None and self.model is None:
            raise InputError(
                f"box: a box tells two labels apart, but this session has {self.n_labels}. Mark "
                "each label by seeds."
            )

    @property
    def can_undo(self) -> bool:
        """Whether there is an answer before this one."""
        return self._at > 1

    @property
    def can_redo(self) -> bool:
        """Whether there is an answer after this one."""
        return self._at < len(self._answers)

    def undo(self) -> Answer:
        """Return to the answer before; nothing is computed again."""
        if not self.can_undo:
            raise InputError("session: there is no earlier answer to go back to.")
        self._at -= 1
        return self._answers[self._at - 1]

    def redo(self) -> Answer:
        """Take back an `undo`."""
        if not self.can_redo:
            raise InputError("session: there is no later answer to go on to.")
        self._at += 1
        return self._answers[self._at - 1]

    @property
    def answer(self) -> Answer:
        """The answer that holds now."""
        if not self._at:
            raise InputError("session: there is no answer yet. Call segment with a box or seeds.")
        return self._answers[self._at - 1]

    def area(self, label: int = 1, level: float = 0.95) -> tuple[float, tuple[float, float]]:
        """Return the area of a label in the answer that holds, and an interval for the true one."""
        return self.answer.area(label, level)

    def where_next(self) -> Box:
        """Return the window (top, left, bottom, right) whose labels are most in doubt."""
        return self.answer.where_next()
