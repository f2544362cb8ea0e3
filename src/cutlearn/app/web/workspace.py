"""The folder of the page: images by number and their masks on the disk.

A browser names images by numbers, never by paths. Everything that is kept in addition to the masks
lies in one hidden folder, `.masks.cutlearn` for the folder `masks`.
"""

import contextlib
import io
import json
import re
import threading
from collections import OrderedDict
from pathlib import Path
from typing import Any

import numpy as np
import PIL.Image

from cutlearn.app.web.marks import Drafts
from cutlearn.app.web.security import LIMITS, PageLimits
from cutlearn.arrays import Image, Mask
from cutlearn.errors import InputError, shown
from cutlearn.features.describe import Intensities
from cutlearn.images.coding import Coding
from cutlearn.images.decode import ENDINGS, content
from cutlearn.images.folder import read_folder
from cutlearn.images.listing import listed, name_of, pair
from cutlearn.images.read import open_image, read_values
from cutlearn.images.write import write_labels
from cutlearn.store import atomic_write

# Thumbnails, and bytes of decoded images, that stay in memory.
THUMBS, PIXEL_BYTES = 2_000, 256 << 20
# The longer side of a thumbnail.
THUMB = 160
# An image whose brightest pixels are below this is shown brighter: 12 bits in a 16-bit file.
DARK = 0.25
NAME = re.compile(r"[^\w .()+-]+")


