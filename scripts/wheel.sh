#!/usr/bin/env bash
# Builds the Python package: wheel.sh [--dev] [FOLDER]. It goes to dist/ unless a folder is named.
set -euo pipefail
# shellcheck source=scripts/env.sh
source "$(dirname "${BASH_SOURCE[0]}")/env.sh"

profile=release
if [[ ${1:-} == --dev ]]; then
    profile=dev
    shift
fi
folder=$(absolute "${1:-$ROOT/dist}")

use_setup
need_packages tests/requirements-wheel.txt
"$ROOT/scripts/licences.sh"
cd "$ROOT/crates/python"
mkdir -p "$folder"
rm -f "$folder"/forebay-*.whl
"$VENV/bin/maturin" build --quiet --profile "$profile" --locked --interpreter "$FOREBAY_PYTHON" --out "$folder"
