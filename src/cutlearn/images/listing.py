"""The files of a folder, by name: what can be an image, what is passed over, which pages it has."""

import fnmatch
from collections.abc import Iterable, Sequence
from pathlib import Path, PurePath
from typing import NamedTuple

from cutlearn.errors import InputError, counted, shown
from cutlearn.images.decode import ENDINGS

# Names that a summary shows of many.
EXAMPLES = 3
DOUBLE = (".ome.tif", ".ome.tiff")


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

    Parameters
    ----------
    folder : path
        A folder, or a file.
    pattern : str, optional
        Only names that match it count, such as "*_raw.tif".
    leave : path, optional
        A folder that does not count, with all in it.
    endings : sequence of str
        Of the files that can be read.

    Raises
    ------
    InputError
        If there is none, or two have one name.
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
        notes.append(f"{counted(len(strangers), 'file')} in {shown(folder)} passed over, since no "
                     f"image: {some(p.name for p in strangers)}")  # fmt: skip
    return Listed(_named(folder, files), notes)


def _images(
    paths: Iterable[Path], pattern: str | None, endings: Sequence[str]
) -> tuple[list[Path], list[Path]]:
    """The files that can be images, and all others."""
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
    """The files by their path in the folder without ending."""
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
