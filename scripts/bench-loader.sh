#!/usr/bin/env bash
# Speed of loading batches, next to the limits of the machine and to other loaders: bench-loader.sh [ARGS of run.py]
set -euo pipefail
# shellcheck source=scripts/env.sh
source "$(dirname "${BASH_SOURCE[0]}")/env.sh"
use_tree "$@"

# Makes the environment of the contestants, which is large: torch alone takes 5 GiB.
make_loader_venv() {
    say "making a Python environment in $LOADER_VENV: torch and its like, some minutes"
    rm -rf "$LOADER_VENV"
    "$PYTHON" -m venv "$LOADER_VENV"
    install_requirements "$LOADER_VENV" benches/loader/requirements.txt
    touch "$LOADER_VENV/ready"
}

# True when the environment is whole and its interpreter is still there.
is_ready() { [[ -e $LOADER_VENV/ready ]] && "$LOADER_VENV/bin/python" -c '' 2>/dev/null; }

# Puts forebay's Python package as it is in this clone into the folder $1.
install_forebay() {
    if [[ ! -e $ROOT/python/Cargo.toml ]]; then
        say "python is not there: forebay itself is left out, and only limits and peers are measured"
        return
    fi
    say "building the Python package"
    "$LOADER_VENV/bin/maturin" build --quiet --release --compatibility linux \
        --manifest-path "$ROOT/python/Cargo.toml" --interpreter "$LOADER_VENV/bin/python" --out "$1/wheel"
    "$LOADER_VENV/bin/python" -m pip install --quiet --disable-pip-version-check --no-input --no-deps \
        --target "$1/site" "$1"/wheel/*.whl
    export PYTHONPATH=$1/site
}

use_setup
version=$("$PYTHON" -c 'import sys; print(sys.version, sys.base_prefix)')
LOADER_VENV=${FOREBAY_LOADER_VENV:-$CACHE/venv-loader-$( {
    hash_of benches/loader/requirements.txt
    printf '%s' "$version"
} | sha256sum | cut -c1-16)}
if [[ -z ${FOREBAY_LOADER_VENV:-} ]] && ! is_ready; then
    lock venv
    is_ready || make_loader_venv
    # The benchmark itself holds nobody up.
    exec 9>&-
fi
folder=$(absolute "${FOREBAY_BENCH_DIR:-$CACHE/bench}")
FOREBAY_BENCH_COMMAND="make bench-loader${*:+ ARGS=\"$*\"}"
export FOREBAY_BENCH_COMMAND

(cd "$ROOT" && cargo build --release -p forebay --example limits)
temporary=$(mktemp -d)
trap 'rm -rf "$temporary"' EXIT
install_forebay "$temporary"
# Indexes that an older build saved must not answer for this one.
export FOREBAY_CACHE=$temporary/index
"$LOADER_VENV/bin/python" "$ROOT/benches/loader/run.py" --folder "$folder" \
    --limits "$CARGO_TARGET_DIR/release/examples/limits" "$@"
