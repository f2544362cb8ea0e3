"""Errors and warnings, and quotes of foreign text in their messages.

`InputError` is for the user: what is wrong, where, what is needed and what to do. Any other
exception is a bug of the library and keeps its traceback. A message may quote a hostile file or
file name: the quote is cut to a readable length, and nothing of it can move the cursor of a
terminal.
"""

import os
import reprlib
import unicodedata
import warnings
from importlib import import_module
from typing import Any

# Characters of a line of a message; a sentence and two paths have room.
MOST_LINE = 1200
# Lines of a message: one a bad file of a folder.
MOST_LINES = 2000


class InputError(ValueError):
    """An input that cannot be used: what is wrong, where, what is needed and what to do."""

    def __init__(self, message: str = "") -> None:
        lines = str(message).split("\n")
        if len(lines) > MOST_LINES:
            lines[MOST_LINES - 1 :] = [f"  ... and {len(lines) - MOST_LINES + 1} more"]
        super().__init__("\n".join(clean(line, MOST_LINE, joined=False) for line in lines))


class MissingBackboneError(InputError):
    """A pretrained network that is not here, or has other weights: the model itself is sound."""


class InputWarning(UserWarning):
    """An input that may not be what was meant; the message states how it is used."""


class ConvergenceWarning(UserWarning):
    """Training stopped before its certified gap, which the message states."""


def clean(text: str, most: int | None = None, joined: bool = True) -> str:
    r"""Return text without control characters, and not longer than `most`.

    Control characters, marks that turn the direction of writing, and bytes of a file name that are
    no text become \x1b, \u202e and the like. Of a long text the middle is left out.

    Parameters
    ----------
    text : str
    most : int, optional
        Characters to keep.
    joined : bool
        Whether white space of any kind and length becomes one space.

    Examples
    --------
    >>> clean("a\x1b[31m\nb"), clean("0123456789" * 9, 21)
    ('a\\x1b[31m b', '01234567 ... 23456789')
    """
    if joined:
        text = " ".join(text.split())
    if most is not None and len(text) > most:
        half = (most - 5) // 2
        text = f"{text[:half]} ... {text[-half:]}"
    if text.isascii() and text.isprintable():
        return text
    return "".join(map(_visible, text))


def shown(path: Any) -> str:
    """Return a path on one line, without control characters."""
    return clean(os.fsdecode(path), joined=False)


def quoted(value: Any) -> str:
    """Return a value for a message, in about sixty characters at most.

    Examples
    --------
    >>> quoted("x" * 100)
    "'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxx...xxxxxxxxxxxxxxxxxxxxxxxxxxxxxx'"
    """
    return clean(_SHORT.repr(value), 120)


def _visible(sign: str) -> str:
    if unicodedata.category(sign) not in ("Cc", "Cf", "Cs", "Zl", "Zp"):
        return sign
    number = ord(sign)
    if 0xDC80 <= number <= 0xDCFF:  # how Python keeps a byte of a file name that is no text
        number -= 0xDC00
    return f"\\x{number:02x}" if number < 256 else f"\\u{number:04x}"


_SHORT = reprlib.Repr()
_SHORT.maxstring = _SHORT.maxother = _SHORT.maxlong = 65


def plural(n: int, what: str) -> str:
    """Return a number of things, in singular or plural.

    Examples
    --------
    >>> plural(1, "mask"), plural(3, "mask")
    ('1 mask', '3 masks')
    """
    return f"{n} {what}" if n == 1 else f"{n} {what}s"


def missing_on_worker(path: Any) -> InputError:
    """Return the error of a worker that cannot read a file, or finds another one."""
    return InputError(
        f"{shown(path)}: this file is not there, or is another one, where a worker of the cluster "
        "looks for it. Mount the folder under the same path on all workers, and leave its files as "
        "they are; the same command then goes on."
    )


def import_moved(old: str, name: str, module: str) -> Any:
    """Return a public name from the package it has moved to, with a DeprecationWarning."""
    try:
        found = getattr(import_module(module), name)
    except ImportError as error:
        raise AttributeError(
            f"{old}.{name} has moved to {module}. Install cutlearn-papers, and import it there."
        ) from error
    warnings.warn(
        f"{old}.{name} has moved to {module}: import it there", DeprecationWarning, stacklevel=3
    )
    return found
