#!/usr/bin/env bash
# The core's tests under sanitizers, every solve proved: addresses and undefined behaviour, then threads.
#   scripts/sanitize.sh [address|thread] [arguments of pytest]
set -euo pipefail
here=$PWD
export ASAN_OPTIONS=detect_leaks=0:verify_asan_link_order=0
export UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1
# Python's own locks are not instrumented; what is reported concerns the core.
export TSAN_OPTIONS="halt_on_error=1 report_signal_unsafe=0 suppressions=$here/scripts/tsan.supp"

# install NAME SANITIZERS: a core of its own in build/NAME, beside the packages of .venv
install() {
  local work=build/$1
  mkdir -p "$work"
  test -x "$work/venv/bin/python" || .venv/bin/python -m venv "$work/venv"
  local site
  site=$("$work/venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
  .venv/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))' > "$site/packages.pth"
  PATH="$here/.venv/bin:$PATH" "$work/venv/bin/python" -m pip install --quiet \
    --disable-pip-version-check --no-build-isolation --no-deps --force-reinstall . \
    -Cbuild-dir="$here/$work/core" -Ccmake.build-type=RelWithDebInfo -Cinstall.strip=false \
    -Ccmake.define.CUTLEARN_SANITIZE="$2" -Ccmake.define.CUTLEARN_CHECKS=ON
}

# check NAME LIBRARY TESTS..: runs with the sanitizer's library in front
check() {
  local python=build/$1/venv/bin/python library
  library=$(g++ -print-file-name="lib$2.so")
  shift 2
  # Without random addresses: the thread sanitizer wants its own map of memory.
  LD_PRELOAD="$library $(g++ -print-file-name=libstdc++.so)" \
    setarch -R "$python" -m pytest -q -p no:cacheprovider "$@"
}

what=${1:-all}
test $# -eq 0 || shift
if [ "$what" != thread ]; then
  install sanitize address,undefined
  check sanitize asan tests/energy tests/laws tests/twins tests/faults/test_core.py \
    -k "not cannot_start and not without_room and not 32_bits" "$@"
fi
if [ "$what" != address ]; then
  install sanitize-threads thread
  # The live solver, min-marginals and the rounds of oracles: what threads share.
  check sanitize-threads tsan tests/energy/test_solver.py tests/twins/test_marginals.py \
    tests/learn/test_oracle.py tests/faults/test_core.py \
    -k "(thread or threads or rewrites or interrupted or signal or refused) and not cannot_start" "$@"
fi
