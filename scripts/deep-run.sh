#!/usr/bin/env bash
# The long checks of `forebay run`: deep-run.sh [PART…], all parts unless some are named. FOREBAY_LONG=1 is what the tests go by.
#   programs  other people's programs under it, their outputs next to plain runs; h5py's own tests with TMPDIR under the prefix
#   library   the tests of the preloaded library: 2,000 rounds of faults, 1,000 child processes
#   own       the Python package's own tests inside it, TMPDIR under the prefix
set -euo pipefail
# shellcheck source=scripts/env.sh
source "$(dirname "${BASH_SOURCE[0]}")/env.sh"
use_tree "$@"

export FOREBAY_LONG=1

run_programs() {
    need_packages tests/requirements-formats.txt
    command -v fio >/dev/null || install_packages fio
    command -v gfortran >/dev/null || install_packages gfortran
    command -v javac >/dev/null || install_packages default-jdk-headless
    command -v go >/dev/null || install_packages golang-go
    command -v musl-gcc >/dev/null || install_packages musl-tools
    PYTHONPATH=$site "$FOREBAY_PYTHON" -m pytest -q --numprocesses 2 --dist worksteal "$ROOT"/python/tests/test_run_*.py
}

run_library() {
    local -a rust_tests=(cargo test)
    if cargo nextest --version >/dev/null 2>&1; then rust_tests=(cargo nextest run); fi
    (cd "$ROOT" && "${rust_tests[@]}" -p forebay-preload --lib --tests)
}

run_own() {
    local folder
    # HDF5 cuts messages that have a long path in them.
    folder=$(mktemp -d /tmp/fXXXXXX)
    # shellcheck disable=SC2064
    trap "rm -rf '$folder'" EXIT
    mkdir "$folder/t"
    # Where the search for a libhdf5 finds that of h5py.
    export VIRTUAL_ENV=$VENV
    # Within a test, beside others, the compiler may take longer than a test may.
    FOREBAY_CAPI=$("$ROOT/scripts/capi.sh" --dev "$CARGO_TARGET_DIR/capi-debug")
    export FOREBAY_CAPI
    say "the package's own tests inside forebay run, their files in $folder"
    # Tests that start such runs themselves, and those of other mounts and hosts, have nothing to do with where files lie.
    PYTHONPATH=$site TMPDIR=$folder/t FOREBAY_LONG='' "$FOREBAY_BIN" run --origin "$folder" --tier mem:1GiB -- \
        "$FOREBAY_PYTHON" -m pytest -q --numprocesses 2 --dist worksteal --basetemp "$folder/t/p" "$ROOT/python/tests" \
        --ignore-glob='*test_run_*' --ignore-glob='*hosts*' --ignore-glob='*test_release*'
}

use_setup
need_packages tests/requirements-python.txt
wheels=$CARGO_TARGET_DIR/wheels-debug site=$CARGO_TARGET_DIR/python-debug
"$ROOT/scripts/wheel.sh" --dev "$wheels"
rm -rf "$site"
"$FOREBAY_PYTHON" -m pip install --quiet --disable-pip-version-check --no-deps --target "$site" "$wheels"/forebay-*.whl
(cd "$ROOT" && cargo build --quiet -p forebay-cli)
export FOREBAY_BIN=$CARGO_TARGET_DIR/debug/forebay FOREBAY_PLUGINS=$site/forebay/hdf5
parts=("$@")
[[ ${#parts[@]} -gt 0 ]] || parts=(programs library own)
for part in "${parts[@]}"; do
    case $part in
    programs | library | own) "run_$part" ;;
    *) die "usage: deep-run.sh [programs|library|own]…" ;;
    esac
done
