"""Writes the licence notices of all crates that are linked into one of ours: third_party.py PACKAGE OUT"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
NAMES = ("licen", "copying", "notice", "unlicense")
RULE = "\n\n" + "-" * 80 + "\n\n"
# What is built for one of these may have crates that the other has not.
PLATFORMS = ("x86_64-unknown-linux-gnu", "aarch64-unknown-linux-gnu")


def linked(package: str) -> list[dict[str, Any]]:
    """The crates of others whose code is in `package`; what runs at build time alone is not among them."""
    metadata = json.loads(cargo("metadata", "--format-version", "1"))
    ours = set(metadata["workspace_members"])
    others = {(found["name"], found["version"]): found for found in metadata["packages"] if found["id"] not in ours}
    # The graph that `metadata` has names crates too that only a feature nobody asked for would bring.
    targets = [f"--target={platform}" for platform in PLATFORMS]
    tree = cargo("tree", "-p", package, "--edges", "normal,no-proc-macro", "--prefix", "none", "--format", "{p}", *targets)
    names = {(line.split()[0], line.split()[1].removeprefix("v")) for line in tree.splitlines() if line}
    return [others[name] for name in sorted(names & others.keys())]


def cargo(*arguments: str) -> str:
    return subprocess.check_output(["cargo", *arguments, "--locked"], cwd=ROOT, text=True)


def texts(package: dict[str, Any]) -> list[str]:
    """The licences that come with a crate, those of C sources in it too."""
    paths = sorted(Path(package["manifest_path"]).parent.rglob("*"))
    found = (path for path in paths if path.name.lower().startswith(NAMES) and path.suffix in ("", ".md", ".txt"))
    return [path.read_text("utf-8", "replace").strip() for path in found if path.is_file()]


def main(ours: str, out: Path) -> None:
    lines = []
    owners: dict[str, list[str]] = {}
    for package in linked(ours):
        name = f"{package['name']} {package['version']}"
        lines.append(f"{name}: {package['license'] or 'see below'}; {package['repository'] or 'no address'}")
        for text in texts(package):
            owners.setdefault(text, []).append(name)
    parts = [f"Crates that are linked into {ours}:\n\n" + "\n".join(lines)]
    parts += [f"{', '.join(dict.fromkeys(names))}:\n\n{text}" for text, names in owners.items()]
    out.write_text(RULE.join(parts) + "\n")


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
