"""Examples in docstrings run."""

import doctest
import importlib
import pkgutil

import pytest

import cutlearn_papers

MODULES = sorted(
    m.name for m in pkgutil.walk_packages(cutlearn_papers.__path__, "cutlearn_papers.")
)


@pytest.mark.parametrize("name", MODULES)
def test_examples_in_docstrings(name):
    failed, _ = doctest.testmod(importlib.import_module(name), optionflags=doctest.ELLIPSIS)
    assert failed == 0
