"""A featurizer read back from what a model file or a checkpoint keeps of it.

Nothing in the file is executed, and every number is checked before it is used.
"""

from typing import TYPE_CHECKING, Any

import numpy.typing as npt

from cutlearn.errors import InputError, quoted
from cutlearn.features.boosted import Recipe
from cutlearn.features.describe import Intensities
from cutlearn.features.net.learn import NetRecipe
from cutlearn.features.nodes import Fitted, bank_from_plain
from cutlearn.features.settings import CHECKS, OLDER_NAMES
from cutlearn.features.superpixels import SIZE
from cutlearn.features.volumes import third_from

if TYPE_CHECKING:
    from cutlearn.features.featurizer import Featurizer

FORMAT = 1


def read_featurizer(
    cls: type["Featurizer"],
    arrays: dict[str, npt.NDArray[Any]],
    described: dict[str, Any],
    n_jobs: int | None,
) -> "Featurizer":
    """Give the featurizer whose `to_arrays` gave these; damage is an `InputError`."""
    try:
        if described["format"] != FORMAT:
            raise InputError(
                f"features have format {quoted(described['format'])}, but this version reads "
                f"format {FORMAT}. Read the file with the version of cutlearn that wrote it."
            )
        bank = bank_from_plain(described["bank"])
        recipe = Recipe(**described["recipe"])
        # Older files tell kind and position with the bank only, no regions and no channels.
        older = {"kind": bank.kind, "position": bank.position, "superpixels": [("slic", SIZE)]}
        told: dict[str, Any] = {"channels": []} | older | described | {"recipe": recipe}
        told["net"] = NetRecipe(**described.get("net", {}))
        told["budget"] = described.get("budget", "normal")
        told["features"] = OLDER_NAMES.get(described["features"], described["features"])
        made = cls(**{name: told[name] for name in CHECKS}, n_jobs=n_jobs)
        made.settings()
        made.fitted_ = Fitted.of_arrays(told["features"], arrays, described, bank, recipe.step)
        made.fitted_.probe(made.channels)
        made.third_ = third_from(described.get("volumes"))
        # Models of older files saw images as they are.
        made.intensities_ = Intensities.from_plain(described.get("intensities", [0.0, 1.0]))
    except InputError:
        raise
    except (KeyError, TypeError, ValueError, IndexError) as error:
        raise InputError(
            f"features: their description is damaged ({error}). Refit the model."
        ) from error
    return made
