"""What a method answers for test images, and the figures that a row of a table has of it.

Every method is a function of a split and a seed that gives an `Answer`; ours is here, those of
others are in rivals.py and unet.py. Seconds are CPU seconds of one thread.
"""

import resource
import subprocess
import tempfile
import time
import warnings
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from PIL import Image

import cutlearn as cl
from cutlearn.metrics import (
    beliefs,
    bootstrap,
    calibration_error_of,
    confusions,
    iou_of,
    mean_iou_of,
    stack_tables,
)
from cutlearn.run.checkpoint import load_checkpoint

# Test images whose probabilities and areas are compared with the truth.
BELIEVED = 60
LEVEL = 0.9


class Clock:
    """CPU seconds of this process between two calls."""

    def __init__(self):
        self.last = time.process_time()

    def __call__(self):
        self.last, before = time.process_time(), self.last
        return self.last - before


@dataclass
class Answer:
    """Masks without and with a cut, probabilities and areas of the first images, what it took."""

    plain: list = field(default_factory=list)
    cut: list = field(default_factory=list)
    q: list = field(default_factory=list)
    intervals: list = field(default_factory=list)
    seconds: dict = field(default_factory=dict)
    remark: str = ""


# -- ours ------------------------------------------------------------------------------------


def ours(split, seed, source="auto"):
    """`Segmenter` with a source of logits by name, and the same logits without its cut."""
    images, masks = ([pair[k] for pair in split.train] for k in (0, 1))
    model, marks, clock = segmenter(source, seed), [], Clock()
    begin = clock.last
    with tempfile.TemporaryDirectory() as folder:
        model.fit(images, masks, split.groups, checkpoint=folder,
                  callback=lambda step: marks.append(time.process_time()))  # fmt: skip
        whole = clock()
        _, arrays = load_checkpoint(Path(folder) / "features.safetensors", "features")
    answer = Answer(remark=model.featurizer_.why_)
    answer.seconds = {"features": marks[0] - begin, "cut": whole - (marks[0] - begin)}
    limit = None
    if len(model.featurizer_.logit_columns()) == 1:
        said = [logits(model.featurizer_, arrays[f"nodes.{i}"]) for i in range(len(masks))]
        limit = best_threshold(said, masks)
    predict, values = 0.0, values_of(model)
    for k, (image, _) in enumerate(split.test):
        remember(model.featurizer_)
        clock()
        answer.cut.append(values[model.predict([image])[0]])
        predict += clock()
        if model.featurizer_.logit_columns():
            said = logits(model.featurizer_, model.featurizer_.node_features(image))
            plain = said >= limit if said.ndim == 1 else said.argmax(axis=1)
            answer.plain.append(values[plain.reshape(image.shape[:2]).astype(np.uint8)])
        if k < BELIEVED:
            _, q, areas = model.segment([image], LEVEL)[0]
            answer.q.append(np.zeros((*q.shape[:2], split.n_labels), np.float32))
            answer.q[-1][..., values] = q
            answer.intervals.append(areas[1, 1:])
    answer.seconds["predict"] = predict / len(split.test)
    answer.seconds["512 x 768"] = seconds_of_large(model, image)
    return answer


def segmenter(source, seed):
    """The default model on one thread; masks of two labels are binary, others unordered.

    A budget other than "normal" stands behind the name of the source: "auto-best".
    """
    features, _, budget = source.partition("-")
    return cl.Segmenter(
        features=features, budget=budget or "normal", labels="auto", n_jobs=1, random_state=seed
    )


def values_of(model):
    """The label of the masks that each label of the model stands for: some may be missing there."""
    return np.array(model.training_.values if len(model.classes_) > 2 else (0, 1), np.uint8)


def logits(featurizer, rows):
    """The logit of every pixel, (n,), or those of several labels, (n, L), without the cut.

    The newest; of trees and nets side by side the mean of both.
    """
    count = 2 if featurizer.chosen_ == "both" else 1
    mean, scale, found = featurizer.fitted_.mean, featurizer.fitted_.scale, []
    for part in featurizer.logit_columns():
        at = list(part[:count])
        found.append(np.mean(rows[:, at] * scale[at] + mean[at], axis=1))
    return found[0] if len(found) == 1 else np.stack(found, axis=1)


def remember(featurizer):
    """Let the features of the next image be computed once, whoever asks for them again."""
    vars(featurizer).pop("node_features", None)
    whole, kept = featurizer.node_features, []

    def once(image, extra=None):
        if not kept:
            kept.append(whole(image, extra))
        return kept[0]

    featurizer.node_features = once


