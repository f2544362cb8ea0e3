"""The files of folders, by name: what can be an image, and which mask belongs to which image.

Several ways to read a name are tried, the strictest first, and the one that pairs the most files is
taken: the name as it is, without regard to capitals, without its folder, without what all masks add
to it, without words such as "image" and "mask". A match must be unique.
"""

import fnmatch
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path, PurePath, PurePosixPath
from typing import NamedTuple

from cutlearn.errors import InputError, plural, shown
from cutlearn.images.decode import ENDINGS

# Names that a summary shows of many.
EXAMPLES = 3
DOUBLE = (".ome.tif", ".ome.tiff")
MASK_WORDS = (
    "masks", "mask", "labels", "label", "groundtruth", "ground_truth", "gt", "segmentation",
    "seg", "annotations", "annotation", "annot", "anno",
)  # fmt: skip
IMAGE_WORDS = ("images", "image", "img", "im", "photo", "raw", "original", "orig", "input", "rgb")
BREAK = r"[ _.\-]+"
# Masks that are looked at to find what all of them add to a name.
SAMPLED = 60

Key = Callable[[str], str]


class Listed(NamedTuple):
    """Files by their name in the folder without ending, sorted, and what there is to say."""

    files: dict[str, Path]
    notes: list[str]


def listed(
    folder: Path,
    pattern: str | None = None,
    leave: Path | None = None,
    endings: Sequence[str] = ENDINGS,
) -> Listed:
    """List the image files of a folder, or give the only one if a file is named.

    Where the folder itself has no image, those of the folders inside count.

    `leave`: a folder inside that does not count. Refuse no image, and two of one name.
    """
    if folder.is_file():
        return Listed({name_of(folder): folder}, [])
    if not folder.is_dir():
        raise InputError(
            f"{shown(folder)}: there is no such folder or file to read images from. Check the name."
        )
    files, strangers = _images(sorted(folder.iterdir()), pattern, endings)
    deep = not files
    if deep:
        inside = (p for p in sorted(folder.rglob("*")) if p.is_file())
        files, strangers = _images(inside, pattern, endings)
    if leave is not None:
        files = [p for p in files if leave.resolve() not in p.resolve().parents]
    if not files:
        which = "" if pattern is None else f" whose name matches {pattern!r}"
        advice = "Check the path."
        if any(p.suffix == ".zarr" for p in (folder, *folder.iterdir())):
            advice = (
                "Zarr is not read; write each array as a TIFF of several pages: "
                'tifffile.imwrite("a.tif", zarr.open("a.zarr")["0"][:]).'
            )
        raise InputError(
            f"{shown(folder)}: no image file{which} in this folder. Images end in "
            f"{', '.join(endings)}. {advice}"
        )
    notes = []
    if strangers:
        notes.append(f"{plural(len(strangers), 'file')} in {shown(folder)} passed over, since no "
                     f"image: {some(p.name for p in strangers)}")  # fmt: skip
    return Listed(_named(folder, files), notes)


def _images(
    paths: Iterable[Path], pattern: str | None, endings: Sequence[str]
) -> tuple[list[Path], list[Path]]:
    """Return the files that can be images, and all others."""
    found: list[Path] = []
    others: list[Path] = []
    for path in paths:
        hidden = path.name.startswith(".")
        fits = not hidden and path.name.lower().endswith(tuple(endings)) and path.is_file()
        if fits and (pattern is None or fnmatch.fnmatchcase(path.name, pattern)):
            found.append(path)
        elif not fits:
            others.append(path)
    return found, others


def name_of(path: PurePath) -> str:
    """Return the name of a file without its ending; that of OME-TIFF is double."""
    double = path.name.lower().endswith(DOUBLE)
    return PurePath(path.stem).stem if double else path.stem


def _named(folder: Path, files: Iterable[Path]) -> dict[str, Path]:
    """Return the files by their path in the folder without ending."""
    named: dict[str, Path] = {}
    for path in files:
        name = path.relative_to(folder).with_name(name_of(path)).as_posix()
        if name in named:
            raise InputError(
                f"{shown(folder)}: {shown(named[name].name)} and {shown(path.name)} have one name "
                "but for their endings, and masks are matched by name. Rename or remove one, or "
                "choose the images with pattern='*.png'."
            )
        named[name] = path
    return dict(sorted(named.items()))


def some(names: Iterable[object], most: int = EXAMPLES) -> str:
    """Write the first of many names, by default three.

    Examples
    --------
    >>> some("abcde")
    'a, b, c, ... (5 in all)'
    """
    known = [shown(str(name)) for name in names]
    text = ", ".join(known[:most])
    return text if len(known) <= most else f"{text}, ... ({len(known)} in all)"


class Pairs(NamedTuple):
    """Pairs of names, and in words how they were found; no words where names are equal."""

    names: dict[str, str]
    told: str


def pair(images: Iterable[str], masks: Iterable[str], suffix: str | None = None) -> Pairs:
    """Pair the names of images with those of masks.

    `suffix`: what masks have behind the names of their images; nothing else is tried then.

    Examples
    --------
    >>> from cutlearn.images.listing import pair
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
    whole.append(_matched(ours, _without_affix(ours, theirs), _leaf))
    whole.append(_matched(ours, {name: _bare(name) for name in theirs}, _bare))
    best = max(whole, key=len)  # the first of several
    if not best or best is whole[0]:
        return Pairs(best, "")
    image, mask = next(iter(best.items()))
    return Pairs(best, f"mask {mask!r} belongs to image {image!r}, and so on")


def is_mask_name(name: str, suffix: str | None = None) -> bool:
    """Return whether a file name in a folder of images and masks is that of a mask."""
    leaf = _leaf(name)
    if suffix is not None:
        return name.endswith(suffix)
    return _stripped(leaf, MASK_WORDS) != leaf


def _matched(images: Iterable[str], masks: Mapping[str, str], key: Key) -> dict[str, str]:
    """Return pairs of names with the same key, which no other name of its side has."""
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


def _without_affix(images: list[str], masks: list[str]) -> dict[str, str]:
    """Return masks without what most of them have before and behind the name of an image."""
    leaves = [_leaf(name) for name in images]
    votes: Counter[tuple[str, str]] = Counter()
    for mask in map(_leaf, masks[:SAMPLED]):
        for image in leaves:
            at = mask.find(image)
            if at >= 0:
                votes[mask[:at], mask[at + len(image) :]] += 1
    prefix, suffix = votes.most_common(1)[0][0] if votes else ("", "")
    known = [(name, _leaf(name)) for name in masks]
    return {
        name: leaf[len(prefix) : len(leaf) - len(suffix)]
        if leaf.startswith(prefix) and leaf.endswith(suffix) else ""
        for name, leaf in known
    }  # fmt: skip


def _bare(name: str) -> str:
    """Return a name without folder, capitals, and words of images and masks at its ends."""
    # What is left of .nii.gz is no part of the name either.
    return _stripped(_leaf(name).removesuffix(".nii"), (*MASK_WORDS, *IMAGE_WORDS))


def _stripped(leaf: str, words: Iterable[str]) -> str:
    either = "|".join(words)
    cut = re.sub(rf"^({either})({BREAK}|(?=\d))|({BREAK}|(?<=\d))({either})$", "", leaf)
    return cut or leaf
