"""Finished parts of a long computation in files: what a run that goes on need not do again.

A part (the trees of a fold, the columns of an image) is one sealed file beside the file that will
hold the whole, and has its name behind that of the whole. A mark tells all that the parts depend
on; those of another run are refused. When the whole is on disk, the parts are removed. A shelf for
what is larger than memory `spills`: its parts are the results, and are loaded whenever somebody
asks for them.
"""

import copy
import warnings
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from cutlearn.errors import InputError, InputWarning, unseen
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
from cutlearn.sealed import Arrays

Job = TypeVar("Job", bound=Hashable)
Result = TypeVar("Result")
# Plain values, and arrays.
Kept = tuple[dict[str, Any], Arrays]
KIND = "part"


class Shelf:
    """Parts by their names. Only the thread that owns the computation may write.

    Parameters
    ----------
    whole : path, optional
        The file that will hold all of it; None: nothing is kept, and nothing is found.
    mark : str
        What the parts depend on.
    what : str
        Whose parts they are, for the refusal of others: "the features of other images".
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

    def within(self, name: str) -> "Shelf":
        """Give a shelf for the parts of a part, whose names begin with its name."""
        made = copy.copy(self)
        made._begin = f"{self._begin}{name}-"
        return made

    def find(self, name: str) -> Kept | None:
        """Give the values and arrays of a part that was kept."""
        file = self._file(name)
        return None if file is None or not file.exists() else self._found(file)

    def keep(self, name: str, values: dict[str, Any], arrays: Arrays) -> None:
        """Write a part, whole or not at all."""
        file = self._file(name)
        if file is not None:
            told = {"mark": self._mark, "values": values}
            save_checkpoint(file, KIND, told, arrays)
            self._known.add(file)

    def spilled(self, values: "Sequence[Result]", form: "Form[int, Result]") -> Sequence[Result]:
        """Give values as they are; or, of a shelf that spills, from parts that are made of each."""
        if not self.spills:
            return values
        every = range(len(values))
        for place in every:
            if self.find(form.name(place)) is None:
                self.keep(form.name(place), *form.kept(values[place]))
        return self.loaded(every, form)

    def loaded(self, jobs: "Sequence[Job]", form: "Form[Job, Result]") -> Loaded[Result]:
        """Give the results of jobs, all of which are kept, loaded when they are asked for.

        Other processes that see the files can load them too, if a mark tells whose they are.
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
        """Remove all parts of this shelf, or all whose names do not begin with a word.

        Only when what replaces them is on disk.
        """
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

    def _found(self, file: Path) -> Kept | None:
        """Read a part; a damaged one is as good as none, and goes."""
        try:
            return self._read(file)
        except DamagedError:
            warnings.warn(
                f"{file}: this part of an unfinished run is damaged, so it is made again",
                InputWarning, stacklevel=2,
            )  # fmt: skip
            file.unlink(missing_ok=True)
            return None

    def _read(self, file: Path) -> Kept:
        told, arrays = load_checkpoint(file, KIND, file in self._known)
        refuse_other(file, told.get("mark"), self._mark, self._what)
        with restoring(file):
            values = told["values"]
            if not isinstance(values, dict):
                raise TypeError("no values")
        self._known.add(file)
        return values, arrays


def read_part(path: Path, mark: str, result: Callable[[dict[str, Any], Arrays], Result]) -> Result:
    """Give what a part holds, in a process that did not make it; that of another run is refused."""
    try:
        told, arrays = load_checkpoint(path, KIND)
    except OSError as error:
        raise unseen(path) from error
    refuse_other(path, told.get("mark"), mark, "a part of another run")
    with restoring(path):
        return result(told["values"], arrays)


@dataclass(frozen=True)
class Form(Generic[Job, Result]):
    """How the results of jobs are kept: the name of a job, what is kept of its result, and back."""

    name: Callable[[Job], str]
    kept: Callable[[Result], Kept]
    result: Callable[[dict[str, Any], Arrays], Result]


def each_kept(
    work: Callable[[Any], Result],
    given: Callable[[Job], Any],
    jobs: Sequence[Job],
    place: Executor,
    shelf: Shelf,
    form: Form[Job, Result],
    counter: Counter,
    what: str,
    weight: int = 1,
) -> Sequence[Result]:
    """Give work(given(job)) for all jobs, in their order; what the shelf has is not done again.

    What a job is given is asked for when its turn comes, and may travel to a cluster. Every result
    is kept as soon as it is there, and told as steps of the name `what`, as many as its weight. An
    interrupt drops what waits and does not wait for what runs. Of a shelf that spills no result is
    in memory: they are loaded one by one.
    """
    results: dict[Job, Result] = {}
    left: list[Job] = []
    for job in jobs:
        if (kept := shelf.find(form.name(job))) is None:
            left.append(job)
            continue
        if not shelf.spills:
            results[job] = form.result(*kept)
        counter.add(KEPT, weight)

    def took(place: int, result: Result) -> None:
        if not shelf.spills:
            results[left[place]] = result
        shelf.keep(form.name(left[place]), *form.kept(result))
        counter.add(what, weight)

    place.rounds(work, map(given, left), took, patient=False)
    return shelf.loaded(jobs, form) if shelf.spills else [results[job] for job in jobs]
