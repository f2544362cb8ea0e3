"""The fitted object that turns images into node and edge features; a model file stores it.

Node features are a constant 1, the boosted logits (in training: out of fold) beside a few raw
channels, or a linear filter bank, and arrays that the user brings; all but the constant are
standardised with the training images' mean and deviation. Edge features lie in [0, 1] (`edges`).
"""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from cutlearn.checks import whole_number
from cutlearn.errors import InputError, quoted
from cutlearn.features.boosted import (
    Answers,
    Boosted,
    Progress,
    Recipe,
    answer,
    default_recipe,
    fit_questions,
    read_questions,
)
from cutlearn.features.describe import Bank, Image, is_grey
from cutlearn.features.edges import edge_features, edge_names
from cutlearn.features.filters import Float32
from cutlearn.features.inputs import VOID, read_image, read_training
from cutlearn.features.regions import SIZE, checked_families, superpixels
from cutlearn.features.windows import window_means
from cutlearn.run.workers import thread_count

MODES = ("boosted", "linear", "given")
FORMAT = 1
# A scale of 154 serves the largest image that can be solved. Names are short words.
MOST_SCALE, MOST_NAME = 256, 200


@dataclass(frozen=True)
class _Fitted:
    """All that fit learns, put in place at once so an interrupt leaves the old or the new."""

    bank: Bank
    boosted: tuple[Boosted, ...]  # one for each question
    n_extra: int
    names: list[str]
    mean: npt.NDArray[np.float64]
    scale: npt.NDArray[np.float64]
    centers: npt.NDArray[np.float64]


