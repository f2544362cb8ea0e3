"""A training in phases that survives its process: arrays, the random state and where it stands.

Every phase is a state (arrays), changed in place step by step. The file holds the states of all
phases so far; a run that goes on has the same bits as one that was never stopped.
"""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cutlearn.run.checkpoint import last_checkpoint, refuse_other, restoring, rotate_checkpoint

State = dict[str, NDArray[Any]]
Told = Callable[[int, int, str], None]
KIND = "shape"
# Seconds between two writes: what a killed run can lose.
PAUSE = 10.0


class Journal:
    """Runs phases, and keeps them in a file.

    Parameters
    ----------
    seed : int
    file : path, optional
        Where to keep the run; an existing one is gone on with.
    mark : str
        What the run depends on; a file of another run is refused.
    told : callable (done, total, what), optional
    """

    def __init__(
        self, seed: int, file: Path | None = None, mark: str = "", told: Told | None = None
    ) -> None:
        self.rng = np.random.default_rng(seed)
        self._file, self._mark, self._told = file, mark, told
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
        """The state after `total` steps from `begin`, or from where the file left it."""
        if name not in self._states:
            self._states[name], self._done[name] = begin(self.rng), 0
        state = self._states[name]
        for k in range(self._done[name], total):
            step(state, self.rng, k)
            self._done[name] = k + 1
            if self._told is not None:
                self._told(k + 1, total, name)
            if k + 1 == total or time.monotonic() - self._last >= PAUSE:
                self._keep()
        return state

    def _keep(self) -> None:
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
