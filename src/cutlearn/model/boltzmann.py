"""The estimator whose masks have learned shapes: a max-margin Boltzmann machine, then a cut.

fit: pictures at the model's size -> codebooks and views -> shapes -> regressions -> margins.
predict: view -> iterated modes -> log-odds of labels, painted back -> one cut at full size.
"""

from __future__ import annotations

import copy
import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, clone

from cutlearn.energy.energy import Energy
from cutlearn.errors import InputError
from cutlearn.features.folds import held_out_parts
from cutlearn.images.sample import Sample
from cutlearn.model.believe import Believing
from cutlearn.model.calibrate import Rows, calibrate, drawn, uncalibrated
from cutlearn.model.card import card_of
from cutlearn.model.parameters import check_boltzmann, seed_of
from cutlearn.model.prepare import (
    checkpoint_folder,
    farewell,
)
from cutlearn.model.training_images import remembered
from cutlearn.run.checkpoint import Interrupted, fingerprint
from cutlearn.run.progress import Progress
from cutlearn.run.workers import Workers
from cutlearn.shape.cccp import Learning
from cutlearn.shape.conditional import Conditional
from cutlearn.shape.describe import Describer, View
from cutlearn.shape.frame import Frame
from cutlearn.shape.generative import Shapes
from cutlearn.shape.journal import Journal
from cutlearn.shape.patches import Patches
from cutlearn.shape.refine import choose_strength, refinement
from cutlearn.shape.training import Plan, fit_conditional, need_both_labels

Mask = NDArray[np.uint8]
Float32 = NDArray[np.float32]
Floats = NDArray[np.float64]
# Training images on which the strength of the refinement is chosen.
JUDGED = 40


