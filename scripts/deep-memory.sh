#!/usr/bin/env bash
# Whether a tree of processes stays within its budget of memory: deep-memory.sh [ARGS of memory_tree.py]
set -euo pipefail
# shellcheck source=scripts/env.sh
source "$(dirname "${BASH_SOURCE[0]}")/env.sh"
use_tree "$@"

use_setup
temporary=$(mktemp -d)
trap 'rm -rf "$temporary"' EXIT
need_packages tests/requirements-python.txt
say "building the Python package"
"$ROOT/scripts/wheel.sh" "$temporary/wheel" >/dev/null
"$FOREBAY_PYTHON" -m pip install --quiet --disable-pip-version-check --no-deps --target "$temporary/site" "$temporary"/wheel/forebay-*.whl
export PYTHONPATH=$temporary/site FOREBAY_CACHE=$temporary/index OMP_NUM_THREADS=1
mkdir -p "$CACHE/bench"
"$FOREBAY_PYTHON" "$ROOT/python/tests/memory_tree.py" "$CACHE/bench" --cgroup "$@"
