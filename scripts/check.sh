#!/usr/bin/env bash
# Checks what changed, for the inner loop: check.sh
#
# Changed files are those that differ from the merge base with the default branch, committed or not, and untracked files.
# FOREBAY_BASE=REVISION names another base. Of the workspace's crates
#   - changed ones are linted, and their unit tests run: those of libraries and programs, not those in tests/;
#   - crates that depend on a changed one, directly or not, are type-checked without their tests.
# A change of Cargo.toml, Cargo.lock, clippy.toml or rust-toolchain.toml type-checks the whole workspace. Formatting, and the syntax of changed
# Python files and shell scripts, are checked too. `make lint` and `make test` check the rest.
set -euo pipefail
# shellcheck source=scripts/env.sh
source "$(dirname "${BASH_SOURCE[0]}")/env.sh"
use_tree "$@"

# Prints the revision that changes are counted from.
merge_base() {
    local default
    default=${FOREBAY_BASE:-$(git -C "$CLONE" symbolic-ref --quiet --short refs/remotes/origin/HEAD || echo main)}
    git -C "$CLONE" merge-base HEAD "$default" ||
        die "no common ancestor with '$default': fetch it, or set FOREBAY_BASE to the revision to compare with"
}

# Prints the changed files, each with a zero behind it.
changed_files() {
    git -C "$CLONE" diff --name-only --no-renames -z "$1"
    git -C "$CLONE" ls-files --others --exclude-standard -z
}

# Lints and tests the changed crates, and type-checks the crates that depend on them.
check_crates() {
    local kind name
    local -a changed=() dependents=()
    while read -r kind name; do
        case $kind in
        changed) changed+=(--package "$name") ;;
        dependent) dependents+=(--package "$name") ;;
        everything) dependents=(--workspace) ;;
        esac
    done <<<"$1"
    if [[ ${#changed[@]} -gt 0 ]]; then
        say "clippy: ${changed[*]}"
        cargo clippy --quiet "${changed[@]}" --all-targets -- -D warnings
    fi
    if [[ ${#dependents[@]} -gt 0 ]]; then
        say "type check: ${dependents[*]}"
        cargo check --quiet "${dependents[@]}"
    fi
    if [[ ${#changed[@]} -gt 0 ]]; then
        say "unit tests: ${changed[*]}"
        cargo test --quiet "${changed[@]}" --lib --bins
    fi
}

# Parses the Python files $@; those of the package as its oldest supported Python does.
check_python() {
    say "syntax of $# Python files"
    "$PYTHON" - "$@" <<'PYTHON'
import ast, sys

broken = False
for path in sys.argv[1:]:
    oldest = (3, 10) if path.startswith("python/forebay/") or path == "scripts/try_wheel.py" else None
    try:
        with open(path, "rb") as file:
            ast.parse(file.read(), path, feature_version=oldest)
    except SyntaxError as error:
        print(f"{path}:{error.lineno}: {error.msg}", file=sys.stderr)
        broken = True
sys.exit(broken)
PYTHON
}

check_shell() {
    local script
    say "syntax of $# shell scripts"
    for script in "$@"; do bash -n "$script"; done
    if command -v shellcheck >/dev/null; then shellcheck -x "$@"; fi
}

use_cache
find_python
cd "$ROOT"
base=$(merge_base)
mapfile -t -d '' files < <(changed_files "$base")
[[ ${#files[@]} -gt 0 ]] || { say "nothing changed since $base"; exit; }
say "${#files[@]} files changed since $(git -C "$CLONE" log -1 --format='%h %s' "$base")"
declare -a python=() shell=()
for file in "${files[@]}"; do
    [[ -f $file ]] || continue
    case $file in
    *.py | *.pyi) python+=("$file") ;;
    *.sh | .ci/run) shell+=("$file") ;;
    esac
done

say "format"
(cd "$CLONE" && cargo fmt --all --check)
if [[ ${#shell[@]} -gt 0 ]]; then check_shell "${shell[@]}"; fi
if [[ ${#python[@]} -gt 0 ]]; then check_python "${python[@]}"; fi
crates=$("$PYTHON" scripts/changed_crates.py "${files[@]}")
check_crates "$crates"
say "checked in $SECONDS s; make lint and make test check the rest"
