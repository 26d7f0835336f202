#!/usr/bin/env bash
# Speed of reading HDF5, next to h5py on the same machine.
set -euo pipefail
# shellcheck source=scripts/env.sh
source "$(dirname "${BASH_SOURCE[0]}")/env.sh"

use_setup
export FOREBAY_BENCH_DIR=${FOREBAY_BENCH_DIR:-$CACHE/bench}
cd "$ROOT"
exec cargo bench -p forebay --bench hdf5 "$@"
