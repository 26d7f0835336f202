#!/usr/bin/env bash
# cargo as maturin gets it where the package is built for the tests. Instead of forebay-python alone it builds the workspace, as the
# tests do: alone, most crates would be built once more, with fewer features of what they share. maturin finds the library in
# cargo's messages.
set -euo pipefail
unset CARGO
if [[ ${1:-} != rustc ]]; then exec cargo "$@"; fi
cd "$(dirname "$0")/.."
exec cargo build --quiet --locked --workspace --lib --bins --examples --features forebay-python/extension-module \
    --config 'profile.dev.package.forebay-python.strip="symbols"' --message-format json-render-diagnostics
