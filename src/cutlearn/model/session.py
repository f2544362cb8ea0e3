"""A person and one image: a box or strokes in, a mask out, again and again.

    session = cl.Session()
    session.set_image(image)                       # once: colours, contrast, the graph
    labels, probability = session.segment(box=box)
    labels, probability = session.segment(box=box, seeds=seeds)  # the same graph, solved further

The loop seeds <-> mask is here and nowhere else. What a call costs is what it changes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from PIL import Image

from cutlearn.checks import is_one_of
from cutlearn.errors import InputError, quoted
from cutlearn.features.edges import edge_contrast
from cutlearn.features.mixtures import palette, relabelled
from cutlearn.features.windows import window_means, windows
from cutlearn.grid import grid_slices
from cutlearn.images.sample import Sample
from cutlearn.metrics import entropy
from cutlearn.model.live import Live

Floats = NDArray[np.float64]
Labels = NDArray[np.uint8]
Box = tuple[int, int, int, int]

MOST_LABELS = 16
CONTRAST = 8.0
MOST_ODDS = 6.0


class Answer:
    """What a session says of an image. It unpacks: `labels, probability = answer`.

    Attributes
    ----------
    labels : (h, w) uint8
    probability : (h, w, L) float32
        Computed when it is first asked for.
    """

    def __init__(self, labels: Labels, believed: Callable[[], NDArray[np.float32]]) -> None:
        self.labels = labels
        self._believed = believed

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
    >>> int(session.segment(box=(5, 15, 35, 45)).labels.sum())
    400
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
        self._palette = palette(self._image)
        contrast = CONTRAST * edge_contrast(self._image, 8).astype(np.float64)
        sizes = [tuple(s.stop - s.start for s in tail) for tail, _ in grid_slices(self.shape, 8)]
        ends = np.cumsum([h * w for h, w in sizes])
        self._live = Live([contrast[e - h * w : e].reshape(h, w) for (h, w), e in zip(sizes, ends)])
        self._answers: list[Answer] = []
        self._at = 0

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
        fixed = sample.fixed()
        unary = self._costs(fixed)
        labels = self._live.solve(unary, fixed)
        energy = self._live.energy(unary)

        def believed() -> NDArray[np.float32]:
            found = energy.min_marginals(fixed)
            with np.errstate(over="ignore"):
                one = 1 / (1 + np.exp(found[..., 1] - found[..., 0]))
            return np.stack([1 - one, one], axis=-1).astype(np.float32)

        del self._answers[self._at :]
        self._answers.append(Answer(labels, believed))
        self._at = len(self._answers)
        return self._answers[-1]

    def _costs(self, fixed: NDArray[np.int16]) -> Floats:
        if not (fixed == 0).any() or not (fixed != 0).any():
            raise InputError(
                "session: there is no background yet, neither outside of a box nor as a seed of "
                "label 0. Draw a box around the object, or mark both."
            )
        p = self._palette
        known = p.counts(fixed == 0), p.counts(fixed == 1)
        odds = relabelled(p, known, p.counts(fixed == -1))
        return -np.clip(odds, -MOST_ODDS, MOST_ODDS)[p.index]

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

    def area(self, label: int = 1) -> tuple[float, tuple[float, float]]:
        """Give the area of a label in pixels, and an interval."""
        q = self.answer.probability[..., label].astype(np.float64)
        value, spread = float(q.sum()), float(np.minimum(q, 1 - q).sum())
        return value, (max(0.0, value - spread), min(float(q.size), value + spread))

    def where_next(self) -> Box:
        """Give the window (top, left, bottom, right) whose labels are most in doubt."""
        doubt = window_means(entropy(self.answer.probability).reshape(-1, 1), self.shape)[:, 0]
        rows, columns = windows(self.shape)
        i, j = divmod(int(doubt.argmax()), len(columns) - 1)
        return int(rows[i]), int(columns[j]), int(rows[i + 1]), int(columns[j + 1])
