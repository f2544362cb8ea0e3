"""Run the tests as other machines would: other kernels of the linear algebra, other SIMD of
numpy, every later Python that can be found, and the oldest dependencies that are allowed.

    .venv/bin/python scripts/machines.py                     all of them, the whole suite
    .venv/bin/python scripts/machines.py Haswell oldest      some of them
    .venv/bin/python scripts/machines.py Haswell --tests tests/learn tests/laws
    .venv/bin/python scripts/machines.py --list              what can be had here

What differs by an environment variable runs in .venv; the rest in environments of their own under
build/machines/. What a run said is in build/machines/NAME.log; a table ends the whole.
"""

import argparse
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import tomllib
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
WORK = ROOT / "build" / "machines"
# Kernels of OpenBLAS, with the widest vectors that their processors have.
KERNELS = {
    "Prescott": "", "Nehalem": "", "Sandybridge": "", "Haswell": "AVX2", "Zen": "AVX2",
    "SkylakeX": "AVX512",
}  # fmt: skip
# A kernel that the processor cannot run ends here, and not in the middle of the tests.
PROBE = """
import numpy as np, scipy.linalg, threadpoolctl
a = np.random.default_rng(0).normal(size=(200, 200))
scipy.linalg.cho_factor(a @ a.T + np.eye(200))
print({i.get("architecture") for i in threadpoolctl.threadpool_info() if i["user_api"] == "blas"})
"""
FEATURES = """
from numpy._core import _multiarray_umath as core
print(*(name for name in core.__cpu_dispatch__ if core.__cpu_features__.get(name)))
"""
# With the oldest matplotlib goes a pyparsing of its time: newer ones warn of how it is called.
OF_THE_TIME = ["pyparsing<3.1"]
VERSION = "import sys; print(*sys.version_info[:2])"


@dataclass
class Machine:
    """One way to run the tests."""

    name: str
    python: str = sys.executable  # what runs them, or of what an environment is made
    variables: dict[str, str] = field(default_factory=dict)
    made: bool = False  # whether an environment of its own is needed
    oldest: bool = False
    refused: str = ""  # why it cannot be had here


def ask(python: str, code: str, variables: dict[str, str] | None = None) -> str | None:
    """Give what a piece of Python prints, None when it fails."""
    env = {**os.environ, **(variables or {})}
    done = subprocess.run([python, "-c", code], capture_output=True, text=True, env=env)
    return done.stdout.strip() if done.returncode == 0 else None


def kernels() -> list[Machine]:
    """Return one machine for each kernel of OpenBLAS, each piece of code once.

    A processor without AVX-512 or AVX2 has no numpy code for them either, so it is disabled too.
    OpenBLAS accepts a name that the processor cannot run. Others share code (Zen has Haswell's),
    and some code has another name (Prescott's is called Katmai).
    """
    dispatched = (ask(sys.executable, FEATURES) or "").split()
    # X86_V3 and X86_V4 are the groups of numpy 2.4: AVX2 and AVX-512.
    wide = [name for name in dispatched if name.startswith("AVX512") or name == "X86_V4"]
    own = ask(sys.executable, PROBE)
    seen: dict[str | None, str] = {}
    out = []
    for name, has in KERNELS.items():
        machine = Machine(name, variables={"OPENBLAS_CORETYPE": name})
        lacking = {"AVX512": [], "AVX2": wide, "": dispatched}[has]
        if lacking:
            machine.variables["NPY_DISABLE_CPU_FEATURES"] = " ".join(lacking)
        found = ask(machine.python, PROBE, machine.variables)
        if found is None:
            machine.refused = "this processor cannot run it"
        elif found == own and not lacking:
            machine.refused = "the same code as python3.11, which is this machine's own"
        elif found in seen:
            machine.refused = f"the same code as {seen[found]}"
        else:
            seen[found] = name
        out.append(machine)
    return out


