#!/usr/bin/env bash
# Random samples from each format, next to the limit of the machine: bench-formats.sh [ARGS of benches/formats/run.py]
set -euo pipefail
# shellcheck source=scripts/env.sh
source "$(dirname "${BASH_SOURCE[0]}")/env.sh"
use_tree "$@"

use_setup
need_packages tests/requirements-formats.txt
(cd "$ROOT" && cargo build --release -p forebay --example limits)
temporary=$(mktemp -d)
trap 'rm -rf "$temporary"' EXIT
"$ROOT/scripts/wheel.sh" "$temporary/wheel"
"$FOREBAY_PYTHON" -m pip install --quiet --disable-pip-version-check --no-deps --target "$temporary/site" \
    "$temporary"/wheel/forebay-*.whl
# Indexes that an older build saved must not answer for this one.
export PYTHONPATH=$temporary/site FOREBAY_CACHE=$temporary/index
FOREBAY_BENCH_COMMAND="make bench-formats${*:+ ARGS=\"$*\"}"
export FOREBAY_BENCH_COMMAND
"$FOREBAY_PYTHON" "$ROOT/benches/formats/run.py" --folder "$(absolute "${FOREBAY_BENCH_DIR:-$CACHE/bench}")" \
    --limits "$CARGO_TARGET_DIR/release/examples/limits" "$@"
