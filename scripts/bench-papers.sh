#!/usr/bin/env bash
# The evaluations of Stimulus and MONARCH, theirs beside ours: bench-papers.sh [ARGS of benches/papers/run.py]
set -euo pipefail
# shellcheck source=scripts/env.sh
source "$(dirname "${BASH_SOURCE[0]}")/env.sh"
use_tree "$@"

use_setup
need_packages tests/requirements-formats.txt
need_packages tests/requirements-python.txt
(cd "$ROOT" && cargo build --release -p forebay-cli)
temporary=$(mktemp -d)
trap 'rm -rf "$temporary"' EXIT
"$ROOT/scripts/wheel.sh" "$temporary/wheel"
"$FOREBAY_PYTHON" -m pip install --quiet --disable-pip-version-check --no-deps --target "$temporary/site" \
    "$temporary"/wheel/forebay-*.whl
"$FOREBAY_PYTHON" "$ROOT/benches/papers/run.py" --forebay "$CARGO_TARGET_DIR/release/forebay" --site "$temporary/site" "$@"