class Featurizer:
    """Node and edge features of images on a pixel grid.

    Parameters
    ----------
    features : {"auto", "boosted", "linear", "given"}
        "auto" is "boosted": out-of-fold logits of boosted trees beside raw channels. "linear": a
        hand-made filter bank. "given": only arrays that the user brings (`extra`).
    kind : {"auto", "photograph", "microscopy"}
        Recipe of the bank; "auto": microscopy if every training image is grey.
    position : {"auto", True, False}
        Whether row and column are features; "auto": in photographs only.
    recipe : Recipe, optional
        How trees are grown; None: the measured default of the kind.
    connectivity : {4, 8}
    per_direction : bool
        One set of edge features for each direction, or one for all.
    random_state : int, optional
        None is 0: the same images always give the same features.
    n_jobs : int, optional
        Threads; None or -1: all usable cores. Results do not depend on it.
    superpixels : sequence of (kind, size)
        Families of regions for envelopes: kind "slic" or "felzenszwalb", size in pixels.

    Attributes
    ----------
    bank_ : Bank
        The chosen recipe of the bank.
    node_names_, edge_names_, region_names_ : list of str
    centers_ : (k, F) array, the mean node features of all windows of the training images
    """

    def __init__(
        self,
        features: str = "auto",
        kind: str = "auto",
        position: bool | str = "auto",
        recipe: Recipe | None = None,
        connectivity: int = 8,
        per_direction: bool = False,
        random_state: int | None = None,
        n_jobs: int | None = None,
        superpixels: Sequence[tuple[str, float]] = (("slic", SIZE),),
    ) -> None:
        self.features = features
        self.kind = kind
        self.position = position
        self.recipe = recipe
        self.connectivity = connectivity
        self.per_direction = per_direction
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.superpixels = superpixels
        self._fitted: _Fitted | None = None

    # -- fitting ---------------------------------------------------------------------------

    def fit(
        self,
        images: Sequence[Any],
        masks: Sequence[npt.NDArray[Any]],
        extra: Sequence[npt.NDArray[Any]] | None = None,
        groups: Sequence[Any] | None = None,
        progress: Progress | None = None,
    ) -> list[Float32]:
        """Learn from images and masks; return the training images' node features.

        Parameters
        ----------
        images : n images, (h, w) or (h, w, 3) float32 in [0, 1], or samples with .image and .extra
        masks : n arrays (h, w) of 0, 1 and 255 (void)
            Or (h, w, T): T questions with such an answer at each pixel, and trees for each of them.
        extra : n arrays (h, w, e), optional
            Further node features, such as a network's logits. A network trained on these very
            masks must bring out-of-fold logits, or its features look better than they are.
        groups : n hashables, optional
            Images of one group (slices of a stack, frames of a film) are kept in one fold. None:
            pictures that are nearly the same are found and grouped.
        progress : callable (done, total, what), optional

        Returns
        -------
        list of (h * w, F) float32
            Out of fold: the logits come from trees that never saw the image or its group.
        """
        mode = self._mode()
        checked_families(self.superpixels)
        pairs, labels = read_training(images, masks, extra)
        pictures = [image for image, _ in pairs]
        bank = Bank.choose(pictures, self.kind, self.position)
        boosted: tuple[Boosted, ...] = ()
        maps: list[Answers] = [[] for _ in pairs]
        if mode == "boosted":
            boosted, maps = fit_questions(
                pictures,
                labels,
                [e for _, e in pairs],
                bank,
                self.recipe or default_recipe(bank),
                groups,
                self._seed(),
                _threads(self.n_jobs),
                progress,
            )
        n_extra = 0 if pairs[0][1] is None else pairs[0][1].shape[2]
        with ThreadPoolExecutor(_threads(self.n_jobs)) as pool:
            made = list(
                pool.map(lambda i: _columns(mode, bank, maps[i], *pairs[i]), range(len(pairs)))
            )
        rows, names = [m[0] for m in made], made[0][1]
        mean, scale = _moments(rows, [label[..., 0] for label in labels])
        rows = [_standardise(r, mean, scale) for r in rows]
        centers = np.concatenate([window_means(r, y.shape[:2]) for r, y in zip(rows, labels)])
        self._fitted = _Fitted(bank, boosted, n_extra, names, mean, scale, centers)
        return rows

    # -- using -----------------------------------------------------------------------------

    def transform(
        self, image: Any, extra: npt.NDArray[Any] | None = None
    ) -> tuple[Float32, Float32]:
        """Features of a new image.

        Returns
        -------
        node_features : (h * w, F) float32, row-major
        edge_features : (m, G) float32 in [0, 1], in the order of `edges.directions`
        """
        return self.node_features(image, extra), self.edge_features(image)

    def node_features(self, image: Any, extra: npt.NDArray[Any] | None = None) -> Float32:
        """Node features of a new image, (h * w, F) float32."""
        fitted = self._need()
        picture, given = read_image(image, extra, "image")
        found = 0 if given is None else given.shape[2]
        if found != fitted.n_extra:
            raise InputError(
                f"image: {found} extra channels found; the {fitted.n_extra} of the training images "
                "were wanted. Bring the same arrays as in fit."
            )
        maps = answer(fitted.boosted, picture, given)
        rows, _ = _columns(self._mode(), fitted.bank, maps, picture, given)
        return _standardise(rows, fitted.mean, fitted.scale)

    def edge_features(self, image: Any) -> Float32:
        """Edge features of an image, (m, G) float32 in [0, 1]; they need no fit."""
        picture, _ = read_image(image, None, "image")
        values = picture[..., :1] if picture.ndim == 3 and is_grey(picture) else picture
        return edge_features(values, self.connectivity, self.per_direction)

    def regions(self, image: Any) -> list[npt.NDArray[np.int32]]:
        """Superpixels of an image, a label map (h, w) for each family; they need no fit."""
        picture, _ = read_image(image, None, "image")
        return [
            superpixels(picture, kind, size) for kind, size in checked_families(self.superpixels)
        ]

    def logit(self, node_features: Float32) -> Float32 | None:
        """The last boosted logit (n,), taken back out of standardised node features, or None.

        Of several questions, that of the first.
        """
        fitted = self._need()
        if not fitted.boosted:
            return None
        back = node_features[:, 1] * fitted.scale[1] + fitted.mean[1]
        return np.asarray(back, np.float32)

    @property
    def bank_(self) -> Bank:
        return self._need().bank

    @property
    def node_names_(self) -> list[str]:
        return list(self._need().names)

    @property
    def centers_(self) -> npt.NDArray[np.float64]:
        return self._need().centers

    @property
    def edge_names_(self) -> list[str]:
        return edge_names(2, self.connectivity, self.per_direction)

    @property
    def region_names_(self) -> list[str]:
        return [f"{kind}{size:g}" for kind, size in checked_families(self.superpixels)]

    # -- storing ---------------------------------------------------------------------------

    def to_arrays(self) -> tuple[dict[str, npt.NDArray[Any]], dict[str, Any]]:
        """Arrays and a JSON-able description that `from_arrays` turns back into this object."""
        fitted = self._need()
        arrays: dict[str, npt.NDArray[Any]] = {"mean": fitted.mean, "scale": fitted.scale}
        arrays["centers"] = fitted.centers
        stages = [trees for part in fitted.boosted for trees in part.stages]
        for k, trees in enumerate(stages):
            arrays |= {f"stage{k}.{name}": a for name, a in trees.arrays().items()}
        described = {
            "format": FORMAT,
            "features": self._mode(),
            "bank": asdict(fitted.bank),
            "recipe": asdict(self.recipe or default_recipe(fitted.bank)),
            "stages": len(stages),
            "questions": len(fitted.boosted),
            "n_extra": fitted.n_extra,
            "names": list(fitted.names),
            "connectivity": self.connectivity,
            "per_direction": self.per_direction,
            "random_state": self._seed(),
            "superpixels": [list(family) for family in checked_families(self.superpixels)],
        }
        return arrays, described

    @classmethod
    def from_arrays(
        cls,
        arrays: dict[str, npt.NDArray[Any]],
        described: dict[str, Any],
        n_jobs: int | None = None,
    ) -> "Featurizer":
        """The inverse of `to_arrays`. Nothing is executed; damage is an `InputError`."""
        try:
            if described["format"] != FORMAT:
                raise InputError(
                    f"features: format {quoted(described['format'])} found; {FORMAT} was wanted. "
                    "Read it with the version of cutlearn that wrote it."
                )
            bank = described["bank"]
            scale = whole_number("features: scale", bank["scale"], 1, MOST_SCALE)
            bank = Bank(str(bank["kind"]), bool(bank["position"]), scale)
            recipe = Recipe(**described["recipe"])
            made = cls(
                str(described["features"]),
                bank.kind,
                bank.position,
                recipe,
                int(described["connectivity"]),
                bool(described["per_direction"]),
                whole_number("features: random_state", described["random_state"], 0, 2**64 - 1),
                n_jobs,
                # Older files tell neither the families of regions nor the centers.
                checked_families(described.get("superpixels", [("slic", SIZE)])),
            )
            boosted = read_questions(arrays, described, bank, recipe.step)
            mean, scales = arrays["mean"], arrays["scale"]
            made._fitted = _Fitted(
                bank,
                boosted,
                # No more than the features themselves, so that no file asks for more than it holds.
                whole_number("features: n_extra", described["n_extra"], 0, mean.size - 1),
                _checked_names(described["names"], mean.size),
                mean,
                scales,
                arrays.get("centers", np.empty((0, mean.size))),
            )
            _check_moments(mean, scales, made._fitted.centers)
            made._probe()
        except InputError:
            raise
        except (KeyError, TypeError, ValueError, IndexError) as error:
            raise InputError(f"features: a damaged description found ({error}). Refit.") from error
        return made

    def _probe(self) -> None:
        """Run on one pixel: every array's shape and every index is used, so damage shows."""
        fitted = self._need()
        pixel = np.zeros((1, 1, 3), np.float32)
        extra = np.zeros((1, 1, fitted.n_extra), np.float32) if fitted.n_extra else None
        nodes = self.node_features(pixel, extra)
        if nodes.shape[1] != len(fitted.names):
            raise InputError("features: a damaged list of names found. Refit.")

    def _mode(self) -> str:
        mode = "boosted" if str(self.features) == "auto" else str(self.features)
        if mode not in MODES:
            raise InputError(f"features: {quoted(mode)} found; 'auto' or one of {MODES} wanted.")
        return mode

    def _seed(self) -> int:
        return (
            0
            if self.random_state is None
            else whole_number("random_state", self.random_state, 0, 2**64 - 1)
        )

    def _need(self) -> _Fitted:
        if self._fitted is None:
            from sklearn.exceptions import NotFittedError

            raise NotFittedError("This Featurizer is not fitted yet. Call fit first.")
        return self._fitted


