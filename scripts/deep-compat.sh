#!/usr/bin/env bash
# Compatibility that make test has no time for, not optimised, at most an hour: deep-compat.sh [PART…], all parts unless some are named.
#   frameworks  Ray, the Ray of a year before, Ray Train with PyTorch, dask and xarray on a cluster, Hugging Face datasets, xbatcher
#   hdf5        ranks with a parallel HDF5 that is neither thread safe nor has subfiling, under MPICH and Open MPI
#   slow        tests of the Python package that make test leaves out, and those that are longer here: FOREBAY_SLOW=1
#   own-format  a crate outside of the workspace, as a user's is
set -euo pipefail
# shellcheck source=scripts/env.sh
source "$(dirname "${BASH_SOURCE[0]}")/env.sh"
use_tree "$@"

# What is still running then is ended, and the whole has failed.
MINUTES=60
BEGAN=$SECONDS
export FOREBAY_SLOW=1

# Runs a command in what is left of the hour.
within() {
    local left=$((60 * MINUTES - (SECONDS - BEGAN)))
    [[ $left -gt 0 ]] || die "the hour is over before: $*"
    timeout --kill-after=10 "$left" "$@" || die "ended with $?, $(((SECONDS - BEGAN) / 60)) minutes after the start: $*"
}

# Runs pytest with the arguments in the environment of the package's tests.
test_python() {
    within env PYTHONPATH="$site" "$FOREBAY_PYTHON" -m pytest -q --numprocesses "$(($(nproc) < 4 ? $(nproc) + 1 : 4))" \
        --dist worksteal "$@"
}

compat_frameworks() {
    within "$ROOT/scripts/test-frameworks.sh" "$site" engines ray ray-old
}

compat_hdf5() {
    export FOREBAY_HDF5_KIND=plain
    "$ROOT/scripts/hdf5-parallel.sh" mpich5 >/dev/null
    "$ROOT/scripts/hdf5-parallel.sh" openmpi5 >/dev/null
    # FOREBAY_LONG: more ranks, and both MPIs.
    FOREBAY_LONG=1 test_python "$ROOT"/python/tests/test_hdf5_{parallel,ranks_cache}.py
    unset FOREBAY_HDF5_KIND
}

compat_slow() {
    FOREBAY_MPIS=$("$ROOT/scripts/mpi.sh")
    FOREBAY_CAPI=$("$ROOT/scripts/capi.sh" --dev "$CARGO_TARGET_DIR/capi-debug")
    export FOREBAY_MPIS FOREBAY_CAPI
    "$ROOT/scripts/hdf5-parallel.sh" >/dev/null
    test_python -m "slow or long" "$ROOT/python/tests"
}

compat_own_format() {
    local outside
    outside=$(mktemp -d)
    # shellcheck disable=SC2064
    trap "rm -rf '$outside' '$FOREBAY_CACHE'" EXIT
    cp -r "$ROOT/examples/own_format/." "$ROOT/Cargo.lock" "$outside"
    sed -i "s|\"../../|\"$ROOT/|" "$outside/Cargo.toml"
    printf '\n[workspace]\n' >>"$outside/Cargo.toml"
    within cargo test --quiet --manifest-path "$outside/Cargo.toml"
}

use_setup
use_fresh_index
need_packages tests/requirements-python.txt
need_packages tests/requirements-formats.txt
export VIRTUAL_ENV=$VENV
wheels=$CARGO_TARGET_DIR/wheels-debug site=$CARGO_TARGET_DIR/python-debug
"$ROOT/scripts/wheel.sh" --tests "$wheels"
rm -rf "$site"
"$FOREBAY_PYTHON" -m pip install --quiet --disable-pip-version-check --no-deps --target "$site" "$wheels"/forebay-*.whl
export FOREBAY_BIN=$CARGO_TARGET_DIR/debug/forebay
parts=("$@")
[[ ${#parts[@]} -gt 0 ]] || parts=(frameworks hdf5 slow own-format)
for part in "${parts[@]}"; do
    began=$SECONDS
    say "$part"
    case $part in
    frameworks | hdf5 | slow | own-format) "compat_${part/-/_}" ;;
    *) die "usage: deep-compat.sh [frameworks|hdf5|slow|own-format]…" ;;
    esac
    say "$((SECONDS - began)) s: $part"
done
say "all of it held, in $(((SECONDS - BEGAN) / 60)) minutes"
