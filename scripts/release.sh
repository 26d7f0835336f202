#!/usr/bin/env bash
# Makes and checks all that would be published, in dist/, and uploads nothing: release.sh
# What this machine cannot do is said as NOT CHECKED or NOT BUILT, at its step and again at the end.
set -euo pipefail
# shellcheck source=scripts/env.sh
source "$(dirname "${BASH_SOURCE[0]}")/env.sh"

# The oldest glibc that wheels and commands run on: that of RHEL 8, Debian 10 and Ubuntu 18.10.
GLIBC=2.28
TARGETS=(x86_64-unknown-linux-gnu aarch64-unknown-linux-gnu)

declare -a left_out=()
leave_out() {
    say "NOT $*"
    left_out+=("$*")
}

# Prints the machine of target $1, as wheels name it.
machine_of() { printf '%s' "${1%%-*}"; }

# True where the target $1 can be built for.
has_target() {
    [[ -d $(rustc --print sysroot)/lib/rustlib/$1 ]] && return
    command -v rustup >/dev/null && rustup target add "$1" >&2
}

# Each crate as crates.io would get it, in the order in which they need each other; cargo builds each from its archive.
try_crates() {
    say "crates, as crates.io would get them"
    (cd "$ROOT" && cargo publish --workspace --dry-run --locked --allow-dirty)
}

# The Python package's sources, with the texts of all licences.
pack_sources() {
    say "the source archive"
    "$ROOT/scripts/licences.sh"
    (cd "$ROOT/python" && "$VENV/bin/maturin" sdist --out "$dist")
    rm -rf "$unpacked"
    mkdir -p "$unpacked"
    tar xf "$dist/forebay-$version.tar.gz" -C "$unpacked" --strip-components 1
}

# The HDF5 plug-ins for target $1, in the folders of the Python package they are packed from.
build_plugins() {
    local package=$unpacked/python/forebay/hdf5 plugin
    (cd "$unpacked" && "$VENV/bin/cargo-zigbuild" zigbuild --quiet --release --locked --offline --target "$1.$GLIBC" \
        -p forebay-vfd -p forebay-vol -p forebay-preload)
    for plugin in vfd vol preload; do
        install -D -m 755 "$CARGO_TARGET_DIR/$1/release/libforebay_$plugin.so" "$package/$plugin/libforebay_$plugin.so"
    done
}

# Runs maturin in the folder $2 of the unpacked sources, for target $1 and without a network; what it makes goes to folder $3.
build_wheel() {
    (cd "$unpacked/$2" && "$VENV/bin/maturin" build --quiet --release --locked --offline --zig --target "$1" \
        --compatibility "manylinux_${GLIBC/./_}" --interpreter "$FOREBAY_PYTHON" --out "$3")
}

# The C interface for target $1, in the folder $2. It is no part of the Python package, nor of its source archive.
build_capi() {
    # Optimised across crates, functions for C that other crates have would be the library's own, and be shown.
    (cd "$ROOT" && CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_STRIP=symbols "$VENV/bin/cargo-zigbuild" zigbuild --quiet \
        --release --locked --target "$1.$GLIBC" -p forebay-capi)
    "$ROOT/scripts/capi.sh" --library "$CARGO_TARGET_DIR/$1/release/libforebay_capi.so" "$2" >/dev/null
}

