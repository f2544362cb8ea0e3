"""The pool: the images of a training with all planes so far.

A plane depends on its own image, the loss and the normalisation only, not on C, on the other
images or on the master: one pool serves a path of C, every fold (`subset`) and every learner.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cutlearn.arrays import Matrix, Vector
from cutlearn.checks import as_array, instance, listed
from cutlearn.energy.model import Layout, Model, ModelLike, model_of
from cutlearn.energy.problem import Problem
from cutlearn.errors import InputError
from cutlearn.learn.losses import Loss, loss_of
from cutlearn.learn.oracle import TrainingImage, plane_of, planes_at, training_image
from cutlearn.loaded import Loaded, taken, together
from cutlearn.run.checkpoint import fingerprint
from cutlearn.run.executor import (
    ONE_THREAD,
    Executor,
    Jobs,
    Residents,
    executor_of,
    name_of,
)

# The index that stands for the zero plane (y = y_n), which no image needs to store.
ZERO = -1
# Fewer nodes are prepared faster than threads are started.
WORTH_THREADS = 500_000


class PlaneSet:
    """The distinct planes of one image, in the order in which they were found.

    Parameters
    ----------
    n_weights : int
    """

    def __init__(self, n_weights: int) -> None:
        self._rows = np.zeros((8, n_weights + 1))
        self._count = 0
        self._seen: dict[bytes, int] = {}

    def __len__(self) -> int:
        return self._count

    @property
    def rows(self) -> Matrix:
        """The planes as (P, 1 + d) rows b, a."""
        return self._rows[: self._count]

    def add(self, row: Vector) -> int:
        """Add the plane b, a, unless it is known, and return its index."""
        key = row.tobytes()
        index = self._seen.get(key)
        if index is not None:
            return index
        if not row.any():
            return ZERO
        if self._count == len(self._rows):
            self._rows = np.concatenate([self._rows, np.zeros_like(self._rows)])
        self._rows[self._count] = row
        self._seen[key] = self._count
        self._count += 1
        return self._count - 1

    def best(self, w: Vector) -> int:
        """Return the index of the highest plane at w, ZERO if none is above zero."""
        if not self._count:
            return ZERO
        heights = self.rows[:, 0] + self.rows[:, 1:] @ w
        index = int(heights.argmax())
        return index if heights[index] > 0 else ZERO

    def restore(self, rows: Matrix) -> None:
        """Add the rows of a checkpoint, which must begin with the present ones."""
        if rows.shape[1:] != self._rows.shape[1:] or not np.array_equal(
            rows[: self._count], self.rows
        ):
            raise InputError(
                "checkpoint has planes that do not continue those of this pool, so it is not of "
                "this run. Remove it to start anew."
            )
        for row in rows[self._count :]:
            self.add(np.ascontiguousarray(row))


@dataclass
class ImageBounds:
    """The largest loss of an image, the rounding of its planes, and its fingerprint once known."""

    largest: float
    rounding: Vector
    digest: str = ""


def _bounds_of(images: Sequence[TrainingImage], executor: Executor) -> list[ImageBounds]:
    """Return the bounds of all images; lazy images are hashed now, while in memory."""
    if not isinstance(images, Loaded):
        return [ImageBounds(one.largest, one.rounding) for one in images]

    def bounds(image: int) -> ImageBounds:
        one = images[image]
        return ImageBounds(one.largest, one.rounding, digest_of(one))

    return executor.local.map(bounds, range(len(images)))


class Pool:
    """A list of problems with labels, and the planes of each.

    Parameters
    ----------
    problems : sequence of Problem
    labels : sequence of arrays
        0 to L - 1, or 255 (void), one array for each problem.
    loss : str or Loss
    normalize : "pixels", "loss" or "none"
    n_jobs : int, address or Client, optional
        Threads that prepare the images; or a cluster, where the images then stay.
    model : Model, or as `envelope` of `train`, optional
    """

    def __init__(
        self,
        problems: Sequence[Problem],
        labels: Sequence[ArrayLike],
        loss: str | Loss = "hamming",
        normalize: str = "pixels",
        n_jobs: Jobs = None,
        model: ModelLike = None,
    ) -> None:
        chosen, executor = loss_of(loss), executor_of(n_jobs)
        self.model = model_of_all(problems, labels, model)
        check_margin(self.model, chosen)
        self.loss, self.settings = chosen, _settings(normalize, self.model)
        self.images = bind_all(problems, labels, self.model, chosen, normalize, executor)
        self.bounds = _bounds_of(self.images, executor)
        # On a cluster, or when images are loaded, planes are computed where the images stay.
        self.away: Residents | None = None
        if executor.remote or isinstance(self.images, Loaded):
            self.away = residents_of(executor, problems, labels)
            settings = self.model, chosen, normalize
            self._plane = partial(plane_of, name_of(settings), *settings)
        self.layout: Layout = self.images[0].layout
        self.planes = [PlaneSet(self.n_weights) for _ in range(len(problems))]

    def __len__(self) -> int:
        return len(self.images)

    def check(
        self,
        problems: Sequence[Problem],
        labels: Sequence[ArrayLike],
        loss: str | Loss,
        normalize: str,
        model: ModelLike = None,
    ) -> None:
        """Raise for other problems, labels, or another loss, normalisation or model.

        Losses are compared on every image. Lazy images are loaded for this only if the loss is
        another object.
        """
        asked = model_of(problems[0], model).for_labels(self.model.n_labels)
        settings, chosen = _settings(normalize, asked), loss_of(loss)
        if len(problems) != len(self) or settings != self.settings:
            raise InputError(
                f"pool holds {len(self)} images with {self.loss!r} {self.settings}, but training "
                f"asks for {len(problems)} with {chosen!r} {settings}. Make a pool for these, or "
                "take a part of this."
            )
        if isinstance(self.images, Loaded) and chosen is self.loss:
            return
        for image, held in enumerate(self.images):
            given = training_image(
                problems[image], labels[image], self.model, held.image, chosen, normalize
            )
            if not all(map(np.array_equal, given.bound.arrays(), held.bound.arrays())):
                raise InputError(
                    f"pool holds {len(self)} images with {self.loss!r}, but training asks for "
                    f"{chosen!r}, and image {image} has another loss or other labels there. Make a "
                    "pool for these."
                )

    @property
    def n_weights(self) -> int:
        """Length of w."""
        return self.layout.size

    @property
    def largest(self) -> float:
        """The mean over the images of the largest possible loss."""
        return sum(one.largest for one in self.bounds) / len(self)

    @property
    def rounding(self) -> Vector:
        """The errors by rounding of b and a of a plane, the mean over the images."""
        return np.asarray(np.mean([one.rounding for one in self.bounds], axis=0))

    def subset(self, images: Sequence[int]) -> "Pool":
        """Return the pool of some of the images; images and planes are shared."""
        part = object.__new__(Pool)
        part.model, part.layout = self.model, self.layout
        part.loss, part.settings = self.loss, self.settings
        part.images, part.bounds = taken(self.images, images), [self.bounds[i] for i in images]
        part.away = None
        if self.away is not None:
            part.away, part._plane = self.away.take(images), self._plane
        part.planes = [self.planes[i] for i in images]
        return part

    def ask(self, w: Vector, executor: Executor = ONE_THREAD) -> tuple[NDArray[np.int32], Matrix]:
        """Cut all images at w; return the indices of the planes, and the planes b, a as rows."""
        rows = self.highest(range(len(self)), w, executor)
        return self.add(rows), rows

    def highest(self, images: Sequence[int], w: Vector, executor: Executor) -> Matrix:
        """Cut some images at w; return their highest planes b, a as rows."""
        if self.away is not None:
            return np.array(self.away.take(images).map(self._plane, w))
        if executor.remote:
            raise InputError(
                "pool was made on threads, but training asks for a cluster. Make the pool with the "
                "same n_jobs."
            )
        return planes_at([self.images[i] for i in images], w, executor.threads)

    def add(self, rows: Matrix) -> NDArray[np.int32]:
        """Add a plane b, a of every image; return their indices."""
        index = [known.add(row) for known, row in zip(self.planes, rows)]
        return np.array(index, np.int32)

    def best(self, w: Vector) -> NDArray[np.int32]:
        """Return the index of each image's highest known plane at w, without any cut."""
        return np.array([known.best(w) for known in self.planes], np.int32)

    def rows(self, index: NDArray[np.int32]) -> Matrix:
        """Return the chosen plane b, a of every image, (N, 1 + d); zeros for the zero plane."""
        out = np.zeros((len(self), self.n_weights + 1))
        for row, known, i in zip(out, self.planes, index):
            if i != ZERO:
                row[:] = known.rows[i]
        return out

    def digest(self) -> str:
        """Return a fingerprint of the data, loss and normalisation, for checkpoints."""
        for i, one in enumerate(self.bounds):
            one.digest = one.digest or digest_of(self.images[i])
        return fingerprint(self.settings + "".join(one.digest for one in self.bounds), ())


