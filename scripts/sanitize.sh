#!/usr/bin/env bash
# The core's tests with address and undefined-behaviour sanitizers and every solve proved.
set -euo pipefail
here=$PWD
work=build/sanitize
mkdir -p "$work"
test -x "$work/venv/bin/python" || .venv/bin/python -m venv "$work/venv"
site=$("$work/venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
# The packages of .venv, without its editable cutlearn.
.venv/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))' > "$site/packages.pth"
PATH="$here/.venv/bin:$PATH" "$work/venv/bin/python" -m pip install --quiet --disable-pip-version-check \
  --no-build-isolation --no-deps --force-reinstall . \
  -Cbuild-dir="$here/$work/core" -Ccmake.build-type=RelWithDebInfo -Cinstall.strip=false \
  -Ccmake.define.CUTLEARN_SANITIZE=address,undefined -Ccmake.define.CUTLEARN_CHECKS=ON
LD_PRELOAD="$(g++ -print-file-name=libasan.so) $(g++ -print-file-name=libstdc++.so)" \
ASAN_OPTIONS=detect_leaks=0:verify_asan_link_order=0 UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1 \
  "$work/venv/bin/python" -m pytest -q -p no:cacheprovider tests/graph tests/energy tests/laws tests/twins "$@"
