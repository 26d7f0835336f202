#!/usr/bin/env bash
# Builds the Python package: wheel.sh [--dev | --tests] [--no-default-features] [FOLDER]. It goes to dist/ unless a folder is named. With
# --dev it is not optimised; with --tests neither, and what the tests of the workspace are built with is in it, so that nothing is built
# twice. Without the default features of python/Cargo.toml its command has no benchmark and reads no URLs, which take a while to compile.
set -euo pipefail
# shellcheck source=scripts/env.sh
source "$(dirname "${BASH_SOURCE[0]}")/env.sh"
use_tree "$@"

profile=release cargo=cargo
declare -a features=() plugin_flags=(--release)
while [[ ${1:-} == --* ]]; do
    case $1 in
    --dev) profile=dev plugin_flags=() ;;
    --tests) profile=dev cargo=$ROOT/scripts/cargo-for-tests.sh plugin_flags=(--tests) ;;
    --no-default-features) features=("$1") ;;
    *) die "usage: wheel.sh [--dev | --tests] [--no-default-features] [FOLDER]" ;;
    esac
    shift
done
folder=$(absolute "${1:-$CLONE/dist}")

use_cache
find_python
"$ROOT/scripts/setup.sh" --system
# What builds the package stands apart from what tests it: the demo installs the latter meanwhile.
builder=$(environment_of builder tests/requirements-wheel.txt)
is_builder_ready() { "$builder/bin/maturin" --version >/dev/null 2>&1; }
if ! is_builder_ready; then
    (
        lock builder
        if is_builder_ready; then exit; fi
        say "making a Python environment in $builder"
        rm -rf "$builder"
        "$PYTHON" -m venv "$builder"
        install_requirements "$builder" tests/requirements-wheel.txt
    )
fi
"$ROOT/scripts/licences.sh"
"$ROOT/scripts/plugins.sh" "${plugin_flags[@]}" "$ROOT/python/forebay/hdf5" >/dev/null
cd "$ROOT/python"
mkdir -p "$folder"
rm -f "$folder"/forebay-*.whl
CARGO=$cargo "$builder/bin/maturin" build --quiet --profile "$profile" "${features[@]}" --locked --interpreter "$builder/bin/python" \
    --out "$folder"
