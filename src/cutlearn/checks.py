"""Checks of what callers give, and the wording of their errors.

Every public function checks its inputs here once, so that the rest of the library works on
contiguous arrays of a known type. Inputs are never modified, and never kept: the arrays that these
functions return belong to the library, so that nothing changes when the caller writes into an array
later, not even from another thread while the core runs.
"""

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cutlearn import _core
from cutlearn.arrays import AnyArray, Floats, Indices
from cutlearn.errors import InputError, clean, quoted
from cutlearn.loaded import Loaded

Scalar = TypeVar("Scalar", bound=np.generic)
MOST_NODES = 2**31 - 64  # the core counts in 32 bits
MOST_EDGES = 2**30 - 64  # each is two arcs
LARGE = 2**15  # numbers whose copy goes to memory that the core keeps for the next one


def float_array(name: str, values: ArrayLike) -> Floats:
    """Return a C-ordered float64 array; refuse what is not real numbers."""
    array = as_array(name, values)
    if array.dtype.kind not in "fiub":
        raise InputError(
            f"{name} must hold real numbers, not dtype {array.dtype}. Convert it to float."
        )
    if array.dtype.kind == "f" and array.dtype.itemsize > 8:
        raise InputError(
            f"{name} has dtype {array.dtype}, but float64 is the widest that is possible. Convert "
            "it to float64."
        )
    return _owned(array, np.float64, values)


def given_shape(name: str, values: ArrayLike) -> tuple[int, ...]:
    """Return the shape of values before they are copied."""
    return as_array(name, values).shape


def check_length(name: str, values: ArrayLike, most: int, what: str) -> None:
    """Refuse a first axis that is too long for the core, before anything is copied."""
    shape = given_shape(name, values)
    if shape and shape[0] > most:
        raise InputError(
            f"{name} has {shape[0]} {what}, but one graph can have at most {most}. Split it into "
            "parts."
        )


def index_array(name: str, values: ArrayLike, below: int) -> Indices:
    """Return a C-ordered int64 array with 0 <= values < below."""
    array = as_array(name, values)
    if array.size == 0:
        array = array.astype(np.int64)
    if array.dtype.kind not in "iu":
        raise InputError(f"{name} must hold integer indices, not dtype {array.dtype}.")
    index = _owned(array, np.int64, values)
    if index.size and index.view(np.uint64).max() >= below:  # those below zero are the largest
        wrong = int(index.max()) if index.max() >= below else int(index.min())
        raise InputError(f"{name} has index {wrong}, but indices run from 0 to {below - 1}.")
    return index


def finite(name: str, array: Floats) -> Floats:
    """Return the array itself; refuse numbers that are not finite."""
    if not np.isfinite(array).all():
        where = np.argwhere(~np.isfinite(array))[0]
        place = ", ".join(map(str, where))
        value = array[tuple(where)]
        raise InputError(f"{name}[{place}] is {value}, but every number must be finite.")
    return array


def shape_of(name: str, array: AnyArray, wanted: tuple[int, ...], why: str) -> None:
    """Refuse an array of another shape; `why` explains the wanted one."""
    if array.shape != wanted:
        raise InputError(f"{name} has shape {array.shape}, but must have shape {wanted}: {why}.")


def broadcast(name: str, array: NDArray[Scalar], shape: tuple[int, ...]) -> NDArray[Scalar]:
    """Return the array broadcast to a shape, C-ordered."""
    try:
        return np.ascontiguousarray(np.broadcast_to(array, shape))
    except ValueError:
        raise InputError(
            f"{name} has shape {array.shape}, but must have shape {shape}, one for each index, or "
            "be one for all."
        ) from None


def fixed_labels(fixed: ArrayLike | None, shape: tuple[int, ...]) -> NDArray[np.int8]:
    """Return a flat int8 array of -1 (free), 0 or 1, or an empty one where nothing is fixed."""
    if fixed is None:
        return np.empty(0, np.int8)
    array = as_array("fixed", fixed)
    shape_of("fixed", array, shape, "the shape of the labels")
    return label_array("fixed", array, lowest=-1).ravel()


def label_array(name: str, labels: ArrayLike, lowest: int = 0) -> NDArray[np.int8]:
    """Return a C-ordered int8 array of labels, lowest <= labels <= 1."""
    return np.asarray(_ranged(name, labels, lowest, 1), dtype=np.int8, order="C")


def ordered_labels(name: str, labels: ArrayLike, lowest: int, highest: int) -> NDArray[np.int16]:
    """Return a C-ordered int16 array of labels, lowest <= labels <= highest."""
    return np.asarray(_ranged(name, labels, lowest, highest), dtype=np.int16, order="C")


