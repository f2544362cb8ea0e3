"""Folders of images and masks in, matched and checked.

A mask belongs to the image of its name (`pairing`), and what the values of the masks mean is
decided over the whole folder (`coding`). Every file is looked at before any work. What cannot be
used alone (a damaged file, an image without a mask) is left out and told; what puts the whole
folder in doubt is refused. A file of several pages is a stack: its slices are images of one group,
or, if the user says so, one volume.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np

from cutlearn.arrays import Float32, Mask
from cutlearn.checks import is_number, is_one_of, path_of, whole_number
from cutlearn.errors import InputError, plural, quoted, shown
from cutlearn.images.coding import (
    GREY,
    Coding,
    Stated,
    Tally,
    as_numbered,
    decide,
    gray,
    packed,
    tally,
)
from cutlearn.images.decode import NO_CHANNELS, ChannelsError, white_is_zero
from cutlearn.images.listing import EXAMPLES, is_mask_name, listed, pair, some
from cutlearn.images.read import MAX_BYTES, MAX_PIXELS, OpenedImage
from cutlearn.images.reader import Reader, label_digest, read_again
from cutlearn.images.sample import Facts, checked_spacing
from cutlearn.loaded import Loaded, Origin, evenly_spaced, taken

# Files with several channels that a refusal names.
MOST_NAMED = 100
SIDEWAYS = (5, 6, 7, 8)
# Images without masks that are looked at, evenly spread over all.
MOST_UNANNOTATED = 200
# Bytes of decoded arrays that are kept from the first look until they are needed.
KEPT = 1 << 28
IMAGES = Reader()


@dataclass(frozen=True)
class Folder:
    """The matched and checked files of a folder; pixels are read when they are needed.

    Parameters
    ----------
    names : tuple of str
        Names without endings, sorted: the order of everything else. A slice of a stack has the
        number of its page behind.
    images, masks : tuple of paths
        One for each name; `masks` is empty when no folder of masks was given.
    pages : tuple of int or None
        The page of the file; None where the file is one image.
    facts : tuple of Facts
        Size, colour, brightness and fingerprint of each image.
    coding : Coding or None
        What the values of the masks mean.
    notes : tuple of str
        What was passed over, left out, matched or read in a way that the user must know.
    reader : Reader
        How files are read: as images, or as volumes.
    bare : tuple of (path, page)
        Images without a mask, if they were asked for.
    tallies : tuple of Tally
        Pixels of the values of each mask.
    """

    names: tuple[str, ...]
    images: tuple[Path, ...]
    masks: tuple[Path, ...] = ()
    pages: tuple[int | None, ...] = ()
    facts: tuple[Facts, ...] = ()
    coding: Coding | None = None
    notes: tuple[str, ...] = ()
    reader: Reader = IMAGES
    bare: tuple[tuple[Path, int | None], ...] = ()
    tallies: tuple[Tally, ...] = ()

    def __len__(self) -> int:
        return len(self.names)

    @property
    def groups(self) -> list[str] | None:
        """The file of every image if some file is a stack; None if none is."""
        stacked = any(page is not None for page in self.pages)
        return [str(path) for path in self.images] if stacked else None

    def image(self, index: int) -> Any:
        """Return the image at an index, (h, w) or (h, w, 3) float32 in [0, 1]; or the `Volume`."""
        return self.reader.image(self.images[index], self.pages[index])

    @property
    def unannotated(self) -> Loaded[Any]:
        """Images without a mask, each read when it is needed: what `fit(unannotated=)` takes."""
        return Loaded(len(self.bare), lambda k: self.reader.image(*self.bare[k]))

    def labels(self, index: int) -> Mask:
        """Return the labels at an index, (h, w) uint8 with 255 for void; of a volume (d, h, w)."""
        coding = self.known_coding()
        return self.reader.labels(self.masks[index], self.pages[index], coding)

    def known_coding(self) -> Coding:
        """Return what the values of the masks mean; refuse a folder that was read without masks."""
        if self.coding is None:
            raise InputError(
                "folder: it was read without masks, so there are no labels. Name a folder of masks."
            )
        return self.coding

    def __iter__(self) -> Iterator[tuple[Float32, Mask | None]]:
        """Yield images with their labels (None without masks), one at a time."""
        for i in range(len(self)):
            yield self.image(i), self.labels(i) if self.masks else None

    def load(self) -> tuple[list[Float32], list[Mask]]:
        """Return all images and all labels (an empty list without masks)."""
        labels = [self.labels(i) for i in range(len(self))] if self.masks else []
        return [self.image(i) for i in range(len(self))], labels

    def lazy(self) -> tuple[Loaded[Any], Loaded[Mask]]:
        """Return images and labels that are read each time they are needed."""
        count, digests = len(self) if self.masks else 0, dict[int, str]()

        def origin(i: int) -> Origin:
            if i not in digests:
                digests[i] = label_digest(self.labels(i))
            path = self.masks[i].absolute()
            return Origin(read_again, (self.reader, path, self.pages[i], digests[i], self.coding))

        return (
            Loaded(len(self), self.image, self._origin if self.lasting else None),
            Loaded(count, self.labels, origin),
        )

    def take(self, places: Sequence[int]) -> Folder:
        """Return a folder of some of the images."""
        listed = ("names", "images", "masks", "pages", "facts", "tallies")
        parts: dict[str, Any] = {name: tuple(getattr(self, name)[i] for i in places)
                                 for name in listed if getattr(self, name)}  # fmt: skip
        return replace(self, **parts)

    # Whether an image is all that its file tells, so that another process can read it again.
    lasting: ClassVar[bool] = True

    def _origin(self, i: int) -> Origin:
        """Return how another process reads an image from the same file."""
        path, digest = self.images[i].absolute(), self.facts[i].digest
        return Origin(read_again, (self.reader, path, self.pages[i], digest))


def read_folder(
    images: str | os.PathLike[str],
    masks: str | os.PathLike[str] | None = None,
    *,
    object_value: int | Literal["nonzero"] | None = None,
    void_value: int | None = None,
    n_labels: int | None = None,
    threshold: float | None = None,
    colors: Sequence[int] | None = None,
    values: Sequence[int] | Coding | None = None,
    mask_suffix: str | None = None,
    pattern: str | None = None,
    turned: bool = True,
    volume: bool = False,
    spacing: Sequence[float] | None = None,
    empty_void: bool = False,
    unannotated: bool = False,
    keep: bool = False,
    instances: bool = True,
    strict: bool = False,
    leave: str | os.PathLike[str] | None = None,
    max_bytes: int = MAX_BYTES,
    max_pixels: int = MAX_PIXELS,
    progress: Callable[[int, int], None] | None = None,
) -> Folder:
    """Match the images and masks of two folders, and check every file.

    Parameters
    ----------
    images, masks : path
        Folders of PNG, JPEG, TIFF, BMP, GIF, WebP and numpy files, or single files. Both may be the
        same folder if the names of the masks say so. Where a folder has no image of its own, the
        folders inside it count. Other files are passed over and named in `notes`.
    object_value : int or "nonzero", optional
        The value that is label 1, all others being label 0; "nonzero" for masks that number
        their objects. By default the values of all masks together decide: if they are 0 and 255
        only, 255 is label 1; else values are labels in their order and 255 is void.
    void_value : int, optional
        The value that means void; by default 255, unless 255 is the object or values are
        numbers of objects.
    n_labels : int, optional
        Number of labels that there must be.
    threshold : float, optional
        Values from it upwards are label 1: for JPEG masks, smoothed edges and probabilities.
    colors : sequence of int, optional
        The colours of the labels as 0xrrggbb, where masks are colour pictures. By default every
        colour that is found is a label, in their order.
    values : sequence of int, or Coding, optional
        The values of the labels, as an earlier folder had them; its `coding` keeps void, too.
    mask_suffix : str, optional
        What the names of masks have behind those of their images, such as "_mask". By default it
        is found from the names.
    pattern : str, optional
        Only images whose file name matches count, such as "*_raw.tif".
    turned : bool, default True
        Turn images and masks as the rotation tag of a camera says.
    volume : bool, default False
        Take every file as one volume: TIFF of several pages, OME-TIFF, numpy arrays (d, h, w), and
        NIfTI (.nii, .nii.gz; with the extra `medical`). By default pages are images of their own.
    spacing : (float, float, float), optional
        Distances of slices, rows and columns of volumes; by default what the files tell, else 1.
    empty_void : bool, default False
        Take slices of volumes whose mask is 0 throughout as not annotated.
    unannotated : bool, default False
        Look at images without a mask too, 200 of them at most: `Folder.unannotated`.
    keep : bool, default False
        Keep up to 256 MB of decoded pixels, so that files are not decoded again when they are
        needed for the first time.
    instances : bool, default True
        Read masks that number their objects as background and object: many ids, each of one
        connected part, others in other masks. False: numbers are classes. `n_labels` above two,
        `object_value`, `threshold`, `colors` and `values` also settle it.
    strict : bool, default False
        Refuse the folder if any file would have to be left out.
    leave : path, optional
        A folder inside that does not count, such as the one for results.
    max_bytes, max_pixels : int
        Limits for each file.
    progress : callable (done, total), optional
        Called after every file that was looked at.

    Returns
    -------
    Folder

    Raises
    ------
    InputError
        If nothing is left, sizes of masks differ from those of their images, or values of masks
        may mean several things.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import numpy as np
    >>> from cutlearn.images import cells, read_folder, write_mask, write_probability
    >>> with tempfile.TemporaryDirectory() as name:
    ...     for kind in ("images", "masks"):
    ...         (Path(name) / kind).mkdir()
    ...     world = cells(0)
    ...     write_probability(Path(name) / "images" / "a.png", world.image)
    ...     write_mask(Path(name) / "masks" / "a.png", world.labels)
    ...     folder = read_folder(Path(name) / "images", Path(name) / "masks")
    ...     folder.names, bool((folder.labels(0) == world.labels).all())
    (('a',), True)
    """
    stated = _stated(object_value, void_value, n_labels, threshold, colors, values)
    pictures = path_of("images", images)
    truths = None if masks is None else path_of("masks", masks)
    whole_number("max_bytes", max_bytes, 0, 2**63)
    whole_number("max_pixels", max_pixels, 0, 2**63)
    for name, word in (("mask_suffix", mask_suffix), ("pattern", pattern)):
        if word is not None and not isinstance(word, str):
            raise InputError(f"{name} is {quoted(word)}, but must be text. Give a string.")
    near = None if spacing is None or not volume else checked_spacing(spacing)
    room = KEPT if keep else 0
    reader = Reader(max_bytes, max_pixels, turned, room, volume, near, volume and empty_void)
    looks = unannotated and not volume
    fate = "only looked at" if looks else "left out"
    found, notes, pairs = _paired(
        pictures, truths, mask_suffix, pattern, leave, reader.endings, fate
    )
    without = list(notes.bare.items()) if looks else []
    few = dict(taken(without, evenly_spaced(len(without), MOST_UNANNOTATED)))
    every = len(found) + len(few)

    def looked(before: int) -> Callable[[int, int], None] | None:
        return None if progress is None else lambda done, _: progress(before + done, every)

    where = shown(truths or pictures)
    survey = look(found, pairs, stated, reader, where, looked(0), instances)
    left = [*notes.refused, *survey.left_out]
    if strict and left:
        raise InputError("\n".join([f"{shown(pictures)}: {left[0]}", *left[1:]]))
    survey.refuse(shown(pictures))
    others = look(few, None, stated, reader, shown(pictures), looked(len(found)))
    if others.problems:
        others.refuse(shown(pictures))
    told = (*notes.told, *left, *survey.notes, *others.left_out)
    seen = survey.seen
    return Folder(
        tuple(one.name for one in seen), tuple(one.image for one in seen),
        tuple(one.mask for one in seen if one.mask is not None),
        tuple(one.page for one in seen), tuple(one.facts for one in seen), survey.coding, told,
        reader, tuple((one.image, one.page) for one in others.seen), tuple(survey.tallies),
    )  # fmt: skip


@dataclass(frozen=True)
class _Notes:
    told: list[str]
    refused: list[str]  # what `strict` does not accept
    bare: dict[str, Path] = field(default_factory=dict)  # images without a mask


def _paired(
    images: Path,
    masks: Path | None,
    suffix: str | None,
    pattern: str | None,
    leave: str | os.PathLike[str] | None,
    endings: Sequence[str],
    fate: str,
) -> tuple[dict[str, Path], _Notes, dict[str, Path] | None]:
    """Return images by name, notes, and the masks of the same names.

    `fate`: what becomes of images without a mask, in words.
    """
    inside = path_of("leave", leave) if leave is not None else masks
    same = masks is not None and images.is_dir() and images.resolve() == masks.resolve()
    files, told = listed(images, pattern, None if same else inside, endings)
    if masks is None:
        return files, _Notes(told, []), None
    if same:
        every = listed(masks, endings=endings).files
        truths = {n: p for n, p in every.items() if is_mask_name(n, suffix)}
        files = {n: p for n, p in files.items() if n not in truths}
    else:
        truths, more = listed(masks, endings=endings)
        told += more
    if images.is_file() and masks.is_file():
        return files, _Notes(told, []), dict(zip(files, truths.values()))
    pairs = pair(files, truths, suffix)
    if not pairs.names:
        raise InputError(
            f"{shown(images)} and {shown(masks)}: no mask has the name of an image. Images are "
            f"called {some(p.name for p in files.values()) or 'nothing'}; masks "
            f"{some(p.name for p in truths.values()) or 'nothing'}. Rename them, or say what the "
            "names of masks have behind with mask_suffix='_mask'."
        )
    told += [pairs.told] if pairs.told else []
    bare = [n for n in files if n not in pairs.names]
    stray = sorted(truths.keys() - set(pairs.names.values()))
    left = []
    if bare:
        left.append(f"{plural(len(bare), 'image')} of {len(files)} without a mask {fate}: "
                    f"{some(bare)}")  # fmt: skip
    if stray:
        left.append(f"{plural(len(stray), 'mask')} without an image left out: {some(stray)}")
    kept = {n: files[n] for n in files if n in pairs.names}
    without = {n: files[n] for n in bare}
    return kept, _Notes(told, left, without), {n: truths[pairs.names[n]] for n in kept}


def _stated(
    object_value: Any, void_value: Any, n_labels: Any, threshold: Any, colors: Any, values: Any
) -> Stated:
    """Return what the user states about the values of masks, checked."""
    for name, value, low, high in (
        ("object_value", object_value, 0, 65_535),
        ("void_value", void_value, -65_535, 65_535),
        ("n_labels", n_labels, 2, 65_536),
    ):
        if value is not None and not (name == "object_value" and is_one_of(value, ["nonzero"])):
            whole_number(name, value, low, high)
    if object_value is not None and object_value == void_value:
        raise InputError(
            f"object_value and void_value are both {object_value}, but must differ. "
            "State another void_value, or leave it out."
        )
    given = {"threshold": threshold, "colors": colors, "object_value": object_value,
             "void_value": void_value}  # fmt: skip
    named = [f"{name}=VALUE" for name, value in given.items() if value is not None]
    if len(named) > 1 and (threshold is not None or colors is not None):
        raise InputError(
            f"{' and '.join(named)} are given together, but {named[0]} alone says what every value "
            "of a mask means. Leave the others out."
        )
    if threshold is not None and not is_number(threshold):
        raise InputError(
            f"threshold is {quoted(threshold)}, but must be a number. Use one such as 128."
        )
    known = values if isinstance(values, Coding) else None
    for name, numbers in (("colors", colors), ("values", None if known else values)):
        if numbers is not None:
            if not isinstance(numbers, Sequence) or isinstance(numbers, str) or len(numbers) < 2:
                raise InputError(
                    f"{name} is {quoted(numbers)}, but must be a list of two or more numbers. "
                    "Give one for each label."
                )
            for value in numbers:
                whole_number(name, value, 0, 2**24)
    if known is None and values is not None:
        known = Coding.of_values(values)
    return Stated(object_value, void_value, n_labels, threshold, colors, known)


class Seen(NamedTuple):
    """An image that can be used, or a slice of one, with its mask if there are masks."""

    name: str
    image: Path
    mask: Path | None
    page: int | None
    facts: Facts


@dataclass
class FolderSurvey:
    """What was found in a folder."""

    seen: list[Seen] = field(default_factory=list)
    coding: Coding | None = None
    tallies: list[Tally] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    problems: dict[str, list[str]] = field(default_factory=dict)

    def problem(self, kind: str, text: str) -> None:
        """Remember what puts the folder in doubt."""
        self.problems.setdefault(kind, []).append(text)

    def refuse(self, where: str) -> None:
        """Raise one error with three examples of every kind of problem, if there is any."""
        lines: list[str] = []
        for found in self.problems.values():
            lines += found[:EXAMPLES]
            if len(found) > EXAMPLES:
                lines.append(f"... and {len(found) - EXAMPLES} more like these")
        if not lines and not self.seen:
            lines = [f"{where}: no file of it can be used.", *self.left_out]
        if len(lines) == 1:
            raise InputError(lines[0])
        if lines:
            text = "\n  ".join(lines)
            count = sum(map(len, self.problems.values())) or len(lines)
            raise InputError(f"{where}: {plural(count, 'problem')} found.\n  {text}")


def _coding_of(tallies: Sequence[Tally], stated: Stated, where: str) -> Coding:
    """Return what the values of all masks mean together."""
    color = any(one.color for one in tallies) or stated.colors is not None
    seen: dict[int, str] = {}
    sets = []
    for one in tallies:
        grey = color and not one.color
        sets.append(frozenset(v * GREY if grey else v for v in one.values))
        for value in sorted(sets[-1]):
            seen.setdefault(value, one.name)
    return decide(seen, sets, stated, where, color=color)


def look(
    images: Mapping[str, Path],
    masks: Mapping[str, Path] | None,
    stated: Stated,
    reader: Reader,
    where: str,
    progress: Callable[[int, int], None] | None = None,
    instances: bool = True,
) -> FolderSurvey:
    """Look at every image, and at its mask if there are masks.

    `where`: the name of the masks in messages; `instances`: whether numbered objects are one label.
    """
    survey = FolderSurvey()
    unread: list[str] = []
    channels: dict[str, list[str]] = {}
    clear: list[str] = []
    turns: list[str] = []
    for done, (name, path) in enumerate(images.items(), 1):
        try:
            pages = reader.images(path)
            if masks is not None and len(pages) > 1:
                count = reader.count(masks[name])
                if count != len(pages):
                    survey.problem("pages", f"{shown(masks[name])}: the mask has "
                                   f"{plural(count, 'page')}, but {shown(path.name)} has "
                                   f"{len(pages)} slices. Give every slice its mask, as a file of "
                                   "as many pages.")  # fmt: skip
                    pages = []
            for page, opened in pages:
                part = name if page is None else f"{name}_{page + 1:03d}"
                mask = None if masks is None else masks[name]
                if mask is not None:
                    _look_at_mask(survey, mask, page, opened, stated, reader)
                survey.seen.append(Seen(part, path, mask, page, reader.facts(opened.image)))
                clear += [path.name] if opened.transparent else []
                turns += [path.name] if opened.orientation != 1 and mask is not None else []
        except ChannelsError as error:
            channels.setdefault(error.channels, []).append(Path(error.name).name)
        except InputError as error:
            unread.append(str(error))
        if progress is not None:
            progress(done, len(images))
    if channels:
        parts = [f"{some(names, MOST_NAMED)} ({kind})" for kind, names in channels.items()]
        survey.problem("channels", f"{'; '.join(parts)}: {NO_CHANNELS}")
    if unread:
        survey.left_out.append(
            f"{plural(len(unread), 'file')} of {len(images)} that cannot be read left out: "
            + " | ".join(unread[:EXAMPLES]) + (" | ..." if len(unread) > EXAMPLES else "")
        )  # fmt: skip
    _notes(survey, clear, turns if reader.turned else [])
    if survey.tallies:
        stated, numbered = as_numbered(survey.tallies, stated) if instances else (stated, "")
        try:
            survey.coding = _coding_of(survey.tallies, stated, where)
            survey.notes += [told] if (told := numbered or survey.coding.told()) else []
        except InputError as error:
            survey.problem("values", str(error))
    return survey


def _look_at_mask(
    survey: FolderSurvey,
    path: Path,
    page: int | None,
    image: OpenedImage,
    stated: Stated,
    reader: Reader,
) -> None:
    """Compare a mask with its image, and collect its values."""
    name = shown(path)
    found, jpeg = reader.values(path, page)
    if stated.threshold is not None:
        found = (gray(found) >= stated.threshold).astype(np.uint8)
    elif jpeg:
        advice = "If it holds two labels, cut them with threshold=128; else export it as PNG."
        survey.problem("jpeg", f"{name}: a JPEG changes the values of a mask. {advice}")
        return
    elif found.dtype.kind == "f":
        low, high = float(found.min()), float(found.max())
        survey.problem("float", f"{name}: the mask holds numbers from {low:g} to {high:g} that are "
                       "no labels. Cut them with threshold=0.5, say.")  # fmt: skip
        return
    height, width = reader.size(image.image)
    if found.shape[:2] == (height, width):
        values, color = reader.annotated(found, image.image)
        values = packed(values) if color else values
        survey.tallies.append(tally(shown(path.name), values, color))
        return
    sideways = image.orientation in SIDEWAYS and found.shape[:2] == (width, height)
    advice = (
        "The image has a rotation tag that its mask lacks: read both as they are stored with "
        "turned=False." if sideways and reader.turned else "Give each image a mask of its own size."
    )  # fmt: skip
    size = reader.size_in_words(found.shape[0], found.shape[1], image.image)
    wanted = reader.size_in_words(height, width, image.image)
    wanted = wanted.removesuffix(" pixels (width x height)")
    told = f"{name}: the mask has {size}, but its image has {wanted}. {advice}"
    survey.problem("size", told)


def _notes(survey: FolderSurvey, clear: list[str], turns: list[str]) -> None:
    """Add notes on all images together, and on masks whose zero is displayed white."""
    colored = sum(one.facts.color for one in survey.seen)
    if 0 < colored < len(survey.seen):
        survey.notes.append(
            f"{plural(colored, 'image')} in colour and {len(survey.seen) - colored} in grey"
        )
    bits = {one.mask: white_is_zero(one.mask) for one in survey.seen if one.mask is not None}
    wide = [path.name for path, depth in bits.items() if depth > 1]
    flat = [path.name for path, depth in bits.items() if depth == 1]
    for kind, names, what, meaning in (
        ("image", clear, "with transparent pixels, which are shown as white",
         "If the alpha channel is a mask, the model sees the answer"),
        ("image", turns, "turned as the rotation tag of the camera says",
         "If their masks were drawn on the unturned images, use turned=False"),
        ("mask", wide, "with an inverting lookup table (WhiteIsZero, as Fiji writes)",
         "Labels are the stored values, which Fiji shows below the cursor; 255 is displayed black"),
        ("mask", flat, "of one bit, WhiteIsZero", "Pixels that are displayed white are label 1"),
    ):  # fmt: skip
        if names:
            survey.notes.append(f"{plural(len(names), kind)} {what}: {some(names)}. {meaning}")
