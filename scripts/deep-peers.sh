#!/usr/bin/env bash
# Test suites of other libraries as writers: deep-peers.sh [ARGS of tests/peers/run.py, such as --short, --only zarr]
# FOREBAY_SITE names a folder that has the package; else it is built.
set -euo pipefail
# shellcheck source=scripts/env.sh
source "$(dirname "${BASH_SOURCE[0]}")/env.sh"
use_tree "$@"

use_cache
find_python
peers=$CACHE/peers-$( {
    hash_of tests/requirements.txt tests/requirements-peers.txt tests/peers/sources.txt
    "$PYTHON" -c 'import sys; print(sys.version, sys.base_prefix)'
} | sha256sum | cut -c1-16)

make_peers() {
    say "making a Python environment in $peers"
    rm -rf "$peers"
    "$PYTHON" -m venv "$peers"
    "$peers/bin/python" -m pip install --quiet --disable-pip-version-check --no-input --only-binary :all: \
        --retries 5 -r "$ROOT/tests/requirements.txt" -r "$ROOT/tests/requirements-peers.txt" ||
        die "pip could not install tests/requirements-peers.txt; is the package index reachable?"
    mkdir "$peers/sources"
    "$peers/bin/python" "$ROOT/tests/peers/fetch.py" "$ROOT/tests/peers/sources.txt" "$peers/sources"
    touch "$peers/done"
}

if [[ ! -e $peers/done ]]; then
    (
        lock peers
        [[ -e $peers/done ]] || make_peers
    )
fi

temporary=$(mktemp -d)
trap 'rm -rf "$temporary"' EXIT
site=${FOREBAY_SITE:-}
if [[ -z $site ]]; then
    say "building the Python package"
    "$ROOT/scripts/wheel.sh" "$temporary/wheel" >/dev/null
    site=$temporary/site
    "$peers/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps --target "$site" "$temporary"/wheel/forebay-*.whl
fi
mkdir -p "$CACHE/bench"
say "test suites of other libraries; the result goes to $CACHE/bench/peers.json"
export PYTHONPATH=$site:$ROOT/tests
"$peers/bin/python" -m peers.run "$peers/sources" "$CACHE/bench/peers.json" "$@"
