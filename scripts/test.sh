#!/usr/bin/env bash
# All tests: test.sh [--release]
set -euo pipefail
# shellcheck source=scripts/env.sh
source "$(dirname "${BASH_SOURCE[0]}")/env.sh"

profile=debug
declare -a flags=()
case ${1:-} in
"") ;;
--release) profile=release flags=(--release) ;;
*) die "usage: test.sh [--release]" ;;
esac

use_setup
files=$("$ROOT/scripts/matrix.sh")
export FOREBAY_MATRIX=$files/matrix FOREBAY_HOSTILE=$files/hostile
# Where the search for a libhdf5 finds that of h5py.
export VIRTUAL_ENV=$VENV
use_fresh_index
cd "$ROOT"

say "tests"
if cargo nextest --version >/dev/null 2>&1; then
    cargo nextest run --workspace "${flags[@]}"
else
    cargo test --workspace --lib --bins --tests "${flags[@]}"
fi
cargo test --doc --workspace "${flags[@]}"

# The native reader alone: libhdf5 must not be what gives the right answers.
export FOREBAY_LIBHDF5=off
cargo build -p forebay-cli "${flags[@]}"
forebay=$CARGO_TARGET_DIR/$profile/forebay
check=("$FOREBAY_PYTHON" "$ROOT/tests/matrix/check_matrix.py" "$forebay")
say "values against h5py"
"${check[@]}" "$FOREBAY_MATRIX"
say "the same by saved indexes"
"${check[@]}" "$FOREBAY_MATRIX"
say "damaged files"
"${check[@]}" "$FOREBAY_HOSTILE" --hostile
