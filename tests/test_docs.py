"""What is written beside the code is true: examples in docstrings run, the core's stub is fresh."""

import doctest
import importlib
import pkgutil
import subprocess
import sys
from pathlib import Path

import nanobind
import pytest

import cutlearn

ROOT = Path(__file__).parent.parent
MODULES = sorted(
    m.name
    for m in pkgutil.walk_packages([str(ROOT / "src" / "cutlearn")], "cutlearn.")
    if not m.name.endswith("_core")
)


@pytest.mark.parametrize("name", MODULES)
def test_examples_in_docstrings(name):
    failed, _ = doctest.testmod(importlib.import_module(name), optionflags=doctest.ELLIPSIS)
    assert failed == 0


def test_the_example_of_the_glossary():
    failed, tried = doctest.testfile(str(ROOT / "docs" / "glossary.md"), module_relative=False)
    assert failed == 0
    assert tried >= 6


def test_some_examples_were_found():
    finder = doctest.DocTestFinder()
    found = [t for t in finder.find(cutlearn.Energy) if t.examples]
    assert len(found) >= 2


def test_the_stub_of_the_core_is_fresh(tmp_path):
    if int(nanobind.__version__.split(".")[0]) < 3:
        pytest.skip("older nanobinds write other stubs of the same core")
    made = tmp_path / "core.pyi"
    command = [sys.executable, "-m", "nanobind.stubgen", "-q", "-m", "cutlearn._core", "-o", made]
    subprocess.run(command, check=True)
    assert made.read_text() == (ROOT / "src/cutlearn/_core.pyi").read_text()
