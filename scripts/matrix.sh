#!/usr/bin/env bash
# Makes the files the tests read, unless they are there, and prints the folder: matrix/ and hostile/ in it.
set -euo pipefail
# shellcheck source=scripts/env.sh
source "$(dirname "${BASH_SOURCE[0]}")/env.sh"

use_setup
folder=$CACHE/matrix-$(hash_of tests/matrix tests/requirements.txt)
if [[ ! -d $folder ]]; then
    lock matrix
fi
if [[ ! -d $folder ]]; then
    temporary=$folder.$$.part
    rm -rf "$folder".*.part
    trap 'rm -rf "$temporary"' EXIT
    say "making test files in $folder"
    "$FOREBAY_PYTHON" "$ROOT/tests/matrix/make_matrix.py" "$temporary/matrix" >&2
    "$FOREBAY_PYTHON" "$ROOT/tests/matrix/make_hostile.py" "$temporary/hostile" >&2
    mv -T "$temporary" "$folder"
    trap - EXIT
fi
printf '%s\n' "$folder"
