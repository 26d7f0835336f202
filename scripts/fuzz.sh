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
# Memory that the sanitizer keeps after it was freed counts as taken: 256 MB by default, half of the least limit below.
export ASAN_OPTIONS=quarantine_size_mb=32${ASAN_OPTIONS:+:$ASAN_OPTIONS}
# What one input may take. Files that are built of sound structures get deep into the parser: what they make of
# themselves must stay small, and be done soon.
limits_of() {
    case $1 in
        hdf5_skeleton) echo "-timeout=5 -rss_limit_mb=512 -len_control=0" ;;
        *) echo "-timeout=30 -rss_limit_mb=2048" ;;
    esac
}
mapfile -t targets < <("${fuzz[@]}" list)
[[ ${#targets[@]} -gt 0 ]] || die "fuzz/ has no targets"
each=$((seconds / ${#targets[@]}))
for target in "${targets[@]}"; do
    # What is found goes to the first folder; the seeds in the clone are only read.
    corpus=$CACHE/fuzz/$target
    mkdir -p "$corpus"
    seeds=$ROOT/fuzz/corpus/$target
    [[ -d $seeds ]] || die "no seeds in $seeds"
    read -ra limits <<<"$(limits_of "$target")"
    say "fuzzing $target for $each s"
    "${fuzz[@]}" run "$target" "$corpus" "$seeds" -- \
        -max_total_time="$each" -max_len=16384 "${limits[@]}" -print_final_stats=1
done
