#!/usr/bin/env bash
# Has pip build the source archive in FOLDER, as a user would, and looks into the wheel: check_sdist.sh [FOLDER]
# Not optimised, so that what the tests have built is used again.
set -euo pipefail
# shellcheck source=scripts/env.sh
source "$(dirname "${BASH_SOURCE[0]}")/env.sh"

folder=$(absolute "${1:-$ROOT/dist}")
use_setup
made=$(mktemp -d)
trap 'rm -rf "$made"' EXIT
say "the source archive, built by pip"
MATURIN_PEP517_ARGS="--profile dev --locked" "$FOREBAY_PYTHON" -m pip wheel --quiet --disable-pip-version-check --no-input --no-deps \
    --wheel-dir "$made" "$folder"/forebay-*.tar.gz
"$FOREBAY_PYTHON" - "$made"/forebay-*.whl <<'END'
import sys, zipfile
names = set(zipfile.ZipFile(sys.argv[1]).namelist())
wanted = {"forebay/hdf5/vfd/libforebay_vfd.so", "forebay/hdf5/vol/libforebay_vol.so", "forebay/hdf5/preload/libforebay_preload.so",
          "forebay/_forebay.abi3.so"}
assert wanted <= names, sorted(wanted - names)
assert not any("backend" in name for name in names), names
print(f"{len(names)} files, {', '.join(sorted(wanted))}")
END
