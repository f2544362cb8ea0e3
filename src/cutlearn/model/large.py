"""Images and volumes too large for a problem of their own: described in tiles, cut in strips.

Up to a number of pixels (`memory.whole_pixels`) there is one exact cut; above, exact cuts of strips
with a bound on what the seams cost (`minimize_strips`). Unordered labels are moved strip by strip,
with no bound, as in one piece; surrogate labels are one field after the other.

Min-marginals above that are those of strips whose neighbours have the labels of the mask: min over
y with y_d = k, and y as in the mask beyond the strip. If the mask has the least energy there, what
a label costs more is at least what it costs more in the whole image, and the same where the labels
that change with d lie within the strip, which reaches OVERLAP rows further than what is taken of
it.
"""

from __future__ import annotations

import math
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from cutlearn.energy.energy import Joined, minimize_strips
from cutlearn.energy.label_space import Surrogate
from cutlearn.energy.potentials import Contrast, Unary
from cutlearn.errors import ConvergenceWarning, InputError
from cutlearn.images.sample import FREE, Sample
from cutlearn.model.calibration import Evidence
from cutlearn.model.large_terms import Field, fields_of
from cutlearn.model.memory import Load, refuse_beyond

if TYPE_CHECKING:
    from cutlearn.model.segmenter import Segmenter

Fixed = NDArray[np.int16] | None
# Pixels from which on no problem is made.
LARGE = 1 << 22
# Rows, or slices, that two strips share.
OVERLAP = {2: 128, 3: 16}
# A gap below this is that of rounding, which grows with the number of pixels.
PROVED = 1e-7


def is_large(model: Segmenter, sample: Sample) -> bool:
    """Whether an image is worked in tiles: it is large, and the model has what tiles can do."""
    pixels, whole = math.prod(sample.shape), Load.of(model.model_.labels).whole
    if pixels <= min(LARGE, whole):
        return False
    featurizer = model.featurizer_
    fits = all(type(p) in (Unary, Contrast) for p in model.model_.potentials)
    fits = fits and not featurizer.per_direction and not featurizer.bank_.position
    # A net brings a photograph to one size before it looks: a tile would be seen larger.
    net = "net" in featurizer.fitted_.source.stages and featurizer.bank_.kind == "photograph"
    fits = fits and not net
    if not fits and pixels > whole:
        raise InputError(
            f"images: {pixels / 1e6:.0f} million pixels are too many for this model. Above "
            f"{whole / 1e6:.0f} million it needs no envelopes, one set of edge features, no "
            "position (Featurizer(position=False)), and no net for photographs "
            "(features='trees'). Work at a smaller size with min_side."
        )
    return fits


def large_mask(model: Segmenter, sample: Sample) -> NDArray[np.uint8]:
    """Give the labels of a large image; a warning tells what is not proved to be the least."""
    if isinstance(model.model_.labels, Surrogate):
        return large_evidence(model, sample).labels
    found = large_cut(model, sample)
    if found.strips > 1 and found.relative_gap > PROVED:
        proved = f"is proved to be within {100 * found.relative_gap:.2g} % of the least"
        if not model.model_.labels.exact:
            proved = "is that of moves within them: nothing is proved, as of smaller images"
        warnings.warn(
            f"images: one of {' x '.join(map(str, sample.shape))} was cut in {found.strips} strips."
            f" Its energy {proved}.",
            ConvergenceWarning,
            stacklevel=2,
        )
    return found.labels


def large_cut(model: Segmenter, sample: Sample) -> Joined:
    """Give the labels of a large image with their energy and a bound on the least."""
    load = Load.of(model.model_.labels)
    refuse_beyond(math.prod(sample.shape), load=load)
    (field,) = fields_of(model, sample)
    return _joined(sample, field, load, _settled(sample))


def _joined(sample: Sample, field: Field, load: Load, fixed: Fixed) -> Joined:
    """The labels of an image of this field, from one cut or from strips."""
    shape = sample.shape
    rows = shape[0]
    if math.prod(shape) > load.whole:
        rows = max(1, load.strip // math.prod(shape[1:]))
    return minimize_strips(shape, field.connectivity, field.terms, rows, OVERLAP[len(shape)],
                           fixed, field.energy)  # fmt: skip


def _settled(sample: Sample) -> Fixed:
    """What a person has settled, if anything."""
    return None if sample.box is None and sample.seeds is None else sample.fixed()


def large_evidence(model: Segmenter, sample: Sample) -> Evidence:
    """Give the min-marginals of a large image, and the costs of pixels alone."""
    load = Load.of(model.model_.labels)
    refuse_beyond(math.prod(sample.shape), believed=True, load=load)
    fields, fixed = fields_of(model, sample), _settled(sample)
    if not isinstance(model.model_.labels, Surrogate):
        (field,) = fields
        own = field.unary
        if own.ndim == len(sample.shape):
            own = np.stack([np.zeros_like(own), own], axis=-1)
        return Evidence(_min_marginals(sample, field, load, fixed), own)
    made = np.empty((*sample.shape, len(fields)))
    for k, field in enumerate(fields):
        here = None if fixed is None else np.where(fixed < 0, FREE, fixed == k).astype(np.int16)
        both = _min_marginals(sample, field, load, here)
        made[..., k] = both[..., 1] - both[..., 0]
    if fixed is not None:  # as in a problem of its own
        held = fixed >= 0
        made[held] = np.inf
        made[held, fixed[held]] = 0.0
    return Evidence(made, np.stack([field.unary for field in fields], axis=-1))


def _min_marginals(sample: Sample, field: Field, load: Load, fixed: Fixed) -> NDArray[np.float64]:
    """Min-marginals of one field; in strips, as the head of this file says, over the least one.

    Half of the rows of a strip that is only cut: min-marginals take more memory.
    """
    n, *rest = shape = sample.shape
    if math.prod(shape) <= load.whole:
        return _asked(field, 0, n, fixed)
    overlap = OVERLAP[len(shape)]
    labels = _joined(sample, field, load, fixed).labels
    rows, made = max(1, load.strip // 2 // math.prod(rest)), None
    for first in range(0, n, rows):
        last = min(first + rows, n)
        low, high = max(0, first - overlap), min(n, last + overlap)
        held = np.full((high - low, *rest), FREE, np.int16) if fixed is None else fixed[low:high]
        held = held.copy()
        if low > 0:
            held[0] = labels[low]
        if high < n:
            held[-1] = labels[high - 1]
        part = _asked(field, low, high, held)[first - low : last - low]
        made = np.empty((n, *part.shape[1:])) if made is None else made
        made[first:last] = part - part.min(axis=-1, keepdims=True)
    assert made is not None
    return made


def _asked(field: Field, first: int, last: int, fixed: Any) -> NDArray[np.float64]:
    found = np.asarray(field.energy(*field.terms(first, last)).min_marginals(fixed))
    return found.reshape(last - first, *field.image.shape[1 : field.axes], -1)
