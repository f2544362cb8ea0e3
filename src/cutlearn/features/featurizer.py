"""The scikit-learn transformer that turns images into node and edge features, and into problems.

In: images and masks. Out: node features, for training images out of fold (`nodes`), edge features
in [0, 1] (`edges`), superpixels, and all of them together as a `Problem`.

Volumes are described slice by slice. Each slice then gets further columns: the mean of every logit
(of every column where there are no logits) in the two slices next to it. In training these slices
may be void; they are described by a model that has seen neither.

Features of training images can be kept in a file, under a mark of everything they depend on:
settings, groups, images, extra arrays and masks. Until that file is written, the finished parts lie
next to it. If images are loaded one by one, their columns stay in parts, and the file holds only
what was learned.
"""

import copy
import json
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import chain
from operator import attrgetter, itemgetter
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError

from cutlearn.arrays import VOID, AnyArray, Float32, Floats, Image, Mask
from cutlearn.checks import instance, listed, one_of, path_of, whole_number
from cutlearn.energy.problem import Problem
from cutlearn.errors import InputError, quoted
from cutlearn.features.auto import checked_budget, fit_auto, usual_net
from cutlearn.features.backbone import Backbone, backbone_of, is_installed
from cutlearn.features.columns import standardise
from cutlearn.features.describe import (
    KINDS,
    Bank,
    ImageStatistics,
    Intensities,
    Picture,
    one_if_grey,
)
from cutlearn.features.edges import (
    edge_features,
    edge_names,
    slice_nearness,
    volume_edge_features,
    volume_edge_names,
)
from cutlearn.features.folds import SHORTEST, find_groups, in_quarters, join_quarters
from cutlearn.features.net.learn import NetRecipe
from cutlearn.features.nodes import (
    COLUMNS,
    OWN,
    FittedColumns,
    bank_from_plain,
    checked_channels,
    learn_columns,
)
from cutlearn.features.sources import SOURCES, NoLogits, Progress, Task
from cutlearn.features.superpixels import SIZE, checked_families, superpixels
from cutlearn.features.trees import Recipe, default_recipe
from cutlearn.images.folder import MOST_UNANNOTATED
from cutlearn.images.sample import Sample, Volume, are_volumes, as_sample
from cutlearn.images.training_set import read_questions
from cutlearn.loaded import Loaded, evenly_spaced, mapped
from cutlearn.run.cache import Cache
from cutlearn.run.checkpoint import (
    fingerprint,
    load_checkpoint,
    refuse_other,
    restoring,
    save_checkpoint,
)
from cutlearn.run.executor import Jobs, executor_of

# An image and its further channels.
Pair = tuple[Image, Float32 | None]
FORMAT = 1
# The kind of the file of features, and how a refusal calls the features of other images.
CACHE, OTHER = "features", "the features of other images"
# The names of features in older files.
OLDER_NAMES = {"boosted": "trees"}
# Parameters that change no feature.
NOT_FEATURES = ("n_jobs", "memory")
# The values of parameters.
CHOICES: dict[str, tuple[Any, ...]] = {
    "connectivity": (4, 8),
    "kind": ("auto", *KINDS),
    "per_direction": (True, False),
    "position": ("auto", True, False),
}
# The neighbours of a voxel, by those of a pixel within its slice.
NEIGHBOURS = {4: 6, 8: 10}


def modes() -> tuple[str, ...]:
    """Return what `features` may name, sources of plugins included."""
    return ("auto", *SOURCES, *OWN)


def uses_unlabelled(mode: str) -> bool:
    """Return whether features of this mode learn from images without masks."""
    return mode == "auto" or (mode in SOURCES and SOURCES[mode].uses_unlabelled)


@dataclass(frozen=True)
class DepthAxis:
    """What a fit on volumes has learned of their third axis.

    Attributes
    ----------
    own : bool
        Whether edges between slices have columns, and so weights, of their own: only where
        neighbouring slices were annotated.
    """

    own: bool


