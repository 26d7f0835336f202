#!/usr/bin/env bash
# Installs the wheel in FOLDER where there is nothing but NumPy, and loads a batch: check_wheel.sh [FOLDER]
set -euo pipefail
# shellcheck source=scripts/env.sh
source "$(dirname "${BASH_SOURCE[0]}")/env.sh"

folder=$(absolute "${1:-$ROOT/dist}")
use_setup
bare=$(mktemp -d)
trap 'rm -rf "$bare"' EXIT
say "the wheel in an environment of its own"
"$PYTHON" -m venv "$bare/venv"
"$bare/venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-input --only-binary :all: \
    "$folder"/forebay-*"$(uname -m)".whl
"$FOREBAY_PYTHON" "$ROOT/scripts/try_wheel.py" make "$bare/set.h5"
cd "$bare"
FOREBAY_CACHE=$bare/index "$bare/venv/bin/python" "$ROOT/scripts/try_wheel.py" load set.h5
# The command comes with the package, and needs no more than it.
"$bare/venv/bin/forebay" --no-index inspect --json set.h5 | "$bare/venv/bin/python" -c '
import json, sys
assert json.load(sys.stdin)["variables"][0]["shape"] == [100, 12]'
