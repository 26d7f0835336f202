#!/usr/bin/env bash
# Installs the wheel in FOLDER where there is nothing but NumPy, and loads a batch: check_wheel.sh [FOLDER]
set -euo pipefail
# shellcheck source=scripts/env.sh
source "$(dirname "${BASH_SOURCE[0]}")/env.sh"

folder=$(absolute "${1:-$ROOT/dist}")
use_setup
bare=$(mktemp -d)
trap 'rm -rf "$bare"' EXIT
say "the wheel in an environment of its own"
"$PYTHON" -m venv "$bare/venv"
"$bare/venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-input --only-binary :all: \
    "$folder"/forebay-*.whl
"$FOREBAY_PYTHON" - "$bare/set.h5" <<'PYTHON'
import sys, h5py, numpy as np
with h5py.File(sys.argv[1], "w") as file:
    file.create_dataset("x", data=np.arange(1200).reshape(100, 12), chunks=(7, 12), compression="gzip", shuffle=True)
PYTHON
cd "$bare"
FOREBAY_CACHE=$bare/index "$bare/venv/bin/python" - set.h5 <<'PYTHON'
import importlib.metadata, importlib.util, sys
import numpy as np, forebay
for absent in ("torch", "h5py", "ml_dtypes"):
    assert importlib.util.find_spec(absent) is None, f"{absent} is there, so nothing is shown"
loader = forebay.open(sys.argv[1], ["x"]).loader(batch_size=10, shuffle="full")
for batch in loader:
    assert (batch["x"] == np.arange(1200).reshape(100, 12)[batch.indices]).all()
try:
    forebay.torch
except ModuleNotFoundError as error:
    assert error.name == "torch"
wheel = importlib.metadata.distribution("forebay")
names = {file.name for file in wheel.files}
assert {"LICENSE-MIT", "LICENSE-APACHE", "THIRD-PARTY.txt", "_forebay.pyi", "py.typed"} <= names, names
assert [need.split()[0].split(">")[0] for need in wheel.requires if "extra" not in need] == ["numpy"]
print(f"forebay {forebay.__version__}: {loader.stats()['samples']} samples, NumPy {np.__version__} alone")
PYTHON
# The command comes with the package, and needs no more than it.
"$bare/venv/bin/forebay" --no-index inspect --json set.h5 | "$bare/venv/bin/python" -c '
import json, sys
assert json.load(sys.stdin)["variables"][0]["shape"] == [100, 12]'
