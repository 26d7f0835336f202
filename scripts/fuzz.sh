#!/usr/bin/env bash
# Feeds damaged bytes to the parsers: fuzz.sh [SECONDS], in all, ten minutes unless said otherwise.
set -euo pipefail
# shellcheck source=scripts/env.sh
source "$(dirname "${BASH_SOURCE[0]}")/env.sh"

seconds=${1:-600}
use_setup
# libFuzzer is C++ that cargo compiles.
[[ -n ${CXX:-} ]] || command -v c++ >/dev/null || install_packages g++
need_cargo_tool fuzz
cd "$ROOT"
export CARGO_TARGET_DIR=$CACHE/fuzz-target
if cargo +nightly --version >/dev/null 2>&1; then
    fuzz=(cargo +nightly fuzz)
else
    # The sanitizers are switches of the compiler that only nightly offers, unless told so.
    export RUSTC_BOOTSTRAP=1
    fuzz=(cargo fuzz)
fi
mapfile -t targets < <("${fuzz[@]}" list)
[[ ${#targets[@]} -gt 0 ]] || die "fuzz/ has no targets"
each=$((seconds / ${#targets[@]}))
for target in "${targets[@]}"; do
    # What is found goes to the first folder; the seeds in the clone are only read.
    corpus=$CACHE/fuzz/$target
    mkdir -p "$corpus"
    seeds=$ROOT/fuzz/corpus/$target
    [[ -d $seeds ]] || die "no seeds in $seeds"
    say "fuzzing $target for $each s"
    "${fuzz[@]}" run "$target" "$corpus" "$seeds" -- \
        -max_total_time="$each" -max_len=16384 -timeout=30 -rss_limit_mb=2048 -print_final_stats=1
done
