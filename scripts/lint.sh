#!/usr/bin/env bash
# Format, lints, documentation, licences.
set -euo pipefail
# shellcheck source=scripts/env.sh
source "$(dirname "${BASH_SOURCE[0]}")/env.sh"

use_cache
cd "$ROOT"

say "format"
cargo fmt --all --check
say "clippy"
cargo clippy --workspace --all-targets -- -D warnings
say "documentation"
RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps
say "tests that SEMANTICS.md names"
# shellcheck disable=SC2016  # backquotes of Markdown
grep -oE '`[a-z0-9]+(_[a-z0-9]+){3,}`' SEMANTICS.md | tr -d '`' | sort -u | while read -r name; do
    grep -rqE --include='*.rs' "fn $name\\b" crates || die "SEMANTICS.md names '$name', and no test is called so"
done
if command -v shellcheck >/dev/null; then
    say "shellcheck"
    shellcheck -x scripts/*.sh .ci/run
fi
say "licences, bans, sources"
need_cargo_tool deny
cargo deny check licenses bans sources
if timeout 300 cargo deny fetch db >/dev/null 2>&1; then
    say "advisories"
    cargo deny check advisories
else
    say "NOT CHECKED: advisories, because their database cannot be fetched from here"
fi