# Wheel and command for target $1, from the source archive alone, and the C interface.
build() {
    local machine folder
    machine=$(machine_of "$1")
    folder=$work/forebay-$version-$machine-linux
    say "the HDF5 plug-ins for $machine, from the source archive"
    build_plugins "$1"
    say "the wheel for $machine"
    build_wheel "$1" . "$dist"
    say "the command for $machine"
    # By maturin too, which packs it as a wheel: linked by another tool, all of it would be compiled again.
    rm -rf "$work/command"
    build_wheel "$1" crates/fronts/cli "$work/command"
    mkdir -p "$folder"
    (cd "$folder" && "$FOREBAY_PYTHON" -m zipfile -e "$work"/command/*.whl .)
    mv "$folder"/*.data/scripts/forebay "$folder/forebay"
    rm -r "$folder"/*.data "$folder"/*.dist-info
    chmod 755 "$folder/forebay"
    # Where the command looks for them.
    cp -r "$unpacked/python/forebay/hdf5" "$folder/hdf5"
    find "$folder/hdf5" -type f -not -name '*.so' -delete
    say "the C interface for $machine"
    build_capi "$1" "$folder/capi"
    cp "$ROOT"/LICENSE* "$folder/"
    "$FOREBAY_PYTHON" "$ROOT/scripts/third_party.py" forebay-cli "$folder/THIRD-PARTY.txt"
    tar czf "$dist/$(basename "$folder").tar.gz" --owner 0 --group 0 --numeric-owner --sort name -C "$work" "$(basename "$folder")"
}

# What can be read off the files for target $1.
check_files() {
    local machine elf wheel
    machine=$(machine_of "$1")
    wheel=$(echo "$dist"/forebay-*"$machine".whl)
    case $machine in x86_64) elf=X86-64 ;; aarch64) elf=AArch64 ;; *) elf=$machine ;; esac
    say "no glibc above $GLIBC in what is shipped for $machine"
    "$FOREBAY_PYTHON" "$ROOT/scripts/check_glibc.py" --most "$GLIBC" --machine "$elf" "$wheel" "$dist/forebay-$version-$machine-linux.tar.gz"
    "$VENV/bin/auditwheel" show "$wheel" | tee "$work/audit"
    # auditwheel breaks its lines where it likes.
    tr '\n' ' ' <"$work/audit" | grep -q "is consistent with the following platform tag: *\"manylinux_${GLIBC/./_}_$machine\"" ||
        die "auditwheel does not call $wheel a manylinux_${GLIBC/./_}_$machine"
}

check_here() {
    say "the wheel on this machine"
    "$ROOT/scripts/check_wheel.sh" "$dist"
    "$ROOT/scripts/check_sdist.sh" "$dist"
    "$ROOT/scripts/check_capi.sh" "$work/forebay-$version-x86_64-linux/capi"
    "$ROOT/scripts/check_debian11.sh" "$dist"/forebay-*x86_64.whl "$work/forebay-$version-x86_64-linux/forebay" || case $? in
        3) leave_out "CHECKED: import and loading in Debian 11" ;;
        *) exit 1 ;;
    esac
    "$ROOT/scripts/check_aarch64.sh" "$dist"/forebay-*aarch64.whl "$work/forebay-$version-aarch64-linux/forebay" || case $? in
        3) leave_out "CHECKED: the aarch64 build, run" ;;
        *) exit 1 ;;
    esac
}

use_setup
need_packages tests/requirements-wheel.txt
need_packages tests/requirements-release.txt
# Maturin looks for zig in the Python that comes first.
export PATH=$VENV/bin:$PATH ZIG_GLOBAL_CACHE_DIR=$CACHE/zig CARGO_ZIGBUILD_CACHE_DIR=${CARGO_ZIGBUILD_CACHE_DIR:-$CACHE/zigbuild}
version=$(cd "$ROOT" && cargo metadata --format-version 1 --no-deps --locked | "$FOREBAY_PYTHON" -c '
import json, sys
print(next(package["version"] for package in json.load(sys.stdin)["packages"] if package["name"] == "forebay"))')
dist=$ROOT/dist work=$CACHE/release
unpacked=$work/source
rm -rf "$dist" "$work"
mkdir -p "$dist" "$work"

try_crates
pack_sources
for target in "${TARGETS[@]}"; do
    if ! has_target "$target"; then
        leave_out "BUILT: $target, because Rust's standard library for it cannot be had here"
        continue
    fi
    build "$target"
    check_files "$target"
done
say "metadata of the Python package"
"$VENV/bin/twine" check --strict "$dist"/*.whl "$dist/forebay-$version.tar.gz"
check_here
(cd "$dist" && sha256sum -- * >"$work/SHA256SUMS")
mv "$work/SHA256SUMS" "$dist/"
say "ready in dist/; nothing was uploaded"
ls -sh --block-size=K "$dist"
for line in "${left_out[@]}"; do say "NOT $line"; done
