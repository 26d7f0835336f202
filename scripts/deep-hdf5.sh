#!/usr/bin/env bash
# The long checks of the HDF5 plug-ins and of staged writes, at most an hour: deep-hdf5.sh [PART…], all parts unless some are named.
# FOREBAY_LONG=1 is what the tests go by.
#   suites   h5py's, netCDF4's and PyTables' own tests and HDF5's h5_api_test: natively, through the driver, the connector, both
#   python   the tests of the plug-ins and of staging in python/tests, in their long versions: more kills, longer sequences
#   crash    200 kills each of processes that write new files and that update one in place; 200 more are among the tests of `python`
#   ranks    four ranks of a parallel HDF5 that is not thread safe, as common builds
set -euo pipefail
# shellcheck source=scripts/env.sh
source "$(dirname "${BASH_SOURCE[0]}")/env.sh"
use_tree "$@"

# What is still running then is ended, and the whole has failed.
MINUTES=60
BEGAN=$SECONDS
export FOREBAY_LONG=1

# Runs a command in what is left of the hour.
within() {
    local left=$((60 * MINUTES - (SECONDS - BEGAN)))
    [[ $left -gt 0 ]] || die "the hour is over before: $*"
    timeout --kill-after=10 "$left" "$@" || die "ended with $?, $(((SECONDS - BEGAN) / 60)) minutes after the start: $*"
}

need_netcdf4_tests() {
    NETCDF4=$CACHE/netcdf4-tests-$(hash_of tests/peers/sources.txt)
    if [[ -d $NETCDF4 ]]; then return; fi
    local temporary=$NETCDF4.$$.part
    mkdir -p "$temporary"
    grep '^netcdf4 ' "$ROOT/tests/peers/sources.txt" >"$temporary/list"
    "$FOREBAY_PYTHON" "$ROOT/tests/peers/fetch.py" "$temporary/list" "$temporary"
    mv -T "$temporary/netcdf4" "$NETCDF4" 2>/dev/null || true
    rm -rf "$temporary"
}

deep_suites() {
    local program
    program=$("$ROOT/scripts/hdf5-api-test.sh" --build)
    need_netcdf4_tests
    mkdir -p "$CACHE/bench"
    say "suites of other libraries, natively and through the plug-ins; the result goes to $CACHE/bench/hdf5-suites.json"
    within "$FOREBAY_PYTHON" "$ROOT/tests/hdf5/suites.py" --plugins "$plugins" --api-test "$program" --netcdf4 "$NETCDF4" \
        --result "$CACHE/bench/hdf5-suites.json"
}

deep_python() {
    local wheels=$CARGO_TARGET_DIR/wheels-debug site=$CARGO_TARGET_DIR/python-debug
    "$ROOT/scripts/wheel.sh" --dev "$wheels"
    rm -rf "$site"
    "$FOREBAY_PYTHON" -m pip install --quiet --disable-pip-version-check --no-deps --target "$site" "$wheels"/forebay-*.whl
    (cd "$ROOT" && cargo build --quiet -p forebay-cli)
    say "tests of the plug-ins and of staging, long"
    FOREBAY_BIN=$CARGO_TARGET_DIR/debug/forebay PYTHONPATH=$site within "$FOREBAY_PYTHON" -m pytest -q --numprocesses 2 --dist worksteal \
        "$ROOT"/python/tests/test_hdf5*.py "$ROOT"/python/tests/test_stage*.py
}

deep_crash() {
    say "kills of staged runs"
    (cd "$ROOT" && within cargo test --quiet -p forebay-stage)
}

deep_ranks() {
    local found layout mpi
    for mpi in mpich5 openmpi5; do
        found=$(FOREBAY_HDF5_KIND=plain "$ROOT/scripts/hdf5-parallel.sh" "$mpi")
        mapfile -t found <<<"$found"
        for layout in contiguous chunked late gzip; do
            say "4 ranks of $mpi, $layout"
            within "$FOREBAY_PYTHON" "$ROOT/tests/hdf5/ranks.py" --plugins "$plugins" --prefix "${found[0]}" --launcher "${found[1]}" \
                --program "${found[2]}" --layout "$layout"
        done
    done
}

use_setup
need_packages tests/requirements-python.txt
plugins=$("$ROOT/scripts/plugins.sh")
parts=("$@")
[[ ${#parts[@]} -gt 0 ]] || parts=(crash ranks suites python)
for part in "${parts[@]}"; do
    case $part in
    suites | python | crash | ranks) "deep_$part" ;;
    *) die "usage: deep-hdf5.sh [suites|python|crash|ranks]…" ;;
    esac
done
say "all of it held, in $(((SECONDS - BEGAN) / 60)) minutes"
