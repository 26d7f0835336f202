#!/usr/bin/env bash
# Puts the texts of the licences of forebay, and of all that is linked in, beside the Python package. They are not kept in
# the clone's history.
set -euo pipefail
# shellcheck source=scripts/env.sh
source "$(dirname "${BASH_SOURCE[0]}")/env.sh"

find_python
mkdir -p "$ROOT/python/licenses"
cp "$ROOT"/LICENSE* "$ROOT/python/licenses/"
"$PYTHON" "$ROOT/scripts/third_party.py" forebay-python "$ROOT/python/licenses/THIRD-PARTY.txt"
