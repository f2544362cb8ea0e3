"""A round: every image is asked at the same weights, and gives a row of numbers.

A round of thousands of images takes minutes. Where a run has a checkpoint, the rows that are there
are kept beside it from time to time, so that a run that goes on asks only the images that are left.
"""

import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from cutlearn.arrays import Matrix, Vector
from cutlearn.errors import InputError
from cutlearn.run.checkpoint import load_checkpoint, save_checkpoint
from cutlearn.run.executor import Executor

KIND = "round"
# Images that are asked together, on threads; and seconds between two writes.
PORTION = 64
PAUSE = 20.0


def portion_of(place: Executor) -> int:
    """Give how many images are asked together: on a cluster all, so that no worker waits."""
    return 2**31 if place.remote else PORTION


class Round:
    """Rows of the images of a run, at the weights at which they are asked.

    Parameters
    ----------
    file : path, optional
        Where rows are kept; None: nowhere.
    digest : str
        What they depend on beside the weights.
    """

    def __init__(self, file: Path | None, digest: str) -> None:
        self.file, self.digest = file, digest

    def ask(
        self,
        w: Vector,
        count: int,
        answers: Callable[[Sequence[int]], Matrix],
        portion: int = PORTION,
    ) -> Matrix:
        """Give the rows of all images at w, in order, (count, k); ask those that are not known.

        Parameters
        ----------
        answers : callable (places)
            The rows of some images.
        portion : int
            How many are asked together.
        """
        rows, last = self._found(w, count), time.monotonic()
        while (done := sum(map(len, rows))) < count:
            rows.append(answers(range(done, min(done + portion, count))))
            if self.file is not None and time.monotonic() - last >= PAUSE:
                kept = {"w": w, "rows": np.concatenate(rows)}
                save_checkpoint(self.file, KIND, {"digest": self.digest}, kept)
                last = time.monotonic()
        return np.concatenate(rows)

    def forget(self) -> None:
        """Remove what was kept: the step is on disk as a whole."""
        if self.file is not None:
            self.file.unlink(missing_ok=True)

    def _found(self, w: Vector, count: int) -> list[Matrix]:
        """The rows that an interrupted round of this run has left at the same weights, if any."""
        if self.file is None or not self.file.exists():
            return []
        try:
            values, arrays = load_checkpoint(self.file, KIND)
            rows, same = arrays["rows"], arrays["w"].tobytes() == w.tobytes()
        except (InputError, KeyError):
            return []  # a few minutes of work, which are simply done again
        return [rows] if same and values.get("digest") == self.digest and len(rows) <= count else []
