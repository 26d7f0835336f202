#!/usr/bin/env bash
# Shows what forebay does on a small set of HDF5 files, checks every value against h5py, trains a small model, and stages checkpoints.
set -euo pipefail
# shellcheck source=scripts/env.sh
source "$(dirname "${BASH_SOURCE[0]}")/env.sh"
use_tree "$@"

# Shows a command, then runs it.
show() {
    printf '\n$ forebay %s\n' "$*"
    "$forebay" "$@"
}

use_cache
"$ROOT/scripts/setup.sh" --system
# Packages come over the network while the compiler has the processors.
"$ROOT/scripts/setup.sh" &
packages=$!
trap 'kill "$packages" 2>/dev/null || true' EXIT
# Built as for the tests, which then need not build most of it again, but without the benchmark, which nothing here runs. A release is faster,
# by about a fifth where the demo trains its model (65 k instead of 82 k samples/s from memory). The command comes with the Python package.
wheels=$CARGO_TARGET_DIR/wheels-demo site=$CARGO_TARGET_DIR/python-demo
"$ROOT/scripts/wheel.sh" --dev --no-default-features "$wheels"
wait "$packages"
trap - EXIT
use_setup
set_folder=$CACHE/demo-$(hash_of scripts/make_demo_set.py tests/requirements.txt)
if [[ ! -d $set_folder ]]; then
    temporary=$set_folder.$$.part
    trap 'rm -rf "$temporary"' EXIT
    "$FOREBAY_PYTHON" "$ROOT/scripts/make_demo_set.py" "$temporary"
    # Whoever was faster made the same set.
    mv -T "$temporary" "$set_folder" 2>/dev/null || rm -rf "$temporary"
    trap - EXIT
fi
rm -rf "$site"
"$FOREBAY_PYTHON" -m pip install --quiet --disable-pip-version-check --no-deps --target "$site" "$wheels"/forebay-*.whl
export PYTHONPATH=$site
forebay=$site/bin/forebay
use_fresh_index

cd "$set_folder"
printf '\nThe set, made by h5py:\n'
ls -sh --
show inspect train_0.h5
show dump train_0.h5 label --slice 0:8
show dump climate.h5 t2m --slice 0,90:92,180:184
printf '\nEvery value, against h5py:\n'
"$FOREBAY_PYTHON" "$ROOT/scripts/check_demo.py" "$forebay" "$set_folder"
show plan train_*.h5 --field image --label label --batch 64 --shuffle full
show load train_*.h5 --field image --label label --batch 64 --shuffle full --epochs 2
printf '\nThe same behind a slow file system, 2 ms per request and 200 MiB/s, without tiers and with one:\n'
show load train_*.h5 --field image --label label --batch 64 --shuffle full --epochs 3 --memory 32MiB --spill-quota 0 --slow 2ms,200MiB/s
show load train_*.h5 --field image --label label --batch 64 --shuffle full --epochs 3 --memory 32MiB --spill-quota 0 --slow 2ms,200MiB/s \
    --tier "disk:$set_folder/tier:1GiB"
show doctor train_0.h5
printf '\nA model trained through forebay, and the h5py way, in one run:\n'
"$FOREBAY_PYTHON" "$ROOT/scripts/demo_train.py" "$set_folder"
printf '\nAn h5py program that writes 96 MiB of checkpoints to a slow file system, 5 ms per request and 100 MB/s, and the same program\n'
printf 'with the variables that forebay hdf5-env prints:\n'
"$FOREBAY_PYTHON" "$ROOT/scripts/demo_checkpoint.py" "$forebay"
