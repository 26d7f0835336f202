#!/usr/bin/env bash
# Staged writes and cached reads of HDF5 programs, on an emulated parallel file system: bench-stage.sh [ARGS of benches/stage/run.py]
# Its part E takes a parallel HDF5, which is built once.
set -euo pipefail
# shellcheck source=scripts/env.sh
source "$(dirname "${BASH_SOURCE[0]}")/env.sh"
use_tree "$@"

use_setup
(cd "$ROOT" && cargo build --release -p forebay-cli)
plugins=$("$ROOT/scripts/plugins.sh" --release)
parallel=$(FOREBAY_HDF5_KIND=plain "$ROOT/scripts/hdf5-parallel.sh")
mapfile -t parallel <<<"$parallel"
"$FOREBAY_PYTHON" "$ROOT/benches/stage/run.py" --forebay "$CARGO_TARGET_DIR/release/forebay" --plugins "$plugins" \
    --parallel "${parallel[@]}" "$@"
