#!/usr/bin/env bash
# How fast TensorFlow, JAX and Ray are fed: bench-frameworks.sh [tensorflow|jax|ray] [ARGS of benches/frameworks/run.py]
set -euo pipefail
# shellcheck source=scripts/env.sh
source "$(dirname "${BASH_SOURCE[0]}")/env.sh"
use_tree "$@"

declare -a wanted=(tensorflow jax ray)
case ${1:-} in
tensorflow | jax | ray)
    wanted=("$1")
    shift
    ;;
esac
use_setup
folder=$(absolute "${FOREBAY_BENCH_DIR:-$CACHE/bench}")
temporary=$(mktemp -d)
trap 'rm -rf "$temporary"' EXIT
site=${FOREBAY_BENCH_SITE:-}
if [[ -z $site ]]; then
    "$ROOT/scripts/wheel.sh" "$temporary/wheels"
    site=$temporary/site
    "$FOREBAY_PYTHON" -m pip install --quiet --disable-pip-version-check --no-deps --target "$site" "$temporary"/wheels/forebay-*.whl
fi
# Indexes that an older build saved must not answer for this one.
export FOREBAY_CACHE=$temporary/index
missed=0
for framework in "${wanted[@]}"; do
    need_environment "$framework" "tests/requirements-$framework.txt"
    say "$framework"
    PYTHONPATH=$site JAX_PLATFORMS=${JAX_PLATFORMS:-cpu} "$ENVIRONMENT/bin/python" "$ROOT/benches/frameworks/run.py" "$framework" \
        --folder "$folder" "$@" || missed=1
done
exit "$missed"