def _columns(
    mode: str, bank: Bank, maps: Answers, image: Image, extra: Float32 | None
) -> tuple[Float32, list[str]]:
    """Node features of one image before standardising, (n, F) float32, and names.

    The logits come first, question by question and newest first, after the constant;
    `Featurizer.logit` relies on it.
    """
    h, w = image.shape[:2]
    planes = [np.ones((1, h, w), np.float32)]
    names = ["bias"]
    if mode == "boosted":
        for t, logits in enumerate(maps):
            planes += [np.clip(logit, -12, 12)[None] for logit in reversed(logits)]
            of = f" of {t}" if len(maps) > 1 else ""
            names += [f"logit{k}{of}" for k in range(len(logits), 0, -1)]
    if mode != "given":
        channels, titles = bank.raw(image) if mode == "boosted" else bank.linear(image)
        planes.append(channels)
        names += titles
    elif extra is None:
        raise InputError(
            "features: 'given' without extra arrays found; (h, w, channels) for each image wanted. "
            "Pass extra=, or use features='auto'."
        )
    if extra is not None:
        planes.append(np.moveaxis(extra, -1, 0))
        names += [f"extra{k}" for k in range(extra.shape[2])]
    stack = np.concatenate(planes)
    return np.ascontiguousarray(stack.reshape(len(stack), -1).T), names


