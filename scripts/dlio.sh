#!/usr/bin/env bash
# Makes a Python environment with DLIO as the package index gives it, beside PyTorch of the tests' own, and prints its Python. Done
# once; kept in the cache folder.
set -euo pipefail
# shellcheck source=scripts/env.sh
source "$(dirname "${BASH_SOURCE[0]}")/env.sh"

use_setup
need_packages tests/requirements-python.txt
dlio=$(environment_of dlio benches/dlio/requirements.txt)

make_dlio() {
    say "making a Python environment with DLIO in $dlio"
    rm -rf "$dlio"
    "$PYTHON" -m venv "$dlio"
    # Complete as listed: what the package asks for besides would be 3 GiB more. One of them comes as sources alone.
    "$dlio/bin/python" -m pip install --quiet --disable-pip-version-check --no-input --no-deps --retries 5 \
        --only-binary :all: --no-binary antlr4-python3-runtime -r "$ROOT/benches/dlio/requirements.txt" >&2 ||
        die "pip could not install benches/dlio/requirements.txt; is the package index reachable?"
    # Modules that this environment lacks, PyTorch among them, are found in that of the tests.
    "$VENV/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))' \
        >"$("$dlio/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/tests.pth"
    "$dlio/bin/python" -c 'import importlib.metadata as m; import torch, tensorflow; print("DLIO", m.version("dlio_benchmark"))' >&2
    touch "$dlio/ready"
}

if [[ ! -e $dlio/ready ]]; then
    (
        lock dlio
        [[ -e $dlio/ready ]] || make_dlio
    )
fi
printf '%s\n' "$dlio/bin/python"
