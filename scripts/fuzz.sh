#!/usr/bin/env bash
# Feeds damaged bytes to the parsers: fuzz.sh [SECONDS], in all, ten minutes unless said otherwise.
# fuzz.sh --unpack unpacks the corpus archives only, and prints the directories of their inputs.
set -euo pipefail
# shellcheck source=scripts/env.sh
source "$(dirname "${BASH_SOURCE[0]}")/env.sh"

# Unpacks the archive of target $1, unless it was done before; prints the directory of its inputs. The directory is named
# by the content of the archive: a changed archive is unpacked anew.
unpack_corpus() {
    local archive=fuzz/corpus/$1.tar.gz inputs part
    inputs=$CACHE/fuzz-corpus/$1-$(hash_of "$archive")
    if [[ ! -d $inputs ]]; then
        part=$inputs.$$.part
        mkdir -p "$part"
        tar --extract --gzip --file "$ROOT/$archive" --directory "$part" || die "$archive cannot be unpacked"
        # Another run may have been faster: its directory holds the same.
        mv -T "$part" "$inputs" 2>/dev/null || rm -rf "$part"
    fi
    printf '%s\n' "$inputs"
}

if [[ ${1:-} == --unpack ]]; then
    use_cache
    for archive in "$ROOT"/fuzz/corpus/*.tar.gz; do unpack_corpus "$(basename "$archive" .tar.gz)"; done
    exit
fi
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
    # libFuzzer writes what it finds to the first directory, and only reads the others.
    corpora=("$CACHE/fuzz/$target")
    mkdir -p "${corpora[0]}"
    seeds=$ROOT/fuzz/corpus/$target
    if [[ -d $seeds ]]; then corpora+=("$seeds"); fi
    if [[ -e $seeds.tar.gz ]]; then corpora+=("$(unpack_corpus "$target")"); fi
    [[ ${#corpora[@]} -gt 1 ]] || die "the fuzz target '$target' has neither seeds nor an archive in fuzz/corpus"
    read -ra limits <<<"$(limits_of "$target")"
    say "fuzzing $target for $each s"
    "${fuzz[@]}" run "$target" "${corpora[@]}" -- \
        -max_total_time="$each" -max_len=16384 "${limits[@]}" -print_final_stats=1
done
