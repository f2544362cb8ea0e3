"""What people write by hand: a forest on scikit-image's basic features and a tuned contrast cut.

The strength of the cut, and of two labels its bias, are those of the best IoU on training images
that the forest did not see. Several labels: expansion moves, and the mean IoU of the labels.
"""

import numpy as np
from answers import BELIEVED, Answer, Clock, best_threshold, percent_of
from skimage.feature import multiscale_basic_features
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import GroupKFold

import cutlearn as cl
from cutlearn.arrays import VOID
from cutlearn.energy.moves import LinearTables, UnorderedEnergy
from cutlearn.grid import grid_slices
from cutlearn.metrics import confusions, stack_tables

ROWS = 60_000
TREES = 60
STRENGTHS = (0.0, 1.0, 2.0, 4.0, 8.0, 16.0)
BIASES = (-0.5, 0.0, 0.5, 1.0, 1.5)
TUNED_ON = 24
LEAST = 0.005


def basic(image):
    """The rows of a forest; photographs get row and column too, which helps the rival."""
    if image.ndim == 2:
        made = multiscale_basic_features(image, sigma_max=16)
    else:
        made = multiscale_basic_features(image, sigma_max=16, channel_axis=-1)
        place = np.moveaxis(np.mgrid[: image.shape[0], : image.shape[1]], 0, -1)
        made = np.concatenate([made, place / image.shape[:2]], axis=-1, dtype=np.float32)
    return made.reshape(-1, made.shape[-1])


def drawn(rows, masks, rng, quota=None):
    """Rows and labels of pixels that are drawn from every image, as many of each."""
    quota = quota or ROWS // len(rows)
    known = [np.flatnonzero(m.ravel() != VOID) for m in masks]
    index = [rng.choice(k, min(quota, len(k)), replace=False) for k in known]
    x = np.concatenate([r[k] for r, k in zip(rows, index)])
    return x, np.concatenate([m.ravel()[k] for m, k in zip(masks, index)])


def contrast(image):
    """Weights of the edges of a grid by how alike the ends are, an array a direction."""
    x = np.asarray(image, float).reshape(*image.shape[:2], -1)
    parts = []
    for tail, head in grid_slices(image.shape[:2], 8):
        parts.append(((x[tail] - x[head]) ** 2).sum(axis=-1))
    beta = np.mean(np.concatenate([p.ravel() for p in parts])) or 1.0
    return [np.exp(-p / (2 * beta)) / (1 if k < 2 else 2**0.5) for k, p in enumerate(parts)]


def glue(image, p, strength, bias=0.0):
    """The contrast cut that people write by hand, from probabilities (h, w, L)."""
    weights = contrast(image)
    if p.shape[-1] == 2:
        logit = np.log(p[..., 1] / p[..., 0])
        return cl.Energy.grid(-(logit + bias), [strength * w for w in weights], 8).minimize().labels
    shape, L = p.shape[:2], p.shape[-1]
    edges = strength * np.concatenate([w.ravel() for w in weights])[:, None]
    problem = cl.Problem(np.zeros((p.size // L, 1)), edge_features=edges, shape=shape,
                         connectivity=8)  # fmt: skip
    tables = LinearTables(edges, 1.0 - np.eye(L)[None])
    return UnorderedEnergy.of(problem, -np.log(p), tables, ()).minimize().labels.reshape(shape)


class Forest:
    """Forests on parts of some images, and their probabilities of others."""

    def __init__(self, pairs, n_labels, seed):
        self.masks, self.n_labels, self.seed = [m for _, m in pairs], n_labels, seed
        self.rows, self.rng = [basic(i) for i, _ in pairs], np.random.default_rng(seed)

    def grown(self, chosen):
        """A forest that saw some of the images."""
        given = [self.rows[i] for i in chosen], [self.masks[i] for i in chosen]
        x, y = drawn(*given, self.rng, ROWS // len(self.rows))
        made = RandomForestClassifier(
            TREES, min_samples_leaf=5, max_samples=0.5, random_state=self.seed
        )
        return made.fit(x, y)

    def said(self, forest, rows, shape):
        """Probabilities of the pixels of an image, (h, w, L), none of them 0."""
        p = np.zeros((len(rows), self.n_labels))
        p[:, forest.classes_] = forest.predict_proba(rows)
        p = np.clip(p, LEAST, 1 - LEAST)
        return (p / p.sum(axis=1, keepdims=True)).reshape(*shape, -1)

    def unseen(self, groups):
        """Probabilities of some images, each by a forest that did not see its group."""
        out, parts = {}, min(3, len(set(groups)))
        for kept, rest in GroupKFold(parts).split(self.masks, groups=groups):
            forest = self.grown(kept)
            for i in rest[: TUNED_ON // parts]:
                out[i] = self.said(forest, self.rows[i], self.masks[i].shape)
        return out


def halves(train):
    """The two halves of a single image, to tune on when there is no other."""
    ((image, mask),) = train
    middle = mask.shape[1] // 2
    return [(image[:, part], mask[:, part]) for part in (slice(middle), slice(middle, None))]


def tuned(pairs, said, n_labels):
    """Strength and bias of the best IoU on images that the forest did not see, and that IoU."""
    figure, best, setting = percent_of(n_labels), -1.0, (0.0, 0.0)
    truth = [pairs[i][1] for i in said]
    for strength in STRENGTHS:
        for bias in BIASES if n_labels == 2 else (0.0,):
            found = [glue(pairs[i][0], p, strength, bias) for i, p in said.items()]
            sums = stack_tables(confusions(truth, found, n_labels)).sum(axis=0)
            if figure(sums) > best:
                best, setting = float(figure(sums)), (strength, bias)
    return setting, best


def forest(split, seed):
    """The forest, thresholded for IoU out of fold, and with the tuned cut."""
    pairs, groups, n_labels = split.train, split.groups, split.n_labels
    if len(pairs) == 1:
        pairs, groups = halves(pairs), None
    clock = Clock()
    model = Forest(pairs, n_labels, seed)
    said = model.unseen(list(range(len(pairs))) if groups is None else groups)
    final = model.grown(range(len(pairs)))
    answer = Answer(seconds={"features": clock()})
    odds = [np.log(p[..., 1] / p[..., 0]) for p in said.values()]
    limit = best_threshold(odds, [pairs[i][1] for i in said])
    setting, iou = tuned(pairs, said, n_labels)
    answer.seconds["cut"] = clock()
    answer.remark = f"strength {setting[0]}, bias {setting[1]}, {iou:.1f} % out of fold"
    for k, (image, mask) in enumerate(split.test):
        p = model.said(final, basic(image), mask.shape)
        plain = np.log(p[..., 1] / p[..., 0]) >= limit if n_labels == 2 else p.argmax(axis=-1)
        answer.plain.append(plain.astype(np.uint8))
        answer.cut.append(glue(image, p, *setting))
        answer.q += [p] if k < BELIEVED else []
    answer.seconds["predict"] = clock() / len(split.test)
    return answer
