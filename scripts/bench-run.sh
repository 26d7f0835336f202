#!/usr/bin/env bash
# An unchanged training script under `forebay run`, on an emulated parallel file system, and what calls cost under its library: bench-run.sh [ARGS of benches/run/bench.py]
set -euo pipefail
# shellcheck source=scripts/env.sh
source "$(dirname "${BASH_SOURCE[0]}")/env.sh"
use_tree "$@"

use_setup
need_packages tests/requirements-python.txt
(cd "$ROOT" && cargo build --release -p forebay-cli)
plugins=$("$ROOT/scripts/plugins.sh" --release)
FOREBAY_PLUGINS=$plugins "$FOREBAY_PYTHON" "$ROOT/benches/run/bench.py" --forebay "$CARGO_TARGET_DIR/release/forebay" "$@"
