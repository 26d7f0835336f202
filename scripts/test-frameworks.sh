#!/usr/bin/env bash
# Tests of forebay.tensorflow, forebay.jax, of dask and other engines, and of forebay.ray with the newest Ray and one of a year before, each in a
# process and an environment of its own: test-frameworks.sh SITE [tensorflow|jax|engines|ray|ray-old]..., where SITE is a folder that the Python
# package was installed to. With FOREBAY_LONG=1 Ray Train is tried with the PyTorch of the package's tests.
set -euo pipefail
# shellcheck source=scripts/env.sh
source "$(dirname "${BASH_SOURCE[0]}")/env.sh"

[[ $# -ge 1 && -d $1/forebay ]] || die "usage: test-frameworks.sh SITE [tensorflow|jax|engines|ray|ray-old]..."
site=$(absolute "$1")
shift
declare -a wanted=("$@")
is_long=${FOREBAY_LONG:-}${FOREBAY_SLOW:-}
# The Ray of a year before has the long checks only: it takes as long as the newest.
if [[ ${#wanted[@]} -eq 0 ]]; then wanted=(tensorflow jax engines ray ${is_long:+ray-old}); fi
use_cache

# Lets the environment of Ray find PyTorch where the tests of the package have it: behind all that is its own.
borrow_torch() {
    name_venv
    local packages
    packages=$(echo "$ENVIRONMENT"/lib/python3*/site-packages)
    echo "$VENV"/lib/python3*/site-packages >"$packages/of_the_package_tests.pth"
}

# Runs the tests of the framework $1, whose files begin as the others say.
test_framework() {
    local name=$1 short
    local -a files=()
    shift
    need_environment "$name" "tests/requirements-$name.txt"
    if [[ $name == ray* && -n $is_long ]]; then borrow_torch; fi
    for short in "$@"; do files+=("$ROOT"/tests/frameworks/test_"$short"_*.py); done
    PYTHONPATH=$site "$ENVIRONMENT/bin/python" -m pytest -q "${files[@]}"
}

# Runs the tests of the framework $1.
test_one() {
    case $1 in
    tensorflow) test_framework "$1" tf ;;
    jax) test_framework "$1" jax ;;
    engines) test_framework "$1" dask hf xbatcher ;;
    ray | ray-old) test_framework "$1" ray ;;
    *) die "no framework '$1': there are tensorflow, jax, engines, ray and ray-old" ;;
    esac
}

# Two at a time: each waits for its own imports, compilers and processes most of the time.
temporary=$(mktemp -d)
trap 'rm -rf "$temporary"' EXIT
for framework in "${wanted[@]}"; do
    while [[ $(jobs -rp | wc -l) -ge 2 ]]; do wait -n || true; done
    (
        test_one "$framework" >"$temporary/$framework" 2>&1
        touch "$temporary/$framework.passed"
    ) &
done
wait
failed=0
for framework in "${wanted[@]}"; do
    [[ -e $temporary/$framework.passed ]] || failed=1
    say "$framework"
    cat "$temporary/$framework"
done
exit "$failed"
