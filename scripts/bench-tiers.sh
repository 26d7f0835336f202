#!/usr/bin/env bash
# Epochs over an emulated parallel file system, with and without tiers: bench-tiers.sh [ARGS of benches/tiers/run.py]
set -euo pipefail
# shellcheck source=scripts/env.sh
source "$(dirname "${BASH_SOURCE[0]}")/env.sh"
use_tree "$@"

use_setup
(cd "$ROOT" && cargo build --release -p forebay-cli)
"$FOREBAY_PYTHON" "$ROOT/benches/tiers/run.py" --forebay "$CARGO_TARGET_DIR/release/forebay" "$@"
