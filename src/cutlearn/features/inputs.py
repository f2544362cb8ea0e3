"""Checks of images, extra arrays and masks, made once before features are computed.

In: what the user gave. Out: float32 images (h, w) or (h, w, 3), extra (h, w, e) float32 or None,
masks (h, w, T) uint8 of 0, 1 and 255. Errors say which image or mask is wrong, and how.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from cutlearn.arrays import VOID, AnyArray, Float32, Image, Mask
from cutlearn.checks import as_array, float_array, listed
from cutlearn.errors import InputError
from cutlearn.images.folder import MOST_UNANNOTATED
from cutlearn.images.read import as_image
from cutlearn.images.sample import Volume
from cutlearn.loaded import Loaded, mapped, spread

Pair = tuple[Image, Float32 | None]


def read_image(given: Any, extra: AnyArray | None, where: str) -> Pair:
    """Image and extra array of an image or of a sample (anything with .image and .extra)."""
    picture = as_image(getattr(given, "image", given), where)
    if extra is None:
        extra = getattr(given, "extra", None)
    return picture, None if extra is None else read_extra(extra, picture.shape[:2], where)


def read_extra(extra: AnyArray, shape: tuple[int, ...], where: str) -> Float32:
    """An extra array as (h, w, e) float32; (h, w) counts as one channel."""
    made = float_array(f"{where}: extra", extra).astype(np.float32)
    made = made[..., None] if made.ndim == 2 else made
    if made.ndim != 3 or made.shape[:2] != shape or made.shape[2] == 0:
        raise InputError(
            f"{where} has an extra array of shape {np.shape(extra)}, but it must have shape "
            f"({shape[0]}, {shape[1]}, channels). Give the same channels for each pixel."
        )
    if not np.isfinite(made).all():
        raise InputError(
            f"{where} has an extra array with numbers that are not finite. Replace NaN and inf."
        )
    return made


def read_training(
    images: Sequence[Any], masks: Sequence[AnyArray]
) -> tuple[Sequence[Pair], Sequence[Mask]]:
    """All training images and masks; all that is wrong is told at once.

    What is loaded stays loaded: it is looked at once, and read again whenever it is asked for.
    """
    images, masks = listed("images", images), listed("masks", masks)
    if len(images) == 0:
        raise InputError("images is empty, but at least one image with a mask is needed.")
    if len(masks) != len(images):
        raise InputError(
            f"masks has {len(masks)} masks, but there are {len(images)} images. Give one for each."
        )
    loaded = any(isinstance(given, Loaded) for given in (images, masks))
    seen: list[tuple[Pair, Mask]] = []
    wrong: list[str] = []
    widths: set[int] = set()
    values: set[int] = set()
    for i, (image, mask) in enumerate(zip(images, masks)):
        try:
            pair = read_image(image, None, f"image {i}")
            labels = _read_mask(mask, pair[0].shape[:2], f"mask {i}")
        except InputError as error:
            wrong.append(str(error))
            continue
        widths.add(0 if pair[1] is None else pair[1].shape[2])
        values |= set(np.unique(labels).tolist())
        if not loaded:
            seen.append((pair, labels))
    if len(widths) > 1:
        wrong.append(
            f"extra has {sorted(widths)} channels in different images. Give all the same number."
        )
    if wrong:
        raise InputError("\n".join(wrong))
    if not {0, 1} <= values:
        raise InputError(
            "masks have one label only in all of them, but pixels of 0 and of 1 are needed. "
            "Annotate an image with both."
        )
    if not loaded:
        return [pair for pair, _ in seen], [labels for _, labels in seen]
    return mapped(_read_again, images), mapped(_plain_mask, masks)


def read_unannotated(images: Sequence[Any], width: int) -> Sequence[Pair]:
    """Images without masks, some of them if they are many; each is read when it is asked for.

    Parameters
    ----------
    images : images or samples
    width : int
        Channels of the extra arrays of the training images; 0: they have none.
    """
    given = listed("unannotated", images)

    def load(place: int) -> Pair:
        where, one = f"unannotated[{place}]", given[place]
        if isinstance(one, Volume):
            raise InputError(
                f"{where} is a volume, but only images can be looked at without masks. Leave "
                "unannotated out; slices of a volume that have no mask are void."
            )
        image, extra = read_image(one, None, where)
        found = 0 if extra is None else extra.shape[2]
        if found != width:
            raise InputError(
                f"{where} has an extra array of {found} channels, but those of the training images "
                f"have {width}. Give all the same number, or leave unannotated out."
            )
        return image, extra

    few = spread(len(given), MOST_UNANNOTATED)
    return Loaded(len(few), lambda k: load(few[k]))


def _read_again(image: Any) -> Pair:
    return read_image(image, None, "image")


def _read_mask(mask: AnyArray, shape: tuple[int, ...], where: str) -> Mask:
    found = _plain_mask(as_array(where, mask))
    if found.ndim != 3 or found.shape[:2] != shape or found.shape[2] == 0:
        raise InputError(
            f"{where} has shape {np.shape(mask)}, but its image is {shape}. Give each image a mask "
            "of its own size."
        )
    values = np.unique(found)
    if not np.isin(values, (0, 1, VOID)).all():
        raise InputError(
            f"{where} has values {', '.join(map(str, values[:5]))}, but only 0, 1 and 255 (void) "
            "are possible."
        )
    return np.ascontiguousarray(found, np.uint8)


def _plain_mask(mask: AnyArray) -> Mask:
    """A mask as (h, w, T); one question may go without its axis."""
    return mask[..., None] if mask.ndim == 2 else mask
