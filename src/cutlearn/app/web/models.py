"""The model that the page uses, which can be another one any time, and the order that it advises.

Ranking looks at all open images together, so it runs beside everything else; until it is done the
order is that of the names.
"""

import threading
from pathlib import Path
from typing import Any

from cutlearn.app.inputs import label_names
from cutlearn.app.web.workspace import Workspace
from cutlearn.errors import InputError
from cutlearn.images.sample import as_sample
from cutlearn.model.session.session import Session
from cutlearn.model.size import at_side

# Images, and pixels, that are ranked together.
RANKED, RANKED_PIXELS = 300, 50_000_000
# An image is doubtful if its labels would tell at least this part of what the first one's would.
DOUBTFUL = 0.25


class Models:
    """Holds the model in use.

    Parameters
    ----------
    workspace : Workspace
    path : path, optional
        A model file to begin with.

    Attributes
    ----------
    version : int
        Grows whenever another model is used.
    """

    def __init__(self, workspace: Workspace, path: Path | None = None) -> None:
        self.workspace = workspace
        self.version = 0
        self.path: Path | None = None
        self._estimator: Any = None
        self._scores: dict[int, float] = {}
        self._lock = threading.Lock()
        self._ranking: threading.Thread | None = None
        if path is not None:
            self.use(path)

    def use(self, path: Path) -> None:
        """Use another model from now on."""
        from cutlearn.model.files import load

        estimator = load(path)
        n_labels = len(estimator.classes_)
        if n_labels > self.workspace.limits.labels:
            raise InputError(f"{path.name}: it has {n_labels} labels, too many for the page.")
        if n_labels > self.workspace.n_labels:
            self.workspace.set_labels(n_labels)
        with self._lock:
            self._estimator, self.path, self._scores = estimator, path, {}
            self.version += 1
        self.rank()

    @property
    def estimator(self) -> Any:
        """The model, if it knows the labels that are drawn; else None."""
        known = self._estimator
        fits = known is not None and len(known.classes_) == self.workspace.n_labels
        return known if fits else None

    def session(self) -> Session:
        """Give a new session with the model."""
        return Session(self.estimator, n_labels=self.workspace.n_labels)

    def names(self) -> list[str]:
        """Give what the labels are called."""
        n_labels = self.workspace.n_labels
        given = [] if self.estimator is None else label_names(self.estimator)
        plain = ["background", "object", *(f"label {k}" for k in range(2, n_labels))]
        named = any(not name.isdecimal() for name in given)
        return given if named else plain[:n_labels]

    def described(self) -> dict[str, Any] | None:
        """Say what the model is, for the page."""
        known = self._estimator
        if known is None or self.path is None:
            return None
        training = getattr(known, "training_", None)
        held = getattr(known, "judged_", {}).get("held_out")
        return {
            "name": self.path.name,
            "version": self.version,
            "images": None if training is None else len(training.digests),
            "held_out": held,
            "judge": getattr(known, "judged_", {}).get("judge", ""),
            "used": self.estimator is not None,
        }

    def rank(self) -> None:
        """Order the open images in the background, unless that is under way."""
        if not hasattr(self.estimator, "rank"):
            return
        with self._lock:
            if self._ranking is not None and self._ranking.is_alive():
                return
            self._ranking = threading.Thread(target=self._ranked, daemon=True)
            self._ranking.start()

    def _ranked(self) -> None:
        """Rank until the model stays the same."""
        version = -1
        while version != self.version:
            version, estimator = self.version, self.estimator
            if estimator is None:
                return
            numbers = [k for k in range(len(self.workspace.names)) if not self.workspace.is_done(k)]
            scores = self._compared(estimator, numbers[:RANKED])
            with self._lock:
                if version == self.version:
                    self._scores = scores

    def _compared(self, estimator: Any, numbers: list[int]) -> dict[int, float]:
        samples, known, left = [], [], RANKED_PIXELS
        for number in numbers:
            try:
                image = self.workspace.image(number)
            except (InputError, OSError):
                continue  # said when somebody opens it
            sample = at_side(as_sample(image), estimator.min_side)
            left -= sample.shape[0] * sample.shape[1]
            if left < 0:
                break
            samples.append(sample)
            known.append(number)
        if not samples:
            return {}
        try:
            return {known[one.image]: one.score for one in estimator.rank(samples)}
        except InputError:
            return {}  # images that the model cannot read: by name, then

    def order(self) -> list[int]:
        """Give the open images, the most telling first, then the others by name."""
        with self._lock:
            scores = dict(self._scores)
        numbers = [k for k in range(len(self.workspace.names)) if not self.workspace.is_done(k)]
        return sorted(numbers, key=lambda k: (-scores.get(k, -1.0), k))

    def gallery(self) -> list[dict[str, Any]]:
        """Give every image with its state: done, doubtful, begun or open."""
        with self._lock:
            scores = dict(self._scores)
        top = max((v for k, v in scores.items() if not self.workspace.is_done(k)), default=0.0)
        begun = self.workspace.drafts.begun(self.workspace.names)
        rows = []
        for number, name in enumerate(self.workspace.names):
            score = scores.get(number)
            if self.workspace.is_done(number):
                state = "done"
            elif name in begun:
                state = "begun"
            elif score is not None and score >= DOUBTFUL * top > 0:
                state = "doubtful"
            else:
                state = "open"
            rows.append({"id": number, "name": name, "state": state, "score": score})
        return rows

    def next_after(self, number: int | None) -> int | None:
        """Give the image to go on with: as advised, or the next one by name."""
        order = [k for k in self.order() if k != number]
        if not order:
            return None
        with self._lock:
            ranked = bool(self._scores)
        later = [k for k in order if number is not None and k > number]
        return order[0] if ranked or not later else later[0]