class Workspace:
    """The images of a folder, and their masks.

    Parameters
    ----------
    images, masks : path
        The folders; made when the first file is written.
    limits : PageLimits

    Attributes
    ----------
    names : list of str
        The image with the number k is `names[k]`; numbers never change while the server runs.
    n_labels : int
        Labels that masks may have.
    values : tuple of int
        What the labels are in mask files.
    """

    def __init__(self, images: Path, masks: Path, limits: PageLimits = LIMITS) -> None:
        if images.resolve() == masks.resolve():
            raise InputError(
                f"{shown(masks)}: images and masks would lie in one folder. Name another one with "
                "--masks."
            )
        self.images, self.masks, self.limits = images, masks, limits
        self.hidden = masks.parent / f".{masks.name}.cutlearn"
        self.drafts = Drafts(self.hidden / "drafts", limits)
        self.names: list[str] = []
        self._paths: list[Path] = []
        self._lock = threading.RLock()
        self._thumbs: OrderedDict[int, bytes] = OrderedDict()
        self._pixels: OrderedDict[int, Image] = OrderedDict()
        if images.is_dir() and any(images.iterdir()):
            files = listed(images, leave=masks).files
            self.names, self._paths = list(files), list(files.values())
        if len(self.names) > limits.images:
            raise InputError(
                f"{shown(images)}: there are {len(self.names)} images, but the page takes at most "
                f"{limits.images}. Name a smaller folder."
            )
        self._masks, self.coding = self._found_masks()
        self.n_labels, self.values = self._settings()

    def _found_masks(self) -> tuple[dict[str, Path], Coding]:
        """Return existing masks by image, and the coding of their values."""
        files: dict[str, Path] = {}
        if self.masks.is_dir() and self.names:
            with contextlib.suppress(InputError):  # no mask in it yet
                files = listed(self.masks).files
        pairs = pair(self.names, files).names if files else {}
        if not pairs:
            return {}, Coding("ids", values=(0, 1))
        coding = read_folder(self.images, self.masks).coding
        assert coding is not None
        ours = coding.kind == "ids" and max(coding.values, default=0) < 255
        if not ours and coding.kind != "binary":
            raise InputError(
                f"{shown(self.masks)}: {coding.told()}, and masks of the page would not fit among "
                "them. Name another folder with --masks."
            )
        return {image: files[mask] for image, mask in pairs.items()}, coding

    def _settings(self) -> tuple[int, tuple[int, ...]]:
        """Return the number of labels, and their values in mask files."""
        if self.coding.kind == "binary":
            return 2, (0, 255)
        kept = 0
        with contextlib.suppress(OSError, ValueError, TypeError, KeyError):
            kept = json.loads((self.hidden / "settings.json").read_bytes())["n_labels"]
        known = kept if type(kept) is int and 2 <= kept <= self.limits.labels else 2
        return self._valued(max(known, self.coding.n_labels))

    def _valued(self, n_labels: int) -> tuple[int, tuple[int, ...]]:
        """Return a number of labels, with the values that masks have, then the next numbers."""
        values = list(self.coding.values) or [0]
        values += range(max(values) + 1, max(values) + 1 + max(0, n_labels - len(values)))
        return n_labels, tuple(values[:n_labels])

    def set_labels(self, n_labels: Any) -> None:
        """Change the number of labels."""
        if type(n_labels) is not int or not 2 <= n_labels <= self.limits.labels:
            raise InputError(f"labels: a number from 2 to {self.limits.labels} was wanted.")
        if self.coding.kind == "binary" and n_labels > 2:
            raise InputError(
                f"{shown(self.masks)}: the masks that are there hold 0 and 255, so there is no "
                "room for a third label. Start with another folder, --masks."
            )
        with self._lock:
            self.n_labels, self.values = self._valued(n_labels)
            self.hidden.mkdir(parents=True, exist_ok=True)
            text = json.dumps({"n_labels": n_labels})
            atomic_write(self.hidden / "settings.json", text.encode())

    def check(self, number: Any) -> int:
        """Return the number of an image; refuse unknown ones."""
        if type(number) is not int or not 0 <= number < len(self.names):
            raise InputError("image: there is none of this number. Reload the page.")
        return number

    def image(self, number: int) -> Image:
        """Return the pixels of an image, (h, w) or (h, w, 3) in [0, 1]."""
        path = self._paths[self.check(number)]
        with self._lock:
            if number in self._pixels:
                self._pixels.move_to_end(number)
                return self._pixels[number]
        data, name = content(path, path.name, self.limits.upload_bytes)
        image = open_image(data, name, self.limits.pixels).image
        with self._lock:
            self._pixels[number] = image
            while sum(one.nbytes for one in self._pixels.values()) > PIXEL_BYTES:
                self._pixels.popitem(last=False)
        return image

    def thumb(self, number: int) -> bytes:
        """Return a small JPEG of an image."""
        self.check(number)
        with self._lock:
            if number in self._thumbs:
                return self._thumbs[number]
        made = thumbnail(self.image(number))
        with self._lock:
            self._thumbs[number] = made
            while len(self._thumbs) > THUMBS:
                self._thumbs.popitem(last=False)
        return made

    def add(self, name: str, data: bytes) -> int:
        """Write an image that was dropped on the page into the folder; return its number.

        Of its name only letters, digits and a few signs are kept, so that it stays in the folder.
        """
        if len(self.names) >= self.limits.images:
            raise InputError(f"images: there are {self.limits.images} already, which is all.")
        image = open_image(data, "the dropped file", self.limits.pixels).image
        leaf = Path(name.replace("\\", "/")).name
        stem, ending = name_of(Path(leaf)), Path(leaf).suffix.lower()
        if ending not in ENDINGS:
            raise InputError(f"the dropped file: images end in {', '.join(ENDINGS)}.")
        stem = NAME.sub("_", stem).strip(" .")[:80] or "image"
        with self._lock:
            taken = {known.casefold() for known in self.names}
            free = (f"{stem} {k}" if k else stem for k in range(len(taken) + 1))
            stem = next(one for one in free if one.casefold() not in taken)
            self.images.mkdir(parents=True, exist_ok=True)
            path = self.images / f"{stem}{ending}"
            atomic_write(path, data)
            self.names.append(stem)
            self._paths.append(path)
            number = len(self.names) - 1
            self._pixels[number] = image
            return number

    def is_done(self, number: int) -> bool:
        """Return whether the image has a mask on the disk."""
        return self.names[number] in self._masks

    def mask_path(self, number: int) -> Path:
        """Return the file of the mask of an image, which need not exist."""
        name = self.names[self.check(number)]
        return self._masks.get(name, self.masks / f"{name}.png")

    def mask(self, number: int) -> Mask | None:
        """Return the mask of an image on the disk, void as label 0; None if there is none."""
        path = self.mask_path(number)
        if not self.is_done(number):
            return None
        known = Coding("ids", values=self.values)
        labels = known.labels(read_values(path, path.name, max_pixels=self.limits.pixels))
        labels[labels >= self.n_labels] = 0
        return labels

    def accept(self, number: int, labels: Mask) -> Path:
        """Write the mask of an image; the first version of one that was there is kept."""
        with self._lock:
            name = self.names[self.check(number)]
            old = self.mask_path(number)
            path = old if old.suffix.lower() == ".png" else self.masks / f"{name}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            if old.is_file():
                self._keep_first(name, old)
            write_labels(path, labels, self.values)
            if old != path:  # two masks of one name would be ambiguous
                old.unlink(missing_ok=True)
            self._masks[name] = path
            return path

    def _keep_first(self, name: str, path: Path) -> None:
        """Copy the first version of a mask, once."""
        folder = (self.hidden / "first" / name).parent
        folder.mkdir(parents=True, exist_ok=True)
        if not any(one.stem == Path(name).name for one in folder.iterdir()):
            atomic_write(folder / f"{Path(name).name}{path.suffix}", path.read_bytes())

    @property
    def done(self) -> list[int]:
        """The numbers of images that have masks."""
        return [k for k in range(len(self.names)) if self.is_done(k)]


def png_of(image: Image) -> bytes:
    """Return an image in [0, 1] as a PNG of 8 bits; quick rather than small, it goes nowhere far.

    Dark images are stretched.
    """
    file = io.BytesIO()
    PIL.Image.fromarray(_shown(image)).save(file, "PNG", compress_level=1)
    return file.getvalue()


def thumbnail(image: Image) -> bytes:
    """Return a small JPEG of an image; dark ones are stretched."""
    picture = PIL.Image.fromarray(_shown(image)).convert("RGB")
    picture.thumbnail((THUMB, THUMB))
    file = io.BytesIO()
    picture.save(file, "JPEG", quality=80)
    return file.getvalue()


def _shown(image: Image) -> Mask:
    found = Intensities.of([image])
    return byte_values(found.scaled(image) if found.high < DARK else image)


def byte_values(image: Image) -> Mask:
    return (255 * np.clip(image, 0, 1) + np.float32(0.5)).astype(np.uint8)
