#!/usr/bin/env bash
# Runs what was built for aarch64 by qemu's emulation of its processor: check_aarch64.sh WHEEL FOREBAY
# Debian 12 for arm64, for its glibc and its Python 3.11, comes from the Debian mirror; the folder is made once.
# Exit code 3: this machine cannot do it, and why was said.
set -euo pipefail
# shellcheck source=scripts/env.sh
source "$(dirname "${BASH_SOURCE[0]}")/env.sh"

MIRROR=${FOREBAY_DEBIAN_MIRROR:-http://deb.debian.org/debian}

skip() { say "NOT CHECKED on aarch64: $*"; exit 3; }

# Unpacks a Debian 12 for arm64 into $1. It is not set up: programs are only run out of it, none is entered.
make_root() {
    local -a missing=()
    command -v debootstrap >/dev/null || missing+=(debootstrap)
    command -v qemu-aarch64-static >/dev/null || missing+=(qemu-user-static)
    if [[ ${#missing[@]} -gt 0 ]]; then install_packages "${missing[@]}"; fi
    say "unpacking a Debian 12 for arm64 in $1"
    debootstrap --foreign --arch=arm64 --variant=minbase --include=python3 bookworm "$1" "$MIRROR" >&2 ||
        skip "debootstrap could not fetch it from $MIRROR"
    find "$1/var/cache/apt/archives" -name '*.deb' -exec dpkg-deb -x {} "$1" \;
    rm -rf "$1/var/cache/apt/archives"
}

[[ $# -eq 2 ]] || die "usage: check_aarch64.sh WHEEL FOREBAY"
wheel=$(absolute "$1") command=$(absolute "$2")
[[ $EUID -eq 0 ]] || skip "debootstrap is run by root alone"
use_setup
root=$CACHE/arm64-$(hash_of scripts/check_aarch64.sh)
(
    lock arm64
    if [[ ! -d $root ]]; then
        rm -rf "$CACHE"/arm64-*
        make_root "$root.part"
        mv -T "$root.part" "$root"
    fi
)

try=$(mktemp -d)
trap 'rm -rf "$try"' EXIT
"$FOREBAY_PYTHON" "$ROOT/scripts/try_wheel.py" make "$try/set.h5"
emulate=(qemu-aarch64-static -L "$root")
say "the command on an emulated aarch64"
"${emulate[@]}" "$command" --version
"${emulate[@]}" "$command" --no-index inspect "$try/set.h5"
say "the wheel on an emulated aarch64"
"$FOREBAY_PYTHON" -m pip install --quiet --disable-pip-version-check --only-binary :all: --python-version 3.11 --target "$try/site" \
    --platform manylinux_2_28_aarch64 --platform manylinux_2_27_aarch64 --platform manylinux2014_aarch64 "$wheel"
FOREBAY_CACHE=$try/index PYTHONPATH=$try/site "${emulate[@]}" "$root/usr/bin/python3.11" "$ROOT/scripts/try_wheel.py" load "$try/set.h5"
