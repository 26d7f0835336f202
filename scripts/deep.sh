#!/usr/bin/env bash
# The long checks: all tests in release, 200 kills, a million files, large filter vectors, ten minutes of fuzzing.
set -euo pipefail
# shellcheck source=scripts/env.sh
source "$(dirname "${BASH_SOURCE[0]}")/env.sh"

FOREBAY_KILLS=200 FOREBAY_MANY=1000000 "$ROOT/scripts/test.sh" --release

use_setup
cd "$ROOT"
vectors=$CACHE/vectors-$(hash_of crates/format/tests/make_filter_vectors.py tests/requirements.txt)
if [[ ! -d $vectors ]]; then
    say "making large filter vectors in $vectors"
    temporary=$vectors.$$.part
    trap 'rm -rf "$temporary"' EXIT
    mkdir -p "$temporary"
    "$FOREBAY_PYTHON" crates/format/tests/make_filter_vectors.py "$temporary" --large
    mv -T "$temporary" "$vectors" 2>/dev/null || rm -rf "$temporary"
    trap - EXIT
fi
say "races of threads"
cargo test --release -p forebay-tier --features shuttle --test race
say "large filter vectors"
FILTER_VECTORS=$vectors cargo test --release -p forebay-format --test filter

"$ROOT/scripts/fuzz.sh" "${FUZZ_SECONDS:-600}"
