#!/usr/bin/env bash
# The tests: test.sh [--release] [--rust]. What takes longer than it may here, make deep-compat has, and deep-tests. Each part says in
# the end how long it took.
# With --rust, without the tests of the Python package, which need libraries that not every system has wheels of: adios2 has none for
# aarch64. The package is still built and tried with NumPy alone.
set -euo pipefail
# shellcheck source=scripts/env.sh
source "$(dirname "${BASH_SOURCE[0]}")/env.sh"
use_tree "$@"

# Ends the part before, and begins the part that $1 tells of.
part='' began=0
begin() {
    if [[ -n $part ]]; then say "$((SECONDS - began)) s: $part"; fi
    part=$1 began=$SECONDS
    if [[ -n $part ]]; then say "$part"; fi
}

# Ends the last part, and says how long all took.
end() {
    begin ''
    say "all of it passed in $((SECONDS / 60)) min $((SECONDS % 60)) s"
}

profile=debug
declare -a flags=() wheel_flags=(--tests) capi_flags=(--dev)
rust_only=
for argument in "$@"; do
    case $argument in
    --release)
        profile=release flags=(--release) wheel_flags=() capi_flags=()
        # Each test is a program of its own: to optimise all of them across crates took more than half an hour.
        export CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16
        ;;
    --rust) rust_only=yes ;;
    *) die "usage: test.sh [--release] [--rust]" ;;
    esac
done

declare -a frameworks=(tensorflow jax)
if [[ -n ${FOREBAY_SLOW:-} ]]; then frameworks+=(engines ray ray-old); fi

begin "set-up"
use_setup
files=$("$ROOT/scripts/matrix.sh")
export FOREBAY_MATRIX=$files/matrix FOREBAY_HOSTILE=$files/hostile
# Where the search for a libhdf5 finds that of h5py.
export VIRTUAL_ENV=$VENV
use_fresh_index
# Packages come over the network while the compiler has the processors. What fails here is tried again, and told, where it is needed.
(
    if [[ -n $rust_only ]]; then exec "$ROOT/scripts/mpi.sh"; fi
    need_packages tests/requirements-python.txt
    need_packages tests/requirements-formats.txt
    "$ROOT/scripts/mpi.sh"
    for framework in "${frameworks[@]}"; do need_environment "$framework" "tests/requirements-$framework.txt"; done
    "$ROOT/scripts/hdf5-parallel.sh"
) >/dev/null 2>&1 &
ahead=$!
# An environment that is half made would be used again. Others may build meanwhile.
trap '[[ -z ${FOREBAY_BUILD_LOCK:-} ]] || exec {FOREBAY_BUILD_LOCK}>&-; wait "$ahead" || true; rm -rf "$FOREBAY_CACHE"' EXIT
cd "$ROOT"

begin "build of the tests"
# All of them, and the examples that some run, in one go and always of the whole workspace: of fewer crates, those that others share
# would be built once more with fewer features.
rust_tests=(cargo test)
if cargo nextest --version >/dev/null 2>&1; then rust_tests=(cargo nextest run); fi
"${rust_tests[@]}" --no-run --workspace "${flags[@]}"
begin "tests"
# Many of them wait, for a clock or a process: one more at a time than there are processors.
export NEXTEST_TEST_THREADS=${NEXTEST_TEST_THREADS:-$(($(nproc) < 4 ? $(nproc) + 1 : $(nproc)))}
"${rust_tests[@]}" --no-fail-fast --workspace --lib --bins --tests "${flags[@]}"
begin "tests in the documentation"
cargo test --doc --workspace "${flags[@]}"

begin "ranks under one MPI; make deep-store takes all of them"
FOREBAY_MPIS=$("$ROOT/scripts/mpi.sh")
export FOREBAY_MPIS
FOREBAY_MPI_PROGRAM=$CARGO_TARGET_DIR/$profile/examples/mpi_ranks "$ROOT/scripts/test-mpi.sh" openmpi4 1 2 4

# The native reader alone: libhdf5 must not be what gives the right answers.
export FOREBAY_LIBHDF5=off
# Built for the tests above; alone it would be built once more, with fewer features of what crates have in common.
forebay=$CARGO_TARGET_DIR/$profile/forebay
check=("$FOREBAY_PYTHON" "$ROOT/tests/matrix/check_matrix.py" "$forebay")
begin "values against h5py"
"${check[@]}" "$FOREBAY_MATRIX"
begin "the same by saved indexes"
"${check[@]}" "$FOREBAY_MATRIX"
begin "damaged files"
"${check[@]}" "$FOREBAY_HOSTILE" --hostile

begin "the wheel"
# The package as people get it, with the HDF5 plug-ins in it, but for the profile and for features that tests add.
wheels=$CARGO_TARGET_DIR/wheels-$profile
"$ROOT/scripts/wheel.sh" "${wheel_flags[@]}" "$wheels"
"$ROOT/scripts/check_wheel.sh" "$wheels"
if [[ -n $rust_only ]]; then
    end
    exit
fi
begin "Python packages that the tests need"
need_packages tests/requirements-python.txt
need_packages tests/requirements-formats.txt
begin "functions of the C library that CPython, h5py, PyTorch, pyarrow and TensorFlow import"
need_environment tensorflow tests/requirements-tensorflow.txt
FOREBAY_SCANNED_PYTHONS=$FOREBAY_PYTHON:$ENVIRONMENT/bin/python \
    "${rust_tests[@]}" --workspace "${flags[@]}" --test preload every_function_for_files
# Beside the environment, not in it: other clones use that too.
site=$CARGO_TARGET_DIR/python-$profile
rm -rf "$site"
"$FOREBAY_PYTHON" -m pip install --quiet --disable-pip-version-check --no-deps --target "$site" "$wheels"/forebay-*.whl
begin "parallel HDF5 for its tests; built once"
"$ROOT/scripts/hdf5-parallel.sh" >/dev/null
need_browser
begin "the C interface"
FOREBAY_CAPI=$("$ROOT/scripts/capi.sh" "${capi_flags[@]}" "$CARGO_TARGET_DIR/capi-$profile")
export FOREBAY_CAPI
begin "tests of the Python package"
# Most of them wait for processes they started: one more at a time than there are processors.
FOREBAY_BIN=$forebay PYTHONPATH=$site "$FOREBAY_PYTHON" -m pytest -q --numprocesses "$(($(nproc) < 4 ? $(nproc) + 1 : 4))" \
    --dist worksteal "$ROOT/python/tests"
begin "${frameworks[*]}; make deep-compat has other frameworks"
FOREBAY_BIN=$forebay "$ROOT/scripts/test-frameworks.sh" "$site" "${frameworks[@]}"
end