def digest_of(task: TrainingImage) -> str:
    """Return a fingerprint of one image's task, for checkpoints."""
    return fingerprint(f"{task.problem.shape}{task.problem.connectivity}", task.arrays())


def residents_of(
    executor: Executor, problems: Sequence[Problem], labels: Sequence[ArrayLike]
) -> Residents:
    """Return problems with their labels where they are used; the same ones are sent once."""
    given = labels if isinstance(labels, Loaded) else [np.asarray(y) for y in labels]
    return executor.residents(together(problems, given))


def _settings(normalize: str, model: Model) -> str:
    return f"normalize={normalize!r} model={model!r}"


def bind_all(
    problems: Sequence[Problem],
    labels: Sequence[ArrayLike],
    model: Model,
    loss: Loss | None = None,
    normalize: str = "pixels",
    executor: Executor = ONE_THREAD,
) -> Sequence[TrainingImage]:
    """Bind every image to its labels, here even if a cluster cuts later; errors name the image."""

    def bind(image: int) -> TrainingImage:
        try:
            return training_image(problems[image], labels[image], model, image, loss, normalize)
        except InputError as error:
            raise InputError(f"image {image}: {error}") from error

    if isinstance(problems, Loaded):
        return Loaded(len(problems), bind)
    large = sum(problem.n_nodes for problem in problems) > WORTH_THREADS
    return (executor.local if large else ONE_THREAD).map(bind, range(len(problems)))


