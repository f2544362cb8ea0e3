"""The settings of a featurizer in a model file: of this version, and of all before it."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from cutlearn.errors import InputError, quoted
from cutlearn.features.boosted import Recipe
from cutlearn.features.describe import Bank
from cutlearn.features.net.learn import NetRecipe
from cutlearn.features.nodes import bank_from_plain
from cutlearn.features.regions import SIZE
from cutlearn.features.settings import CHECKS, OLDER_NAMES

if TYPE_CHECKING:
    from cutlearn.features.featurizer import Featurizer

F = TypeVar("F", bound="Featurizer")
FORMAT = 1


@contextmanager
def damage_told() -> Iterator[None]:
    """Tell whatever a damaged description makes Python raise as an `InputError`."""
    try:
        yield
    except InputError:
        raise
    except (KeyError, TypeError, ValueError, IndexError) as error:
        raise InputError(
            f"features: their description is damaged ({error}). Refit the model."
        ) from error


def read_settings(
    cls: type[F], described: dict[str, Any], n_jobs: int | None
) -> tuple[F, Bank, int]:
    """Give a featurizer with the settings of a description, its bank, and the step of its trees."""
    with damage_told():
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
    return made, bank, recipe.step
