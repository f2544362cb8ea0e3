"""The estimator: images and masks in, a model out; new images in, masks out.

fit: features (out of fold) -> problems -> weights, with a certified gap or of largest likelihood,
chosen for what is judged, -> calibration on held-out images. predict: features -> energy -> one
exact cut an image, or min-marginals -> probabilities -> a decision. The contract is
scikit-learn's, on lists of images of any sizes.
"""

from __future__ import annotations

import copy
import math
import os
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from cutlearn.features.featurizer import Featurizer
from cutlearn.features.problem import VOID, Problem
from cutlearn.images.sample import Sample
from cutlearn.learn.image_loss import Loss
from cutlearn.learn.kept_loss import Described
from cutlearn.learn.learners import is_margin
from cutlearn.learn.steps import Step
from cutlearn.model.believe import Ranking
from cutlearn.model.card import card_of
from cutlearn.model.choose import Chosen, Plan, choose
from cutlearn.model.kinds import KINDS, Kind, Mask
from cutlearn.model.parameters import check_parameters, fresh_featurizer, kind_of
from cutlearn.model.prepare import (
    checkpoint_folder,
    farewell,
    training_features,
)
from cutlearn.run.checkpoint import Interrupted
from cutlearn.run.progress import Progress
from cutlearn.run.workers import Workers


