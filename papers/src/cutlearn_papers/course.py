"""The course of an experiment: parts that are run once and kept, tables and pictures that are left.

An experiment is a function of a `Course`. It asks for its parts (a split, a board, a class) by
name; a part that an earlier run of the same settings has finished is read instead of run, so that
an interrupted experiment goes on where it was. What it leaves is one file of tables for people, one
of figures for machines, its pictures, and one page for a browser.
"""

from __future__ import annotations

import hashlib
import io
import json
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import cutlearn
from cutlearn.errors import InputError
from cutlearn.run.executor import ONE_THREAD, Executor
from cutlearn.run.progress import PAUSE, clock
from cutlearn.store import atomic_write, load_sealed, save_sealed

Tell = Callable[[str], None]
Figures = dict[str, Any]
KIND = "cutlearn.part"
VERDICTS = ("confirmed", "not confirmed", "not testable here")
# How much is run: all that is planned, less of it, or a minute on images that are made on the spot.
SCALES = ("full", "brief", "quick")


@dataclass(frozen=True)
class Claim:
    """One claim of a paper: what it says and found, what was found here, and whether they agree.

    Attributes
    ----------
    text, paper, ours : str
        The claim, the paper's figure, and ours with its interval.
    verdict : one of VERDICTS
    table : str
        The heading of the section that shows it.
    """

    text: str
    paper: str
    ours: str
    verdict: str
    table: str

    def __post_init__(self) -> None:
        if self.verdict not in VERDICTS:
            raise ValueError(f"verdict is {self.verdict!r}, but must be one of {VERDICTS}")

    @staticmethod
    def of(text: str, paper: str, ours: str, holds: bool, table: str) -> Claim:
        """Give a claim that was tested: confirmed if it holds."""
        return Claim(text, paper, ours, VERDICTS[0] if holds else VERDICTS[1], table)


@dataclass(frozen=True)
class Section:
    """A part of what an experiment tells: a table with its titles, words below it, pictures.

    Photographs are pictures that show images of a data set, which are not ours to pass on.
    """

    heading: str
    titles: Sequence[str] = ()
    rows: Sequence[Sequence[str]] = ()
    words: str = ""
    pictures: Sequence[str] = ()
    photographs: Sequence[str] = ()