def neighbours_annotated(masks: Sequence[AnyArray]) -> bool:
    """Return whether any two neighbouring slices are both annotated at the same pixel."""
    known = (np.asarray(mask) != VOID for mask in masks)
    return any(bool((seen[1:] & seen[:-1]).any()) for seen in known)


def with_neighbours(rows: Sequence[Float32], columns: Sequence[int]) -> Float32:
    """Append to the node features of slices, (n, F) each, the mean of columns in adjacent slices.

    The first and the last slice have one neighbour; a single slice stands for both.

    Returns
    -------
    (d * n, F + len(columns)) float32
    """
    d, (n, count) = len(rows), rows[0].shape
    made = np.empty((d, n, count + len(columns)), np.float32)
    for z in range(d):
        made[z, :, :count] = rows[z]
        near = [rows[k] for k in (z - 1, z + 1) if 0 <= k < d] or [rows[z]]
        made[z, :, count:] = sum(part[:, columns] for part in near) / np.float32(len(near))
    return made.reshape(d * n, -1)


class Featurizer(BaseEstimator):  # type: ignore[misc]
    """Node and edge features of images on a pixel grid.

    Parameters
    ----------
    features : {"auto", "trees", "net", "stacked", "both", "pretrained", "linear", "given"}
        Out-of-fold logits, mostly with raw channels: "trees", boosted ones on a bank of channels;
        "net", a very small net; "stacked", trees that see the net's logits around a pixel;
        "both", side by side; "pretrained", a linear head over the maps of a pretrained network.
        "auto" chooses among the first four within a budget, and "pretrained" if its network is
        installed. "linear": a hand-made filter bank. "given": only arrays that the user brings
        (`extra`), such as logits of a network.
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
        Of pixels; voxels have one more neighbour in each adjacent slice.
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
    backbone : str, callable or None, default "mobile-sam"
        The network of "pretrained": a name (`cutlearn backbone list`), or a function from an image
        (h, w, 3) in [0, 1] to arrays (channels, rows, columns) of any sizes. None: "auto"
        does without.

    Attributes
    ----------
    fitted_ : FittedColumns
        All that was learned.
    bank_ : Bank
        The chosen recipe of the bank.
    chosen_, why_ : str
        The features that "auto" chose, and why; or those that were asked for.
    node_names_, edge_names_, region_names_ : list of str
    centers_ : (k, F) array, the mean node features of all windows of the training images
    depth_ : DepthAxis or None
        What was learned of the third axis, if there was one.
    intensities_ : Intensities
        The range of the training images' intensities: every image is scaled by it before anything
        else, so that bytes, 12 bits in 16-bit files and floats are the same.
    """

    depth_: DepthAxis | None = None
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
        backbone: Any = "mobile-sam",
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
        self.backbone = backbone

    # -- fitting ---------------------------------------------------------------------------

    def fit(
        self,
        images: Sequence[Any],
        masks: Sequence[AnyArray],
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
        masks: Sequence[AnyArray],
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
            Features are kept there, and taken from there if the file exists; that of other images
            is refused. Until all is done, finished parts are kept next to it, and the same call
            resumes from them.
        progress : callable (done, total, what), optional

        Returns
        -------
        sequence of (h * w, F) float32
            A list; where the images are loaded one by one and there is a checkpoint or a memory,
            these are, too. The logits come from trees that never saw the image or its group: what a
            model may be trained on. `transform` gives other ones, of trees that saw all images.
        """
        samples, answers = read_questions(images, masks)
        return self.fit_samples(samples, answers, groups, unannotated, checkpoint, progress)

    def fit_samples(
        self,
        samples: Sequence[Sample],
        masks: Sequence[Mask],
        groups: Sequence[Any] | None = None,
        unannotated: Sequence[Any] = (),
        checkpoint: Path | None = None,
        progress: Progress | None = None,
    ) -> Sequence[Float32]:
        """Learn from samples and masks that were checked, as `fit_transform` does."""
        if are_volumes(samples):
            return self._fit_volumes(samples, masks, groups, checkpoint, progress, unannotated)
        self.depth_ = None
        return self._fit_images(samples, masks, groups, checkpoint, progress, unannotated)

    def _fit_volumes(
        self,
        volumes: Sequence[Sample],
        masks: Sequence[Mask],
        groups: Sequence[Any] | None,
        *more: Any,
    ) -> list[Float32]:
        """Fit on all slices, each volume held out by itself unless groups are given."""
        slices = [one for v in volumes if isinstance(v, Volume) for one in v.slices()]
        truth = [part for mask in masks for part in mask]
        names = range(len(volumes)) if groups is None else groups
        together = [name for name, volume in zip(names, volumes) for _ in range(volume.shape[0])]
        rows = self._fit_images(slices, truth, together, *more)
        answers = [np.asarray(m).reshape(*v.shape, -1)[..., 0] for v, m in zip(volumes, masks)]
        self.depth_ = DepthAxis(neighbours_annotated(answers))
        made, begin, columns = [], 0, self.neighbour_columns()
        for volume in volumes:
            made.append(with_neighbours(rows[begin : begin + volume.shape[0]], columns))
            begin += volume.shape[0]
        return made

    def _fit_images(
        self,
        samples: Sequence[Sample],
        masks: Sequence[Mask],
        groups: Sequence[Any] | None,
        checkpoint: Path | None,
        progress: Progress | None,
        unannotated: Sequence[Any],
    ) -> Sequence[Float32]:
        """Fit on images, or take from a file what is there."""
        settings = self.settings()
        labels = mapped(_with_axis, masks)
        _need_both_labels(labels)
        cached = checkpoint is not None or self.memory is not None
        if not cached:  # there is no disk to have them on
            samples, labels = list(samples), list(labels)
        images = mapped(attrgetter("image"), samples)
        numbers = find_groups(images, groups)
        chosen = _some_unannotated(unannotated, _width_of_extras(samples))
        intensities = Intensities.of(images)
        pairs, others = (mapped(partial(_scaled, intensities), v) for v in (samples, chosen))

        learn = partial(self._learn, pairs, labels, numbers, intensities, progress, others)
        if not cached:
            return learn(Cache())
        mark = _mark(settings, numbers, pairs, labels, others)
        file = checkpoint or _memory_file(self.memory, mark)
        cache = Cache(file, mark, OTHER, isinstance(pairs, Loaded))
        if file.exists():
            nodes = self._load(file, mark, cache)
        else:
            nodes = learn(cache)
            self._save(file, mark, nodes)
        cache.clear("columns" if isinstance(nodes, Loaded) else None)
        return nodes

    def _learn(
        self,
        pairs: Sequence[Pair],
        labels: Sequence[Mask],
        groups: Sequence[int],
        intensities: Intensities,
        progress: Progress | None,
        unannotated: Sequence[Pair],
        cache: Cache,
    ) -> Sequence[Float32]:
        """Fit on checked images; return their out-of-fold node features."""
        pictures, extras = (mapped(itemgetter(k), pairs) for k in (0, 1))
        if extras[0] is None:  # then no image has any: none need be loaded to see it
            extras = [None] * len(pairs)
        alone = len(set(groups)) == 1
        bank = Bank.choose(pictures, self.kind, self.position, alone)
        mode, why = self.features, "asked for by name"
        task = Task(
            pictures, labels, extras, groups, bank,
            self.recipe or default_recipe(bank, labels[0].shape[2]),
            self.net or usual_net(mode), self._seed(),
            executor_of(-1 if self.n_jobs is None else self.n_jobs),
            progress, cache, unannotated=unannotated, backbone=self.network(),
        )  # fmt: skip
        seen = task
        if alone and not bank.position and min(map(min, task.shapes)) >= 2 * SHORTEST:
            parts = (in_quarters(v, task.shapes) for v in (pictures, labels, extras))
            images, masks, more = parts
            seen = replace(
                task, images=images, labels=masks, extras=more, groups=[0, 1, 2, 3] * len(pairs),
                shapes=(), whole=task,
            )  # fmt: skip
        if mode == "auto":
            choice, source, maps = fit_auto(seen, checked_budget(self.budget))
            mode, why = choice.mode, choice.why
        else:
            source, maps = SOURCES.get(mode, NoLogits).fit(seen)
        if seen is not task:
            maps = join_quarters(maps, task.shapes)
        fitted, rows = learn_columns(task, mode, why, source, maps, self.channels)
        self.fitted_, self.intensities_ = fitted, intensities
        return rows

    def _save(self, file: Path, mark: str, nodes: Sequence[Float32]) -> None:
        """Write what was learned and the node features of the training images."""
        arrays, described = self.to_arrays()
        whole: dict[str, AnyArray] = {f"fitted.{name}": a for name, a in arrays.items()}
        parts = isinstance(nodes, Loaded)
        if not parts:
            whole |= {f"nodes.{i}": a for i, a in enumerate(nodes)}
        values = {"mark": mark, "described": described, "images": len(nodes), "parts": parts}
        save_checkpoint(file, CACHE, values, whole)

    def _load(self, file: Path, mark: str, cache: Cache) -> Sequence[Float32]:
        """Take back what `_save` wrote."""
        values, arrays = load_checkpoint(file, CACHE)
        refuse_other(file, values.get("mark"), mark, OTHER)
        with restoring(file):
            learned = {n[7:]: a for n, a in arrays.items() if n.startswith("fitted.")}
            made = self.from_arrays(learned, values["described"], self.n_jobs)
            every = range(int(values["images"]))
            nodes: Sequence[Float32]
            if values.get("parts", False):
                fitted = made.fitted_
                rows = mapped(itemgetter(0), cache.loaded(every, COLUMNS))
                nodes = mapped(partial(standardise, mean=fitted.mean, scale=fitted.scale), rows)
            else:
                nodes = [arrays[f"nodes.{i}"] for i in every]
        self.fitted_, self.intensities_ = made.fitted_, made.intensities_
        return nodes

    # -- using -----------------------------------------------------------------------------

    def transform(self, images: Sequence[Any]) -> list[Float32]:
        """Return node features of new images or volumes, (h * w, F) float32 each, row-major."""
        return [self.node_features(image) for image in listed("images", images)]

    def image_statistics(self, image: Any) -> ImageStatistics | None:
        """Return what `node_features` of a tile needs of the whole image, if anything."""
        return self._need().source.image_statistics(Picture(self._read(image)[0]))

    def node_features(
        self,
        image: Any,
        extra: AnyArray | None = None,
        statistics: ImageStatistics | None = None,
    ) -> Float32:
        """Return the node features of a new image or volume, (h * w, F) float32.

        A tile of a large image is given the `statistics` of the whole. Filters see only the tile:
        pad it by their reach.
        """
        fitted = self._need()
        if isinstance(image, Volume):
            rows = [self.node_features(one) for one in image.slices()]
            return with_neighbours(rows, self.neighbour_columns())
        picture, given = self._read(image, extra)
        return fitted.node_features(self.channels, picture, given, statistics)

    def problem(
        self,
        sample: Any,
        node_features: Float32 | None = None,
        edges: bool = True,
        regions: bool = False,
    ) -> Problem:
        """Return the problem of an image or sample: its features, and its box and seeds as fixed.

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
            connectivity=self.connectivity_of(given),
        )

    def connectivity_of(self, sample: Sample) -> int:
        """Return the connectivity of the grid of an image, or of a volume."""
        return NEIGHBOURS[self.connectivity] if isinstance(sample, Volume) else self.connectivity

    def unfitted(self) -> "Featurizer":
        """Return a small copy that can be sent elsewhere and still make problems of features."""
        made = copy.copy(self)
        made.__dict__.pop("fitted_", None)
        made.n_jobs = 1
        return made

    def edge_features(self, image: Any) -> Float32:
        """Return the edge features of an image, (m, G) in [0, 1]; those of a volume need a fit."""
        if not isinstance(image, Volume):
            picture, _ = self._read(image)
            return edge_features(one_if_grey(picture), self.connectivity, self.per_direction)
        values = self.intensities_.scaled(one_if_grey(image.image, 3))
        connectivity = NEIGHBOURS[self.connectivity]
        if self.per_direction:
            return edge_features(values, connectivity, True, 3)
        own, near = self._depth().own, slice_nearness(image.spacing)
        return volume_edge_features(values, connectivity, own, near)

    def regions(self, image: Any) -> list[NDArray[np.int32]]:
        """Return superpixels, a label map for each family; they need no fit.

        Those of a volume are found in every slice and numbered on from one to the next.
        """
        if isinstance(image, Volume):
            made = []
            for family in zip(*(self.regions(one) for one in image.slices())):
                begins = np.cumsum([0, *(int(part.max()) + 1 for part in family[:-1])])
                shifted = [part + begin for part, begin in zip(family, begins)]
                made.append(np.stack(shifted).astype(np.int32))
            return made
        picture, _ = self._read(image)
        return [
            superpixels(picture, kind, size) for kind, size in checked_families(self.superpixels)
        ]

    def check_axes(self, sample: Sample) -> None:
        """Refuse a volume after a fit on images, and an image after a fit on volumes."""
        if isinstance(sample, Volume):
            self._depth()
        elif self.depth_ is not None:
            raise InputError(
                "images: an image was given, but the model was fitted on volumes. Give volumes, "
                "Volume(array) or files of several slices, or fit a model on images."
            )

    def neighbour_columns(self) -> list[int]:
        """Return the columns of a slice that its neighbours see: the logits, else all."""
        fitted = self._need()
        stages = len(fitted.source.stages)
        if not stages:
            return list(range(1, len(fitted.names)))
        return [1 + t * stages for t in range(fitted.questions)]

    def logit_columns(self) -> tuple[tuple[int, ...], ...]:
        """Return the columns of each question's logits among the node features, newest first."""
        fitted = self._need()
        count = len(fitted.source.stages)
        questions = fitted.questions if count else 0
        own = [tuple(range(1 + t * count, 1 + (t + 1) * count)) for t in range(questions)]
        if self.depth_ is None:
            return tuple(own)
        return tuple((*columns, len(fitted.names) + t) for t, columns in enumerate(own))

    def logit(self, node_features: Float32) -> Float32 | None:
        """Return the source's last logit (n,), in its own units, of standardised node features.

               None without logits.
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
        if self.depth_ is not None:
            names += [f"{names[k]} beside" for k in self.neighbour_columns()]
        return names

    @property
    def centers_(self) -> Floats:
        return self._need().centers

    @property
    def edge_names_(self) -> list[str]:
        if self.depth_ is None:
            return edge_names(2, self.connectivity, self.per_direction)
        if self.per_direction:
            return edge_names(3, NEIGHBOURS[self.connectivity], True)
        return volume_edge_names(self.depth_.own)

    @property
    def region_names_(self) -> list[str]:
        return [f"{kind}{size:g}" for kind, size in checked_families(self.superpixels)]

    # -- storing ---------------------------------------------------------------------------

    def settings(self) -> dict[str, Any]:
        """Check all parameters; return those that features depend on, as JSON can hold them."""
        found: dict[str, Any] = {
            "budget": checked_budget(self.budget),
            "channels": checked_channels(self.channels),
            "superpixels": [list(family) for family in checked_families(self.superpixels)],
            "random_state": None if self.random_state is None else self._seed(),
        }
        for name, choices in (CHOICES | {"features": modes()}).items():
            value = getattr(self, name)
            one_of(name, value, choices)
            found[name] = choices[choices.index(value)]  # Python's own number for numpy's
        for name, kind in (("recipe", Recipe), ("net", NetRecipe)):
            if (value := getattr(self, name)) is not None:
                instance(name, value, kind)
            found[name] = None if value is None else asdict(value)
        if self.backbone is not None and not isinstance(self.backbone, str):
            backbone_of(self.backbone)
        if (network := self.network()) is not None:
            found |= {"backbone": network.name, "backbone_digest": network.digest}
        return dict(sorted(found.items()))

    def network(self) -> Backbone | None:
        """Return the pretrained network of a fit; None without one, or if "auto" has none."""
        if self.features not in ("auto", "pretrained") or self.backbone is None:
            return None
        name = self.backbone
        if self.features == "auto" and isinstance(name, str) and not is_installed(name):
            return None
        return backbone_of(name)

    def to_arrays(self) -> tuple[dict[str, AnyArray], dict[str, Any]]:
        """Return arrays and a JSON-able description, of which `from_arrays` makes this object."""
        fitted = self._need()
        arrays, described = fitted.to_arrays()
        resolved = {  # what was "auto" or None
            "features": fitted.mode,
            "kind": fitted.bank.kind,
            "position": fitted.bank.position,
            "recipe": asdict(self.recipe or default_recipe(fitted.bank, fitted.questions)),
            "net": asdict(self.net or usual_net(self.features)),
            "random_state": self._seed(),
            "intensities": self.intensities_.to_plain(),
        }
        depth = {} if self.depth_ is None else {"volumes": asdict(self.depth_)}
        return arrays, {"format": FORMAT} | self.settings() | resolved | described | depth

    @classmethod
    def from_arrays(
        cls, arrays: dict[str, AnyArray], described: dict[str, Any], n_jobs: Jobs = None
    ) -> "Featurizer":
        """Invert `to_arrays`. Nothing is executed; damage is an `InputError`."""
        try:
            if described["format"] != FORMAT:
                raise InputError(
                    f"features have format {quoted(described['format'])}, but this version reads "
                    f"format {FORMAT}. Read the file with the version of cutlearn that wrote it."
                )
            bank = bank_from_plain(described["bank"])
            recipe = Recipe(**described["recipe"])
            # Older files have kind and position with the bank only, no regions and no channels.
            older = {"kind": bank.kind, "position": bank.position, "superpixels": [("slic", SIZE)]}
            given: dict[str, Any] = {
                "channels": [], "budget": "normal", "backbone": "mobile-sam",
            } | older | described  # fmt: skip
            given["recipe"], given["net"] = recipe, NetRecipe(**described.get("net", {}))
            given["features"] = OLDER_NAMES.get(described["features"], described["features"])
            names = set(cls._get_param_names()) - set(NOT_FEATURES)
            made = cls(**{name: given[name] for name in names}, n_jobs=n_jobs)
            made.settings()
            made.fitted_ = FittedColumns.of_arrays(
                made.features, arrays, described, bank, recipe.step
            )
            made.fitted_.probe(made.channels)
            depth = described.get("volumes")
            if depth is not None:
                if not isinstance(depth, dict) or type(depth["own"]) is not bool:
                    raise InputError(
                        "features: what they keep of volumes is damaged. Refit the model."
                    )
                made.depth_ = DepthAxis(depth["own"])
            # Models of older files saw images as they are.
            made.intensities_ = Intensities.from_plain(described.get("intensities", [0.0, 1.0]))
        except InputError:
            raise
        except (KeyError, TypeError, ValueError, IndexError) as error:
            raise InputError(
                f"features: their description is damaged ({error}). Refit the model."
            ) from error
        return made

    def _read(self, image: Any, extra: AnyArray | None = None) -> Pair:
        """Return the scaled image and its extra array."""
        sample = as_sample(image)
        if extra is not None:
            sample = Sample(sample.image, extra=extra)
        return _scaled(self.intensities_, sample)

    def _seed(self) -> int:
        seed = self.random_state
        return 0 if seed is None else whole_number("random_state", seed, 0, 2**64 - 1)

    def _need(self) -> FittedColumns:
        if not hasattr(self, "fitted_"):
            raise NotFittedError("This Featurizer is not fitted yet. Call fit first.")
        fitted: FittedColumns = self.fitted_
        return fitted

    def _depth(self) -> DepthAxis:
        if self.depth_ is None:
            raise InputError(
                "images: a volume was given, but the model was fitted on images. Fit it on "
                "volumes, or give the slices: volume.slices()."
            )
        return self.depth_


def _scaled(intensities: Intensities, sample: Sample) -> Pair:
    return intensities.scaled(sample.image), sample.extra


def _with_axis(mask: Mask) -> Mask:
    """Return a mask as (h, w, T); one question may go without its axis."""
    return mask[..., None] if mask.ndim == 2 else mask


def _need_both_labels(masks: Sequence[Mask]) -> None:
    seen: set[int] = set()
    for mask in masks:
        seen.update(np.unique(mask).tolist())
        if {0, 1} <= seen:
            return
    raise InputError(
        "masks have one label only in all of them, but pixels of 0 and of 1 are needed. "
        "Annotate an image with both."
    )


def _width_of_extras(samples: Sequence[Sample]) -> int:
    """Return the channels of the extra arrays, 0 if there are none; refuse several numbers."""
    widths: dict[int, int] = {}
    for i, sample in enumerate(samples):
        widths.setdefault(0 if sample.extra is None else sample.extra.shape[2], i)
    if len(widths) > 1 and 0 in widths:
        raise InputError(
            f"image {widths[0]} has no extra array, but others have one. "
            "Give extra for all samples, or for none."
        )
    if len(widths) > 1:
        raise InputError(
            f"extra has {sorted(widths)} channels in different images. Give all the same number."
        )
    return next(iter(widths))


def _some_unannotated(images: Sequence[Any], width: int) -> Sequence[Sample]:
    """Return images without masks, some of them if they are many, each loaded when it is needed.

    `width`: channels of the extra arrays of the training images; 0 if they have none.
    """
    given = listed("unannotated", images)

    def load(index: int) -> Sample:
        where = f"unannotated[{index}]"
        try:
            sample = as_sample(given[index])
        except InputError as error:
            raise InputError(f"{where}: {str(error).removeprefix('image: ')}") from None
        if isinstance(sample, Volume):
            raise InputError(
                f"{where} is a volume, but only images can be looked at without masks. Leave "
                "unannotated out; slices of a volume that have no mask are void."
            )
        found = 0 if sample.extra is None else sample.extra.shape[2]
        if found != width:
            raise InputError(
                f"{where} has an extra array of {found} channels, but those of the training images "
                f"have {width}. Give all the same number, or leave unannotated out."
            )
        return sample

    few = evenly_spaced(len(given), MOST_UNANNOTATED)
    return Loaded(len(few), lambda k: load(few[k]))


def _mark(
    settings: dict[str, Any],
    groups: Sequence[int],
    pairs: Sequence[Pair],
    labels: Sequence[Mask],
    unannotated: Sequence[Pair],
) -> str:
    """Return a digest of everything that features depend on.

    Of images without masks it covers their number, the first and the last: all are read only once.
    """
    described: list[Any] = [settings, list(groups)]
    ends: list[Pair] = []
    if unannotated:
        described.append(len(unannotated))
        ends = [unannotated[0], unannotated[-1]]
    arrays = chain(
        (a for pair, mask in zip(pairs, labels) for a in (*pair, mask)),
        (a for pair in ends for a in pair),
    )
    return fingerprint(json.dumps(described), arrays)


def _memory_file(memory: Any, mark: str) -> Path:
    """Return the file of a mark in the folder `memory`, which is made when missing."""
    folder = path_of("memory", memory)
    if folder.exists() and not folder.is_dir():
        raise InputError(f"memory must be a folder, but {folder} is a file. Name another place.")
    folder.mkdir(parents=True, exist_ok=True)
    return folder / f"features-{mark}.safetensors"