class Segmenter(Ranking, BaseEstimator):  # type: ignore[misc]
    """Learns to segment images; its predictions are exact minimum cuts.

    Parameters
    ----------
    potentials : tuple of str
        ("unary", "contrast"), or ("unary",) for no edges. With "envelope" behind, a concave cost of
        the fraction of label 1 in every superpixel is learned too; the Featurizer says which
        superpixels.
    labels : "binary", "ordered", "surrogate" or "unordered"
        Two labels; or several, masks of 0, 1, .., L - 1. "ordered" ones, such as layers, have one
        table of costs for each edge feature and an exact cut. Those without an order are
        "surrogate", one binary field each, for probabilities (learner="likelihood"), or
        "unordered", tables and expansion moves, for masks only and without a certificate.
    loss : "hamming", "count" or a Loss
        "hamming" serves IoU: C and the bias are chosen for pooled IoU. A `Loss` (such as
        `Hamming()`) is trained as it stands, and C chosen for it.
    learner : "bundle", "nslack", "accpm", "likelihood" or "logistic"
        As in `train`. The first three learn masks to a certified gap. "likelihood" learns
        probabilities: it maximises the likelihood of the masks under softmaxed min-marginals, C
        is chosen for that of held-out images, and nothing is certified; "logistic" does so
        without edges and envelopes. Both have no loss. With C="auto", "likelihood" also leaves
        edges and envelopes out if held-out images are clearly more likely so
        (`judged_["learner"]`).
    C : "auto" or float > 0
        1 / lambda; "auto" chooses by held-out images. Infinity: no regulariser, with "accpm",
        "likelihood" and "logistic".
    tol : float > 0
        The relative gap to certify; of a likelihood, the share of the objective that 30 steps must
        win to go on.
    features : "auto", "trees", "net", "stacked", "both", "linear", "given" or Featurizer
        Where the logits of pixels come from (of several labels one for each, or for each threshold
        of ordered ones): boosted trees, a very small net, trees over what the net says, both side
        by side; "auto" chooses among the first three by held-out images. Or a linear filter bank,
        or only the arrays that samples bring as `extra`. A Featurizer has your own settings; it is
        copied, fitted anew, and brings its own connectivity and budget.
    budget : "fast", "normal", "best" or float
        What features="auto" may cost; see `Featurizer`.
    connectivity : 4 or 8
    calibration : "temperature", "isotonic" or None
        How min-marginals become probabilities, fitted on held-out images inside of fit; None: a
        plain softmax, and no training for it.
    min_side : int, optional
        Images are worked at a size with so many pixels on their smaller side, in fit and ever
        after; masks, probabilities and areas come back at the size of the image. None: as they are.
    n_jobs : int, optional
        Threads; None: all usable cores. The results do not depend on it.
    random_state : int, RandomState or None
        None is 0: the same images always give the same model.
    verbose : bool
        Show progress on stderr.

    Attributes
    ----------
    w_ : (d,) float64 array
        Weights of nodes, edges and envelopes, as named by `w_names_`.
    w_names_ : list of str
    gap_, converged_, certified_ : float, bool, bool
        The relative gap of the training, whether it reached `tol`, and whether it is proved. The
        shift of the bias for IoU (`judged_["shift"]`, mostly 0) comes after the training. A
        likelihood has no gap (nan); `converged_` says whether its progress ended.
    n_steps_, steps_ : int, tuple of Step
    C_ : float
    classes_ : (L,) array
    featurizer_ : Featurizer
    calibration_ : Calibration
        From min-marginals to probabilities; `calibrate` fits it anew.
    judged_ : dict
        What was judged while C and bias were chosen, on training images.
    card_ : dict
        What a model file says of itself.

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

    def __init__(
        self,
        potentials: Sequence[str] = ("unary", "contrast"),
        labels: str = "binary",
        loss: str | Loss = "hamming",
        learner: str = "bundle",
        C: float | str = "auto",
        tol: float = 0.01,
        features: str | Featurizer = "auto",
        budget: str | float = "normal",
        connectivity: int = 8,
        calibration: str | None = "temperature",
        min_side: int | None = None,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: bool = False,
    ) -> None:
        self.potentials = potentials
        self.labels = labels
        self.loss = loss
        self.learner = learner
        self.C = C
        self.tol = tol
        self.features = features
        self.budget = budget
        self.connectivity = connectivity
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
        callback: Callable[[Step], None] | None = None,
    ) -> Segmenter:
        """Learn from images and masks.

        Parameters
        ----------
        images : n images or samples, as for `as_image` and `Sample`
        masks : n arrays (h, w) of labels and 255 (void)
        groups : n hashables, optional
            Images of one group (neighbouring slices) are never on both sides of a comparison: for
            features, C, bias and calibration alike. None: nearly equal images are found.
        checkpoint : folder, optional
            Made when missing; features and every step are kept there, and the same call goes on
            where it was interrupted, with the same result.
        progress : callable (done, total, what), optional
            Called while features are computed.
        callback : callable (Step), optional
            Called after every step of training.
        """
        self._check_parameters()
        if isinstance(self.loss, Described):
            self.loss.refuse()
        threads = self._threads()
        most = KINDS[self.labels].most
        samples, truth, together = self._read_training(images, masks, groups, most)
        kind = kind_of(self, max(2, 1 + max(int(mask[mask != VOID].max()) for mask in truth)))
        featurizer = fresh_featurizer(self, threads)
        folder = checkpoint_folder(checkpoint)
        try:
            with Progress() as shown:
                told = shown.features if self.verbose and progress is None else progress
                stepped = shown.step if self.verbose and callback is None else callback
                seen = [kind.questions(mask) for mask in truth]
                nodes = training_features(samples, seen, featurizer, together, folder, told)
                problems = self._problems(samples, nodes, featurizer, kind, threads)
                plan = Plan(
                    self.loss, self.learner, self.C, float(self.tol), threads, folder,
                    stepped, kind, self.calibration,
                    ("logistic",) if self.learner == "likelihood" else (),
                )  # fmt: skip
                chosen = choose(problems, truth, plan, together)
            # A copy takes what was learned, so that an interrupt leaves this one as it was.
            made = copy.copy(self)
            made._keep(featurizer, chosen, kind)
            made.card_ = card_of(made, truth)
        except Interrupted:
            raise  # training has said what it leaves
        except KeyboardInterrupt:
            raise Interrupted(farewell(folder)) from None
        self._become(made)
        return self

    def _problems(
        self,
        samples: Sequence[Sample],
        nodes: Sequence[NDArray[np.float32]],
        featurizer: Featurizer,
        kind: Kind,
        threads: int,
    ) -> list[Problem]:
        """The problems of training images, from their out-of-fold features."""
        regions = kind.envelope is not None
        with Workers(threads) as workers:
            return workers.map(
                lambda pair: featurizer.problem(*pair, kind.edges, regions),
                list(zip(samples, nodes)),
            )

    def _keep(self, featurizer: Featurizer, chosen: Chosen, kind: Kind) -> None:
        """Put all that was learned in place."""
        result = chosen.result
        self._kind = kind
        self.featurizer_ = featurizer
        self.w_ = chosen.w
        self.w_names_ = kind.names(featurizer)
        self.gap_ = float(result.relative_gap) if is_margin(self.learner) else math.nan
        self.n_steps_ = len(result.steps)
        self.steps_ = result.steps
        self.converged_ = result.converged
        self.certified_ = result.certified
        self.C_ = float(result.C)
        self.calibration_ = chosen.calibration
        self.judged_ = chosen.judged
        self.classes_ = np.arange(kind.n_labels, dtype=np.uint8)

    def _problem(self, sample: Sample) -> Problem:
        kind = self._kind
        return self.featurizer_.problem(sample, None, kind.edges, kind.envelope is not None)

    def _mask(self, sample: Sample) -> Mask:
        return self._kind.mask(self._problem(sample), self.w_)

    def _least(self, sample: Sample) -> NDArray[np.float64]:
        return self._kind.least(self._problem(sample), self.w_)

    def _check_parameters(self) -> None:
        check_parameters(self)