def seconds_of_large(model, image):
    """What the mask of an image of 512 x 768 pixels takes."""
    remember(model.featurizer_)
    large = np.asarray(Image.fromarray(image).resize((768, 512), Image.Resampling.LANCZOS))
    clock = Clock()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # larger than the training images it is
        model.predict([large])
    return clock()


def best_threshold(scores, masks):
    """The threshold of the best pooled IoU; void pixels do not count."""
    known = [m.ravel() != cl.metrics.VOID for m in masks]
    score = np.concatenate([s.ravel()[k] for s, k in zip(scores, known)])
    ones = np.concatenate([m.ravel()[k] for m, k in zip(masks, known)]) == 1
    order = np.argsort(-score)
    right = np.cumsum(ones[order])
    either = ones.sum() + np.arange(1, len(order) + 1) - right
    return score[order[np.argmax(right / either)]]


# -- figures of an answer --------------------------------------------------------------------


def row_of(answer, truth, n_labels=2):
    """All figures of an answer, as JSON can hold them."""
    figure = percent_of(n_labels)
    row = {"seconds": answer.seconds, "remark": answer.remark, "labels": n_labels,
           "peak_GB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6,
           "commit": COMMIT}  # fmt: skip
    tables = {}
    for way, found in (("plain", answer.plain), ("cut", answer.cut)):
        if found:
            tables[way] = stack_tables(confusions(truth, found, n_labels))
            spread = bootstrap(tables[way], figure)
            row[way] = [spread.value, spread.deviation]
            sums = tables[way].sum(axis=0)
            row[f"{way}_accuracy"] = 100 * float(np.trace(sums) / sums.sum())
    if len(tables) == 2:
        pair = np.stack([tables["cut"], tables["plain"]], axis=1)
        gain = bootstrap(pair, lambda sums: figure(sums[:, 0]) - figure(sums[:, 1]))
        row["gain"] = [gain.value, gain.low, gain.high]
    if answer.q:
        bins = np.stack([bins_of(t, q) for t, q in zip(truth, answer.q)])
        row["calibration"] = [100 * float(calibration_error_of(bins.sum(axis=0))),
                              100 * calibration_floor(bins)]  # fmt: skip
    if answer.intervals:
        area = np.array([(t == 1).sum() for t in truth[: len(answer.intervals)]])
        low, high = np.transpose(answer.intervals)
        row["covered"] = [int(((low <= area) & (area <= high)).sum()), len(area)]
        row["width"] = float(np.median(high - low) / max(area.mean(), 1))
    return row


def percent_of(n_labels):
    """The figure of tables: pooled IoU of label 1, or of several labels the mean of theirs."""
    return lambda sums: 100 * (iou_of(sums) if n_labels == 2 else mean_iou_of(sums))


def bins_of(mask, q):
    """Pixels by probability of label 1; of several labels, by that of the likeliest."""
    if q.shape[-1] == 2:
        return beliefs(mask, q).bins
    right = np.where(mask == cl.metrics.VOID, cl.metrics.VOID, q.argmax(axis=-1) == mask)
    top = q.max(axis=-1)
    return beliefs(right, np.stack([1 - top, top], axis=-1)).bins


def calibration_floor(bins, draws=1000):
    """The calibration error that perfect probabilities would show on as many images, about.

    bins (n, 3, 15) as of `Beliefs`. With r_ib the believed minus the true pixels of bin b in image
    i, n_ib its pixels and R_b, N_b their sums, images stray by r_ib - n_ib R_b / N_b around a model
    that is right on average. Whole images are drawn again: pixels of one are wrong together.
    """
    n = len(bins)
    if n < 2:
        return float("nan")
    pixels, off = bins[:, 0], bins[:, 1] - bins[:, 2]
    off = off - pixels * off.sum(axis=0) / np.maximum(pixels.sum(axis=0), 1)
    picks = np.random.default_rng(0).integers(n, size=(draws, n))
    error = np.abs(off[picks].sum(axis=1)).sum(axis=1).mean() / pixels.sum()
    return float(error * (n / (n - 1)) ** 0.5)


def commit():
    """The commit of the code that is here."""
    call = ["git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty"]
    done = subprocess.run(call, capture_output=True, text=True, check=False)
    return done.stdout.strip()


# When the process begins: the files may change while it measures.
COMMIT = commit()
