#!/usr/bin/env bash
# Adds inputs to the corpus archives of the fuzz targets: pack_corpus.sh [TARGET [FILE…]]
#
# fuzz/corpus/TARGET holds the seeds, named seed_*, which tests read by name; fuzz/corpus/TARGET.tar.gz holds all other
# inputs. The script adds the FILEs and all files in fuzz/corpus/TARGET but the seeds to the archive, and removes the
# latter from the directory. Without TARGET it packs all targets. The same inputs give the same archive, byte for byte.
#
# To take inputs out, unpack the archive into fuzz/corpus/TARGET, delete the archive and those inputs, and pack the rest.
set -euo pipefail
# shellcheck source=scripts/env.sh
source "$(dirname "${BASH_SOURCE[0]}")/../scripts/env.sh"

# Prints the paths of the files in fuzz/corpus/$1 that are not seeds.
loose_files() {
    if [[ -d $corpus/$1 ]]; then find "$corpus/$1" -mindepth 1 -maxdepth 1 -type f -not -name 'seed_*'; fi
}

# Writes the files of the directory $1 to the archive $2. Names are sorted as bytes; owner, mode and time are constants.
write_archive() {
    (cd "$1" && find . -type f -printf '%P\0') | LC_ALL=C sort -z |
        tar --create --format=ustar --owner=0 --group=0 --numeric-owner --mode=0644 --mtime=@0 \
            --directory "$1" --null --verbatim-files-from --files-from - | gzip -9 -n >"$2"
}

# Adds the files $2… and the loose files of target $1 to its archive.
pack() {
    local target=$1 archive=$corpus/$1.tar.gz inputs=$work/$1
    shift
    local -a files=("$@") loose=()
    mapfile -t loose < <(loose_files "$target")
    files+=("${loose[@]}")
    if [[ ${#files[@]} -eq 0 ]]; then return; fi
    mkdir "$inputs"
    if [[ -e $archive ]]; then tar --extract --gzip --file "$archive" --directory "$inputs"; fi
    cp -- "${files[@]}" "$inputs/"
    write_archive "$inputs" "$archive.part"
    # The loose files go only once the archive is known to give them back.
    mkdir "$inputs.back"
    tar --extract --gzip --file "$archive.part" --directory "$inputs.back"
    diff -r "$inputs" "$inputs.back" || die "$archive.part does not hold what was packed"
    mv "$archive.part" "$archive"
    if [[ ${#loose[@]} -gt 0 ]]; then rm -- "${loose[@]}"; fi
    say "$target: $(find "$inputs" -type f | wc -l) inputs, $(stat -c %s "$archive") bytes"
}

corpus=$ROOT/fuzz/corpus
work=$(mktemp -d)
trap 'rm -rf "$work" "$corpus"/*.part' EXIT
mapfile -t targets < <(find "$ROOT/fuzz/fuzz_targets" -name '*.rs' -printf '%f\n' | sed 's/\.rs$//' | LC_ALL=C sort)
if [[ $# -gt 0 ]]; then
    [[ " ${targets[*]} " == *" $1 "* ]] || die "unknown fuzz target '$1': expected one of ${targets[*]}"
    pack "$@"
else
    for target in "${targets[@]}"; do pack "$target"; done
fi
