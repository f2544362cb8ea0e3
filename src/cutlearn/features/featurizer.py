"""The scikit-learn transformer that turns images into node and edge features, and into problems.

In: images and masks. Out: node features, for training images out of fold (`nodes`), edge features
in [0, 1] (`edges`), superpixels (`regions`), and all of them together as a `Problem`. Every list of
its settings, for files and for checkpoints, is `settings()`.
"""

import copy
import os
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError

from cutlearn.checks import listed
from cutlearn.energy.problem import Problem
from cutlearn.features.auto import usual_net
from cutlearn.features.boosted import Recipe, default_recipe
from cutlearn.features.describe import Bank, Intensities, Picture, one_if_grey
from cutlearn.features.edges import edge_features
from cutlearn.features.filters import Float32
from cutlearn.features.fit_images import fit_images
from cutlearn.features.inputs import Pair, read_image
from cutlearn.features.micrographs import Light
from cutlearn.features.net.learn import NetRecipe
from cutlearn.features.nodes import Fitted
from cutlearn.features.settings import CHECKS, FREE, checked_seed
from cutlearn.features.stored import FORMAT, read_featurizer
from cutlearn.features.superpixels import SIZE, checked_families, superpixels
from cutlearn.features.task import Progress
from cutlearn.features.volumes import (
    Third,
    beside_names,
    fit_volumes,
    names_of_edges,
    neighbours_of,
    volume_edges,
    volume_nodes,
    volume_regions,
)
from cutlearn.images.sample import Sample, Volume, are_volumes, as_sample
from cutlearn.run.executor import Jobs


