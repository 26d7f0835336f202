#!/usr/bin/env bash
# The long checks: deep.sh [PART…], all parts unless some are named.
#   tests    all tests, in release, and variants that make test has no time for (FOREBAY_SLOW=1)
#   compat   what make test leaves out, not optimised: frameworks on clusters and of a year before, another parallel HDF5, variants of
#            tests, a crate outside of the workspace; at most an hour
#   tiers    disk tiers: 200 kills, a million files, a disk that loses what it took, races of threads
#   filters  large filter vectors
#   crash    staging: states that a crash can leave of short programs are recovered, each call fails once; at most an hour
#   fuzz     ten minutes of fuzzing, or FUZZ_SECONDS
#   memory   four workers and two loaders within their budget, ten epochs
#   store    ranks under every MPI, up to 8 of them, killed ones too; on emulated hosts where there is root
#   hdf5     the HDF5 plug-ins: test suites of h5py, netCDF4, PyTables and HDF5 itself natively and through them, 200 kills, long
#            differential tests, ranks; at most an hour
#   run      programs of other people under forebay run, next to plain runs; h5py's tests and the package's own inside it
#   bench    the benchmark: configurations of h5bench's extension under 1, 2 and 4 ranks, a file of full size of each
#   peers    the test suites of h5py, PyTables, netCDF4, xarray, zarr and anndata as writers, at most an hour
set -euo pipefail
# shellcheck source=scripts/env.sh
source "$(dirname "${BASH_SOURCE[0]}")/env.sh"
use_tree "$@"

deep_tests() {
    FOREBAY_SLOW=1 "$ROOT/scripts/test.sh" --release
}

deep_compat() {
    "$ROOT/scripts/deep-compat.sh"
}

deep_tiers() {
    # As in test.sh: what is built for that is used again.
    export CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16
    use_setup
    cd "$ROOT"
    say "kills, a million files, a disk that loses what it took"
    local loop=()
    if [[ $(id -u) == 0 && -e /dev/loop-control ]] && command -v losetup mkfs.ext4 >/dev/null; then
        loop=(FOREBAY_LOOP=1)
    else
        say "left out: a disk that loses what it took needs root, loop devices, losetup and mkfs.ext4"
    fi
    env FOREBAY_KILLS=200 FOREBAY_MANY=1000000 "${loop[@]}" \
        cargo test --release -p forebay-tier --test crash --test many --test writeback
    say "races of threads"
    cargo test --release -p forebay-tier --features shuttle --test race
}

deep_filters() {
    use_setup
    cd "$ROOT"
    local vectors temporary
    vectors=$CACHE/vectors-$(hash_of crates/engine/filter/tests/make_vectors.py tests/requirements.txt)
    if [[ ! -d $vectors ]]; then
        say "making large filter vectors in $vectors"
        temporary=$vectors.$$.part
        # shellcheck disable=SC2064
        trap "rm -rf '$temporary'" EXIT
        mkdir -p "$temporary"
        "$FOREBAY_PYTHON" crates/engine/filter/tests/make_vectors.py "$temporary" --large
        mv -T "$temporary" "$vectors" 2>/dev/null || rm -rf "$temporary"
        trap - EXIT
    fi
    say "large filter vectors"
    FILTER_VECTORS=$vectors cargo test --release -p forebay-filter --test vectors
}

deep_crash() {
    # As in test.sh: what is built for that is used again.
    export CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16
    use_cache
    cd "$ROOT"
    say "crashes and failed calls of staging"
    cargo test --release --no-run -p forebay-stage --test crash_states
    FOREBAY_CRASH=deep timeout --kill-after=10 3600 \
        cargo test --release -p forebay-stage --test crash_states -- --nocapture --test-threads=1
}

deep_fuzz() {
    "$ROOT/scripts/fuzz.sh" "${FUZZ_SECONDS:-600}"
}

deep_memory() {
    "$ROOT/scripts/deep-memory.sh"
}

deep_store() {
    local name
    for name in openmpi4 openmpi5 mpich5 mpich5-abi; do
        "$ROOT/scripts/test-mpi.sh" "$name" 1 2 3 4 8
        "$ROOT/scripts/test-mpi.sh" "$name" 2 4 -- deadline kill kill-by-gets kill-beside probe
        "$ROOT/scripts/test-mpi.sh" "$name" 2 -- long
    done
    if [[ $EUID -eq 0 ]]; then
        "$ROOT/benches/store/mpi_namespaces.sh" 2 contract gets probe computing kill-by-gets stopped fork closing
        # Four ranks on fewer processors: one lock, get and unlock after the other takes seconds for a batch.
        MPI_RANKS_ROUNDS=40 "$ROOT/benches/store/mpi_namespaces.sh" 4 contract gets probe
        "$ROOT/benches/store/lost_node.sh"
    else
        say "left out: emulated hosts need root"
    fi
}

deep_hdf5() {
    "$ROOT/scripts/deep-hdf5.sh"
}

deep_run() {
    "$ROOT/scripts/deep-run.sh"
}

deep_bench() {
    "$ROOT/scripts/deep-bench.sh"
}

deep_peers() {
    "$ROOT/scripts/deep-peers.sh"
}

parts=("$@")
[[ ${#parts[@]} -gt 0 ]] || parts=(tests compat tiers filters crash fuzz memory store hdf5 run bench peers)
for part in "${parts[@]}"; do
    case $part in
    tests | compat | tiers | filters | crash | fuzz | memory | store | hdf5 | run | bench | peers) "deep_$part" ;;
    *) die "usage: deep.sh [tests|compat|tiers|filters|crash|fuzz|memory|store|hdf5|run|bench|peers]…" ;;
    esac
done
