#!/usr/bin/env bash
# Tests of forebay.tensorflow and forebay.jax, each framework in a process and an environment of its own:
# test-frameworks.sh SITE [tensorflow|jax]..., where SITE is a folder that the Python package was installed to. With FOREBAY_LONG=1
# a second, older TensorFlow is installed, 1.5 GiB, and tries the file-system plug-in.
set -euo pipefail
# shellcheck source=scripts/env.sh
source "$(dirname "${BASH_SOURCE[0]}")/env.sh"

[[ $# -ge 1 && -d $1/forebay ]] || die "usage: test-frameworks.sh SITE [tensorflow|jax]..."
site=$(absolute "$1")
shift
declare -a wanted=("$@")
if [[ ${#wanted[@]} -eq 0 ]]; then wanted=(tensorflow jax); fi
use_cache

# Runs the tests of the framework $1, whose files begin as $2 says.
test_framework() {
    need_environment "$1" "tests/requirements-$1.txt"
    PYTHONPATH=$site "$ENVIRONMENT/bin/python" -m pytest -q "$ROOT"/tests/frameworks/test_"$2"_*.py
    if [[ $1 != tensorflow || -z ${FOREBAY_LONG:-}${FOREBAY_SLOW:-} ]]; then return; fi
    # The file-system plug-in meets TensorFlow's own structures: an older version, too, has to know them.
    say "an older TensorFlow"
    need_environment tensorflow-old tests/requirements-tensorflow-old.txt
    PYTHONPATH=$site "$ENVIRONMENT/bin/python" -m pytest -q "$ROOT"/tests/frameworks/test_tf_filesystem.py
}

# Side by side: each waits for its own imports and compilers most of the time.
temporary=$(mktemp -d)
trap 'rm -rf "$temporary"' EXIT
declare -A running=()
for framework in "${wanted[@]}"; do
    case $framework in
    tensorflow) short=tf ;;
    jax) short=jax ;;
    *) die "no framework '$framework': there are tensorflow and jax" ;;
    esac
    test_framework "$framework" "$short" >"$temporary/$framework" 2>&1 &
    running[$framework]=$!
done
failed=0
for framework in "${wanted[@]}"; do
    wait "${running[$framework]}" || failed=1
    say "$framework"
    cat "$temporary/$framework"
done
exit "$failed"
