"""Learning from the masks in the background: `cutlearn fit` as a process of its own.

The process has all that the command has: checks, a bound on memory, checkpoints, a lock. What it
tells as JSON lines is shown on the page. Cancelled, it writes a checkpoint and ends; asked again
with the same masks it goes on from there.
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

from cutlearn.app.web.models import Models
from cutlearn.app.web.workspace import Workspace
from cutlearn.errors import InputError, clean
from cutlearn.store import atomic_write

# Points of the curves that the page gets, and seconds for a checkpoint before the end.
POINTS, PATIENCE = 400, 10.0
LEARNED = "learned.model"


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
        """Begin, or go on with what was cancelled."""
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
                start_new_session=True,  # Ctrl-C is for the server, which tells this process itself
            )  # fmt: skip
            self._cancelled, self._curve = False, []
            self._state = {"state": "running", "done": 0.0, "phase": "start", "note": "",
                           "images": len(self.workspace.done)}  # fmt: skip
            self._thread = threading.Thread(target=self._follow, args=[self._process], daemon=True)
            self._thread.start()

    def _fresh(self) -> list[str]:
        """The option that begins anew, unless the masks are those of the unfinished run."""
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
        """Read what the process tells until it ends; then use what it has learned."""
        last = ""
        assert process.stderr is not None
        assert process.stdout is not None
        for line in process.stderr:
            told = _object(line)
            if told is None:
                last = clean(line.strip(), 500) or last
                continue
            with self._lock:
                self._hear(told)
        said = _object(process.stdout.read()) or {}
        code = process.wait()
        process.stderr.close()
        process.stdout.close()
        self._end(code, said, last)

    def _hear(self, told: dict[str, Any]) -> None:
        if told.get("step") == 1:
            self._curve = []
        best, bound = told.get("best"), told.get("lower_bound")
        if best is not None and bound is not None:
            self._curve.append((best, bound))
            if len(self._curve) > POINTS:
                del self._curve[::2]
        self._state = {**self._state, "best": None, "lower_bound": None, **told}

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
        """Ask the process to end; it keeps what it has done."""
        with self._lock:
            process, self._cancelled = self._process, True
        if process is not None and process.poll() is None:
            process.terminate()

    def close(self) -> None:
        """End the process, by force where it does not listen."""
        self.cancel()
        if self._process is not None:
            try:
                self._process.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                self._process.kill()
        if self._thread is not None:
            self._thread.join(PATIENCE)

    def told(self) -> dict[str, Any]:
        """Say how far it is: both bounds of the run so far, and the share that is done."""
        with self._lock:
            return {**self._state, "curve": list(self._curve)}


def _object(text: str) -> dict[str, Any] | None:
    """A line as a JSON object, if it is one."""
    try:
        found = json.loads(text)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None