class BoltzmannSegmenter(Believing, BaseEstimator):  # type: ignore[misc]
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
    calibration_ : Calibration
        From min-marginals to probabilities; `calibrate` fits it.
    judged_ : dict
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
        min_side: int | None = None,
        n_jobs: int | None = None,
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

    def fit(
        self,
        images: Sequence[Any],
        masks: Sequence[Any],
        groups: Sequence[Any] | None = None,
        *,
        checkpoint: str | os.PathLike[str] | None = None,
        progress: Callable[[int, int, str], None] | None = None,
    ) -> BoltzmannSegmenter:
        """Learn from images and masks.

        Parameters
        ----------
        images : n images or samples
        masks : n arrays (h, w) of 0, 1 and 255 (void)
        groups : n hashables, optional
            Images of one group are held out together for the calibration.
        checkpoint : folder, optional
            Made when missing; the training is kept there every ten seconds, and the same call goes
            on where it was interrupted, with the same result.
        progress : callable (done, total, what), optional
        """
        self._check_parameters()
        samples, truth, together = self._read_training(images, masks, groups)
        labels = [self._frame(s).labels(m) for s, m in zip(samples, truth)]
        need_both_labels(labels)
        seed = seed_of(self.random_state)
        folder = checkpoint_folder(checkpoint)
        file = None if folder is None else folder / "shape.safetensors"
        mark = "" if file is None else self._fingerprint(samples, truth, seed)
        try:
            with Progress() as shown:
                told = shown.phase if self.verbose and progress is None else progress
                journal = Journal(seed, file, mark, told)
                describer, views = self._views(samples, seed)
                model, violated = fit_conditional(views, labels, self._plan(), journal)
                halves = self._halves(samples, truth, together, folder, told)
            # A copy learns the rest, so that an interrupt leaves this one as it was.
            made = copy.copy(self)
            made._begin(describer, model, violated)
            made._choose_strength(samples, truth, views)
            made._calibrate(halves, samples, truth, together)
            made.card_ = card_of(made, truth)
            made.training_ = remembered(images, masks, 2)
        except KeyboardInterrupt:
            raise Interrupted(farewell(folder)) from None
        self._become(made)
        return self

    def _plan(self) -> Plan:
        learning = Learning(
            self.margin, float(self.hidden_weight), float(self.rate), float(self.gamma),
            int(self.starts),
        )  # fmt: skip
        hidden, epochs = (tuple(int(k) for k in pair) for pair in (self.hidden, self.epochs))
        return Plan(
            hidden[: self.layers], epochs[: self.layers], int(self.cycles), learning,
            bool(self.sees_image), bool(self.pairwise),
        )  # fmt: skip

    def _check_samples(self, samples: Sequence[Sample]) -> None:
        """Refuse channels that would not be looked at."""
        for i, sample in enumerate(samples):
            if sample.extra is not None:
                raise InputError(
                    f"image {i}: extra channels found; none were wanted, as a BoltzmannSegmenter "
                    "sees the image only. Leave out extra, or use a Segmenter."
                )

    def _frame(self, sample: Sample) -> Frame:
        return Frame((int(self.shape[0]), int(self.shape[1])), sample.shape)

    def _views(self, samples: Sequence[Sample], seed: int) -> tuple[Describer, list[View]]:
        """Learn the codebooks and describe the training images."""
        shape = (int(self.shape[0]), int(self.shape[1]))
        patches = Patches.layout(shape) if self.layers == 2 else Patches.whole(shape)
        with Workers(self._threads()) as workers:
            pictures = workers.map(lambda s: self._frame(s).picture(s.image), samples)
            describer = Describer.fit(pictures, patches, self.words, seed)
            return describer, workers.map(describer.view, pictures)

    def _halves(
        self,
        samples: Sequence[Sample],
        truth: Sequence[Mask],
        groups: Sequence[int],
        folder: Path | None,
        told: Callable[[int, int, str], None] | None,
    ) -> list[tuple[list[int], BoltzmannSegmenter]]:
        """Held-out images with machines that have not seen them; none if a half lacks a label."""
        parts = held_out_parts(groups) if self.calibration is not None else []
        halves = []
        for k, out in enumerate(parts):
            kept = [i for i in range(len(samples)) if i not in set(out)]
            labels = [self._frame(samples[i]).labels(truth[i]) for i in kept]
            if not all(any((mask == label).any() for mask in labels) for label in (0, 1)):
                return []
            other = clone(self).set_params(calibration=None, refine=False, verbose=False)
            other.fit(
                [samples[i] for i in kept], [truth[i] for i in kept], progress=told,
                checkpoint=None if folder is None else folder / f"part{k}",
            )  # fmt: skip
            halves.append((out, other))
        return halves

    def _begin(self, describer: Describer, model: Conditional, violated: list[float]) -> None:
        """Take what was trained; strength and calibration are still to come."""
        self.describer_ = describer
        self.w_ = model.w
        self.violated_ = violated
        self.classes_ = np.array([0, 1], np.uint8)
        self.calibration_ = uncalibrated(2)
        self.strength_ = 0.0
        self.judged_: dict[str, Any] = {}

    def _choose_strength(
        self, samples: Sequence[Sample], truth: Sequence[Mask], views: Sequence[View]
    ) -> None:
        """Take the strength of the refinement with the best pooled IoU on training images."""
        if not self.refine:
            return
        few = range(0, len(samples), max(1, len(samples) // JUDGED))
        logits = [self._painted(samples[i], views[i]) for i in few]
        images = [samples[i].image for i in few]
        self.strength_, iou = choose_strength(logits, images, [truth[i] for i in few])
        self.judged_ = {"pooled_iou": iou, "images": len(few)}

    def _calibrate(
        self,
        halves: Sequence[tuple[list[int], BoltzmannSegmenter]],
        samples: Sequence[Sample],
        truth: Sequence[Mask],
        groups: Sequence[int],
    ) -> None:
        """Calibrate on images that the machines have not seen; without halves on all images."""
        if self.calibration is None:
            return
        rows: dict[int, Rows] = {}
        for out, machine in halves or [(list(range(len(samples))), self)]:
            # What is calibrated is refined as strongly as what will be predicted.
            machine.strength_ = self.strength_
            least = machine._leasts([samples[i] for i in out])
            rows |= {i: drawn(found, truth[i]) for i, found in zip(out, least)}
        found = [rows[i] for i in range(len(samples))]
        self.calibration_ = calibrate(found, self.calibration, bool(halves), groups)

    # -- prediction ------------------------------------------------------------------------------

    def _mask(self, sample: Sample) -> Mask:
        return self._refined(sample).minimize(sample.fixed()).labels.astype(np.uint8)

    def _least(self, sample: Sample) -> Floats:
        return self._refined(sample).min_marginals(sample.fixed())

    def _refined(self, sample: Sample) -> Energy:
        view = self.describer_.view(self._frame(sample).picture(sample.image))
        return refinement(self._painted(sample, view), sample.image, self.strength_)

    def shapes(self) -> Shapes:
        """Give the learned shapes alone, to draw, complete and judge masks at the model's size."""
        self._check_fitted()
        if not self.w_["c"].size:
            raise InputError(
                "shapes: a model without hidden layers found; one with shapes was wanted. Fit with "
                "layers=1 or 2."
            )
        return Shapes(
            self.describer_.patches, *(self.w_[name] for name in ("W", "c", "b", "W2", "c2"))
        )

    def _painted(self, sample: Sample, view: View) -> Float32:
        model = Conditional(self.describer_.patches, self.w_)
        return self._frame(sample).paint(model.log_odds(view, int(self.starts)))

    def _check_parameters(self) -> None:
        check_boltzmann(self)

    def _fingerprint(self, samples: Sequence[Sample], masks: Sequence[Mask], seed: int) -> str:
        """Of all that the training depends on."""
        settings = [repr(self._plan()), [*map(int, (*self.shape, *self.words))], seed]
        seen = (array for s, mask in zip(samples, masks) for array in (s.image, mask))
        return fingerprint(json.dumps(settings), seen)