def pythons() -> list[Machine]:
    """Give every later Python on the path or in pyenv, the newest patch of each."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    out = []
    for minor in range(sys.version_info.minor + 1, 30):
        name = f"python3.{minor}"
        patches = sorted(
            pyenv.glob(f"versions/3.{minor}.*/bin/{name}"),
            key=lambda file: [int(part) for part in re.findall(r"\d+", file.parts[-3])],
        )
        for python in [*map(str, reversed(patches)), shutil.which(name)]:
            # A name on the path may be pyenv's for a version that is not switched on.
            if python is not None and ask(python, VERSION) == f"3 {minor}":
                out.append(Machine(name, python, made=True))
                break
    return out


def machines() -> list[Machine]:
    """Give all that this script knows to try."""
    oldest = Machine("oldest", made=True, oldest=True)
    return [*kernels(), Machine("python3.11"), *pythons(), oldest]


def requirements(oldest: bool) -> tuple[list[str], list[str]]:
    """Give what building needs, and what running and testing need; pinned to the lower bounds."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    extras = project["project"]["optional-dependencies"]
    build = [*project["build-system"]["requires"], "cmake>=3.20", "ninja",
             "flit_core>=3.12"]  # fmt: skip
    run = [*project["project"]["dependencies"], *extras["dev"], *extras["app"],
           *extras["cluster"]]  # fmt: skip
    if oldest:
        build[:-3] = [pin(line) for line in build[:-3]]
        run = [*(pin(line) for line in run), *OF_THE_TIME]
    return build, run


def pin(line: str) -> str:
    """Give the oldest version that a requirement allows."""
    name, bound = line.split(">=")
    return f"{name}=={bound.split(',')[0]}"


def make(machine: Machine, log: Path) -> str:
    """Make the environment, or bring it up to date; gives its Python."""
    place = WORK / machine.name
    python = place / "bin" / "python"
    if not python.exists():
        run([machine.python, "-m", "venv", str(place)], log)
    pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    build, rest = requirements(machine.oldest)
    run([*pip, *build, *rest], log)
    core = [f"-Cbuild-dir={place / 'core'}", "--no-build-isolation", "--no-deps"]
    path = {"PATH": f"{python.parent}{os.pathsep}{os.environ['PATH']}"}
    run([*pip, *core, "--force-reinstall", str(ROOT)], log, path)
    run([*pip, "--no-build-isolation", "--no-deps", "--force-reinstall", str(ROOT / "papers")], log)
    return str(python)


def run(command: list[str], log: Path, variables: dict[str, str] | None = None) -> int:
    """Run with all output to the log; anything but tests must succeed."""
    with log.open("a") as out:
        code = subprocess.run(
            command, cwd=ROOT, stdout=out, stderr=subprocess.STDOUT,
            env={**os.environ, **(variables or {})},
        ).returncode  # fmt: skip
    if code and "pytest" not in command:
        raise RuntimeError(f"{' '.join(command[:5])} ... failed")
    return code


def try_out(machine: Machine, tests: list[str], workers: int) -> tuple[str, bool]:
    """Run the tests as on this machine; gives a cell of the table and whether all is well."""
    log = WORK / f"{machine.name}.log"
    log.write_text("")
    if machine.refused:
        return f"not run: {machine.refused}", True
    try:
        python = make(machine, log) if machine.made else machine.python
    except RuntimeError as error:
        return f"no environment: {error} (see {log.relative_to(ROOT)})", False
    command = [python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-n", str(workers), *tests]
    code = run(command, log, machine.variables)
    text = log.read_text()
    counts = re.findall(r"^(?:=+ )?(\d+ .*) in [\d.]+s.*$", text, re.M)
    failed = re.findall(r"^(?:FAILED|ERROR) (\S+)", text, re.M)
    cell = counts[-1] if counts else f"ended with {code}"
    return "\n".join([cell, *(f"    {name}" for name in failed[:10])]), code == 0


def main() -> int:
    """Run what was asked for, then print the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("names", nargs="*", help="machines; all of them by default")
    parser.add_argument("--tests", nargs="+", default=["tests"])
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--list", action="store_true", help="only say what can be had")
    options = parser.parse_args()
    # A job in the background ignores the interrupt key, and so would the runs that tests interrupt.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    known = machines()
    unknown = set(options.names) - {machine.name for machine in known}
    if unknown:
        parser.error(f"{', '.join(sorted(unknown))}: of {', '.join(m.name for m in known)} wanted")
    chosen = [machine for machine in known if not options.names or machine.name in options.names]
    if options.list:
        for machine in chosen:
            setting = " ".join(f"{k}={v!r}" for k, v in machine.variables.items())
            say(f"{machine.name:12} {machine.refused or setting or machine.python}")
        return 0
    WORK.mkdir(parents=True, exist_ok=True)
    rows, well = [], True
    for machine in chosen:
        begin = time.monotonic()
        cell, good = try_out(machine, options.tests, options.workers)
        rows.append(f"{machine.name:12} {time.monotonic() - begin:5.0f} s  {cell}")
        well &= good
        say(rows[-1])
    say("\n" + "\n".join(["machine       time    tests", *rows]))
    return 0 if well else 1


def say(line: str) -> None:
    """Write a line at once, that a log shows how far it is."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
