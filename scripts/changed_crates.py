"""Names the crates that a change concerns: changed_crates.py FILE…

Prints a line per crate of the workspace: `changed NAME`, where one of the FILEs belongs to it, or `dependent NAME`, where it depends on a
changed crate, directly or not. The line `everything` says that a FILE concerns all crates.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
CONCERNS_ALL = {"Cargo.toml", "Cargo.lock", "clippy.toml", "rust-toolchain.toml"}
# The directory of the Python package is a crate's too.
NOT_COMPILED = {".md", ".py", ".pyi"}


def workspace() -> list[dict[str, Any]]:
    metadata = subprocess.check_output(["cargo", "metadata", "--format-version", "1", "--no-deps"], cwd=ROOT)
    return json.loads(metadata)["packages"]


def changed_crates(crates: list[dict[str, Any]], files: list[str]) -> set[str]:
    names = {Path(crate["manifest_path"]).parent: crate["name"] for crate in crates}
    compiled = (ROOT / file for file in files if Path(file).suffix not in NOT_COMPILED)
    owners = (next((names[parent] for parent in path.parents if parent in names), None) for path in compiled)
    return {owner for owner in owners if owner is not None}


def dependents(crates: list[dict[str, Any]], changed: set[str]) -> set[str]:
    """The crates that depend on one of `changed`, by more than their tests."""
    needs = {crate["name"]: {needed["name"] for needed in crate["dependencies"] if needed["kind"] != "dev"} for crate in crates}
    found = set(changed)
    while more := {name for name, needed in needs.items() if needed & found} - found:
        found |= more
    return found - changed


def main(files: list[str]) -> None:
    crates = workspace()
    changed = changed_crates(crates, files)
    for name in sorted(changed):
        print("changed", name)
    for name in sorted(dependents(crates, changed)):
        print("dependent", name)
    if CONCERNS_ALL & set(files):
        print("everything")


if __name__ == "__main__":
    main(sys.argv[1:])