def edge_array(edges: ArrayLike | None, n: int) -> Indices:
    """Return an (m, 2) array of pairs of different nodes below n."""
    if edges is None:
        return np.empty((0, 2), np.int64)
    check_length("edges", edges, MOST_EDGES, "edges")
    pairs = index_array("edges", edges, n)
    if pairs.shape == (0,):
        pairs = pairs.reshape(0, 2)
    if pairs.ndim != 2 or pairs.shape[1] != 2:
        raise InputError(
            f"edges has shape {pairs.shape}, but must have shape (m, 2): two nodes for each edge."
        )
    loops = np.flatnonzero(pairs[:, 0] == pairs[:, 1])
    if loops.size:
        raise InputError(
            f"edges[{loops[0]}] joins node {pairs[loops[0], 0]} to itself, but an edge needs two "
            "different nodes. Add its cost to the unary instead."
        )
    return pairs


def as_array(name: str, values: ArrayLike) -> AnyArray:
    """Return values as numpy reads them; refuse what is no array, such as ragged rows."""
    try:
        return np.asarray(values)
    except (ValueError, TypeError) as error:
        raise InputError(
            f"{name} must be an array of numbers, and is not ({clean(str(error), 200)})."
        ) from error


def is_one_of(value: object, choices: Iterable[Any]) -> bool:
    """Return whether a value of any type, an array too, is one of these words or numbers."""
    known = (str, int, np.integer, np.bool_, type(None))
    return isinstance(value, known) and value in choices


def one_of(name: str, value: Any, choices: Iterable[Any], advice: str = "") -> None:
    """Refuse a value that is none of these."""
    known = list(choices)
    if not is_one_of(value, known):
        allowed = " or ".join(map(repr, known))
        raise InputError(f"{name} must be {allowed}, not {quoted(value)}.{advice}")


def listed(name: str, values: Any) -> Sequence[Any]:
    """Return values as a list, or unchanged if lazy; refuse text, tables and what has no length."""
    sized = hasattr(values, "__len__") and np.iterable(values)
    if not sized or isinstance(values, str | bytes | dict | set):
        raise InputError(f"{name} must be a list, not {quoted(values)}.")
    return values if isinstance(values, Loaded) else list(values)


def instance(name: str, value: Any, wanted: type) -> None:
    """Refuse what is no object of a class."""
    if not isinstance(value, wanted):
        raise InputError(f"{name} must be a {wanted.__name__}, not {quoted(value)}.")


def path_of(name: str, value: Any) -> Path:
    """Return the path of a file or folder."""
    if not isinstance(value, str | bytes | os.PathLike):
        raise InputError(f"{name} must be the name of a file or folder, not {quoted(value)}.")
    text = os.fsdecode(value)
    if "\0" in text:
        raise InputError(f"{name} is {quoted(text)}, but a name cannot have zero bytes in it.")
    return Path(text)


def is_number(value: object) -> bool:
    """Return whether a value is a real number; True and False are none."""
    return isinstance(value, int | float | np.integer | np.floating) and type(value) is not bool


def whole_number(name: str, value: Any, low: int, high: int) -> int:
    """Return the value as an int, low <= value <= high; True and False are no numbers."""
    whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
    if not whole or not low <= value <= high:
        raise InputError(
            f"{name} must be a whole number from {low} to {high}, not {quoted(value)}."
        )
    return int(value)


def thread_number(threads: Any) -> int:
    """Return a number of threads as an int, 1 or more; the core starts no more than it needs."""
    return whole_number("threads", threads, 1, 2**31 - 1)


def real_number(name: str, value: Any, low: float, high: float) -> float:
    """Return the value as a float, low <= value <= high."""
    if not is_number(value) or not low <= value <= high:
        raise InputError(f"{name} must be a number from {low:g} to {high:g}, not {quoted(value)}.")
    return float(value)


def _ranged(name: str, labels: ArrayLike, lowest: int, highest: int) -> AnyArray:
    array = as_array(name, labels)
    if array.dtype.kind not in "iub":
        raise InputError(f"{name} must hold integer labels, not dtype {array.dtype}.")
    if array.size and (array.min() < lowest or array.max() > highest):
        wrong = array.max() if array.max() > highest else array.min()
        allowed = "0 or 1" if highest == 1 else f"0 to {highest}"
        free = "-1 (free), " if lowest < 0 else ""
        raise InputError(f"{name} must be {free}{allowed}, not {int(wrong)}.")
    return array


def _owned(array: AnyArray, dtype: type[Scalar], given: object) -> NDArray[Scalar]:
    """Return a C-ordered array of a type of 8 bytes that no other code can write to."""
    shared = (array is given or array.base is not None) and not _is_read_only(array)
    if shared and array.size >= LARGE:
        buffer = _core.room(list(array.shape)).view(dtype)
        np.copyto(buffer, array, casting="unsafe")
        return buffer
    return np.array(array, dtype=dtype, order="C", copy=True if shared else None)


def _is_read_only(array: Any) -> bool:
    """Return whether an array, and what it is a view of, is read-only."""
    while isinstance(array, np.ndarray):
        if array.flags.writeable:
            return False
        array = array.base
    return array is None
