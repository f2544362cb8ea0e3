"""How long a fit takes, reckoned before it begins: sizes of images and settings in, seconds out.

Sources of logits say what they may cost, for the sake of the budget; a fit takes `OF_RECKONED` of
it. Training asks every pixel some hundred times. Seconds are those of one
core, as measured on small fits (docs/first-contact.md); more threads share them.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from cutlearn.energy.label_space import LabelSpace
from cutlearn.features.auto import auto_seconds, checked_budget, usual_net
from cutlearn.features.describe import Bank
from cutlearn.features.featurizer import Featurizer
from cutlearn.features.sources import SOURCES, NoLogits, Task
from cutlearn.features.trees import default_recipe
from cutlearn.images.resize import Shape

# What features take of what sources reckon, and seconds of the columns of a pixel beside logits.
OF_RECKONED, COLUMNS = 0.85, 1e-6
# Seconds of one training for each pixel: beside logits there are few columns, filters are many. Of
# several labels every move is a cut; more of them have fewer weights each, and take about as long.
TRAINING = {True: 1.2e-6, False: 2.2e-6}
SEVERAL = 9.0
# Ordered labels are one cut with so much work for each threshold, as of two labels.
ORDERED = 1.3
# Seconds of the rest.
BASE = 0.5


def phases_of(
    featurizer: Featurizer,
    shapes: Sequence[Shape],
    color: bool,
    labels: LabelSpace,
    trainings: int,
    threads: int,
) -> dict[str, float]:
    """Give the seconds of the features and of all trainings.

    Parameters
    ----------
    shapes : rows and columns at which the images are worked
    color : bool
        Whether any image has colour.
    trainings : int
        How often the fit trains.
    """
    questions = labels.questions(np.zeros((1, 1), np.uint8)).shape[-1]
    task = _task(featurizer, shapes, color, questions)
    mode = featurizer.settings()["features"]
    if mode == "auto":
        reckoned = auto_seconds(task, checked_budget(featurizer.budget))
    else:
        reckoned = SOURCES.get(mode, NoLogits).seconds(task)
    pixels = float(sum(rows * columns for rows, columns in shapes))
    features = OF_RECKONED * reckoned + COLUMNS * pixels
    work = ORDERED * (labels.count - 1) if labels.count > 2 else 1.0
    each = TRAINING[reckoned > 0] * (work if labels.exact else SEVERAL)
    return {
        "features": (BASE + features) / threads,
        "training": (BASE + trainings * each * pixels) / threads,
    }


def _task(featurizer: Featurizer, shapes: Sequence[Shape], color: bool, questions: int) -> Task:
    """A task of images that have a size and a colour, and nothing else: they take no memory."""
    pixel = np.array([0, 1, 0] if color else [0, 0, 0], np.float32)
    images = [np.broadcast_to(pixel, (*shape, 3)) for shape in shapes]
    labels = [np.broadcast_to(np.uint8(0), (*shape, questions)) for shape in shapes]
    bank = Bank.choose(images, featurizer.kind, featurizer.position)
    none: list[Any] = [None] * len(shapes)
    net = featurizer.net or usual_net(featurizer.settings()["features"])
    return Task(
        images, labels, none, range(len(shapes)), bank,
        featurizer.recipe or default_recipe(bank, questions), net,
    )  # fmt: skip