class Featurizer(BaseEstimator):  # type: ignore[misc]
    """Node and edge features of images on a pixel grid.

    Parameters
    ----------
    features : {"auto", "trees", "net", "stacked", "both", "linear", "given"}
        Out-of-fold logits, mostly beside raw channels: "trees", boosted ones on a bank of channels;
        "net", a very small net; "stacked", trees that see what the net says around a pixel;
        "both", side by side. "auto" chooses among the first four within a budget. "linear": a
        hand-made filter bank. "given": only arrays that the user brings (`extra`), such as logits
        of a network.
    kind : {"auto", "photograph", "microscopy"}
        Recipe of the bank; "auto": microscopy if every training image is grey.
    position : {"auto", True, False}
        Whether row and column are features; "auto": in photographs only, if there are two groups
        of them or more.
    recipe : Recipe, optional
        How trees are grown; None: the measured default of the kind.
    net : NetRecipe, optional
        How nets are trained; None: the measured default.
    budget : {"fast", "normal", "best"} or float
        What "auto" may cost in seconds of one core for up to twenty images of 300 x 400 pixels:
        "fast" 40, "normal" 75, "best" 240; less for fewer than five, more for more. Or seconds.
    connectivity : {4, 8}
        Of pixels; voxels have one more neighbour in each of the slices beside theirs.
    per_direction : bool
        One set of edge features for each direction, or one for all.
    random_state : int, optional
        None is 0: the same images always give the same features.
    n_jobs : int, optional
        Threads; None or -1: all usable cores. Results do not depend on it.
    superpixels : sequence of (kind, size)
        Families of regions for envelopes: kind "slic" or "felzenszwalb", size in pixels.
    memory : folder, optional
        Keeps the features of training images, in a file of their size for each set of images: a
        fit on the same images, masks and groups with the same settings takes them from there. A
        search over C then grows trees once a fold. Made when missing; remove it when you are done.
    channels : sequence of str
        Further node features, by their names in `cutlearn.features.nodes.CHANNELS`.

    Attributes
    ----------
    fitted_ : Fitted
        All that was learned.
    bank_ : Bank
        The chosen recipe of the bank.
    chosen_, why_ : str
        The features that "auto" chose, and why; or those that were asked for.
    node_names_, edge_names_, region_names_ : list of str
    centers_ : (k, F) array, the mean node features of all windows of the training images
    third_ : Third or None
        What was learned of the third axis, if there was one.
    intensities_ : Intensities
        The range of the training images' intensities: every image is scaled by it before anything
        else, so that bytes, 12 bits in 16-bit files and floats are the same.
    """

    third_: Third | None = None
    intensities_ = Intensities(0.0, 1.0)

    def __init__(
        self,
        features: str = "auto",
        kind: str = "auto",
        position: bool | str = "auto",
        recipe: Recipe | None = None,
        net: NetRecipe | None = None,
        budget: str | float = "normal",
        connectivity: int = 8,
        per_direction: bool = False,
        random_state: int | None = None,
        n_jobs: Jobs = None,
        superpixels: Sequence[tuple[str, float]] = (("slic", SIZE),),
        memory: str | os.PathLike[str] | None = None,
        channels: Sequence[str] = (),
    ) -> None:
        self.features = features
        self.kind = kind
        self.position = position
        self.recipe = recipe
        self.net = net
        self.budget = budget
        self.connectivity = connectivity
        self.per_direction = per_direction
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.superpixels = superpixels
        self.memory = memory
        self.channels = channels

    # -- fitting ---------------------------------------------------------------------------

    def fit(
        self,
        images: Sequence[Any],
        masks: Sequence[npt.NDArray[Any]],
        groups: Sequence[Any] | None = None,
        *,
        unannotated: Sequence[Any] = (),
        progress: Progress | None = None,
    ) -> "Featurizer":
        """Learn from images and masks, as `fit_transform` does."""
        self.fit_transform(images, masks, groups, unannotated=unannotated, progress=progress)
        return self

    def fit_transform(
        self,
        images: Sequence[Any],
        masks: Sequence[npt.NDArray[Any]],
        groups: Sequence[Any] | None = None,
        *,
        unannotated: Sequence[Any] = (),
        checkpoint: Path | None = None,
        progress: Progress | None = None,
    ) -> Sequence[Float32]:
        """Learn from images and masks; return the training images' node features, out of fold.

        Parameters
        ----------
        images : n images, (h, w) or (h, w, 3) float32 in [0, 1], or samples, or volumes
            A sample's `extra`, (h, w, e), are further node features, such as a network's logits. A
            network trained on these very masks must bring out-of-fold logits, or its features look
            better than they are.
        masks : n arrays (h, w) of 0, 1 and 255 (void)
            Or (h, w, T): T questions with such an answer at each pixel, and trees for each of them.
            Of volumes (d, h, w), or (d, h, w, T).
        groups : n hashables, optional
            Images of one group (slices of a stack, frames of a film) are kept in one fold. None:
            pictures that are nearly the same are found and grouped.
        unannotated : images or samples that have no masks
            Nets look at some of them before they see a label, if pictures have colours; nothing
            else does.
        checkpoint : path of a file, optional
            Kept there, and taken from there if the file exists; that of other images is refused.
            Until all is done, what is finished is kept beside it, and gone on from.
        progress : callable (done, total, what), optional

        Returns
        -------
        sequence of (h * w, F) float32
            A list; where the images are loaded one by one and there is a checkpoint or a memory,
            these are, too. The logits come from trees that never saw the image or its group: what a
            model may be trained on. `transform` gives other ones, of trees that saw all images.
        """
        if are_volumes(listed("images", images)):
            return fit_volumes(
                self, images, masks, groups,
                lambda x, y, names: fit_images(
                    self, x, y, names, checkpoint, progress, unannotated
                ),
            )  # fmt: skip
        self.third_ = None
        return fit_images(self, images, masks, groups, checkpoint, progress, unannotated)

    # -- using -----------------------------------------------------------------------------

    def transform(self, images: Sequence[Any]) -> list[Float32]:
        """Node features of new images or volumes, a list of (h * w, F) float32, row-major."""
        return [self.node_features(image) for image in listed("images", images)]

    def light(self, image: Any) -> Light | None:
        """What `node_features` of a part of a large image must know of all of it, if anything."""
        return self._need().source.light(Picture(self._read(image)[0]))

    def node_features(
        self, image: Any, extra: npt.NDArray[Any] | None = None, light: Light | None = None
    ) -> Float32:
        """Node features of a new image, (h * w, F) float32; of a part of one in the whole's light.

        All that filters see of a part is its own: leave as much around it as they reach.
        """
        fitted = self._need()
        if isinstance(image, Volume):
            return volume_nodes(self, image)
        picture, given = self._read(image, extra)
        return fitted.node_features(self.channels, picture, given, light)

    def problem(
        self,
        sample: Any,
        node_features: Float32 | None = None,
        edges: bool = True,
        regions: bool = False,
    ) -> Problem:
        """Give the problem of an image or sample: its features, and its box and seeds as fixed.

        Parameters
        ----------
        node_features : (h * w, F) float32, optional
            Out-of-fold features of a training image (`fit_transform`); computed when not given.
        edges : bool
            Whether neighbours are joined.
        regions : bool
            Whether superpixels become regions.
        """
        given: Sample = as_sample(sample)
        if node_features is None:
            node_features = self.node_features(given)
        fixed = None
        if given.box is not None or given.seeds is not None:
            fixed = given.fixed().astype(np.int8).reshape(-1)
        return Problem(
            node_features,
            edge_features=self.edge_features(given) if edges else None,
            regions=self.regions(given) if regions else (),
            fixed=fixed,
            shape=given.shape,
            connectivity=neighbours_of(self, given),
        )

    def unfitted(self) -> "Featurizer":
        """A copy without what is large, which can travel and still join nodes to problems."""
        made = copy.copy(self)
        made.__dict__.pop("fitted_", None)
        made.n_jobs = 1
        return made

    def edge_features(self, image: Any) -> Float32:
        """Edge features of an image, (m, G) float32 in [0, 1]; those of a volume need a fit."""
        if isinstance(image, Volume):
            return volume_edges(self, image)
        picture, _ = self._read(image)
        return edge_features(one_if_grey(picture), self.connectivity, self.per_direction)

    def regions(self, image: Any) -> list[npt.NDArray[np.int32]]:
        """Superpixels of an image, a label map (h, w) for each family; they need no fit."""
        if isinstance(image, Volume):
            return volume_regions(self, image)
        picture, _ = self._read(image)
        return [
            superpixels(picture, kind, size) for kind, size in checked_families(self.superpixels)
        ]

    def logit_columns(self) -> tuple[tuple[int, ...], ...]:
        """Give the columns of each question's logits among the node features, newest first."""
        fitted = self._need()
        count = len(fitted.source.stages)
        questions = fitted.questions if count else 0
        own = [tuple(range(1 + t * count, 1 + (t + 1) * count)) for t in range(questions)]
        if self.third_ is None:
            return tuple(own)
        return tuple((*columns, len(fitted.names) + t) for t, columns in enumerate(own))

    def logit(self, node_features: Float32) -> Float32 | None:
        """The source's last logit (n,), taken back out of standardised node features, or None.

        Of several questions, that of the first.
        """
        fitted = self._need()
        if not fitted.source.stages:
            return None
        back = node_features[:, 1] * fitted.scale[1] + fitted.mean[1]
        return np.asarray(back, np.float32)

    @property
    def bank_(self) -> Bank:
        return self._need().bank

    @property
    def chosen_(self) -> str:
        return self._need().mode

    @property
    def why_(self) -> str:
        return self._need().why

    @property
    def node_names_(self) -> list[str]:
        names = list(self._need().names)
        return names if self.third_ is None else names + beside_names(self)

    @property
    def centers_(self) -> npt.NDArray[np.float64]:
        return self._need().centers

    @property
    def edge_names_(self) -> list[str]:
        return names_of_edges(self)

    @property
    def region_names_(self) -> list[str]:
        return [f"{kind}{size:g}" for kind, size in checked_families(self.superpixels)]

    # -- storing ---------------------------------------------------------------------------

    def settings(self) -> dict[str, Any]:
        """Check all parameters and give those that features depend on, as JSON can hold them."""
        given = self.get_params(deep=False)
        return {name: CHECKS[name](value) for name, value in given.items() if name not in FREE}

    def to_arrays(self) -> tuple[dict[str, npt.NDArray[Any]], dict[str, Any]]:
        """Arrays and a JSON-able description that `from_arrays` turns back into this object."""
        fitted = self._need()
        arrays, described = fitted.to_arrays()
        # What was "auto" or None is told as what it came to.
        came_to = {
            "features": fitted.mode,
            "kind": fitted.bank.kind,
            "position": fitted.bank.position,
            "recipe": asdict(self.recipe or default_recipe(fitted.bank, fitted.questions)),
            "net": asdict(self.net or usual_net(self.features)),
            "random_state": self._seed(),
            "intensities": self.intensities_.to_plain(),
        }
        third = {} if self.third_ is None else {"volumes": asdict(self.third_)}
        return arrays, {"format": FORMAT} | self.settings() | came_to | described | third

    @classmethod
    def from_arrays(
        cls,
        arrays: dict[str, npt.NDArray[Any]],
        described: dict[str, Any],
        n_jobs: Jobs = None,
    ) -> "Featurizer":
        """The inverse of `to_arrays`. Nothing is executed; damage is an `InputError`."""
        return read_featurizer(cls, arrays, described, n_jobs)

    def _read(self, image: Any, extra: npt.NDArray[Any] | None = None) -> Pair:
        picture, given = read_image(image, extra, "image")
        return self.intensities_.scaled(picture), given

    def _seed(self) -> int:
        return checked_seed(self.random_state) or 0

    def _need(self) -> Fitted:
        if not hasattr(self, "fitted_"):
            raise NotFittedError("This Featurizer is not fitted yet. Call fit first.")
        fitted: Fitted = self.fitted_
        return fitted
