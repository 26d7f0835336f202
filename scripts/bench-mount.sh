#!/usr/bin/env bash
# Random reads of a file on `forebay mount`, next to the file itself: bench-mount.sh [READS]. As root, on Linux 6.9 or later.
set -euo pipefail
# shellcheck source=scripts/env.sh
source "$(dirname "${BASH_SOURCE[0]}")/env.sh"
use_tree "$@"

use_setup
[[ $EUID -eq 0 ]] || die "passthrough needs root"
cd "$ROOT"
exec cargo run --quiet --release -p forebay-mount --example passthrough_speed -- "$@"
