#!/usr/bin/env bash
# Installs the C interface: capi.sh [--dev | --library FILE] [PREFIX]. libforebay.so, forebay.h and forebay.pc go to PREFIX/lib,
# PREFIX/include and PREFIX/lib/pkgconfig (default: the cargo target folder, capi); prints PREFIX. With --library, that file is
# taken as it is, and PREFIX may be moved later.
set -euo pipefail
cd "$(dirname "$0")/.."

build=(build --release -p forebay-capi)
library=release/libforebay_capi.so
prefix=
given=
while (($#)); do
  case $1 in
    # As the tests of the workspace are built: alone it would be built once more, with fewer features of what crates share.
    --dev) build=(test --no-run --workspace); library=debug/deps/libforebay_capi.so ;;
    --library) given=$(realpath "$2"); shift ;;
    -*) echo "capi.sh: unknown option $1" >&2; exit 2 ;;
    *) prefix=$1 ;;
  esac
  shift
done
target=${CARGO_TARGET_DIR:-$(cargo metadata --format-version 1 --no-deps | sed -n 's/.*"target_directory":"\([^"]*\)".*/\1/p')}
prefix=$(realpath -m "${prefix:-$target/capi}")

if [[ -z $given ]]; then
  # Optimised across crates, functions for C that other crates have would be the library's own, and be shown.
  export CARGO_PROFILE_RELEASE_LTO=off
  cargo "${build[@]}" --quiet >&2
  written=$prefix
else
  # pkg-config's name for the folder that forebay.pc lies in.
  # shellcheck disable=SC2016
  written='${pcfiledir}/../..'
fi
mkdir -p "$prefix/lib/pkgconfig" "$prefix/include"
# By rename: a program that has the old file mapped keeps it.
install -m 755 "${given:-$target/$library}" "$prefix/lib/.libforebay.so.1.$$"
mv "$prefix/lib/.libforebay.so.1.$$" "$prefix/lib/libforebay.so.1"
ln -sfn libforebay.so.1 "$prefix/lib/libforebay.so"
install -m 644 crates/fronts/capi/include/forebay.h "$prefix/include/forebay.h"
version=$(sed -n '/^\[workspace.package\]/,/^\[/s/^version = "\(.*\)"/\1/p' Cargo.toml)
sed -e "s|@PREFIX@|$written|" -e "s|@VERSION@|$version|" crates/fronts/capi/forebay.pc.in >"$prefix/lib/pkgconfig/forebay.pc"
echo "$prefix"
