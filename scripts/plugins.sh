#!/usr/bin/env bash
# Builds the HDF5 plug-ins and the library that `forebay run` preloads, and puts them into folders of their own, FOLDER/vfd, FOLDER/vol
# and FOLDER/preload; prints FOLDER.
# HDF5 tries every library of a folder on HDF5_PLUGIN_PATH, so each plug-in that is not wanted must be able to stay off it.
#
#   scripts/plugins.sh [--release | --tests] [FOLDER]     (default: the cargo target folder, hdf5-plugins)
set -euo pipefail
cd "$(dirname "$0")/.."

libraries=debug
build=(build -p forebay-vfd -p forebay-vol -p forebay-preload)
while (($#)); do
  case $1 in
    --release) libraries=release; build+=(--release) ;;
    # As the tests of the workspace are built: alone they would be built once more, with fewer features of what crates share.
    --tests) libraries=debug/deps; build=(test --no-run --workspace) ;;
    -*) echo "plugins.sh: unknown option $1" >&2; exit 2 ;;
    *) folder=$1 ;;
  esac
  shift
done
target=${CARGO_TARGET_DIR:-$(cargo metadata --format-version 1 --no-deps | sed -n 's/.*"target_directory":"\([^"]*\)".*/\1/p')}
folder=${folder:-$target/hdf5-plugins}

cargo "${build[@]}" --quiet >&2
for plugin in vfd vol preload; do
  mkdir -p "$folder/$plugin"
  # By rename: a program that has the old file mapped keeps it.
  cp "$target/$libraries/libforebay_$plugin.so" "$folder/$plugin/.libforebay_$plugin.so.$$"
  mv "$folder/$plugin/.libforebay_$plugin.so.$$" "$folder/$plugin/libforebay_$plugin.so"
done
echo "$folder"
