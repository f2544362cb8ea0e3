"""A person and one image: a box or strokes in, a mask out, again and again.

    session = cl.Session()
    session.set_image(image)                       # once: colours, contrast, the graph
    labels, probability = session.segment(box=box)
    labels, probability = session.segment(box=box, seeds=seeds)  # the same graph, solved further

The loop seeds <-> mask is here and nowhere else. What a call costs is what it changes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from PIL import Image

from cutlearn.checks import is_one_of
from cutlearn.errors import InputError, quoted
from cutlearn.features.windows import window_means, windows
from cutlearn.images.resize import resize_image
from cutlearn.images.sample import FREE, Sample
from cutlearn.metrics import entropy
from cutlearn.model.band import Band
from cutlearn.model.defaults import defaults
from cutlearn.model.engines import Solved, made
from cutlearn.model.fitting.size import (
    at_side,
    probabilities_at_full_size,
    to_full_size,
    worked_shape,
)

Labels = NDArray[np.uint8]
Box = tuple[int, int, int, int]

MOST_LABELS = 16
# Without a model, an image of more pixels is worked at so many, and its border made sharp after.
MOST_WORKED = 400_000


class Answer:
    """What a session says of an image. It unpacks: `labels, probability = answer`.

    Attributes
    ----------
    labels : (h, w) uint8
    probability : (h, w, L) float32
        Computed when it is first asked for.
    """

    def __init__(
        self, labels: Labels, believed: Callable[[], NDArray[np.float32]], heard: Any = None
    ) -> None:
        self.labels = labels
        self.labels.flags.writeable = False  # undo brings the same array back
        self._believed = believed
        self._heard = heard  # what the engine goes on from

    @cached_property
    def probability(self) -> NDArray[np.float32]:
        """The probability of every label at every pixel, (h, w, L) float32."""
        return self._believed()

    def __iter__(self) -> Iterator[NDArray[Any]]:
        yield self.labels
        yield self.probability


class Session:
    """Segments one image for a person who gives a box or seeds, step by step.

    Without a model nothing is trained: the colours of the box, or of the seeds, tell the object
    from the rest.

    Parameters
    ----------
    model : Segmenter, optional
        A fitted model: its features and weights, with what the person gave held fast.
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
        self.model = model
        self.n_labels = n_labels if model is None else len(model.classes_)
        self._image: NDArray[np.float32] | None = None

    @property
    def image(self) -> NDArray[np.float32]:
        """The image, (h, w) or (h, w, 3) float32 in [0, 1]."""
        if self._image is None:
            raise InputError("session: there is no image yet. Call set_image(image) first.")
        return self._image

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns of the image."""
        return self.image.shape[0], self.image.shape[1]

    def set_image(self, image: ArrayLike | Image.Image | Sample) -> None:
        """Take an image and compute once what every answer needs; earlier answers are gone."""
        self._image = (image if isinstance(image, Sample) else Sample(image)).image
        self._side = self._worked_side()
        self._small = resize_image(self._image, worked_shape(self.shape, self._side))
        self._engine = made(self._small, self.model, self.n_labels)
        self._band: Band | None = None
        self._answers: list[Answer] = []
        self._at = 0

    def _worked_side(self) -> int | None:
        """The smaller side at which the image is worked; None: as it is."""
        if self.model is not None:
            side: int | None = self.model.min_side
            return side
        h, w = self.shape
        if h * w <= MOST_WORKED:
            return None
        return max(1, int(min(h, w) * math.sqrt(MOST_WORKED / (h * w))))

    def segment(self, box: Sequence[float] | None = None, seeds: ArrayLike | None = None) -> Answer:
        """Give the labels for all that a person has said so far: the box, and every seed.

        Parameters
        ----------
        box : (top, left, bottom, right), optional
            Half-open, in pixels; everything outside of it is label 0.
        seeds : (h, w) integers, optional
            -1 where there is no mark, else the label.

        Returns
        -------
        Answer
            `labels, probability = session.segment(...)`
        """
        sample = Sample(self.image, box, seeds)
        self._check(sample)
        small = at_side(sample, self._side, self._small)
        before = self._answers[self._at - 1]._heard if self._at else None
        solved, engine = self._engine.solve(small, before), self._engine

        def believed() -> NDArray[np.float32]:
            q = engine.calibration.probabilities(solved.min_marginals(), solved.alone)
            return probabilities_at_full_size(q.astype(np.float32), sample)

        del self._answers[self._at :]
        labels = self._at_full_size(solved, sample)
        self._answers.append(Answer(labels, believed, solved.heard))
        self._at = len(self._answers)
        return self._answers[-1]

    def _check(self, sample: Sample) -> None:
        """Refuse seeds of unknown labels, and, without a model, a person who said nothing."""
        highest = FREE if sample.seeds is None else int(sample.seeds.max())
        if highest >= self.n_labels:
            raise InputError(
                f"seeds has label {highest}, but this session has the labels 0 to "
                f"{self.n_labels - 1}. Use these, or make a session with more labels."
            )
        if self.model is None and sample.box is None and highest == FREE:
            raise InputError(
                "session: neither a box nor seeds say what to look for. Draw a box around the "
                "object, or mark it and the background."
            )
        if self.n_labels > 2 and sample.box is not None and self.model is None:
            raise InputError(
                f"box: a box tells two labels apart, but this session has {self.n_labels}. Mark "
                "each label by seeds."
            )

    def _at_full_size(self, solved: Solved, sample: Sample) -> Labels:
        if solved.labels.shape == sample.shape:
            return solved.labels
        if solved.unary is None:
            return to_full_size(solved.labels, sample)
        if self._band is None:
            self._band = Band(self.image)
        return self._band.sharpened(solved.labels, solved.unary, sample.fixed(), defaults().edges)

    @property
    def can_undo(self) -> bool:
        """Whether there is an answer before this one."""
        return self._image is not None and self._at > 1

    @property
    def can_redo(self) -> bool:
        """Whether there is an answer after this one."""
        return self._image is not None and self._at < len(self._answers)

    def undo(self) -> Answer:
        """Go back to the answer before; nothing is computed again."""
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
        if self._image is None or not self._at:
            raise InputError("session: there is no answer yet. Call segment with a box or seeds.")
        return self._answers[self._at - 1]

    def area(self, label: int = 1, level: float = 0.95) -> tuple[float, tuple[float, float]]:
        """Give the area of a label in pixels, and an interval for the true one.

        As `Segmenter.area`: its width comes from how far areas strayed on held-out images.
        """
        if not is_one_of(label, range(self.n_labels)):
            raise InputError(
                f"label is {quoted(label)}, but this session has the labels 0 to "
                f"{self.n_labels - 1}."
            )
        answer, calibration = self.answer, self._engine.calibration
        value, low, high = calibration.area(answer.probability, answer.labels, label, level)
        return float(value), (float(low), float(high))

    def where_next(self) -> Box:
        """Give the window (top, left, bottom, right) whose labels are most in doubt."""
        doubt = window_means(entropy(self.answer.probability).reshape(-1, 1), self.shape)[:, 0]
        rows, columns = windows(self.shape)
        i, j = divmod(int(doubt.argmax()), len(columns) - 1)
        return int(rows[i]), int(columns[j]), int(rows[i + 1]), int(columns[j + 1])
