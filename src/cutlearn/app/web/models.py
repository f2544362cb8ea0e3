"""The model that the page uses, the order that it advises, and training in the background.

Another model can be used at any time. Ranking compares all open images, so it runs in a thread;
until it is done the order is that of the names. Training is `cutlearn fit` as a process of its own,
with the checks, the bound on memory, the checkpoints and the lock of the command; its JSON lines
are shown on the page. Cancelled, it writes a checkpoint and ends; with the same masks it resumes
from there.
"""

import contextlib
import hashlib
import json
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cutlearn.app.inputs import label_names
from cutlearn.app.web.workspace import Workspace
from cutlearn.errors import InputError, clean
from cutlearn.images.sample import as_sample
from cutlearn.model.session.session import Session
from cutlearn.model.size import at_side
from cutlearn.store import atomic_write

# Images, and pixels, that are ranked together.
RANKED, RANKED_PIXELS = 300, 50_000_000
# An image is doubtful if its labels would tell at least this part of what the first one's would.
DOUBTFUL = 0.25
# Points of the curves that the page gets, and seconds for a checkpoint before the end.
POINTS, PATIENCE = 400, 10.0
LEARNED = "learned.model"


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
        from cutlearn.model.model_files import load

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
        """The model, if it has the labels that are drawn; else None."""
        known = self._estimator
        fits = known is not None and len(known.classes_) == self.workspace.n_labels
        return known if fits else None

    def session(self) -> Session:
        """Return a new session with the model."""
        return Session(self.estimator, n_labels=self.workspace.n_labels)

    def names(self) -> list[str]:
        """Return what the labels are called."""
        n_labels = self.workspace.n_labels
        given = [] if self.estimator is None else label_names(self.estimator)
        plain = ["background", "object", *(f"label {k}" for k in range(2, n_labels))]
        named = any(not name.isdecimal() for name in given)
        return given if named else plain[:n_labels]

    def described(self) -> dict[str, Any] | None:
        """Return what the page shows of the model."""
        known = self._estimator
        if known is None or self.path is None:
            return None
        training = getattr(known, "training_", None)
        held = getattr(known, "validation_", {}).get("held_out")
        return {
            "name": self.path.name,
            "version": self.version,
            "images": None if training is None else len(training.digests),
            "held_out": held,
            "judge": getattr(known, "validation_", {}).get("judge", ""),
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
                continue  # the error is shown when it is opened
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
        """Return the open images, the most telling first, then the others by name."""
        with self._lock:
            scores = dict(self._scores)
        numbers = [k for k in range(len(self.workspace.names)) if not self.workspace.is_done(k)]
        return sorted(numbers, key=lambda k: (-scores.get(k, -1.0), k))

    def gallery(self) -> list[dict[str, Any]]:
        """Return every image with its state: done, doubtful, begun or open."""
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
        """Return the image to open next: as advised, or the next one by name."""
        order = [k for k in self.order() if k != number]
        if not order:
            return None
        with self._lock:
            ranked = bool(self._scores)
        later = [k for k in order if number is not None and k > number]
        return order[0] if ranked or not later else later[0]


class Training:
    """At most one training at a time.

    Parameters
    ----------
    workspace : Workspace
    models : Models
        Uses the new model when there is one.
    options : sequence of str
        What `cutlearn fit` is given besides.
    """

    def __init__(self, workspace: Workspace, models: Models, options: Sequence[str] = ()) -> None:
        self.workspace, self.models, self.options = workspace, models, list(options)
        self._process: subprocess.Popen[str] | None = None
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()
        self._state: dict[str, Any] = {"state": "idle"}
        self._curve: list[tuple[float, float]] = []
        self._cancelled = False

    @property
    def path(self) -> Path:
        """Where the learned model is."""
        return self.workspace.hidden / LEARNED

    def start(self) -> None:
        """Start, or resume what was cancelled."""
        with self._lock:
            if self._state["state"] == "running":
                raise InputError("A training is running already. Wait for it, or cancel it.")
            if not self.workspace.done:
                raise InputError("There are no masks to learn from yet. Accept some first.")
            self.workspace.hidden.mkdir(parents=True, exist_ok=True)
            command = [
                sys.executable, "-m", "cutlearn", "fit", str(self.workspace.images),
                str(self.workspace.masks), "-o", str(self.path), "--force", "--json",
                "--progress-json", *self._fresh(), *self.options,
            ]  # fmt: skip
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                encoding="utf-8", errors="replace",
                start_new_session=True,  # Ctrl-C is for the server, which ends this process itself
            )  # fmt: skip
            self._cancelled, self._curve = False, []
            self._state = {"state": "running", "done": 0.0, "phase": "start", "note": "",
                           "images": len(self.workspace.done)}  # fmt: skip
            self._thread = threading.Thread(target=self._follow, args=[self._process], daemon=True)
            self._thread.start()

    def _fresh(self) -> list[str]:
        """Return the option to start over, unless the masks are those of the unfinished run."""
        digest = hashlib.blake2b(digest_size=16)
        for number in self.workspace.done:
            path = self.workspace.mask_path(number)
            digest.update(f"{path} {path.stat().st_mtime_ns} {path.stat().st_size}".encode())
        digest.update(" ".join(self.options).encode())
        kept = self.workspace.hidden / "training.txt"
        now = digest.hexdigest().encode()
        with contextlib.suppress(OSError):
            if kept.read_bytes() == now:
                return []
        atomic_write(kept, now)
        return ["--restart"]

    def _follow(self, process: "subprocess.Popen[str]") -> None:
        """Read the lines of the process until it ends; then use the new model."""
        last = ""
        assert process.stderr is not None
        assert process.stdout is not None
        for line in process.stderr:
            event = _object(line)
            if event is None:
                last = clean(line.strip(), 500) or last
                continue
            with self._lock:
                self._record(event)
        said = _object(process.stdout.read()) or {}
        code = process.wait()
        process.stderr.close()
        process.stdout.close()
        self._end(code, said, last)

    def _record(self, event: dict[str, Any]) -> None:
        if event.get("step") == 1:
            self._curve = []
        best, bound = event.get("best"), event.get("lower_bound")
        if best is not None and bound is not None:
            self._curve.append((best, bound))
            if len(self._curve) > POINTS:
                del self._curve[::2]
        self._state = {**self._state, "best": None, "lower_bound": None, **event}

    def _end(self, code: int, said: dict[str, Any], last: str) -> None:
        state: dict[str, Any]
        if code == 0:
            try:
                self.models.use(self.path)
                kept = ("images", "held_out", "seconds", "gap", "features")
                state = {"state": "done", **{name: said.get(name) for name in kept}}
            except Exception as error:  # whatever it is, the page must not wait for ever
                state = {"state": "failed", "note": clean(str(error), 500)}
        elif self._cancelled:
            state = {"state": "cancelled", "note": "What was done is kept. Learn goes on from it."}
        else:
            state = {"state": "failed", "note": last.removeprefix("cutlearn: ")}
        with self._lock:
            self._state = state

    def cancel(self) -> None:
        """End the process, which writes a checkpoint first."""
        with self._lock:
            process, self._cancelled = self._process, True
        if process is not None and process.poll() is None:
            process.terminate()

    def close(self) -> None:
        """End the process, by force if it does not react."""
        self.cancel()
        if self._process is not None:
            try:
                self._process.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                self._process.kill()
        if self._thread is not None:
            self._thread.join(PATIENCE)

    def state(self) -> dict[str, Any]:
        """Return the progress: both bounds of the run so far, and the share that is done."""
        with self._lock:
            return {**self._state, "curve": list(self._curve)}


def _object(text: str) -> dict[str, Any] | None:
    """Return a line as a JSON object, if it is one."""
    try:
        found = json.loads(text)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None
