# shellcheck shell=bash
# Where things are kept and what runs them. Sourced by the other scripts, which stand beside it.

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
# The clone that ROOT is a copy of after `use_tree`; ROOT itself otherwise. Results go there, and git is asked there.
# shellcheck disable=SC2034  # used by scripts that source this one
CLONE=${FOREBAY_CLONE:-$ROOT}
# The scripts of the tests are imported from the clone, which is left as it is.
export PYTHONDONTWRITEBYTECODE=1

say() { printf '== %s\n' "$*" >&2; }
die() { printf 'error: %s\n' "$*" >&2; exit 1; }

# Prints the path $1, counted from the working folder where it is relative.
absolute() { if [[ $1 == /* ]]; then printf '%s' "$1"; else printf '%s' "$PWD/$1"; fi; }

# Sets CACHE, the folder outside the clone for all that is built, made or downloaded.
name_cache() {
    CACHE=${FOREBAY_CACHE_DIR:-}
    if [[ -z $CACHE && -n ${XDG_CACHE_HOME:-} ]]; then CACHE=$XDG_CACHE_HOME/forebay-dev; fi
    if [[ -z $CACHE && -n ${HOME:-} ]]; then CACHE=$HOME/.cache/forebay-dev; fi
    [[ -n $CACHE ]] || die "no folder for what is built: set HOME, XDG_CACHE_HOME or FOREBAY_CACHE_DIR"
    mkdir -p "$CACHE" 2>/dev/null || die "cannot make $CACHE: set FOREBAY_CACHE_DIR to a folder you may write to"
    [[ -w $CACHE ]] || die "cannot write to $CACHE: set FOREBAY_CACHE_DIR to a folder you may write to"
    CACHE=$(cd "$CACHE" && pwd)
    export FOREBAY_CACHE_DIR=$CACHE
}

# Runs the calling script, whose arguments are given, in a copy of the clone that all clones share, with what was built there: see
# build_tree.py. Called first by scripts that build. With CARGO_TARGET_DIR, cargo builds in the clone itself.
use_tree() {
    if [[ -n ${FOREBAY_CLONE:-}${CARGO_TARGET_DIR:-} ]]; then return; fi
    if ! git -C "$ROOT" ls-files >/dev/null 2>&1; then
        say "git does not list the files of $ROOT: cargo builds there, and not in a copy that clones share"
        return
    fi
    name_cache
    find_python
    exec "$PYTHON" "$ROOT/scripts/build_tree.py" "$CACHE" "$0" "$@"
}

# Sets CACHE, and where cargo builds.
use_cache() {
    name_cache
    CARGO_TARGET_DIR=$(absolute "${CARGO_TARGET_DIR:-$CACHE/target}")
    export CARGO_TARGET_DIR
    # Clones build each crate once: what would be kept to build a part of it again takes time and gigabytes.
    export CARGO_INCREMENTAL=${CARGO_INCREMENTAL:-0}
    # Tools that lint and deep install stand apart from the user's own.
    export PATH=$PATH:$CACHE/tools/bin
}

# Holds the lock NAME until the calling script ends: two set-ups at once do the work once.
lock() {
    exec 9>"$CACHE/$1.lock"
    if flock -n 9; then return; fi
    say "waiting for another run that makes the $1"
    flock -w 3600 9 || die "$CACHE/$1.lock is still held after an hour"
}

is_new_enough() {
    "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null
}

# Sets PYTHON to an interpreter of 3.11 or later: $PYTHON if given, python3, or one named by its version.
find_python() {
    local name
    if [[ -n ${PYTHON:-} ]]; then
        is_new_enough "$PYTHON" || die "PYTHON=$PYTHON is not a Python of 3.11 or later"
        return
    fi
    for name in python3 python3.13 python3.12 python3.11; do
        if is_new_enough "$name"; then
            PYTHON=$name
            return
        fi
    done
    die "Python 3.11 or later is needed; python3 is $(python3 --version 2>/dev/null || echo 'not there')"
}

# Prints a short hash of the named files and folders of the clone: of Python files and text, not of what Python leaves.
hash_of() {
    (
        cd "$ROOT" || exit
        find "$@" -type f -not -name '*.pyc' -print0 | LC_ALL=C sort -z | xargs -0 sha256sum
    ) | sha256sum | cut -c1-16
}

# Prints the folder of the Python environment $1 that belongs to the requirements $2 and PYTHON.
environment_of() {
    local version
    version=$("$PYTHON" -c 'import sys; print(sys.version, sys.base_prefix)')
    printf '%s' "$CACHE/$1-$( { hash_of "$2"; printf '%s' "$version"; } | sha256sum | cut -c1-16)"
}

# Sets VENV, the folder of the virtual environment that belongs to this clone and PYTHON.
name_venv() {
    find_python
    VENV=$(environment_of venv tests/requirements.txt)
}

# Runs setup.sh and exports what the tests look for.
use_setup() {
    use_cache
    "$ROOT/scripts/setup.sh"
    name_venv
    export FOREBAY_PYTHON=$VENV/bin/python
}

# Installs what the files $2… of the clone name into the Python environment $1.
install_requirements() {
    local environment=$1 file
    shift
    local -a given=()
    for file in "$@"; do given+=(-r "$ROOT/$file"); done
    "$environment/bin/python" -m pip install --quiet --disable-pip-version-check --no-input \
        --only-binary :all: --retries 5 "${given[@]}" || die "pip could not install $*; is the package index reachable?"
}

# Adds what the file $1 of the clone names to VENV, unless it was done before.
need_packages() {
    local done_before
    done_before=$VENV/$(basename "$1").$(hash_of "$1")
    if [[ -e $done_before ]]; then return; fi
    (
        lock venv
        if [[ -e $done_before ]]; then exit; fi
        say "installing $1 into $VENV"
        install_requirements "$VENV" tests/requirements.txt "$1"
        touch "$done_before"
    )
}

# Sets ENVIRONMENT, a Python environment called $1 that has what the file $2 of the clone names and nothing else; made once. Frameworks
# have one each: some of them in one process, or of one environment, break each other.
need_environment() {
    find_python
    ENVIRONMENT=$(environment_of "$1" "$2")
    if [[ -e $ENVIRONMENT/ready ]] && "$ENVIRONMENT/bin/python" -c '' 2>/dev/null; then return; fi
    (
        lock "$1"
        if [[ -e $ENVIRONMENT/ready ]] && "$ENVIRONMENT/bin/python" -c '' 2>/dev/null; then exit; fi
        say "making a Python environment in $ENVIRONMENT"
        rm -rf "$ENVIRONMENT"
        "$PYTHON" -m venv "$ENVIRONMENT"
        install_requirements "$ENVIRONMENT" "$2"
        touch "$ENVIRONMENT/ready"
    )
}

# Gives forebay an empty folder for saved indexes: one that an older build saved must not answer for this one.
use_fresh_index() {
    FOREBAY_CACHE=$(mktemp -d)
    export FOREBAY_CACHE
    trap 'rm -rf "$FOREBAY_CACHE"' EXIT
}

# Installs Debian packages, as root or by sudo.
install_packages() {
    local -a as_root=()
    command -v apt-get >/dev/null || die "please install: $* (there is no apt-get here to do it)"
    if [[ $EUID -ne 0 ]]; then
        if ! sudo -n true 2>/dev/null; then
            die "please have an administrator run: apt-get install $*"
        fi
        as_root=(sudo -n)
    fi
    say "installing $*"
    "${as_root[@]}" apt-get update -qq || die "apt-get update did not work; please install: $*"
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" >&2 ||
        die "apt-get could not install: $*"
}

# Makes sure that there is a browser, in which pages are looked at; its text needs a font.
need_browser() {
    if ! command -v chromium >/dev/null; then install_packages chromium fonts-dejavu-core; fi
}

# Makes sure that cargo-$1 is there.
need_cargo_tool() {
    if cargo "$1" --version >/dev/null 2>&1; then return; fi
    say "installing cargo-$1 into $CACHE/tools"
    cargo install "cargo-$1" --locked --root "$CACHE/tools"
}
