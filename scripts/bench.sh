#!/usr/bin/env bash
# Speed of reading HDF5, next to h5py on the same machine.
set -euo pipefail
# shellcheck source=scripts/env.sh
source "$(dirname "${BASH_SOURCE[0]}")/env.sh"
use_tree "$@"

use_setup
FOREBAY_BENCH_DIR=$(absolute "${FOREBAY_BENCH_DIR:-$CACHE/bench}")
export FOREBAY_BENCH_DIR
cd "$ROOT"
cargo build --release -p forebay-cli
export FOREBAY_BIN=$CARGO_TARGET_DIR/release/forebay
exec cargo bench -p forebay --bench hdf5 "$@"
