#!/usr/bin/env bash
# Installs the wheel in FOLDER where there is nothing but NumPy, and loads a batch: check_wheel.sh [FOLDER [PYTHON]]
# PYTHON is the interpreter that gets the wheel, of any version that the package supports; what makes the files needs 3.11.
set -euo pipefail
# shellcheck source=scripts/env.sh
source "$(dirname "${BASH_SOURCE[0]}")/env.sh"

folder=$(absolute "${1:-$ROOT/dist}")
use_setup
bare=$(mktemp -d)
trap 'rm -rf "$bare"' EXIT
say "the wheel in an environment of its own"
"${2:-$PYTHON}" -m venv "$bare/venv"
"$bare/venv/bin/python" --version
"$bare/venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-input --only-binary :all: \
    "$folder"/forebay-*"$(uname -m)".whl
"$FOREBAY_PYTHON" "$ROOT/scripts/try_wheel.py" make "$bare/set.h5"
cd "$bare"
FOREBAY_CACHE=$bare/index "$bare/venv/bin/python" "$ROOT/scripts/try_wheel.py" load set.h5
# The command comes with the package, and needs no more than it.
"$bare/venv/bin/forebay" --no-index inspect --json set.h5 | "$bare/venv/bin/python" -c '
import json, sys
assert json.load(sys.stdin)["variables"][0]["shape"] == [100, 12]'
# So do the HDF5 plug-ins, in folders of their own; there is no libhdf5 to try them with.
env -u HDF5_PLUGIN_PATH -u HDF5_DRIVER "$bare/venv/bin/forebay" hdf5-env --hdf5=both --hdf5-paths /data --untried --json |
    "$bare/venv/bin/python" -c '
import json, pathlib, sys
said = json.load(sys.stdin)
folder = pathlib.Path(said["plugins"])
assert (folder / "vfd/libforebay_vfd.so").is_file() and (folder / "vol/libforebay_vol.so").is_file(), said
assert (folder / "preload/libforebay_preload.so").is_file(), said
assert said["variables"]["HDF5_PLUGIN_PATH"].startswith(f"{folder}/vfd:{folder}/vol:"), said'
