"""Every example runs, and every command that the README names exists."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from cutlearn.app.cli import main

ROOT = Path(__file__).parent.parent
EXAMPLES = sorted((ROOT / "examples").glob("plot_*.py"))


def readme_commands(text):
    """The lines of its code blocks that call cutlearn, without the prompt."""
    fenced = re.findall(r"^```[^\n]*\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    indented = re.findall(r"^    [^\n]+", text, re.MULTILINE)
    code = "\n".join(fenced + [line[4:] for line in indented])
    return re.findall(r"^(?:\$ )?(cutlearn [^\n#]+)", code, re.MULTILINE)


def check_checkerboard(said):
    """The figures that the example prints are those that its text promises."""
    rates = {
        line[:24].strip(): float(re.search(r"error +([\d.]+)%", line)[1])
        for line in said.splitlines()
        if "error" in line
    }
    # The sign of a sum of 256 draws is wrong in 0.28 % of the squares (25.6 against 9.24).
    assert rates["envelopes"] < 1.0
    assert rates["pairwise, best strength"] > 15
    assert rates["pixel by pixel"] == pytest.approx(45, abs=1)  # (1 - 0.1) / 2


def check_shapes(said):
    """The exact log-likelihood rises along the training, from and to what the text says."""
    rising = [float(found) for found in re.findall(r"mean log p +(-[\d.]+)", said)]
    assert len(rising) == 5
    assert rising == sorted(rising)
    assert rising[0] == pytest.approx(-41, abs=1)
    assert rising[-1] > -14


CHECKS = {"plot_checkerboard.py": check_checkerboard, "plot_shapes.py": check_shapes}


def test_there_are_examples():
    assert CHECKS.keys() <= {path.name for path in EXAMPLES}


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_example_runs_and_is_short(path, tmp_path):
    assert len(path.read_text().splitlines()) < 60
    done = subprocess.run(
        [sys.executable, "-W", "error", str(path)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=250,
    )
    assert done.returncode == 0, done.stderr
    if done.stdout.startswith("skipped"):
        pytest.skip(done.stdout)
    pictures = re.findall(r"wrote (\S+\.png)", done.stdout)
    assert pictures
    for name in pictures:
        assert (tmp_path / name).stat().st_size > 1000
    if path.name in CHECKS:
        CHECKS[path.name](done.stdout)


def test_readme_commands_exist():
    for line in readme_commands((ROOT / "README.md").read_text()):
        words = shlex.split(line, comments=True)
        command = main.commands.get(words[1])
        assert command is not None or words[1].startswith("-"), line
        if command is not None:
            known = {option for p in command.params for option in p.opts} | {"-h", "--help"}
            for word in words[2:]:
                assert not word.startswith("-") or word.split("=")[0] in known, line


def test_commands_are_found_in_a_readme():
    text = (
        "Text.\n\n    cutlearn fit a b -o m\n\n```\n$ cutlearn demo  # see\ncutlearn --help\n```\n"
    )
    assert [c.strip() for c in readme_commands(text)] == [
        "cutlearn demo",
        "cutlearn --help",
        "cutlearn fit a b -o m",
    ]
