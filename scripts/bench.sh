#!/usr/bin/env bash
# Speed of reading HDF5, next to h5py on the same machine.
set -euo pipefail
# shellcheck source=scripts/env.sh
source "$(dirname "${BASH_SOURCE[0]}")/env.sh"

use_setup
cd "$ROOT"
exec cargo bench -p forebay --bench hdf5 "$@"
