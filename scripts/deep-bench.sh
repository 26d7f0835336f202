#!/usr/bin/env bash
# The long checks of the benchmark: deep-bench.sh [PART…], all parts unless some are named.
#   configurations   A to H that h5bench's extension was measured with, under 1, 2 and 4 ranks of an MPI job, records cut by 64
#   full             one file of full size of each, generated and read by two ranks
set -euo pipefail
# shellcheck source=scripts/env.sh
source "$(dirname "${BASH_SOURCE[0]}")/env.sh"
use_tree "$@"

# Runs the tests of configurations that $1 selects.
run_tests() {
    FOREBAY_BIN=$forebay "$FOREBAY_PYTHON" -m pytest -q --durations=0 --durations-min=1 -p no:cacheprovider -k "$1" \
        "$ROOT/python/tests/test_bench_configurations.py"
}

use_setup
need_packages tests/requirements-python.txt
"$ROOT/scripts/hdf5-parallel.sh" >/dev/null
(cd "$ROOT" && cargo build --quiet --release -p forebay-cli)
forebay=$CARGO_TARGET_DIR/release/forebay
temporary=$(mktemp -d)
trap 'rm -rf "$temporary"' EXIT
"$ROOT/scripts/wheel.sh" "$temporary/wheel" >/dev/null
"$FOREBAY_PYTHON" -m pip install --quiet --disable-pip-version-check --no-deps --target "$temporary/site" "$temporary"/wheel/forebay-*.whl
export PYTHONPATH=$temporary/site
parts=("$@")
[[ ${#parts[@]} -gt 0 ]] || parts=(configurations full)
for part in "${parts[@]}"; do
    say "benchmark: $part"
    case $part in
    configurations) FOREBAY_LONG=1 FOREBAY_BENCH_DIVISOR=64 run_tests configurations ;;
    full) FOREBAY_LONG=1 run_tests full_size ;;
    *) die "usage: deep-bench.sh [configurations|full]…" ;;
    esac
done
