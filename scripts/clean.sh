#!/usr/bin/env bash
# Removes what the other scripts made. The cache folder may hold other things: only known names go.
set -euo pipefail
# shellcheck source=scripts/env.sh
source "$(dirname "${BASH_SOURCE[0]}")/env.sh"

use_cache
rm -rf "$CACHE"/{venv,builder,build,matrix,vectors,demo,peers,mpi}-* "$CACHE"/{target,bench,fuzz,fuzz-corpus,fuzz-target,tools} \
    "$CACHE"/debian11-* "$CACHE"/arm64-* "$CACHE"/{release,zig,zigbuild}
rm -f "$CACHE"/{venv,builder,matrix,demo,peers,mpi,debian11,arm64}.lock
rm -rf "$ROOT"/dist "$ROOT"/python/licenses
rmdir "$CACHE" 2>/dev/null || true
