"""The estimator whose masks have learned shapes: a max-margin Boltzmann machine, then a cut.

fit: pictures at the model's size -> codebooks and views -> shapes -> regressions -> margins.
predict: view -> iterated modes -> log-odds of labels, painted back -> one cut at full size.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from functools import partial
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from cutlearn.arrays import AnyArray, Floats, Mask
from cutlearn.energy.energy import Energy
from cutlearn.errors import InputError
from cutlearn.features.folds import held_out_parts
from cutlearn.images.sample import Sample, are_volumes
from cutlearn.images.training_set import TrainingSet
from cutlearn.metrics import Confusion, bootstrap, confusion, iou_of, stack_tables
from cutlearn.model.base import Estimator, FitRun, Summary
from cutlearn.model.calibration import Rows, calibrate, drawn, uncalibrated
from cutlearn.model.parameters import BOLTZMANN, MOST, check_parameters, plain_seed, seed_of
from cutlearn.run.checkpoint import fingerprint
from cutlearn.run.executor import Jobs
from cutlearn.shape.conditional import Conditional, Learning, choose_strength, refinement
from cutlearn.shape.describe import Describer, MachineInput, hog, patch_hogs
from cutlearn.shape.frame import SCALE, Frame, Patches
from cutlearn.shape.generative import Shapes
from cutlearn.shape.journal import Journal
from cutlearn.shape.training import MachineSettings, fit_conditional, need_both_labels

Float32 = NDArray[np.float32]
Arrays = dict[str, AnyArray]
WEIGHTS = ("W", "c", "b", "W2", "c2", "V0", "V1", "V2", "v")
SEEN = ("words", "colors", "mean1", "mean2")
# Training images on which the strength of the refinement is chosen.
JUDGED = 40


class BoltzmannSegmenter(Estimator):
    """Learns shapes and what images say of them; segments one object an image.

    Images of any size are padded with their mirror image to the proportions of `shape`, worked at
    that size, painted back, and refined at full size (or at that of `min_side`).

    Parameters
    ----------
    layers : 0, 1 or 2
        Hidden layers: an RBM (MMBM1 of yang2014) or a ShapeBM with four patches (MMBM2). 0 is the
        unary model on superpixels.
    margin : "none", "output", "hidden" or "both"
        What the max-margin training keeps apart: cases 1 to 4 of yang2014.
    refine : bool
        Whether a cut with colour-gradient edges refines the mask at full size.
    pairwise : bool
        Whether the machine's labels have edges, in training and prediction.
    shape : (rows, columns)
        Of the masks that the machine works on.
    hidden : (int, int)
        Units of the first and second hidden layer; the second counts for layers=2 only.
    epochs : (int, int)
        Passes through the masks for the first and second layer of the shapes.
    cycles : int
        Passes through the images of the max-margin training.
    hidden_weight : float > 0
        The margin of a hidden unit where that of a label is 1.
    rate, gamma : float > 0
        First step and regulariser of the max-margin training.
    starts : int
        Starts of the iterated modes.
    words : (int, int)
        Sizes of the codebooks of descriptors and of colours.
    sees_image : bool
        Whether the hidden layers see the image; else they are a prior only.
    calibration : "temperature", "isotonic" or None
        How min-marginals become probabilities, fitted on held-out images inside of fit: two more
        machines learn from half of the images each. None: a plain softmax, without these, and
        often too sure.
    min_side : int, optional
        Images are padded, and refined by the cut, at a size with so many pixels on their smaller
        side; masks, probabilities and areas come back at the size of the image. None: as they are.
    n_jobs : int, optional
        Threads; None: all usable cores. The results do not depend on it.
    random_state : int, RandomState or None
        None is 0: the same images always give the same model.
    verbose : bool
        Show progress on stderr.

    Attributes
    ----------
    w_ : dict of float32 arrays
        The learned numbers; see `shape.conditional`.
    violated_ : list of float
        The mean violated margin of each cycle.
    strength_ : float
        Of the refinement, chosen on training images.
    describer_ : Describer
    classes_ : (2,) array
    seed_ : int
        The seed of all random choices, which a model file keeps for a RandomState.
    calibration_ : Calibration
        From min-marginals to probabilities; `calibrate` fits it.
    validation_ : dict
        The pooled IoU on training images for the chosen strength; empty without refinement.
    card_ : dict
        What a model file says of itself.

    Examples
    --------
    >>> import cutlearn as cl
    >>> from cutlearn.images import cells
    >>> worlds = [cells(seed, (48, 64)) for seed in range(4)]
    >>> images, masks = [w.image for w in worlds], [w.labels for w in worlds]
    >>> model = cl.BoltzmannSegmenter(shape=(12, 16), hidden=(16, 8), words=(32, 16))
    >>> model.fit(images[:3], masks[:3]).predict(images[3:])[0].shape
    (48, 64)
    """

    command = "shape"
    rules = BOLTZMANN

    def __init__(
        self,
        layers: int = 1,
        margin: str = "both",
        refine: bool = True,
        pairwise: bool = False,
        shape: Sequence[int] = (32, 32),
        hidden: Sequence[int] = (500, 200),
        epochs: Sequence[int] = (1000, 500),
        cycles: int = 5,
        hidden_weight: float = 1.0,
        rate: float = 0.001,
        gamma: float = 0.01,
        starts: int = 4,
        words: Sequence[int] = (512, 128),
        sees_image: bool = True,
        calibration: str | None = "temperature",
        min_side: int | str | None = None,
        n_jobs: Jobs = None,
        random_state: Any = None,
        verbose: bool = False,
    ) -> None:
        self.layers = layers
        self.margin = margin
        self.refine = refine
        self.pairwise = pairwise
        self.shape = shape
        self.hidden = hidden
        self.epochs = epochs
        self.cycles = cycles
        self.hidden_weight = hidden_weight
        self.rate = rate
        self.gamma = gamma
        self.starts = starts
        self.words = words
        self.sees_image = sees_image
        self.calibration = calibration
        self.min_side = min_side
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def learn(self, data: TrainingSet, run: FitRun) -> None:
        labels = [self._frame(s).labels(m) for s, m in zip(data.samples, data.masks)]
        need_both_labels(labels)
        seed = self.seed_ = seed_of(self.random_state)
        file = None if run.folder is None else run.folder / "shape.safetensors"
        mark = "" if file is None else self._fingerprint(data.samples, data.masks, seed)
        journal = Journal(seed, file, mark, run.progress)
        self.describer_, views = self._views(data.samples, seed)
        model, self.violated_ = fit_conditional(views, labels, self._plan(), journal)
        self.w_ = model.w
        self.classes_ = np.array([0, 1], np.uint8)
        self.calibration_ = uncalibrated(2)
        self.strength_, self.validation_ = 0.0, {}
        parts, machines = self._halves(data, run, labels)
        if self.refine:
            self._choose_strength(data.samples, data.masks, views)
        if self.calibration is None:
            return

        found: dict[int, tuple[Rows, Confusion]] = {}
        for part, machine in zip(parts, machines):
            # What is calibrated is refined as strongly as what will be predicted.
            machine.strength_ = self.strength_
            given = ((data.samples[i], data.masks[i]) for i in part)
            found |= zip(
                part, self._executor().map(partial(_compared, machine._in_one_thread()), given)
            )
        rows, tables = zip(*(found[i] for i in range(len(found))))
        self.calibration_ = calibrate(rows, self.calibration, len(parts) > 1, data.groups)
        if len(parts) > 1:
            stacked = stack_tables(tables)
            held = bootstrap(stacked, iou_of)
            self.validation_ |= {"judge": "pooled IoU", "held_out": held.plain()}

    def trainings(self, n_images: int) -> int:
        """Give how many phases a fit has: layers and margins of all images, and of each half."""
        halves = 0 if self.calibration is None or n_images < 2 else 2
        return (1 + halves) * (int(self.layers) + 1)

    def _plan(self) -> MachineSettings:
        learning = Learning(
            self.margin, float(self.hidden_weight), float(self.rate), float(self.gamma),
            int(self.starts),
        )  # fmt: skip
        hidden, epochs = (tuple(int(k) for k in pair) for pair in (self.hidden, self.epochs))
        return MachineSettings(
            hidden[: self.layers], epochs[: self.layers], int(self.cycles), learning,
            bool(self.sees_image), bool(self.pairwise),
        )  # fmt: skip

    def _check_samples(self, samples: Sequence[Sample]) -> None:
        """Refuse volumes, and channels that would not be looked at."""
        if are_volumes(samples):
            raise InputError(
                "images: volumes were given, but a BoltzmannSegmenter learns the shapes of images. "
                "Use a Segmenter, or give the slices: volume.slices()."
            )
        for i, sample in enumerate(samples):
            if sample.extra is not None:
                raise InputError(
                    f"image {i} has extra channels, but a BoltzmannSegmenter sees the image only. "
                    "Leave out extra, or use a Segmenter."
                )

    def _frame(self, sample: Sample) -> Frame:
        return Frame((int(self.shape[0]), int(self.shape[1])), sample.shape)

    def _views(self, samples: Sequence[Sample], seed: int) -> tuple[Describer, list[MachineInput]]:
        """Learn the codebooks and describe the training images."""
        shape = (int(self.shape[0]), int(self.shape[1]))
        patches = Patches.layout(shape) if self.layers == 2 else Patches.whole(shape)
        executor = self._executor()
        pictures = executor.map(partial(_pictured, shape), samples)
        describer = Describer.fit(pictures, patches, self.words, seed)
        return describer, executor.map(describer.view, pictures)

    def _halves(
        self, data: TrainingSet, run: FitRun, labels: Sequence[Mask]
    ) -> tuple[list[list[int]], list[BoltzmannSegmenter]]:
        """Parts of the images, with machines that have not seen them.

        Where no half can be left out, because the other one lacks a label, all images are one part
        and this machine, which has seen them, is theirs.
        """
        everything = [list(range(len(labels)))], [self]
        parts = held_out_parts(data.groups or ()) if self.calibration is not None else []
        kept = [[i for i in everything[0][0] if i not in set(out)] for out in parts]
        both = (any((labels[i] == k).any() for i in some) for some in kept for k in (0, 1))
        if not kept or not all(both):
            return everything
        machines = []
        for k, some in enumerate(kept):
            machine = clone(self).set_params(calibration=None, refine=False)
            machine.learn(data.take(some), run.within(f"part{k}"))
            machines.append(machine)
        return [list(out) for out in parts], machines

    def _choose_strength(
        self, samples: Sequence[Sample], truth: Sequence[Mask], views: Sequence[MachineInput]
    ) -> None:
        """Take the strength of the refinement with the best pooled IoU on training images."""
        few = range(0, len(samples), max(1, len(samples) // JUDGED))
        logits = [self._painted(samples[i], views[i]) for i in few]
        images = [samples[i].image for i in few]
        self.strength_, iou = choose_strength(logits, images, [truth[i] for i in few])
        self.validation_ = {"pooled_iou": iou, "images": len(few)}

    # -- prediction ------------------------------------------------------------------------------

    def mask(self, sample: Sample) -> Mask:
        return self._refined(sample).minimize(sample.fixed()).labels.astype(np.uint8)

    def min_marginals(self, sample: Sample) -> Floats:
        return self._refined(sample).min_marginals(sample.fixed())

    def _refined(self, sample: Sample) -> Energy:
        view = self.describer_.view(self._frame(sample).picture(sample.image))
        return refinement(self._painted(sample, view), sample.image, self.strength_)

    def shapes(self) -> Shapes:
        """Give the learned shapes alone, to draw, complete and judge masks at the model's size."""
        self._check_fitted()
        if not self.w_["c"].size:
            raise InputError(
                "This model has no hidden layers, and so it has no shapes. Fit with layers=1 or 2."
            )
        return Shapes(
            self.describer_.patches, *(self.w_[name] for name in ("W", "c", "b", "W2", "c2"))
        )

    def _painted(self, sample: Sample, view: MachineInput) -> Float32:
        model = Conditional(self.describer_.patches, self.w_)
        return self._frame(sample).paint(model.log_odds(view, int(self.starts)))

    def _fingerprint(self, samples: Sequence[Sample], masks: Sequence[Mask], seed: int) -> str:
        """Of all that the training depends on."""
        settings = [repr(self._plan()), [*map(int, (*self.shape, *self.words))], seed]
        seen = (array for s, mask in zip(samples, masks) for array in (s.image, mask))
        return fingerprint(json.dumps(settings), seen)

    def summary(self) -> Summary:
        """Give the figures of the fit, the root mean square of each part of w, and the cycles."""
        self._check_fitted()
        parts = {name: part for name, part in self.w_.items() if part.size}
        weights = {f"{n} {list(p.shape)}": float((p * p).mean() ** 0.5) for n, p in parts.items()}
        curve = [{"cycle": k, "violated": v} for k, v in enumerate(self.violated_, 1)]
        fitted = {"strength": self.strength_, "cycles": len(self.violated_)}
        count = sum(part.size for part in parts.values())
        return Summary(fitted, weights, count, curve, f"{len(curve)} cycles")

    def to_header(self) -> tuple[dict[str, Any], Arrays]:
        """Return what a model file keeps."""
        given: dict[str, Any] = self.get_params(deep=False)
        given["random_state"] = plain_seed(given["random_state"], self.seed_)
        fitted = {"strength": self.strength_, "violated": self.violated_}
        seen = {name: getattr(self.describer_, name) for name in SEEN}
        arrays = {name: self.w_[name] for name in WEIGHTS} | seen
        return {"parameters": given, "fitted": fitted}, arrays

    @classmethod
    def from_header(cls, header: dict[str, Any], arrays: Arrays) -> Self:
        """Return the model of `to_header`; what does not fit raises ValueError, KeyError, ..."""
        given = dict(header["parameters"])
        for name in ("shape", "hidden", "epochs", "words"):
            given[name] = tuple(given[name])
        model = cls(**given)
        if given.keys() != model.get_params(deep=False).keys():
            raise ValueError("a parameter missing")
        check_parameters(model)
        model.seed_ = seed_of(model.random_state)
        if set(arrays) != {*WEIGHTS, *SEEN}:
            raise ValueError("tensors that no model has, or some missing")
        for name, array in arrays.items():
            if array.dtype != np.float32 or not np.isfinite(array).all():
                raise ValueError(f"{name}: numbers of another type, or not finite")
        shape = (int(model.shape[0]), int(model.shape[1]))
        patches = Patches.layout(shape) if model.layers == 2 else Patches.whole(shape)
        words, colors = arrays["words"], arrays["colors"]
        if words.shape[1:] != (128,) or colors.shape[1:] != (3,):
            raise ValueError("codebooks of another form")
        if not (1 <= len(words) <= model.words[0] and 1 <= len(colors) <= model.words[1]):
            raise ValueError("codebooks of another size")
        model.describer_ = Describer(patches, *(arrays[name] for name in SEEN))
        model.w_ = {name: arrays[name] for name in WEIGHTS}
        model._check_shapes()
        fitted = header["fitted"]
        model.strength_ = float(fitted["strength"])
        model.violated_ = [float(v) for v in fitted["violated"]]
        if not all(map(math.isfinite, [model.strength_, *model.violated_])) or model.strength_ < 0:
            raise ValueError("figures of the fit that are not finite")
        if len(model.violated_) > MOST["cycles"]:
            raise ValueError("more cycles than a fit can have")
        model.classes_ = np.array([0, 1], np.uint8)
        return model

    def _check_shapes(self) -> None:
        """Refuse arrays of other shapes than the settings need."""
        patches, w = self.describer_.patches, self.w_
        n, seen = patches.shape[0] * patches.shape[1], bool(self.sees_image)
        if w["b"].shape != (n,):
            raise ValueError(f"{w['b'].size} biases for {n} labels")
        blank = np.zeros((SCALE * patches.shape[0], SCALE * patches.shape[1], 3), np.float32)
        wanted = {"mean1": patch_hogs(blank, patches).shape, "mean2": (hog(blank).size,)}
        for name, shape in wanted.items():
            if getattr(self.describer_, name).shape != shape:
                raise ValueError(f"{name} of another shape than {shape}")
        # How wide a view is does not depend on the size of the picture: a small one tells.
        small, books = Patches.whole((4, 4)), (self.describer_.words, self.describer_.colors)
        none = np.zeros(1, np.float32)
        view = Describer(small, *books, none, none).view(blank[: 4 * SCALE, : 4 * SCALE])
        units = int(self.hidden[0]) // len(patches.corners) if self.layers else 0
        m, m2 = units * len(patches.corners), int(self.hidden[1]) if self.layers == 2 else 0
        wanted = {
            "W": (patches.size[0] * patches.size[1], units),
            "c": (m,),
            "b": (n,),
            "W2": (m, m2),
            "c2": (m2,),
            "V0": (view.x0.shape[1],),
            "V1": (units, self.describer_.mean1.shape[1] * seen),
            "V2": (m2, self.describer_.mean2.size * seen),
            "v": (view.edges.shape[1] * bool(self.pairwise),),
        }
        for name, shape in wanted.items():
            if w[name].shape != shape:
                raise ValueError(f"{name} of shape {w[name].shape}, not {shape}")
        if (w["v"] < 0).any():
            raise ValueError("edge weights below zero")


def _pictured(shape: tuple[int, int], sample: Sample) -> Float32:
    return Frame(shape, sample.shape).picture(sample.image)


def _compared(machine: BoltzmannSegmenter, given: tuple[Sample, Mask]) -> tuple[Rows, Confusion]:
    """Rows to calibrate by, and how the mask of the same min-marginals compares."""
    sample, truth = given
    found = machine.min_marginals(sample)
    return drawn(found, truth), confusion(truth, found.argmin(axis=-1).astype(np.uint8), 2)
