#!/usr/bin/env bash
# A wheel and an sdist in dist/; the wheel is tried in a fresh environment with no compiler in reach.
set -euo pipefail
here=$PWD
rm -rf dist build/wheel
mkdir -p build/wheel
PATH="$here/.venv/bin:$PATH" .venv/bin/python - <<'PYTHON'
from scikit_build_core.build import build_sdist, build_wheel
build_sdist("dist")
build_wheel("dist", {"build-dir": "build/wheel/core"})
PYTHON
.venv/bin/python -m venv build/wheel/venv
build/wheel/venv/bin/python -m pip install --quiet --disable-pip-version-check dist/*.whl
cd build/wheel  # away from the sources
env -i PATH=/nonexistent HOME="$HOME" LANG=C.UTF-8 venv/bin/python - <<'PYTHON'
import shutil
from importlib.resources import files
import cutlearn as cl
assert shutil.which("c++") is None
cut = cl.Energy.grid([[-3.0, 1.0], [1.0, 1.0]], 0.75).minimize()
assert cut.labels.tolist() == [[1, 0], [0, 0]] and cut.value == cut.lower_bound == -1.5
page = files("cutlearn").joinpath("app", "web", "static")
assert {"index.html", "style.css", "main.js"} <= {one.name for one in page.iterdir()}
print("wheel works:", cl.__version__, cl.__file__)
PYTHON
ls -l "$here/dist"
