"""Change a place of the code at random, run the tests until one fails, and undo the change.

    python scripts/mutate.py [--count 10] [--seed 0] [--only learn] [--tests tests/learn] [--core]

A change is one token for another of its kind (< for <=, + for -, min for max, 0 for 1, and the
like) at a random place of the core, or of energy/ and learn/. A core that is changed is built
again; with --core its unit tests run first. Run it in a checkout of its own: files are changed in
place and put back.
"""

import argparse
import random
import re
import signal
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
FOLDERS = {
    "flow": ("cpp/flow", ["tests/energy", "tests/laws", "tests/twins"]),
    "energy": ("cpp/energy", ["tests/energy", "tests/laws", "tests/twins"]),
    "oracle": ("cpp/learn", ["tests/learn", "tests/twins"]),
    "model": ("src/cutlearn/energy", ["tests/energy", "tests/learn", "tests/laws", "tests/model"]),
    "learn": ("src/cutlearn/learn", ["tests/learn", "tests/laws", "tests/twins", "tests/faults"]),
}
SWAPS = [
    (r" < ", " <= "), (r" <= ", " < "), (r" > ", " >= "), (r" >= ", " > "), (r" == ", " != "),
    (r" \+ ", " - "), (r" - ", " + "), (r" \* ", " + "), (r"\bmin\b", "max"), (r"\bmax\b", "min"),
    (r"\b0\b", "1"), (r"\b1\b", "0"), (r" \+= ", " -= "), (r" -= ", " += "), (r"\btrue\b", "false"),
    (r"\bTrue\b", "False"), (r"\band\b", "or"), (r" && ", " || "), (r"\bbreak\b", "continue"),
]  # fmt: skip


def places(folder: Path) -> list[tuple[Path, int, int, int, str]]:
    """Return every place that can be changed: file, line, begin, end, replacement."""
    found = []
    for path in sorted([*folder.rglob("*.py"), *folder.rglob("*.cpp"), *folder.rglob("*.hpp")]):
        words = False  # inside of a docstring
        for number, line in enumerate(path.read_text().splitlines()):
            quotes = line.count('"""')
            plain = line.strip()
            if quotes == 1:
                words = not words
            if words or quotes or plain.startswith(("#", "//", '"', 'f"', "import", "from")):
                continue
            if any(word in plain for word in ("raise", "Error", "kChecks", "throw_if_fault(")):
                continue
            code = re.split(r"  #|//", line)[0]
            for pattern, other in SWAPS:
                for hit in re.finditer(pattern, code):
                    found.append((path, number, hit.start(), hit.end(), other))
    return found


def core_failure() -> str:
    """Return the first unit test of the core that fails, empty if they pass."""
    try:
        done = subprocess.run(["make", "test-core"], cwd=ROOT, check=False, capture_output=True,
                              text=True, timeout=900)  # fmt: skip
    except subprocess.TimeoutExpired:
        return "the tests of the core never end"
    failed = re.findall(r"^TEST CASE:  (.*)", done.stdout, re.M)
    if failed:
        return f"core: {failed[0]}"
    return "" if done.returncode == 0 else "does not compile, or the run breaks off"


def first_failure(place: tuple[Path, int, int, int, str], tests: list[str], core: bool) -> str:
    """Make the change, run the tests, undo it; return the first test that failed."""
    path, number, begin, end, other = place
    before = path.read_text()
    lines = before.splitlines(keepends=True)
    lines[number] = lines[number][:begin] + other + lines[number][end:]
    path.write_text("".join(lines))
    try:
        if core and (found := core_failure()):
            return found
        if not tests:
            return ""
        if path.suffix != ".py" and subprocess.run(["make", "setup"], cwd=ROOT, check=False,
                                                   capture_output=True).returncode:  # fmt: skip
            return "does not compile"
        asked = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *tests]
        try:
            done = subprocess.run(asked, cwd=ROOT, check=False, capture_output=True, text=True,
                                  timeout=900)  # fmt: skip
        except subprocess.TimeoutExpired:
            return "the tests never end"
        failed = re.findall(r"^(?:FAILED|ERROR) (\S+)", done.stdout, re.M)
        return failed[0] if failed else "" if done.returncode == 0 else "the run breaks off"
    finally:
        path.write_text(before)


def main() -> int:
    """Draw the places and print the test that fails for each change."""
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--count", type=int, default=10)
    asked.add_argument("--seed", type=int, default=0)
    asked.add_argument("--only", choices=FOLDERS, action="append")
    asked.add_argument("--tests", nargs="*")
    asked.add_argument("--core", action="store_true", help="run the unit tests of the core first")
    given = asked.parse_args()
    # A change is also undone when the run is terminated.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    rng = random.Random(given.seed)
    names = given.only or list(FOLDERS)
    missed = 0
    for k in range(given.count):
        folder, tests = FOLDERS[names[k % len(names)]]
        place = rng.choice(places(ROOT / folder))
        path, number, begin, end, other = place
        line = path.read_text().splitlines()[number]
        found = first_failure(place, tests if given.tests is None else given.tests, given.core)
        missed += not found
        print(f"{path.relative_to(ROOT)}:{number + 1} `{line.strip()}`: "
              f"`{line[begin:end].strip()}` -> `{other.strip()}`: {found or 'NO TEST FAILS'}",
              flush=True)  # fmt: skip
    if any("cpp" in FOLDERS[name][0] for name in names):
        subprocess.run(["make", "setup"], cwd=ROOT, check=True, capture_output=True)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
