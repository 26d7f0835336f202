#!/usr/bin/env bash
# Installs a wheel and runs the command in a Debian 11, whose glibc is 2.31: check_debian11.sh WHEEL FOREBAY
# Debian 11 and the sources of Python come from the Debian mirror; the folder is made once, in about five minutes.
# Exit code 3: this machine cannot do it, and why was said.
set -euo pipefail
# shellcheck source=scripts/env.sh
source "$(dirname "${BASH_SOURCE[0]}")/env.sh"

MIRROR=${FOREBAY_DEBIAN_MIRROR:-http://deb.debian.org/debian}

skip() { say "NOT CHECKED in Debian 11: $*"; exit 3; }

# Runs a shell script in the folder of $1, with its own /proc, which is gone with the last process of it.
inside() {
    # shellcheck disable=SC2016  # expanded by the inner shell
    unshare --mount --fork sh -ec 'mount -t proc proc "$1/proc" && exec chroot "$1" /bin/sh -ec "$2"' sh "$1" "$2"
}

# Makes a Debian 11 with a Python of 3.10 or later in $1. Its own is 3.9: Debian 12's is built from source there, against
# its glibc and by its compiler.
make_root() {
    command -v debootstrap >/dev/null || install_packages debootstrap
    say "making a Debian 11 in $1"
    debootstrap --variant=minbase --include=gcc,libc6-dev,libffi-dev,make,zlib1g-dev bullseye "$1" "$MIRROR" >&2 ||
        skip "debootstrap could not make it from $MIRROR"
    printf 'deb-src %s bookworm main\n' "$MIRROR" >"$1/etc/apt/sources.list.d/python.list"
    cp /etc/resolv.conf "$1/etc/resolv.conf"
    say "building Python in it"
    # shellcheck disable=SC2016  # expanded in there
    inside "$1" '
        cd /usr/src
        apt-get -qq update
        apt-get -qq source --download-only python3.11
        tar xf python3.11_*.orig.tar.*
        cd Python-3.11*
        ./configure --quiet --prefix=/opt/python --disable-test-modules
        make -s -j"$(nproc)"
        make -s install
        rm -rf /usr/src/*' >"$1.log" 2>&1 || die "Python could not be built in Debian 11: see $1.log"
}

[[ $# -eq 2 ]] || die "usage: check_debian11.sh WHEEL FOREBAY"
wheel=$(absolute "$1") command=$(absolute "$2")
[[ $EUID -eq 0 ]] || skip "another system's folder can be entered by root alone"
unshare --mount true 2>/dev/null || skip "no mount namespace can be made here"
[[ $(uname -m) == x86_64 ]] || skip "this machine is not an x86_64"
use_setup
root=$CACHE/debian11-$(hash_of scripts/check_debian11.sh)
(
    lock debian11
    if [[ ! -d $root ]]; then
        rm -rf "$CACHE"/debian11-*
        make_root "$root.part"
        mv -T "$root.part" "$root"
    fi
)

rm -rf "$root/try"
mkdir "$root/try"
cp "$wheel" "$ROOT/scripts/try_wheel.py" "$root/try/"
cp "$command" "$root/try/forebay"
"$FOREBAY_PYTHON" "$ROOT/scripts/try_wheel.py" make "$root/try/set.h5"
"$FOREBAY_PYTHON" -m pip download --quiet --disable-pip-version-check --no-deps --only-binary :all: --python-version 3.11 \
    --platform manylinux_2_28_x86_64 --platform manylinux_2_27_x86_64 --platform manylinux2014_x86_64 \
    --dest "$root/try" 'numpy>=1.24'
say "the wheel in $(sed -n 's/^PRETTY_NAME="\(.*\)"/\1/p' "$root/etc/os-release")"
inside "$root" '
    cd /try
    /opt/python/bin/python3 -m venv venv
    venv/bin/pip --isolated install --quiet --disable-pip-version-check --no-index --find-links . forebay-*.whl
    FOREBAY_CACHE=/try/index venv/bin/python try_wheel.py load set.h5
    venv/bin/forebay --no-index inspect set.h5
    ./forebay --version
    ./forebay --no-index inspect set.h5 >by-itself
    venv/bin/forebay --no-index inspect set.h5 | cmp - by-itself'
rm -rf "$root/try"
