#!/usr/bin/env bash
# Installs the MPIs that ranks are tested under, and prints a line for each: its name, its launcher, its library.
#   openmpi4   Debian's Open MPI
#   openmpi5   Open MPI from PyPI
#   mpich5     MPICH from PyPI, by its own binary interface
#   mpich5-abi the same, by the standard interface of MPI-5
# mpi.sh [NAME…]: all of them unless some are named.
set -euo pipefail
# shellcheck source=scripts/env.sh
source "$(dirname "${BASH_SOURCE[0]}")/env.sh"

use_cache
find_python
MPI=$CACHE/mpi-$( {
    hash_of tests/requirements-mpi.txt
    "$PYTHON" -c 'import sys; print(sys.version, sys.base_prefix)'
} | sha256sum | cut -c1-16)

# Makes an environment with mpi4py and the MPI called $1, unless it is there.
need_mpi_venv() {
    local venv=$MPI/$1
    if [[ -e $venv/ready ]] && "$venv/bin/python" -c '' 2>/dev/null; then return; fi
    (
        lock mpi
        if [[ -e $venv/ready ]] && "$venv/bin/python" -c '' 2>/dev/null; then exit; fi
        say "installing $1 from PyPI into $venv"
        rm -rf "$venv"
        mkdir -p "$MPI"
        "$PYTHON" -m venv "$venv"
        grep -E "^($1|mpi4py)==" "$ROOT/tests/requirements-mpi.txt" >"$venv/requirements.txt"
        "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-input --only-binary :all: \
            --retries 5 -r "$venv/requirements.txt" ||
            die "pip could not install $1 and mpi4py; is the package index reachable?"
        touch "$venv/ready"
    )
}

# Prints the first of the files that is there.
first_of() {
    local file
    for file in "$@"; do
        if [[ -e $file ]]; then
            printf '%s' "$file"
            return
        fi
    done
    die "none of these is there: $*"
}

# Prints the path of Debian's library. awk reads all of the list: a reader that leaves early would end ldconfig by a signal.
debian_library() { ldconfig -p | awk '$1 == "libmpi.so.40" && !found { found = $NF } END { print found }'; }

debian_openmpi() {
    local -a missing=()
    command -v mpirun.openmpi >/dev/null || missing+=(openmpi-bin)
    [[ -n $(debian_library) ]] || missing+=(libopenmpi3)
    if [[ ${#missing[@]} -gt 0 ]]; then install_packages "${missing[@]}"; fi
    debian_library
}

names=("$@")
[[ ${#names[@]} -gt 0 ]] || names=(openmpi4 openmpi5 mpich5 mpich5-abi)
for name in "${names[@]}"; do
    case $name in
    openmpi4)
        library=$(debian_openmpi)
        launcher=$(command -v mpirun.openmpi)
        ;;
    openmpi5)
        need_mpi_venv openmpi
        launcher=$MPI/openmpi/bin/mpirun
        library=$(first_of "$MPI"/openmpi/lib/libmpi.so.40)
        ;;
    mpich5)
        need_mpi_venv mpich
        launcher=$MPI/mpich/bin/mpiexec
        library=$(first_of "$MPI"/mpich/lib/libmpi.so.12)
        ;;
    mpich5-abi)
        need_mpi_venv mpich
        launcher=$MPI/mpich/bin/mpiexec
        library=$(first_of "$MPI"/mpich/lib/libmpi_abi.so.{1,0})
        ;;
    *) die "usage: mpi.sh [openmpi4|openmpi5|mpich5|mpich5-abi]…" ;;
    esac
    printf '%s\t%s\t%s\n' "$name" "$launcher" "$library"
done