def check_margin(model: Model, loss: Loss) -> None:
    """Raise for labels, potentials and losses that do not combine."""
    labels = model.labels
    if not labels.has_energy:
        raise InputError(
            f"labels: {labels.name!r} labels are learned by a likelihood, not by a max-margin "
            "learner. Choose learner='likelihood', or labels='unordered'."
        )
    if model.has_regions and not labels.takes_envelopes:
        raise InputError(
            f"envelope: {labels.name} labels take no envelopes, because the fraction of a middle "
            "label has no exact cut. Leave out the envelope, or choose labels='unordered'."
        )
    if loss.needs_order and not labels.has_order:
        raise InputError(
            "loss needs ordered labels, but these have no order. Use Hamming or LabelCount, or "
            "choose labels='ordered'."
        )


def model_of_all(
    problems: Sequence[Problem], labels: Sequence[ArrayLike], given: ModelLike
) -> Model:
    """Check that images are alike, and return their model with their number of labels.

    Without a number of its own, L is one more than the largest label.
    """
    problems, labels = check_alike(problems, labels, given)
    model = model_of(problems[0], given)
    # Values that are no labels raise where the labels are bound, with their image.
    arrays = (as_array(f"labels[{i}]", y) for i, y in enumerate(labels))
    known = (y[np.isin(y, range(model.labels.most))] for y in arrays)
    return model.for_labels(max(2, 1 + max((int(y.max()) for y in known if y.size), default=1)))


def check_alike(
    problems: Sequence[Problem], labels: Sequence[ArrayLike], envelope: ModelLike
) -> tuple[Sequence[Problem], Sequence[ArrayLike]]:
    """Raise for lists of different lengths, and for images with different features."""
    problems, labels = listed("problems", problems), listed("labels", labels)
    if not problems:
        raise InputError("problems is empty, but training needs at least one annotated image.")
    if len(problems) != len(labels):
        raise InputError(
            f"labels has {len(labels)} arrays, but there are {len(problems)} problems. Give one "
            "array for each problem, in the same order."
        )
    regions = envelope is not None and not isinstance(envelope, Model)
    first: tuple[int, int, int] | None = None
    for image, problem in enumerate(problems):
        instance(f"problems[{image}]", problem, Problem)
        now = (len(problem.regions), problem.n_node_features, problem.n_edge_features)
        first = first or now
        if regions and now[0] != first[0]:
            raise InputError(
                f"image {image} has {now[0]} families of regions, but image 0 has {first[0]}. "
                "Give all images the same number; a family may be empty."
            )
        if now[1:] != first[1:]:
            raise InputError(
                f"image {image} has {now[1]} node and {now[2]} edge features, but image 0 has "
                f"{first[1]} and {first[2]}. Compute the same features for all images."
            )
    return problems, labels
