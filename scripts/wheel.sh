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
cd "$ROOT/crates/python"
# Not kept in the clone's history: texts of the licences, and of all that is linked in.
mkdir -p licenses
cp "$ROOT"/LICENSE* licenses/
"$FOREBAY_PYTHON" "$ROOT/scripts/third_party.py" licenses/THIRD-PARTY.txt
mkdir -p "$folder"
rm -f "$folder"/forebay-*.whl
"$VENV/bin/maturin" build --quiet --profile "$profile" --locked --interpreter "$FOREBAY_PYTHON" --out "$folder"
