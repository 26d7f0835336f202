#!/usr/bin/env bash
# DLIO as the package index gives it and forebay's engines on the same workloads: bench-dlio.sh [ARGS of benches/dlio/run.py]
set -euo pipefail
# shellcheck source=scripts/env.sh
source "$(dirname "${BASH_SOURCE[0]}")/env.sh"
use_tree "$@"

use_setup
dlio=$("$ROOT/scripts/dlio.sh")
(cd "$ROOT" && cargo build --release -p forebay-cli)
"$FOREBAY_PYTHON" "$ROOT/benches/dlio/run.py" --forebay "$CARGO_TARGET_DIR/release/forebay" --dlio "$dlio" "$@"
