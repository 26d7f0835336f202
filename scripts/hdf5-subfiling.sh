#!/usr/bin/env bash
# Builds parallel HDF5 2.2.0 that is thread safe and has the subfiling driver, with MPICH from PyPI, and prints two lines: the folder
# it is installed in and the launcher of its MPI. What the benchmark's parallel modes are tested with; built once, kept in the cache
# folder. The build that is not thread safe, as common ones are: hdf5-parallel.sh.
set -euo pipefail
# shellcheck source=scripts/env.sh
source "$(dirname "${BASH_SOURCE[0]}")/env.sh"
# shellcheck source=scripts/hdf5-builds.sh
source "$ROOT/scripts/hdf5-builds.sh"

# The crate brings the sources of HDF5 2.2.0, without tools and tests.
CRATE=hdf5-metno-src
VERSION=0.10.4

use_cache
find_python
found=$("$ROOT/scripts/mpi.sh" mpich5)
IFS=$'\t' read -r _ launcher _ <<<"$found"
mpi=$(cd "$(dirname "$launcher")/.." && pwd)
make_subfiling_hdf5() {
    local work=$prefix.work
    rm -rf "$prefix" "$work"
    mkdir -p "$work"
    need_cmake
    fetch_crate "$CRATE" "$VERSION" "$work/crate"
    say "building parallel, thread-safe HDF5 with subfiling, which takes some minutes; the log is $work/build.log"
    # HDF5 calls thread safety together with MPI unsupported; the extension of h5bench was measured with both.
    configure_hdf5 "$work/crate/ext/hdf5" "$work/build" -DCMAKE_INSTALL_PREFIX="$prefix" -DBUILD_TESTING=OFF \
        -DHDF5_ENABLE_PARALLEL=ON -DHDF5_ENABLE_SUBFILING_VFD=ON -DHDF5_ENABLE_THREADSAFE=ON -DHDF5_ALLOW_UNSUPPORTED=ON \
        -DHDF5_BUILD_HL_LIB=OFF -DHDF5_ENABLE_ZLIB_SUPPORT=ON -DCMAKE_INSTALL_RPATH="$mpi/lib;$prefix/lib" \
        -DMPI_C_COMPILER="$mpi/bin/mpicc" -DMPIEXEC_EXECUTABLE="$launcher"
    build_hdf5 "$work/build" install
    local want
    for want in "Parallel HDF5: ON" "Threadsafety: ON" "Subfiling VFD: ON"; do
        tr -s ' ' <"$prefix/lib/libhdf5.settings" | grep -qi "$want" || die "the HDF5 in $prefix lacks: $want"
    done
    # What was installed is complete: the sources and objects, ten times as long, may go.
    rm -rf "$work"
}

# Built anew when what builds it has changed, or its MPI.
prefix=$CACHE/hdf5-subfiling-$( { declare -f make_subfiling_hdf5 configure_hdf5 build_hdf5; printf '%s' "$VERSION $mpi"; } | sha256sum | cut -c1-16)
if [[ ! -e $prefix/ready ]]; then
    (
        lock hdf5-subfiling
        if [[ -e $prefix/ready ]]; then exit; fi
        make_subfiling_hdf5
        touch "$prefix/ready"
    )
fi
printf '%s\n%s\n' "$prefix" "$launcher"
