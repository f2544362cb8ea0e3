"""Which mask belongs to which image, by their names.

Several ways to read a name are tried, the strictest first, and the one that pairs the most files is
taken: the name as it is, without regard to capitals, without its folder, without what all masks add
to it, without words such as "image" and "mask". A pair must be the only one of its kind in its way.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from pathlib import PurePosixPath
from typing import NamedTuple

MASK_WORDS = (
    "masks", "mask", "labels", "label", "groundtruth", "ground_truth", "gt", "segmentation",
    "seg", "annotations", "annotation", "annot", "anno",
)  # fmt: skip
IMAGE_WORDS = ("images", "image", "img", "im", "photo", "raw", "original", "orig", "input", "rgb")
BREAK = r"[ _.\-]+"
# Masks that are looked at to find what all of them add to a name.
SAMPLED = 60

Key = Callable[[str], str]


class Pairs(NamedTuple):
    """Pairs of names, and in words how they were found; no words where names are equal."""

    names: dict[str, str]
    told: str


def pair(images: Iterable[str], masks: Iterable[str], suffix: str | None = None) -> Pairs:
    """Pair the names of images with those of masks.

    Parameters
    ----------
    images, masks : names without their endings, with folders before a slash
    suffix : str, optional
        What the names of masks have behind those of their images; nothing else is tried then.

    Examples
    --------
    >>> from cutlearn.images.pairing import pair
    >>> pair(["a", "b"], ["a_mask", "b_mask"]).names
    {'a': 'a_mask', 'b': 'b_mask'}
    """
    ours, theirs = list(images), list(masks)
    if suffix is not None:
        cut = {name: name.removesuffix(suffix) for name in theirs if name.endswith(suffix)}
        return Pairs(_matched(ours, cut, str), "")
    whole: list[dict[str, str]] = [
        _matched(ours, {name: key(name) for name in theirs}, key)
        for key in (str, str.casefold, _leaf)
    ]
    whole.append(_matched(ours, {name: _without(name, *_affix(ours, theirs)) for name in theirs},
                          _leaf))  # fmt: skip
    whole.append(_matched(ours, {name: _bare(name) for name in theirs}, _bare))
    best = max(whole, key=len)  # the first of several
    if not best or best is whole[0]:
        return Pairs(best, "")
    image, mask = next(iter(best.items()))
    return Pairs(best, f"mask {mask!r} belongs to image {image!r}, and so on")


def is_mask_name(name: str, suffix: str | None = None) -> bool:
    """Whether the name of a file in a folder of both says that it is a mask."""
    leaf = _leaf(name)
    if suffix is not None:
        return name.endswith(suffix)
    return _stripped(leaf, MASK_WORDS) != leaf


def _matched(images: Iterable[str], masks: Mapping[str, str], key: Key) -> dict[str, str]:
    """Pairs of names with the same key, which no other name of its side has."""
    by_key: dict[str, list[str]] = {}
    for name, word in masks.items():
        by_key.setdefault(word, []).append(name)
    count = Counter(key(name) for name in images)
    return {
        name: by_key[key(name)][0]
        for name in images
        if count[key(name)] == 1 and len(by_key.get(key(name), ())) == 1
    }


def _leaf(name: str) -> str:
    return PurePosixPath(name).name.casefold()


def _affix(images: list[str], masks: list[str]) -> tuple[str, str]:
    """What most masks have before and behind the name of an image."""
    leaves = [_leaf(name) for name in images]
    votes: Counter[tuple[str, str]] = Counter()
    for mask in map(_leaf, masks[:SAMPLED]):
        for image in leaves:
            at = mask.find(image)
            if at >= 0:
                votes[mask[:at], mask[at + len(image) :]] += 1
    return votes.most_common(1)[0][0] if votes else ("", "")


def _without(name: str, prefix: str, suffix: str) -> str:
    leaf = _leaf(name)
    fits = leaf.startswith(prefix) and leaf.endswith(suffix)
    return leaf[len(prefix) : len(leaf) - len(suffix)] if fits else ""


def _bare(name: str) -> str:
    """Return a name without folder, capitals, and words of images and masks at its ends."""
    # What is left of .nii.gz is no part of the name either.
    return _stripped(_leaf(name).removesuffix(".nii"), (*MASK_WORDS, *IMAGE_WORDS))


def _stripped(leaf: str, words: Iterable[str]) -> str:
    either = "|".join(words)
    cut = re.sub(rf"^({either})({BREAK}|(?=\d))|({BREAK}|(?<=\d))({either})$", "", leaf)
    return cut or leaf
