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
    """The crates of others that `package` is built of."""
    command = ["cargo", "metadata", "--format-version", "1", "--locked"]
    command += [f"--filter-platform={platform}" for platform in PLATFORMS]
    metadata = json.loads(subprocess.check_output(command, cwd=ROOT))
    packages = {package["id"]: package for package in metadata["packages"]}
    nodes = {node["id"]: node for node in metadata["resolve"]["nodes"]}
    waiting = [key for key, found in packages.items() if found["name"] == package]
    seen: set[str] = set()
    while waiting:
        key = waiting.pop()
        if key in seen:
            continue
        seen.add(key)
        needs = nodes[key]["deps"]
        waiting += [need["pkg"] for need in needs if any(kind["kind"] is None for kind in need["dep_kinds"])]
    others = seen - set(metadata["workspace_members"])
    return sorted((packages[key] for key in others), key=lambda package: (package["name"], package["version"]))


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
