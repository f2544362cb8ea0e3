"""`--groups`: which images belong together, from a table of names or from a pattern in them."""

import csv
import re
from collections.abc import Sequence
from pathlib import Path, PurePosixPath

from cutlearn.errors import InputError, clean, quoted

HEADING = ("name", "group")


def groups_of(names: Sequence[str], given: str) -> list[str]:
    """Give the group of every image.

    Parameters
    ----------
    names : sequence of str
        Of the images, without endings.
    given : str
        A CSV file of rows name,group; or a regular expression with one group in parentheses, which
        is looked for in every name: "^(fish[0-9]+)_" puts fish3_left and fish3_right together.

    Examples
    --------
    >>> groups_of(["fish3_left", "fish3_right", "fish4_left"], "^(fish[0-9]+)_")
    ['fish3', 'fish3', 'fish4']
    """
    if given.lower().endswith(".csv"):
        table = _table(Path(given))
        found = [table.get(name) for name in names]
        lacks, what = "have no row", "Add a row name,group for every image."
    else:
        pattern = _pattern(given)
        matches = [pattern.search(name) for name in names]
        found = [None if match is None else match[1] for match in matches]
        lacks, what = "do not match", "Write a pattern that every name has."
    missing = [clean(name, 60) for name, group in zip(names, found) if group is None]
    if missing:
        more = f" and {len(missing) - 5} more" if len(missing) > 5 else ""
        raise InputError(
            f"--groups {clean(given, 100)}: these images {lacks}: {', '.join(missing[:5])}{more}. "
            f"{what}"
        )
    return [group for group in found if group is not None]


def _table(path: Path) -> dict[str, str]:
    """Return the rows of a table; names may have the endings of files."""
    from cutlearn.images.listing import name_of

    try:
        rows = list(csv.reader(path.read_text(encoding="utf-8-sig").splitlines()))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise InputError(
            f"--groups: {path} cannot be read ({clean(str(error), 200)}). Give a CSV file of rows "
            "name,group, or a regular expression."
        ) from error
    table: dict[str, str] = {}
    for number, row in enumerate(rows, 1):
        cells = [cell.strip() for cell in row]
        if not any(cells) or (number == 1 and tuple(c.lower() for c in cells) == HEADING):
            continue
        if len(cells) != 2 or not all(cells):
            raise InputError(
                f"--groups: line {number} of {path} is {quoted(','.join(row))}, but every line "
                "needs the name of an image and its group. Write name,group."
            )
        table[cells[0]] = cells[1]
        file = PurePosixPath(cells[0])
        table.setdefault(str(file.parent / name_of(file)), cells[1])
    return table


def _pattern(given: str) -> re.Pattern[str]:
    try:
        pattern = re.compile(given)
    except re.error as error:
        raise InputError(
            f"--groups: {quoted(given)} is not a regular expression ({error}). Give one, such as "
            "'^(fish[0-9]+)_', or a CSV file of rows name,group."
        ) from error
    if pattern.groups != 1:
        raise InputError(
            f"--groups: {quoted(given)} has {pattern.groups} groups in parentheses, but one is "
            "needed: the part of the name that images of one group share. Write for example "
            "'^(fish[0-9]+)_'."
        )
    return pattern
