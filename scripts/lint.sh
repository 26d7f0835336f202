#!/usr/bin/env bash
# Format, lints, documentation, licences.
set -euo pipefail
# shellcheck source=scripts/env.sh
source "$(dirname "${BASH_SOURCE[0]}")/env.sh"
use_tree "$@"

# Asks for the component $1, which cargo runs as $2.
need_component() {
    cargo "$2" --version >/dev/null 2>&1 ||
        die "'cargo $2' does not run: install it by 'rustup component add $1', or as a package of your system"
}

use_setup
need_component rustfmt fmt
need_component clippy clippy
cd "$ROOT"

say "format"
(cd "$CLONE" && cargo fmt --all --check)
say "clippy"
cargo clippy --workspace --all-targets -- -D warnings
say "clippy without the features remote and replay"
# The whole workspace, as above, so that only the crates with those features are compiled anew.
cargo clippy --workspace --all-targets --no-default-features \
    --features forebay-cli/fuse,forebay-filter/default,forebay-format/default -- -D warnings
say "documentation"
RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps
say "tests that SEMANTICS.md names"
# shellcheck disable=SC2016  # backquotes of Markdown
grep -oE '`[a-z0-9]+(_[a-z0-9]+){3,}`' SEMANTICS.md | tr -d '`' | sort -u | while read -r name; do
    grep -rqE --include='*.rs' --include='*.py' "(fn|def) $name\\b" crates python tests || die "SEMANTICS.md names '$name', and no test is called so"
done
say "paths of one clone, compiled in"
! grep -rn --include='*.rs' 'env!("CARGO_MANIFEST_DIR")' crates python || die "clones share a build: say it relative to the crate, where tests run"
if command -v shellcheck >/dev/null; then
    say "shellcheck"
    shellcheck -x scripts/*.sh fuzz/*.sh .ci/run
fi
say "dependencies that nothing uses"
need_cargo_tool machete
cargo machete
say "licences, bans, sources"
need_cargo_tool deny
cargo deny check licenses bans sources
if timeout 300 cargo deny fetch db >/dev/null 2>&1; then
    say "advisories"
    cargo deny check advisories
else
    say "NOT CHECKED: advisories, because their database cannot be fetched from here"
fi