@dataclass(eq=False)
class Course:
    """Where an experiment runs, and what it has done so far.

    Parameters
    ----------
    paper : str
        Its short name; all files begin with it.
    output : Path
        The folder for everything that is left; made when missing.
    data : Path, optional
        The folder that holds the data sets.
    scale : one of SCALES
        "brief" has fewer splits or smaller images, as its page tells; its parts are kept for "full"
        where they are the same. "quick" shows that everything runs, and no more.
    tell : callable (line)
    restart : bool
        Forget the parts that earlier runs have finished.
    place : int or Cluster
        Where parts run: one after the other here, or side by side on a cluster.
    kept_only : bool
        Run nothing: tables of the parts that earlier runs have finished.
    """

    paper: str
    output: Path
    data: Path | None = None
    scale: str = "full"
    tell: Tell = print
    restart: bool = False
    place: Executor = ONE_THREAD
    kept_only: bool = False
    unfinished: bool = False
    cpu_seconds: float = 0.0
    files: list[Path] = field(default_factory=list)
    # The tables so far, on which parts of later ones may depend.
    _tables: dict[str, dict[str, Figures]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        # One folder has one name, however it was spelled: kept parts go by it.
        self.data = None if self.data is None else self.data.resolve()
        self.output.mkdir(parents=True, exist_ok=True)
        if self.restart and self.kept.exists():
            shutil.rmtree(self.kept)

    @property
    def quick(self) -> bool:
        """Whether this only shows that everything runs."""
        return self.scale == "quick"

    @property
    def kept(self) -> Path:
        """The folder of finished parts."""
        return self.output / f"{self.paper}.parts"

    def folder(self, name: str) -> Path:
        """Give the folder of a data set, or say which one is missing."""
        if self.data is None:
            raise InputError(f"data is missing. Name the folder that holds {name} with --data DIR.")
        folder = self.data / name
        if not folder.is_dir():
            raise InputError(
                f"{self.data} has no folder {name}. Give the folder that holds the data set."
            )
        return folder

    def parts(
        self,
        table: str,
        works: Mapping[str, Callable[[], Figures]],
        fewer: bool = False,
        /,
        **settings: Any,
    ) -> dict[str, Figures]:
        """Run what is not yet finished of a table's parts; give all of them.

        Parameters
        ----------
        table : str
        works : mapping from the name of a part to the function that makes it
            It gives a dict of what JSON can hold, and of arrays.
        fewer : bool
            Whether the table can do with fewer parts, where nothing may be run.
        settings : what JSON can hold
            Sizes and numbers on which the parts depend: others make other parts.
        """
        if self.kept_only:
            works = self._finished(table, works, fewer, settings)
        elif self.place.remote:
            self._run_away(table, list(works), settings)
        found: dict[str, Figures] = {}
        begun = told = time.monotonic()
        ran, missing = 0, len(works)
        for number, (name, work) in enumerate(works.items(), 1):
            path = self._path(table, name, settings)
            part = _read(path)
            if part is None:
                now = time.monotonic()
                guess = (
                    f", about {clock((now - begun) / ran * (missing - ran))} left" if ran else ""
                )
                if not ran or now - told >= PAUSE:
                    self.tell(f"{self.paper}, {table}: {name} ({number} of {len(works)}{guess})")
                    told = now
                part = timed(work)
                _write(path, part)
                ran += 1
            else:
                missing -= 1
            self.cpu_seconds += part["cpu_seconds"]
            found[name] = part
        if missing < len(works):
            self.tell(f"{self.paper}, {table}: {len(works) - missing} parts of an earlier run kept")
        self._tables[table] = found
        return found

    def _finished(
        self, table: str, works: Mapping[str, Any], fewer: bool, settings: Figures
    ) -> dict[str, Any]:
        """Give the works whose parts are finished; refuse a table that needs all of them."""
        done = {name: work for name, work in works.items()
                if _read(self._path(table, name, settings)) is not None}  # fmt: skip
        if not fewer and len(done) < len(works):
            raise InputError(
                f"{self.paper}, {table}: {len(works) - len(done)} of {len(works)} parts are not "
                "finished. Run the command without --kept first."
            )
        self.unfinished |= len(done) < len(works)
        return done

    def _run_away(self, table: str, names: Sequence[str], settings: Figures) -> None:
        """Run on the cluster what is not yet finished of a table, and keep it."""
        from cutlearn_papers.away import Asked, Made, run_part

        left = [name for name in names if _read(self._path(table, name, settings)) is None]
        if not left:
            return
        data = None if self.data is None else str(self.data)
        asked = Asked(self.paper, data, self.scale, self._tables)

        def finished(place: int, made: Made) -> None:
            part, pictures = made
            for name, content in pictures.items():
                atomic_write(self.output / name, content)
                self.files.append(self.output / name)
            _write(self._path(table, left[place], settings), part)
            self.tell(f"{self.paper}, {table}: {left[place]} done")

        self.place.map(
            partial(run_part, asked), [(table, name) for name in left], finished, patient=False
        )

    def _path(self, table: str, name: str, settings: Figures) -> Path:
        """Give the file of a part; its name tells what it depends on."""
        # The images of a quick run are always the same, wherever they lie.
        data = None if self.quick else str(self.data)
        what = [cutlearn.__version__, self.quick, data, table, name, settings]
        digest = hashlib.blake2b(json.dumps(what, sort_keys=True).encode(), digest_size=8)
        folder = self.kept / table.replace(" ", "-")
        folder.mkdir(parents=True, exist_ok=True)
        return folder / f"{digest.hexdigest()}.safetensors"

    def picture(self, name: str, figure: Any) -> str:
        """Write a figure of matplotlib as PNG; give the name under which sections show it.

        It has 256 colours: with photographs in it, a third of the size.
        """
        from PIL import Image

        drawn, small = io.BytesIO(), io.BytesIO()
        figure.savefig(drawn, dpi=80, format="png")
        Image.open(drawn).convert("RGB").quantize(256).save(small, "PNG", optimize=True)
        path = self.output / f"{self.paper}-{name}.png"
        atomic_write(path, small.getvalue())
        self.files.append(path)
        return path.name

    def finish(
        self, sections: Sequence[Section], claims: Sequence[Claim], figures: Figures
    ) -> Figures:
        """Write tables, figures and page; give the figures with the claims."""
        from cutlearn_papers.page import markdown_of, page_of

        about = {
            "paper": self.paper, "scale": self.scale, "version": cutlearn.__version__,
            "unfinished": self.unfinished, "cpu_seconds": round(self.cpu_seconds, 1),
        }  # fmt: skip
        told = about | {"claims": [asdict(claim) for claim in claims], "figures": figures}
        texts = {
            ".md": markdown_of(about, sections, claims),
            ".json": json.dumps(_plain(told), indent=1, allow_nan=False) + "\n",
            ".html": page_of(self.output, about, sections, claims),
        }
        for ending, text in texts.items():
            path = self.output / f"{self.paper}{ending}"
            atomic_write(path, text.encode())
            self.files.append(path)
        return told


def timed(work: Callable[[], Figures]) -> Figures:
    """Do the work of a part, and add the seconds that it took of a processor."""
    spent = time.process_time()
    part = work()
    part["cpu_seconds"] = time.process_time() - spent
    return part


def _write(path: Path, part: Figures) -> None:
    arrays = {name: value for name, value in part.items() if isinstance(value, np.ndarray)}
    plain = {name: _plain(value) for name, value in part.items() if name not in arrays}
    save_sealed(path, KIND, plain, arrays)


def _read(path: Path) -> Figures | None:
    """Give a part, or None when there is none that can be read."""
    if not path.exists():
        return None
    try:
        plain, arrays, _ = load_sealed(path, KIND)
    except ValueError:
        return None
    return plain | arrays


def _plain(value: Any) -> Any:
    """Give a value as JSON can hold it: numbers of numpy become Python's, others that lack a number
    become None.
    """
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, np.ndarray):
        return _plain(value.tolist())
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not np.isfinite(value):
        return None
    return value
