"""The estimators that model files and `cutlearn fit --model` know, by the names of their classes.

Another one is a class derived from `model.base.Estimator`, put here also from outside.
"""

from cutlearn.model.base import Estimator
from cutlearn.model.boltzmann import BoltzmannSegmenter
from cutlearn.model.segmenter import Segmenter
from cutlearn.plugins import Registry

ESTIMATORS: Registry[type[Estimator]] = Registry(
    "estimator",
    {
        "Segmenter": Segmenter,
        "BoltzmannSegmenter": BoltzmannSegmenter,
    },
)
