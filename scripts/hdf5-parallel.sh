#!/usr/bin/env bash
# Builds parallel HDF5 2.2.0 with an MPI from PyPI, and prints three lines: the folder it is installed in, the launcher of its MPI,
# and a program that writes and reads by it (tests/hdf5/parallel_rounds.c). Done once; kept in the cache folder. It is thread safe and
# has the subfiling driver, unless FOREBAY_HDF5_KIND=plain asks for one that has neither, as common builds: make deep-compat does.
#   hdf5-parallel.sh [mpich5|openmpi5]     MPICH unless another one is named
set -euo pipefail
# shellcheck source=scripts/env.sh
source "$(dirname "${BASH_SOURCE[0]}")/env.sh"
# shellcheck source=scripts/hdf5-builds.sh
source "$ROOT/scripts/hdf5-builds.sh"

# The crate brings the sources of HDF5 2.2.0, without tools and tests.
CRATE=hdf5-metno-src
VERSION=0.10.4

name=${1:-mpich5}
case $name in
mpich5) ;;
openmpi5)
    # It runs no ranks as root, and no more of them than processors, unless it is told to.
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe
    ;;
*) die "usage: hdf5-parallel.sh [mpich5|openmpi5]" ;;
esac
kind=${FOREBAY_HDF5_KIND:-full}
case $kind in
full)
    # HDF5 calls thread safety together with MPI unsupported; the extension of h5bench was measured with both.
    options=(-DHDF5_ENABLE_SUBFILING_VFD=ON -DHDF5_ENABLE_THREADSAFE=ON -DHDF5_ALLOW_UNSUPPORTED=ON)
    has=("Parallel HDF5: ON" "Threadsafety: ON" "Subfiling VFD: ON")
    ;;
plain) options=() has=("Parallel HDF5: ON" "Threadsafety: OFF") ;;
*) die "FOREBAY_HDF5_KIND is '$kind': there are full and plain" ;;
esac
use_cache
find_python
found=$("$ROOT/scripts/mpi.sh" "$name")
IFS=$'\t' read -r _ launcher _ <<<"$found"
mpi=$(cd "$(dirname "$launcher")/.." && pwd)
make_hdf5() {
    local work=$prefix.work
    rm -rf "$prefix" "$work"
    mkdir -p "$work"
    need_cmake
    fetch_crate "$CRATE" "$VERSION" "$work/crate"
    say "building parallel HDF5 ($kind), which takes some minutes; the log is $work/build.log"
    configure_hdf5 "$work/crate/ext/hdf5" "$work/build" -DCMAKE_INSTALL_PREFIX="$prefix" -DBUILD_TESTING=OFF \
        -DHDF5_ENABLE_PARALLEL=ON -DHDF5_BUILD_HL_LIB=OFF -DHDF5_ENABLE_ZLIB_SUPPORT=ON -DCMAKE_INSTALL_RPATH="$mpi/lib;$prefix/lib" \
        -DMPI_C_COMPILER="$mpi/bin/mpicc" -DMPIEXEC_EXECUTABLE="$launcher" "${options[@]}"
    build_hdf5 "$work/build" install
    local want
    for want in "${has[@]}"; do
        tr -s ' ' <"$prefix/lib/libhdf5.settings" | grep -qi "$want" || die "the HDF5 in $prefix lacks: $want"
    done
    # What was installed is complete: the sources and objects, ten times as long, may go.
    rm -rf "$work"
}

# Built anew when what builds it has changed, or its MPI.
prefix=$CACHE/hdf5-parallel-$( { declare -f make_hdf5 configure_hdf5 build_hdf5; printf '%s' "$VERSION $mpi $kind ${options[*]}"; } | sha256sum | cut -c1-16)

# Compiles the test program and asks it whether the library is what it has to be.
make_program() {
    local temporary=$program.$$.part
    "$mpi/bin/mpicc" -O2 -Wall -Wextra -Werror -o "$temporary" "$ROOT/tests/hdf5/parallel_rounds.c" \
        -I"$prefix/include" -L"$prefix/lib" -Wl,-rpath,"$prefix/lib" -lhdf5
    "$launcher" -n 2 "$temporary" --check >&2 || die "the parallel HDF5 in $prefix does not work"
    mv -f "$temporary" "$program"
}

if [[ ! -e $prefix/ready ]]; then
    (
        lock "hdf5-parallel-$name-$kind"
        if [[ -e $prefix/ready ]]; then exit; fi
        make_hdf5
        touch "$prefix/ready"
    )
fi
program=$prefix/parallel_rounds-$(hash_of tests/hdf5/parallel_rounds.c)
if [[ ! -e $program ]]; then make_program; fi
printf '%s\n%s\n%s\n' "$prefix" "$launcher" "$program"
