#!/usr/bin/env bash
# Compiles and runs the C example with the C interface in the folder PREFIX, as `capi.sh` and releases lay it out: check_capi.sh PREFIX
set -euo pipefail
# shellcheck source=scripts/env.sh
source "$(dirname "${BASH_SOURCE[0]}")/env.sh"

[[ $# -eq 1 && -e $1/include/forebay.h ]] || die "usage: check_capi.sh PREFIX"
prefix=$(absolute "$1")
use_setup
made=$(mktemp -d)
trap 'rm -rf "$made"' EXIT
say "the C interface in $prefix"
shown=$(nm -D --defined-only "$prefix/lib/libforebay.so" | awk '{ print $NF }')
others=$(grep -v '^forebay_' <<<"$shown" || true)
[[ -z $others ]] || die "libforebay.so shows $others"
"$FOREBAY_PYTHON" - "$made/set.h5" <<'END'
import sys, h5py, numpy as np
x = np.random.default_rng(1).standard_normal((50, 6)).astype("f4")
with h5py.File(sys.argv[1], "w") as file:
    file.create_dataset("x", data=x, chunks=(8, 6), compression="gzip")
    file["y"] = x @ np.arange(6, dtype="f4")
END
declare -a flags
if command -v pkg-config >/dev/null; then
    read -ra flags <<<"$(PKG_CONFIG_PATH=$prefix/lib/pkgconfig pkg-config --cflags --libs forebay)"
else
    flags=("-I$prefix/include" "-L$prefix/lib" -lforebay)
fi
cc -std=c11 -O1 -Wall -Wextra -Werror -pedantic "$ROOT/examples/c/train.c" -o "$made/train" "${flags[@]}" "-Wl,-rpath,$prefix/lib"
FOREBAY_CACHE=$made/index "$made/train" "$made/set.h5" 20 | tail -n 1