def _moments(
    rows: Sequence[Float32], labels: Sequence[npt.NDArray[np.uint8]]
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Mean and deviation of every column over labelled pixels; the constant keeps 0 and 1."""
    known = [label.reshape(-1) != VOID for label in labels]
    count = sum(int(k.sum()) for k in known)
    mean = sum(r[k].sum(axis=0, dtype=np.float64) for r, k in zip(rows, known)) / count
    square = sum(((r[k] - mean) ** 2).sum(axis=0) for r, k in zip(rows, known)) / count
    scale = np.sqrt(square)
    scale[scale < 1e-6] = 1.0  # a constant column stays constant
    mean[0], scale[0] = 0.0, 1.0
    return mean, scale


def _checked_names(names: Any, count: int) -> list[str]:
    good = isinstance(names, list) and len(names) == count
    if not good or not all(isinstance(name, str) and len(name) <= MOST_NAME for name in names):
        raise InputError("features: a damaged list of names found. Refit.")
    return list(names)


def _check_moments(*arrays: npt.NDArray[Any]) -> None:
    """Refuse means, scales and centers that cannot be those of node features."""
    mean, scale, centers = arrays
    good = mean.ndim == 1 and scale.shape == mean.shape and centers.shape[1:] == mean.shape
    good &= all(a.dtype == np.float64 and bool(np.isfinite(a).all()) for a in arrays)
    if not good or not (scale > 0).all():
        raise InputError("features: a damaged scale of the node features found. Refit.")


def _standardise(
    rows: Float32, mean: npt.NDArray[np.float64], scale: npt.NDArray[np.float64]
) -> Float32:
    return ((rows - mean) / scale).astype(np.float32)


def _threads(n_jobs: int | None) -> int:
    return thread_count(-1 if n_jobs is None else n_jobs)
