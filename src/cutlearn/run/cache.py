"""A cache of finished parts of a long computation, in files: a resumed run does not repeat them.

A part (the trees of a fold, the columns of an image) is one sealed file next to the file that will
hold the whole; its name follows the name of the whole. A mark identifies all that the parts depend
on; those of another run are refused. When the whole is on disk, the parts are removed. For results
larger than memory a cache `spills`: the parts are the results, and are loaded on use.
"""

import copy
import warnings
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from cutlearn.errors import InputError, InputWarning, missing_on_worker
from cutlearn.loaded import Loaded, Origin
from cutlearn.run.checkpoint import (
    DamagedError,
    load_checkpoint,
    refuse_other,
    restoring,
    save_checkpoint,
)
from cutlearn.run.executor import Executor
from cutlearn.run.progress import KEPT, Counter
from cutlearn.store import Arrays

Job = TypeVar("Job", bound=Hashable)
Result = TypeVar("Result")
# Plain values, and arrays.
Entry = tuple[dict[str, Any], Arrays]
KIND = "part"


class Cache:
    """Parts of a computation by name. Only the thread that owns the computation may write.

    Parameters
    ----------
    whole : path, optional
        The file that will hold all of it; None: the cache stays empty.
    mark : str
        What the parts depend on.
    what : str
        Words for parts of another run in a refusal: "the features of other images".
    spills : bool
        Whether results stay here, and not in memory.
    """

    def __init__(
        self,
        whole: Path | None = None,
        mark: str = "",
        what: str = "other data",
        spills: bool = False,
    ) -> None:
        self._whole, self._mark, self._what, self._begin = whole, mark, what, ""
        self.spills = spills and whole is not None
        self._known: set[Path] = set()  # written here, or found to be sound
        # No run writes beside the parts of another one, so the first of them stands for all.
        for file in self._files():
            if self._found(file) is not None:
                break

    def within(self, name: str) -> "Cache":
        """Return a cache for the parts of a part, whose names begin with its name."""
        made = copy.copy(self)
        made._begin = f"{self._begin}{name}-"
        return made

    def find(self, name: str) -> Entry | None:
        """Return the values and arrays of a part; None if there is none."""
        file = self._file(name)
        return None if file is None or not file.exists() else self._found(file)

    def keep(self, name: str, values: dict[str, Any], arrays: Arrays) -> None:
        """Write a part, whole or not at all."""
        file = self._file(name)
        if file is not None:
            save_checkpoint(file, KIND, {"mark": self._mark, "values": values}, arrays)
            self._known.add(file)

    def spilled(self, values: "Sequence[Result]", form: "Form[int, Result]") -> Sequence[Result]:
        """Return values as they are; a cache that spills writes each and loads it on use."""
        if not self.spills:
            return values
        every = range(len(values))
        for place in every:
            if self.find(form.name(place)) is None:
                self.keep(form.name(place), *form.kept(values[place]))
        return self.loaded(every, form)

    def loaded(self, jobs: "Sequence[Job]", form: "Form[Job, Result]") -> Loaded[Result]:
        """Return the results of jobs, all of which are in the cache, loaded on use.

        Other processes that see the files can load them too, if there is a mark.
        """

        def load(place: int) -> Result:
            name = form.name(jobs[place])
            if (kept := self.find(name)) is None:
                raise InputError(
                    f"{self._file(name)} is gone or damaged, but this run still needs it. Run the "
                    "same call again: it goes on from what is left."
                )
            return form.result(*kept)

        def origin(place: int) -> Origin:
            file = self._file(form.name(jobs[place]))
            assert file is not None
            return Origin(read_part, (file.absolute(), self._mark, form.result))

        return Loaded(len(jobs), load, origin if self._mark else None)

    def clear(self, but: str | None = None) -> None:
        """Remove all parts whose names do not begin with `but`, once the whole is on disk."""
        begin = None if but is None or (first := self._file(but)) is None else first.stem
        for file in self._files():
            if begin is None or not file.name.startswith(begin):
                file.unlink(missing_ok=True)

    def _file(self, name: str) -> Path | None:
        if self._whole is None:
            return None
        return self._whole.with_name(f"{self._whole.stem}-{self._begin}{name}{self._whole.suffix}")

    def _files(self) -> list[Path]:
        if self._whole is None:
            return []
        begin, end = f"{self._whole.stem}-{self._begin}", self._whole.suffix
        listed = self._whole.parent.iterdir() if self._whole.parent.is_dir() else ()
        return sorted(f for f in listed if f.name.startswith(begin) and f.name.endswith(end))

    def _found(self, file: Path) -> Entry | None:
        """Return a part of a file; a damaged one is removed."""
        try:
            return self._read(file)
        except DamagedError:
            warnings.warn(
                f"{file}: this part of an unfinished run is damaged, so it is made again",
                InputWarning, stacklevel=2,
            )  # fmt: skip
            file.unlink(missing_ok=True)
            return None

    def _read(self, file: Path) -> Entry:
        content, arrays = load_checkpoint(file, KIND, file in self._known)
        refuse_other(file, content.get("mark"), self._mark, self._what)
        with restoring(file):
            values = content["values"]
            if not isinstance(values, dict):
                raise TypeError("no values")
        self._known.add(file)
        return values, arrays


def read_part(path: Path, mark: str, result: Callable[[dict[str, Any], Arrays], Result]) -> Result:
    """Return a part in a process that did not make it; refuse the part of another run."""
    try:
        content, arrays = load_checkpoint(path, KIND)
    except OSError as error:
        raise missing_on_worker(path) from error
    refuse_other(path, content.get("mark"), mark, "a part of another run")
    with restoring(path):
        return result(content["values"], arrays)


@dataclass(frozen=True)
class Form(Generic[Job, Result]):
    """Functions of a kind of result: the name of a job, the entry of a result, and the way back."""

    name: Callable[[Job], str]
    kept: Callable[[Result], Entry]
    result: Callable[[dict[str, Any], Arrays], Result]


def map_cached(
    work: Callable[[Any], Result],
    given: Callable[[Job], Any],
    jobs: Sequence[Job],
    place: Executor,
    cache: Cache,
    form: Form[Job, Result],
    counter: Counter,
    what: str,
    weight: int = 1,
) -> Sequence[Result]:
    """Return work(given(job)) for all jobs, in their order; results in the cache are not repeated.

    `given` is called when the turn of a job comes; its value may be sent to a cluster. Every result
    is written at once, and counted as `weight` steps of the name `what`. An interrupt drops what
    waits and does not wait for what runs. With a cache that spills no result stays in memory.
    """
    results: dict[Job, Result] = {}
    left: list[Job] = []
    for job in jobs:
        if (kept := cache.find(form.name(job))) is None:
            left.append(job)
            continue
        if not cache.spills:
            results[job] = form.result(*kept)
        counter.add(KEPT, weight)

    def took(place: int, result: Result) -> None:
        if not cache.spills:
            results[left[place]] = result
        cache.keep(form.name(left[place]), *form.kept(result))
        counter.add(what, weight)

    place.rounds(work, map(given, left), took, patient=False)
    return cache.loaded(jobs, form) if cache.spills else [results[job] for job in jobs]
