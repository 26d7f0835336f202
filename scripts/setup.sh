#!/usr/bin/env bash
# Sets up what the tests, the demo and the benchmark need besides Rust and Python: setup.sh [--system]. Quick when it was done
# before. With --system, only what the system's packages bring.
set -euo pipefail
# shellcheck source=scripts/env.sh
source "$(dirname "${BASH_SOURCE[0]}")/env.sh"

# True where tests could mount a file system of their own if fusermount3 were there, and it can be installed. Root needs
# none; without FUSE the tests say so and ask for a clear error instead.
lacks_fuse() {
    [[ $EUID -ne 0 && -e /dev/fuse ]] && ! command -v fusermount3 >/dev/null && sudo -n true 2>/dev/null
}

check_system() {
    local -a missing=()
    command -v cargo >/dev/null || die "cargo is needed: see https://rustup.rs"
    # Some compression libraries are C sources that cargo compiles and links in.
    if ! command -v cc >/dev/null; then missing+=(gcc libc6-dev); fi
    # The tests of the C interface compile programs in C and C++; valgrind looks at their memory, and counts the instructions that a
    # preloaded library costs a program.
    if ! command -v c++ >/dev/null; then missing+=(g++); fi
    if ! command -v valgrind >/dev/null; then missing+=(valgrind libc6-dbg); fi
    if ! command -v make >/dev/null; then missing+=(make); fi
    if ! command -v flock >/dev/null; then missing+=(util-linux); fi
    if ! "$PYTHON" -c 'import venv, ensurepip' 2>/dev/null; then
        missing+=("python$("$PYTHON" -c 'import sys; print("%d.%d" % sys.version_info[:2])')-venv")
    fi
    # The tests of Silo files write them with its own library.
    if ! [[ -e /usr/include/silo.h ]]; then missing+=(libsilo-dev); fi
    if lacks_fuse; then missing+=(fuse3); fi
    # PnetCDF writes files that ours are held against.
    if ! command -v mpicc >/dev/null; then missing+=(mpi-default-dev); fi
    if [[ ! -e /usr/include/pnetcdf.h ]]; then missing+=(libpnetcdf-dev); fi
    if [[ ${#missing[@]} -gt 0 ]]; then install_packages "${missing[@]}"; fi
}

# True when the environment is there and its interpreter still is.
is_ready() { "$VENV/bin/python" -c '' 2>/dev/null; }

# Print $1 as sed takes it literally, on either side of `s/../../`.
as_pattern() { printf '%s' "$1" | sed 's|[][/\.*^$]|\\&|g'; }
as_replacement() { printf '%s' "$1" | sed 's|[/\&]|\\&|g'; }

make_venv() {
    temporary=$VENV.$$.part
    rm -rf "$VENV" "$VENV".*.part
    trap 'rm -rf "$temporary"' EXIT
    say "making a Python environment in $VENV"
    "$PYTHON" -m venv "$temporary"
    install_requirements "$temporary" tests/requirements.txt
    # It was made under another name than it will have.
    grep -rlIFZ -- "$temporary" "$temporary/bin" "$temporary/pyvenv.cfg" |
        xargs -0 -r sed -i "s/$(as_pattern "$temporary")/$(as_replacement "$VENV")/g"
    mv -T "$temporary" "$VENV"
    trap - EXIT
}

use_cache
find_python
check_system
if [[ ${1:-} == --system ]]; then exit; fi
name_venv
if ! is_ready; then
    lock venv
    is_ready || make_venv
fi
