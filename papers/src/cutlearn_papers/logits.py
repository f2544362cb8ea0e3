"""Log-odds of boosted trees for experiments that compare what is built on top of them."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cutlearn.arrays import Floats, Image
from cutlearn.features.featurizer import Featurizer
from cutlearn.features.trees import Recipe
from cutlearn_papers.pictures import Pictures


def boosted_logits(
    learnt: Pictures, *others: Pictures, recipe: Recipe | None = None
) -> list[list[Floats]]:
    """Learn trees on images; give log-odds (h, w) of these, out of fold, and of others."""
    maker = Featurizer("trees", recipe=recipe, random_state=0)
    inside = maker.fit_transform(learnt.images, learnt.masks)
    found = [[_logit(maker, image, f) for image, f in zip(learnt.images, inside)]]
    for part in others:
        features = maker.transform(part.images)
        found.append([_logit(maker, image, f) for image, f in zip(part.images, features)])
    return found


def _logit(maker: Featurizer, image: Image, features: NDArray[Any]) -> Floats:
    """The log-odds of the last stage of the trees, in the image's shape."""
    column = max(name for name in maker.node_names_ if name.startswith("logit"))
    return np.asarray(
        features.reshape(*image.shape[:2], -1)[..., maker.node_names_.index(column)], np.float64
    )
