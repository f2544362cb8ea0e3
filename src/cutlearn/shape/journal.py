"""A training in phases with checkpoints: arrays, the random state and the steps done.

Every phase is a state (arrays), changed in place step by step. The file holds the states of all
phases so far; a resumed run gives the same bits as an uninterrupted one.
"""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from cutlearn.arrays import AnyArray
from cutlearn.run.checkpoint import last_checkpoint, refuse_other, restoring, rotate_checkpoint

State = dict[str, AnyArray]
Progress = Callable[[int, int, str], None]
KIND = "shape"
# Seconds between two writes: what a killed run can lose.
PAUSE = 10.0


class Journal:
    """Runs phases, and saves them to a file.

    Parameters
    ----------
    seed : int
    file : path, optional
        The checkpoint; the run resumes from an existing one.
    mark : str
        The fingerprint of settings and data; the file of another run raises.
    progress : callable (done, total, what), optional
    """

    def __init__(
        self,
        seed: int,
        file: Path | None = None,
        mark: str = "",
        progress: Progress | None = None,
    ) -> None:
        self.rng = np.random.default_rng(seed)
        self._file, self._mark, self._progress = file, mark, progress
        self._states: dict[str, State] = {}
        self._done: dict[str, int] = {}
        self._last = time.monotonic()
        if file is not None and (found := last_checkpoint(file, KIND)) is not None:
            self._restore(*found)

    def run(
        self,
        name: str,
        total: int,
        begin: Callable[[np.random.Generator], State],
        step: Callable[[State, np.random.Generator, int], None],
    ) -> State:
        """Return the state after `total` steps from `begin`, or from the state in the file."""
        if name not in self._states:
            self._states[name], self._done[name] = begin(self.rng), 0
        state = self._states[name]
        for k in range(self._done[name], total):
            step(state, self.rng, k)
            self._done[name] = k + 1
            if self._progress is not None:
                self._progress(k + 1, total, name)
            if k + 1 == total or time.monotonic() - self._last >= PAUSE:
                self._save()
        return state

    def _save(self) -> None:
        if self._file is None:
            return
        values = {"mark": self._mark, "done": self._done, "random": self.rng.bit_generator.state}
        arrays = {f"{n}/{k}": a for n, state in self._states.items() for k, a in state.items()}
        rotate_checkpoint(self._file, KIND, values, arrays)
        self._last = time.monotonic()

    def _restore(self, file: Path, values: dict[str, Any], arrays: State) -> None:
        refuse_other(file, values.get("mark"), self._mark, "the training of other images")
        with restoring(file):
            self.rng.bit_generator.state = values["random"]
            self._done = {str(name): int(done) for name, done in values["done"].items()}
            self._states = {name: {} for name in self._done}
            for key, array in arrays.items():
                name, part = key.split("/")
                self._states[name][part] = array.copy()
