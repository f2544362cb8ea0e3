"""Marks on the disk, so that a crash or a reload loses none: a small JSON file an image and tab.

A tab finds its own marks again. A new tab that opens the image begins with a copy of the newest
ones; what it draws then goes to a file of its own, so two tabs never mix.
"""

import hashlib
import json
import re
from collections.abc import Iterable
from pathlib import Path

from cutlearn.app.web.limits import LIMITS, Limits
from cutlearn.app.web.marks import Marks, marks_of, parse
from cutlearn.errors import InputError
from cutlearn.store import atomic_write

TAB = re.compile("[0-9a-f]{32}")
# Files of one image that are kept; the oldest go.
KEPT = 4


class Drafts:
    """The marks of all images in a folder.

    Parameters
    ----------
    folder : path
        Made when the first marks come.
    limits : Limits
    """

    def __init__(self, folder: Path, limits: Limits = LIMITS) -> None:
        self.folder, self.limits = folder, limits

    def write(self, name: str, tab: str, marks: Marks) -> None:
        """Keep the marks that a tab has made on the image of a name."""
        if not TAB.fullmatch(tab):
            raise InputError("tab: 32 hexadecimal digits were wanted. Reload the page.")
        self.folder.mkdir(parents=True, exist_ok=True)
        text = json.dumps({"image": name, "shape": marks.shape, **marks.to_json()})
        atomic_write(self.folder / f"{_key(name)}-{tab}.json", text.encode())
        for old in self._of(name)[KEPT:]:
            old.unlink(missing_ok=True)

    def read(self, name: str, tab: str, shape: tuple[int, int], n_labels: int) -> Marks:
        """Give the marks of a tab, else the newest of the image, else none."""
        own = self.folder / f"{_key(name)}-{tab}.json"
        for path in [own, *self._of(name)]:
            found = self._opened(path, shape, n_labels)
            if found is not None:
                return found
        return Marks(shape)

    def since(self, name: str, tab: str, path: Path) -> bool:
        """Whether a tab would find marks of the image that are younger than a file."""
        own = self.folder / f"{_key(name)}-{tab}.json"
        found = [own] if own.is_file() else self._of(name)[:1]
        return any(one.stat().st_mtime_ns > path.stat().st_mtime_ns for one in found)

    def begun(self, names: Iterable[str]) -> set[str]:
        """Give those of the names on whose images something was drawn."""
        keys = {path.name.split("-")[0] for path in self.folder.glob("*.json")}
        return {name for name in names if _key(name) in keys} if keys else set()

    def _of(self, name: str) -> list[Path]:
        """The files of an image, the newest first."""
        found = self.folder.glob(f"{_key(name)}-*.json")
        return sorted(found, key=lambda path: path.stat().st_mtime_ns, reverse=True)

    def _opened(self, path: Path, shape: tuple[int, int], n_labels: int) -> Marks | None:
        """Marks of a file; None where it is missing, damaged, or of another image."""
        try:
            found = parse(path.read_bytes())
            marks = marks_of(found.get("marks"), shape, n_labels, self.limits)
        except (OSError, InputError):
            return None
        position = found.get("position")
        if type(position) is not int or not 0 <= position <= len(marks):
            return None
        return Marks(shape, marks, position) if found.get("shape") == [*shape] else None


def _key(name: str) -> str:
    """A name of an image as the name of a file: any length, any letters."""
    return hashlib.blake2b(name.encode(errors="surrogateescape"), digest_size=12).hexdigest()
