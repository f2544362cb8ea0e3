"""Every file of a folder looked at once, before any work: facts of images, values of masks.

What one file cannot give is told and left out; what puts all of them in doubt is refused, three
examples a kind, however many files there are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from cutlearn.errors import InputError, counted, shown
from cutlearn.images.coding import Coding, Stated, decide, gray, packed
from cutlearn.images.decode import NO_CHANNELS, ChannelsError, white_is_zero
from cutlearn.images.facts import Facts
from cutlearn.images.listing import EXAMPLES, some
from cutlearn.images.read import Opened
from cutlearn.images.reader import Pages
from cutlearn.images.tally import Tally, as_numbered, tally

# Files with several channels that a refusal names.
MOST_NAMED = 100
SIDEWAYS = (5, 6, 7, 8)


class Seen(NamedTuple):
    """An image that can be used, or a slice of one, with its mask if there are masks."""

    name: str
    image: Path
    mask: Path | None
    page: int | None
    facts: Facts


@dataclass
class Survey:
    """What was found in a folder."""

    seen: list[Seen] = field(default_factory=list)
    coding: Coding | None = None
    tallies: tuple[Tally, ...] = ()
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
            raise InputError(f"{where}: {counted(count, 'problem')} found.\n  {text}")


class _Values:
    """The tallies of all masks, and which mask has a value first."""

    def __init__(self) -> None:
        self.tallies: list[Tally] = []

    def add(self, name: str, values: npt.NDArray[Any], color: bool) -> None:
        self.tallies.append(tally(name, packed(values) if color else values, color))

    def decide(self, stated: Stated, where: str) -> Coding:
        color = any(one.color for one in self.tallies) or stated.in_colors
        seen: dict[int, str] = {}
        sets = []
        for one in self.tallies:
            grey = color and not one.color
            sets.append(frozenset(v * 0x010101 if grey else v for v in one.values))
            for value in sorted(sets[-1]):
                seen.setdefault(value, one.name)
        return decide(seen, sets, stated, where, color=color)


def look(
    images: Mapping[str, Path],
    masks: Mapping[str, Path] | None,
    stated: Stated,
    reader: Pages,
    where: str,
    progress: Callable[[int, int], None] | None = None,
    instances: bool = True,
) -> Survey:
    """Look at every image, and at its mask if there are masks.

    Parameters
    ----------
    images, masks : files by name, the same names in both
    stated : Stated
    reader : Pages
        Reads files as images, or as volumes.
    where : str
        How to call the masks.
    progress : callable (done, total), optional
        Called after every file.
    instances : bool
        Whether objects of masks that number them are one label.
    """
    survey, values = Survey(), _Values()
    unread: list[str] = []
    channels: dict[str, list[str]] = {}
    clear: list[str] = []
    turns: list[str] = []
    for done, (name, path) in enumerate(images.items(), 1):
        try:
            pages = reader.images(path)
            if masks is not None and (told := _other_pages(path, masks[name], pages, reader)):
                survey.problem("pages", told)
                pages = []
            for page, opened in pages:
                part = name if page is None else f"{name}_{page + 1:03d}"
                mask = None if masks is None else masks[name]
                if mask is not None:
                    _look_at_mask(survey, values, mask, page, opened, stated, reader)
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
            f"{counted(len(unread), 'file')} of {len(images)} that cannot be read left out: "
            + " | ".join(unread[:EXAMPLES]) + (" | ..." if len(unread) > EXAMPLES else "")
        )  # fmt: skip
    _notes(survey, clear, turns, reader.turned)
    if masks is not None:
        _note_inverted(survey)
    if masks is not None and values.tallies:
        stated, numbered = as_numbered(values.tallies, stated) if instances else (stated, "")
        try:
            survey.coding = values.decide(stated, where)
            survey.notes += [told] if (told := numbered or survey.coding.told()) else []
            survey.tallies = tuple(values.tallies)
        except InputError as error:
            survey.problem("values", str(error))
    return survey


def _other_pages(
    image: Path, mask: Path, pages: Sequence[tuple[int | None, Opened]], reader: Pages
) -> str:
    """Return what is wrong with the pages of a mask of a stack; nothing if they fit."""
    count = len(pages) if len(pages) == 1 else reader.count(mask)
    if count == len(pages):
        return ""
    return (
        f"{shown(mask)}: the mask has {counted(count, 'page')}, but {shown(image.name)} has "
        f"{len(pages)} slices. Give every slice its mask, as a file of as many pages."
    )


def _look_at_mask(
    survey: Survey,
    values: _Values,
    path: Path,
    page: int | None,
    image: Opened,
    stated: Stated,
    reader: Pages,
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
        values.add(shown(path.name), *reader.annotated(found, image.image))
        return
    sideways = image.orientation in SIDEWAYS and found.shape[:2] == (width, height)
    advice = (
        "The image has a rotation tag that its mask lacks: read both as they are stored with "
        "turned=False." if sideways and reader.turned else "Give each image a mask of its own size."
    )  # fmt: skip
    size = reader.told(found.shape[0], found.shape[1], image.image)
    wanted = reader.told(height, width, image.image)
    wanted = wanted.removesuffix(" pixels (width x height)")
    told = f"{name}: the mask has {size}, but its image has {wanted}. {advice}"
    survey.problem("size", told)


def _note_inverted(survey: Survey) -> None:
    """Note how masks were read whose zero is displayed white."""
    bits = {one.mask: white_is_zero(one.mask) for one in survey.seen if one.mask is not None}
    wide = [path.name for path, depth in bits.items() if depth > 1]
    flat = [path.name for path, depth in bits.items() if depth == 1]
    if wide:
        survey.notes.append(
            f"{counted(len(wide), 'mask')} with an inverting lookup table (WhiteIsZero, as Fiji "
            f"writes): {some(wide)}. Labels are the stored values, which Fiji shows below the "
            "cursor; 255 is displayed black"
        )
    if flat:
        survey.notes.append(
            f"{counted(len(flat), 'mask')} of one bit, WhiteIsZero: {some(flat)}. Pixels that are "
            "displayed white are label 1"
        )


def _notes(survey: Survey, clear: list[str], turns: list[str], turned: bool) -> None:
    """What a person should know of the images together."""
    colored = sum(one.facts.color for one in survey.seen)
    if 0 < colored < len(survey.seen):
        survey.notes.append(
            f"{counted(colored, 'image')} in colour and {len(survey.seen) - colored} in grey"
        )
    if clear:
        survey.notes.append(
            f"{counted(len(clear), 'image')} with transparent pixels, which are shown as white: "
            f"{some(clear)}. If the alpha channel is a mask, the model sees the answer"
        )
    if turns and turned:
        survey.notes.append(
            f"{counted(len(turns), 'image')} turned as the rotation tag of the camera says: "
            f"{some(turns)}. If their masks were drawn on the unturned images, use turned=False"
        )
