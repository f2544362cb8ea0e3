# Every target does its own set-up, once: .venv/ is made anew only when pyproject.toml changes,
# and the C++ core is rebuilt only when its sources do.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
BIN := .venv/bin
CORE := $(wildcard cpp/*/*.cpp cpp/*/*.hpp) CMakeLists.txt

.PHONY: FORCE setup demo test test-core test-machines browser-test lint bench sanitize wheel docs clean

setup: .venv/.built .venv/.papers

.venv/.installed: pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit("cutlearn needs Python 3.11 or newer; set PYTHON=") if sys.version_info < (3, 11) else None'
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check \
	  'scikit-build-core>=0.11' 'nanobind>=2.4' 'cmake>=3.20' ninja 'flit_core>=3.12'
	$(BIN)/python scripts/requirements.py dev app cluster medical > .venv/requirements.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r .venv/requirements.txt
	@touch $@

# The installation knows every module by its path: it is renewed when one comes, moves or goes.
.venv/.modules: .venv/.installed FORCE
	@find src -name '*.py' | LC_ALL=C sort > $@.new
	@cmp -s $@.new $@ || cp $@.new $@

.venv/.built: .venv/.installed .venv/.modules $(CORE)
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python -m pip install --quiet --disable-pip-version-check \
	  --no-build-isolation --no-deps --editable .
	@touch $@

.venv/.papers: .venv/.installed papers/pyproject.toml
	$(BIN)/python -m pip install --quiet --disable-pip-version-check \
	  --no-build-isolation --no-deps --editable papers
	@touch $@

demo: setup
	$(BIN)/cutlearn demo

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/clang-format --dry-run --Werror cpp/*/*.?pp tests/core/*.?pp

test: lint
	$(BIN)/python -m pytest -n 2

# The data structures of the core, in C++, with its invariants asserted.
test-core: .venv/.installed
	@test -e /usr/include/doctest/doctest.h || (apt-get update -qq && apt-get install -y -qq doctest-dev)
	PATH="$(CURDIR)/$(BIN):$$PATH" cmake -G Ninja -S . -B build/tests -DCUTLEARN_TESTS=ON > /dev/null
	PATH="$(CURDIR)/$(BIN):$$PATH" cmake --build build/tests > /dev/null
	build/tests/core_tests

# OPTIONS='Haswell oldest' for some of them; all take about an hour on two cores.
test-machines: setup
	$(BIN)/python scripts/machines.py $(OPTIONS)

# The page in a real browser; without chromium and playwright `make test` leaves these out.
browser-test: setup
	@command -v chromium > /dev/null || command -v chromium-browser > /dev/null || \
	   (apt-get update -qq && apt-get install -y -qq chromium)
	$(BIN)/python scripts/requirements.py browser > .venv/browser.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r .venv/browser.txt
	$(BIN)/python -m pytest tests/browser

# OPTIONS=--quick for a few rows in a minute; the whole table takes about a quarter of an hour.
bench: .venv/.bench
	$(BIN)/python benchmarks/cuts.py $(OPTIONS)

.venv/.bench: .venv/.built
	$(BIN)/python scripts/requirements.py bench > .venv/bench.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r .venv/bench.txt
	@touch $@

sanitize: setup
	scripts/sanitize.sh

wheel: setup
	scripts/wheel.sh

clean:
	rm -rf build dist .venv
