"""The house rules that a reader relies on: which folder may import which, and names."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "cutlearn"
# A folder imports only folders to its left, plus run/ and the root modules.
ORDER = "images energy features learn shape model report app".split()
FORBIDDEN = re.compile("utils|helpers|common|clique|site|theta|phi|scribble")
PYTHON = sorted(p for top in ("src", "papers", "tests", "benchmarks", "examples", "scripts")
                for p in (ROOT / top).rglob("*.py"))  # fmt: skip
CORE = sorted((ROOT / "cpp").glob("*/*.?pp"))
# The core: a folder includes only folders to its left; only bind/ knows Python.
CORE_ORDER = "run flow energy learn filters trees net bind".split()
CODE = PYTHON + CORE


def name(path):
    return str(path.relative_to(ROOT))


def imported(path):
    for item in ast.walk(ast.parse(path.read_text())):
        if isinstance(item, ast.ImportFrom) and item.module:
            yield item.module
        elif isinstance(item, ast.Import):
            yield from (alias.name for alias in item.names)


@pytest.mark.parametrize("path", sorted(SOURCE.rglob("*.py")), ids=name)
def test_imports_only_folders_to_its_left(path):
    parts = path.relative_to(SOURCE).parts
    folder = parts[0] if len(parts) > 1 else None
    if parts in (("__init__.py",), ("__main__.py",)):
        return
    for module in imported(path):
        if not module.startswith("cutlearn."):
            continue
        target = module.split(".")[1]
        if not (SOURCE / target).is_dir() or target == folder:
            continue
        assert folder is not None, f"a root module imports the folder {target}"
        assert folder != "run", f"run/ imports the folder {target}"
        if target != "run":
            assert ORDER.index(target) < ORDER.index(folder), f"{folder} imports {target}"


def test_every_file_of_the_core_is_in_a_folder_of_the_order():
    files = {p for p in (ROOT / "cpp").rglob("*") if p.is_file()}
    assert files == set(CORE)
    assert {p.parent.name for p in CORE} == set(CORE_ORDER)


@pytest.mark.parametrize("path", CORE, ids=name)
def test_core_includes_only_folders_to_its_left(path):
    folder = path.parent.name
    text = path.read_text()
    for included in re.findall(r'#include "(.*)"', text):
        target, file = included.split("/")
        assert (ROOT / "cpp" / target / file).exists(), included
        assert CORE_ORDER.index(target) <= CORE_ORDER.index(folder), f"{folder} includes {target}"
        assert target != "trees" or folder in ("trees", "bind"), f"{folder} includes trees"
    assert folder == "bind" or not re.search("nanobind|Python.h|PyErr", text), (
        "Python outside bind/"
    )


@pytest.mark.parametrize("path", CODE, ids=name)
def test_no_forbidden_names(path):
    assert not FORBIDDEN.search(path.stem)
    if path.suffix == ".py":
        for item in ast.walk(ast.parse(path.read_text())):
            if isinstance(item, ast.FunctionDef | ast.ClassDef) and not item.name.startswith("_"):
                assert not FORBIDDEN.search(item.name), item.name


@pytest.mark.parametrize("path", PYTHON, ids=name)
def test_no_comparison_that_cannot_fail(path):
    for item in ast.walk(ast.parse(path.read_text())):
        if isinstance(item, ast.Expr) and isinstance(item.value, ast.Call):
            function = item.value.func
            called = getattr(function, "attr", getattr(function, "id", ""))
            assert called not in ("allclose", "array_equal", "isclose"), f"line {item.lineno}"


def test_no_two_classes_have_one_name():
    seen = {}
    for path in sorted(SOURCE.rglob("*.py")):
        for item in ast.parse(path.read_text()).body:
            if isinstance(item, ast.ClassDef):
                assert item.name not in seen, f"{name(path)} and {seen[item.name]}: {item.name}"
                seen[item.name] = name(path)
