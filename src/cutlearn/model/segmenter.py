"""The estimator: images and masks in, a model out; new images in, masks out.

fit: features (out of fold) -> problems -> weights, with a certified gap or of largest likelihood,
chosen for what is judged, -> calibration on held-out images. predict: features -> energy -> one
cut per image (expansion moves for unordered labels), or min-marginals -> probabilities -> a
decision. The contract is scikit-learn's, on lists of images of any sizes.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from functools import partial
from sys import float_info
from typing import Any, Self

import numpy as np
from sklearn.base import clone

from cutlearn.arrays import VOID, AnyArray, Floats, Mask
from cutlearn.checks import is_one_of
from cutlearn.energy.compiled import Compiled
from cutlearn.energy.model import Model, from_plain, to_plain, uses_edges, uses_regions
from cutlearn.energy.potentials import Potential
from cutlearn.energy.problem import Problem
from cutlearn.errors import InputError
from cutlearn.features.backbone import backbone_of, is_network
from cutlearn.features.featurizer import Featurizer, uses_unlabelled
from cutlearn.features.folds import held_out_parts
from cutlearn.features.nodes import PROBED
from cutlearn.images.resize import Shape
from cutlearn.images.sample import Sample, are_volumes, of_slices
from cutlearn.images.training_set import TrainingSet
from cutlearn.learn.learners import is_margin, learner_of
from cutlearn.learn.losses import Loss, UnknownLoss, loss_from_plain, loss_to_plain
from cutlearn.learn.run import Step, rows_to_steps, steps_to_rows
from cutlearn.loaded import mapped, together
from cutlearn.model.base import Estimator, FitRun, Summary
from cutlearn.model.budget import phases_of
from cutlearn.model.calibration import Evidence, costs_alone
from cutlearn.model.large import LargeImage, is_large
from cutlearn.model.parameters import (
    SEGMENTER,
    check_parameters,
    check_parameters_for,
    feature_names,
    fresh_featurizer,
    kinds,
    labels_for,
    model_for,
    plain_C,
    plain_seed,
)
from cutlearn.model.ranking import Described, Ranked, describe, rank
from cutlearn.model.selection import Chosen, Trainer, least_gap, settings_of
from cutlearn.model.size import at_side
from cutlearn.run.executor import Jobs
from cutlearn.run.progress import Progress

Arrays = dict[str, AnyArray]
# The prefix of the tensors of features in a model file.
FEATURES = "features."


class Segmenter(Estimator):
    """Learn to segment images by graph cuts, exact for two labels and for labels with an order.

    Parameters
    ----------
    potentials : tuple of str or Potential
        ("unary", "contrast"), or ("unary",) for no edges. With "envelope" added, a concave cost of
        the fraction of label 1 in every superpixel is learned too; the Featurizer says which
        superpixels. Objects may stand for names: `cl.Enveloped(cl.EnvelopeSpec(5))`, or a
        potential of your own.
    labels : "auto", "binary", "ordered", "surrogate" or "unordered"
        Masks hold 0, 1, .., L - 1, or other values, which are labels in their order
        (`training_.values` has them). "auto": binary if the masks have two labels; else unordered,
        or surrogate with a likelihood. "ordered" labels, such as layers, have one table of costs
        for each edge feature and an exact cut. Labels without an order are "surrogate", one
        binary field each, for probabilities (learner="likelihood"), or "unordered": tables and
        expansion moves, without a certificate. `model_.labels` has the kind that was learned.
    loss : "hamming", "count" or a Loss
        "hamming" serves IoU: C and the bias are chosen for pooled IoU. A `Loss` (such as
        `Hamming()`) is trained as it stands, and C chosen for it.
    learner : "bundle", "nslack", "accpm", "likelihood" or "logistic"
        As in `train`. The first three learn masks to a certified gap. "likelihood" learns
        probabilities: it maximises the likelihood of the masks under softmaxed min-marginals, C
        is chosen for that of held-out images, and nothing is certified; "logistic" does so
        without edges and envelopes. Both have no loss. With C="auto", "likelihood" also leaves
        edges and envelopes out if held-out images are clearly more likely so
        (`validation_["learner"]`).
    C : "auto" or float > 0
        1 / lambda; "auto" chooses by held-out images. Infinity: no regulariser, with "accpm",
        "likelihood" and "logistic".
    tol : float > 0
        Training stops when its relative gap is proved to be at most this; of more than three
        unordered labels, where nothing is proved, at 5 % or this. Learning a likelihood
        stops when 30 steps improve it by less than this share.
    features : str or Featurizer, default "auto"
        "auto", "trees", "net", "stacked", "both", "pretrained", "linear" or "given".
        Where the logits of pixels come from (of several labels one for each, or for each threshold
        of ordered ones): boosted trees, a very small net, trees over what the net says, both side
        by side; or a linear head over a pretrained network. "auto" chooses among them by held-out
        images, with a pretrained network only if it is installed. Or a linear filter bank,
        or only the arrays that samples bring as `extra`. A Featurizer has your own settings; it is
        copied, refitted, and has its own connectivity and budget.
    connectivity : 4, 8 or None, default None
        Neighbours of a pixel; a voxel has two more, in the adjacent slices. None: that of the
        Featurizer, else 8. Another value than the Featurizer's is refused.
    n_jobs : int, address or Client, optional
        Threads; None: all usable cores. Or a dask.distributed cluster: the address of its
        scheduler, "local:4" for four processes of this machine, or a `Client` (docs/cluster.md).
        The results do not depend on it.
    random_state : int, RandomState or None
        None is 0: the same images always give the same model.
    verbose : bool
        Show progress on stderr.
    budget : "fast", "normal", "best" or float
        What features="auto" may cost; see `Featurizer`.
    calibration : "temperature", "isotonic" or None
        How min-marginals, and what labels cost a pixel alone, become probabilities, fitted inside
        of fit on logits (or, without any, by weights) that have not seen their image; None: a plain
        softmax of min-marginals, and no training.
    min_side : int or "full", optional
        Images are worked at a size with so many pixels on their smaller side, in fit and ever
        after; masks, probabilities and areas come back at the size of the image. None: as they are,
        above two megapixels at two. "full": as they are, however large.
    backbone : str, callable or None, default "mobile-sam"
        The pretrained network of features="pretrained" and "auto"; see `Featurizer`.

    Attributes
    ----------
    w_ : (d,) float64 array
        Weights of nodes, edges and envelopes, as named by `w_names_`.
    w_names_ : list of str
    gap_, converged_, certified_ : float, bool, bool
        The relative gap of the training, whether it reached `tol`, and whether it is proved. What
        edges count over a mean of nets (`validation_["edges"]`) and the shift of the bias for IoU
        (`validation_["shift"]`) come after the training; so does the weight of the contrast
        (`validation_["contrast"]`) where no border is annotated, as with strokes. A
        likelihood has no gap (nan); `converged_` says whether its progress ended.
    n_steps_, steps_ : int, tuple of Step
    C_ : float
    classes_ : (L,) array
    featurizer_ : Featurizer
    model_ : Model
        The potentials, and what the labels are.
    calibration_ : Calibration
        From min-marginals to probabilities; `calibrate` fits it anew.
    validation_ : dict
        How C and bias were evaluated, on training images; `judged_` is its earlier name.
    card_ : dict
        What a model file says of itself.
    training_ : TrainingImages
        Facts of the training images, and the values that the labels had in their masks.

    Examples
    --------
    >>> import cutlearn as cl
    >>> from cutlearn.images import cells
    >>> worlds = [cells(seed, (48, 64)) for seed in range(4)]
    >>> images, masks = [w.image for w in worlds], [w.labels for w in worlds]
    >>> model = cl.Segmenter(features="linear").fit(images[:3], masks[:3])
    >>> model.predict(images[3:])[0].shape
    (48, 64)
    """

    command = "cut"
    rules = SEGMENTER
    model_: Model
    featurizer_: Featurizer

    def __init__(
        self,
        potentials: Sequence[str | Potential] = ("unary", "contrast"),
        labels: str = "auto",
        loss: str | Loss = "hamming",
        learner: str = "bundle",
        C: float | str = "auto",
        tol: float = 0.01,
        features: str | Featurizer = "auto",
        connectivity: int | None = None,
        n_jobs: Jobs = None,
        random_state: Any = None,
        verbose: bool = False,
        *,
        budget: str | float = "normal",
        calibration: str | None = "temperature",
        min_side: int | str | None = None,
        backbone: Any = "mobile-sam",
    ) -> None:
        self.potentials = potentials
        self.labels = labels
        self.loss = loss
        self.learner = learner
        self.C = C
        self.tol = tol
        self.features = features
        self.connectivity = connectivity
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose
        self.budget = budget
        self.calibration = calibration
        self.min_side = min_side
        self.backbone = backbone

    def learn(self, data: TrainingSet, run: FitRun) -> None:
        if isinstance(self.loss, UnknownLoss):
            self.loss.refuse()
        place = self._executor()
        top = max(int(mask[mask != VOID].max()) for mask in data.masks)
        n_labels = max(2, 1 + top)
        check_parameters_for(self, n_labels)
        labels, featurizer = labels_for(self, n_labels), fresh_featurizer(self, place)
        seen = mapped(labels.questions, data.masks)
        place_of_features = run.folder or run.scratch
        nodes = featurizer.fit_samples(
            data.samples, seen, data.groups, run.unannotated,
            None if place_of_features is None else place_of_features / "features.safetensors",
            run.progress,
        )  # fmt: skip
        edges, regions = uses_edges(self.potentials), uses_regions(self.potentials)
        pose, given = partial(_posed, featurizer.unfitted(), edges, regions), (data.samples, nodes)
        problems: Sequence[Problem]
        if run.scratch is not None:  # joined whenever somebody asks for them
            problems = mapped(pose, together(*given))
        else:
            problems = place.map(pose, zip(*given))
        model = model_for(self, featurizer, labels.count, len(problems[0].regions))
        source, named = featurizer.fitted_.source, enumerate(featurizer.edge_names_)
        contrast = tuple(k for k, name in named if name.startswith("contrast"))
        chosen = Trainer(
            problems, data.masks, model, self.loss, self.learner, self.C, float(self.tol),
            data.groups, self.calibration, self._rivals, source.edges, contrast,
            bool(source.stages), place, run.folder, run.callback,
        ).choose()  # fmt: skip
        self._keep(featurizer, chosen, model, problems[0])

    def _keep(self, featurizer: Featurizer, chosen: Chosen, model: Model, problem: Problem) -> None:
        """Put all that was learned in place."""
        result = chosen.result
        # A cluster is where this fit ran; it is no part of the model.
        featurizer.set_params(n_jobs=None)
        self.model_, self.featurizer_ = model, featurizer
        self.w_ = chosen.w
        self.w_names_ = model.names(problem, feature_names(featurizer))
        self.gap_ = float(result.relative_gap) if is_margin(self.learner) else math.nan
        self.n_steps_ = len(result.steps)
        self.steps_ = result.steps
        self.converged_ = result.converged
        self.certified_ = result.certified
        self.C_ = float(result.C)
        self.calibration_ = chosen.calibration
        self.validation_ = chosen.judged
        self.classes_ = np.arange(model.n_labels, dtype=np.uint8)

    def _problem(self, sample: Sample) -> Problem:
        self.featurizer_.check_axes(sample)
        edges, regions = uses_edges(self.potentials), uses_regions(self.potentials)
        return self.featurizer_.problem(sample, None, edges, regions)

    def mask(self, sample: Sample) -> Mask:
        if is_large(self.featurizer_, self.model_, sample.shape):
            return LargeImage(self.featurizer_, self.model_, self.w_, sample).mask()
        return Compiled(self.model_, self._problem(sample)).cut(self.w_, last=True)

    def min_marginals(self, sample: Sample) -> Floats:
        return self.evidence(sample).min_marginals

    def evidence(self, sample: Sample) -> Evidence:
        if is_large(self.featurizer_, self.model_, sample.shape):
            return LargeImage(self.featurizer_, self.model_, self.w_, sample).evidence()
        problem = self._problem(sample)
        own = costs_alone(self.model_, problem, self.w_)
        compiled = Compiled(self.model_, problem)
        del problem  # its features are larger than its energy
        return Evidence(compiled.min_marginals(self.w_, last=True), own)

    @property
    def of_volumes(self) -> bool:
        """Whether the fitted model takes volumes, and no images."""
        return self.featurizer_.depth_ is not None

    @property
    def streams(self) -> bool:
        """Whether it learns from images that are loaded one by one, when memory is too small."""
        return True

    @property
    def learns_from(self) -> frozenset[str]:
        """The arguments of fit, besides images and masks, that change what it does."""
        source = self.features
        mode = source.features if isinstance(source, Featurizer) else source
        return frozenset({"callback"} | ({"unannotated"} if uses_unlabelled(mode) else set()))

    @property
    def most_labels(self) -> int:
        """The most labels that masks may have."""
        return max(kind.most for kind in kinds(self))

    @property
    def reads_instances(self) -> bool:
        """Whether masks that number their objects have one label for all objects."""
        return bool(is_one_of(self.labels, ("auto", "binary")))

    @property
    def _rivals(self) -> tuple[str, ...]:
        """Learners that C = "auto" tries beside the model's own."""
        return ("logistic",) if self.learner == "likelihood" else ()

    def trainings(self, n_images: int) -> int:
        """Give how often a fit trains: for each C and each held-out part, then once on all."""
        parts = len(held_out_parts(range(n_images)))
        path = settings_of(kinds(self)[0](), self.learner, self._rivals)
        return 1 + (0 if parts < 2 else parts * (len(path) if self.C == "auto" else 1))

    def phases(self, shapes: Sequence[Shape], color: bool, n_labels: int) -> dict[str, float]:
        """Give the seconds of the features and of all trainings, as reckoned beforehand."""
        labels, place = labels_for(self, n_labels), self._executor()
        return phases_of(
            fresh_featurizer(self, place), shapes, color, labels, self.trainings(len(shapes)),
            place.width,
        )  # fmt: skip

    def shown_by(self, shown: Progress) -> Any:
        """Give the `progress` of fit that shows its parts on a terminal: those of the features."""
        return shown.features

    def rank(
        self, images: Sequence[Any], progress: Callable[[int, int], None] | None = None
    ) -> list[Ranked]:
        """Order images that have no masks by what annotating them would tell of all of them.

        The most telling image is like many doubtful parts of others, and unlike the images that the
        model was fitted on and those before it (`cutlearn.model.ranking` has the
        formula). Annotate a few from the start, fit again with them, and rank the rest.

        Parameters
        ----------
        images : images or samples
        progress : callable (done, total), optional
            Called after every image that was looked at.

        Returns
        -------
        list of Ranked
            The most telling image first: its place in the list, its score, its windows.
        """
        samples = self._read(images)
        seen = self._each(samples, self.describing(), progress)
        return self.order(seen, [sample.shape for sample in samples])

    def order(self, seen: Sequence[Described], shapes: Sequence[Shape]) -> list[Ranked]:
        """Give what `rank` gives, of the windows (`describing`) and shapes of all images."""
        return [
            ranked.at(seen[ranked.image].shape, shapes[ranked.image])
            for ranked in rank(seen, self.featurizer_.centers_)
        ]

    def describing(self) -> Callable[[Sample], Described]:
        """Return what `rank` computes for each sample, as a function of it."""
        return self._work(Segmenter._windows_of)

    def _windows_of(self, sample: Sample) -> Described:
        if are_volumes([sample]):
            raise InputError(
                "rank: it orders images, but volumes were given. Rank their slices, "
                "volume.slices(), with a model that was fitted on slices."
            )
        small, q = at_side(sample, self.min_side), None
        problem = self._problem(small)
        if self.has_probabilities:
            own = costs_alone(self.model_, problem, self.w_)
            least = Compiled(self.model_, problem).min_marginals(self.w_)
            q = self.calibration_.probabilities(least, own)
        return describe(problem.node_features, small.shape, q)

    def summary(self) -> Summary:
        """Give the figures of the fit, the weights by name, and the steps of the training."""
        self._check_fitted()
        likely = math.isnan(self.gap_)
        fitted = {
            "C": plain_C(self.C_),
            "gap": None if likely else self.gap_,
            "tol": float(self.tol),
            "converged": self.converged_,
            "certified": self.certified_,
            "steps": self.n_steps_,
        }
        curve = [
            {
                "step": s.number, "objective": s.best,
                **({"won lately": s.relative_gap if math.isfinite(s.relative_gap) else None}
                   if likely else {"lower_bound": s.lower_bound, "gap": s.relative_gap}),
                "oracle_seconds": s.oracle_seconds, "master_seconds": s.master_seconds,
            }
            for s in self.steps_
        ]  # fmt: skip
        weights = dict(zip(self.w_names_, self.w_.tolist()))
        return Summary(fitted, weights, len(weights), curve, self._ending(), self.converged_)

    def _ending(self) -> str:
        """How the training ended: at a certified gap, or where a likelihood came to rest."""
        if math.isnan(self.gap_):
            end = "converged" if self.converged_ else "NOT CONVERGED"
            reached = f"likelihood ({end}; no gap is proved)"
        else:
            proof = "certified" if self.certified_ else "not certified"
            state = proof if self.converged_ else "NOT REACHED"
            asked = max(float(self.tol), least_gap(self.model_.labels))
            gap, tol = 100 * self.gap_, 100 * asked
            reached = f"gap {gap:.2f} % ({tol:.2f} % asked for, {state})"
        return f"C = {self.C_:g}, {reached} after {self.n_steps_} steps"

    def to_header(self) -> tuple[dict[str, Any], Arrays]:
        """Return what a model file keeps."""
        arrays, described = self.featurizer_.to_arrays()
        header = {
            "parameters": self._plain_parameters(),
            "names": self.w_names_,
            "fitted": {
                "C": plain_C(self.C_),
                "gap": None if math.isnan(self.gap_) else self.gap_,
                "converged": self.converged_,
                "certified": self.certified_,
            },
            "features": described,
        }
        tensors: Arrays = {f"{FEATURES}{name}": array for name, array in arrays.items()}
        return header, tensors | {"w": self.w_, "steps": steps_to_rows(list(self.steps_))}

    def _plain_parameters(self) -> dict[str, Any]:
        """Return the parameters as JSON can hold them: objects by their description."""
        given: dict[str, Any] = self.get_params(deep=False)
        given["potentials"] = [to_plain(p) for p in given["potentials"]]
        given["loss"] = loss_to_plain(given["loss"])
        if isinstance(given["features"], Featurizer):
            given["features"] = None  # the header's own "features" tells all of it
        given["random_state"] = plain_seed(given["random_state"], self.featurizer_.random_state)
        given["C"] = plain_C(given["C"])
        if given["backbone"] is not None and not isinstance(given["backbone"], str):
            given["backbone"] = backbone_of(given["backbone"]).name
        return given

    @classmethod
    def from_header(cls, header: dict[str, Any], arrays: Arrays) -> Self:
        """Return the model of `to_header`; what does not fit raises ValueError, KeyError, ..."""
        described: Any = header["features"]
        if not isinstance(described, dict):
            raise ValueError("no description of the features")
        part = {n.removeprefix(FEATURES): a for n, a in arrays.items() if n.startswith(FEATURES)}
        if len(part) + 2 != len(arrays):
            raise ValueError("tensors that no model has")
        given = dict(header["parameters"])
        featurizer = Featurizer.from_arrays(part, described, given["n_jobs"])
        given["potentials"] = tuple(from_plain(p) for p in given["potentials"])
        given["C"] = _strength(given["C"])
        if given["features"] is None:
            given["features"] = clone(featurizer).set_params(n_jobs=None)
            given["connectivity"] = None  # older files have one that was not used
        given["loss"] = loss_from_plain(given["loss"])
        # Only features that need a function miss it, and they have refused the file by now.
        if not is_network(given.get("backbone", "mobile-sam")):
            given["backbone"] = None
        model = cls(**given)
        check_parameters(model)
        # A small picture goes all the way to a mask: settings which do not fit each other show now.
        shape = (PROBED, PROBED)
        extra = np.zeros((*shape, int(described["n_extra"]))) if described["n_extra"] else None
        model.featurizer_ = featurizer
        few = Sample(np.zeros((*shape, 3)), extra=extra)
        if featurizer.depth_ is not None:
            few = of_slices([few, few], (1.0, 1.0, 1.0))
        problem = model._problem(few)
        model._fill(header, arrays, problem)
        model.model_.mask(problem, model.w_)
        return model

    def _fill(self, header: dict[str, Any], arrays: Arrays, problem: Problem) -> None:
        """Set the checked attributes of a fitted model."""
        w, names = arrays["w"], header["names"]
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise ValueError("names that are none")
        n_labels = _labels_in(names)
        if not 2 <= n_labels <= self.most_labels:
            raise ValueError(f"{n_labels} labels")
        made = model_for(self, self.featurizer_, n_labels, len(problem.regions))
        wanted = made.names(problem, feature_names(self.featurizer_))
        if names != wanted or w.dtype != np.float64 or w.shape != (len(names),):
            raise ValueError(f"{w.size} weights for {len(wanted)} features")
        edge = np.array(
            [re.match(r"(label \d+ )?(edge|border) ", name) is not None for name in names]
        )
        if not np.isfinite(w).all() or (w[edge] < 0).any():
            raise ValueError("weights that are not finite, or edge weights below zero")
        # Tables that no cut can minimise are refused by the picture of `unpack`.
        steps = _steps(arrays["steps"])
        fitted = header["fitted"]
        C, gap = float(_strength(fitted["C"])), fitted["gap"]
        learner = learner_of(self.learner)
        most = math.inf if learner.allows_infinite_C else float_info.max
        # A likelihood has no gap, which JSON says as null.
        told = math.isfinite(gap) if learner.margin else gap is None
        if not 0 < C <= most or not told:
            raise ValueError("figures of the fit that cannot be")
        self.model_, self.w_, self.w_names_ = made, w, names
        self.C_, self.gap_ = C, math.nan if gap is None else float(gap)
        self.converged_, self.certified_ = bool(fitted["converged"]), bool(fitted["certified"])
        self.steps_, self.n_steps_ = tuple(steps), len(steps)
        self.classes_ = np.arange(n_labels, dtype=np.uint8)


def _posed(
    featurizer: Featurizer, edges: bool, regions: bool, given: tuple[Sample, Any]
) -> Problem:
    return featurizer.problem(*given, edges, regions)


def _labels_in(names: list[str]) -> int:
    """Return L, from the names of weights; two labels are not named."""
    return max((1 + int(n.split()[1]) for n in names if n.startswith("label ")), default=2)


def _strength(value: Any) -> Any:
    """Return C, from what `plain_C` made of it."""
    return math.inf if value == "inf" else value


def _steps(rows: AnyArray) -> list[Step]:
    """Read back the steps; numbers that cannot be are refused."""
    if rows.dtype != np.float64 or rows.ndim != 2:
        raise ValueError("steps of another form")
    steps = rows_to_steps(rows)
    if any(not 0 <= n < 2**53 for s in steps for n in (s.number, s.calls, s.planes)):
        raise ValueError("steps that cannot be counted")
    return steps
