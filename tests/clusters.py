"""A real cluster for tests: a scheduler and worker processes on loopback, which can be killed."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

PATIENCE = 60.0


class Processes:
    """A scheduler and its workers, one thread each; a dead worker is replaced by `heal`."""

    def __init__(self, folder: Path, workers: int = 2) -> None:
        self.file, self.count = folder / "scheduler.json", workers
        self.scheduler = self._start("scheduler", "--port", "0", "--no-show")
        deadline = time.monotonic() + PATIENCE
        while not self.file.exists():
            assert time.monotonic() < deadline, "the scheduler did not start"
            time.sleep(0.05)
        self.address = json.loads(self.file.read_text())["address"]
        self.workers: list[subprocess.Popen] = []
        self.heal()

    def _start(self, what: str, *words: str) -> subprocess.Popen:
        command = [sys.executable, "-m", f"distributed.cli.dask_{what}", *words]
        command += ["--scheduler-file", str(self.file), "--host", "127.0.0.1", "--no-dashboard"]
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        one = {f"{name}_NUM_THREADS": "1" for name in ("OMP", "OPENBLAS")}
        return subprocess.Popen(command, env=os.environ | one, **quiet)

    def heal(self) -> None:
        """Start workers until there are as many as at first."""
        self.workers = [worker for worker in self.workers if worker.poll() is None]
        how = ["--no-nanny", "--nthreads", "1", "--memory-limit", "0", "--death-timeout", "60"]
        for _ in range(self.count - len(self.workers)):
            self.workers.append(self._start("worker", *how))

    def kill_worker(self) -> None:
        """kill -9 of the first worker."""
        self.workers[0].send_signal(signal.SIGKILL)
        self.workers[0].wait(PATIENCE)

    def end(self) -> None:
        """End all processes, by their ids."""
        for process in (*self.workers, self.scheduler):
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            process.wait(PATIENCE)
