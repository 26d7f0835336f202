"""Writes the licence notices of all crates that are linked into the Python package: third_party.py OUT"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
NAMES = ("licen", "copying", "notice", "unlicense")
RULE = "\n\n" + "-" * 80 + "\n\n"


def linked() -> list[dict[str, Any]]:
    """The crates of others that forebay-python is built of on this machine."""
    version = subprocess.check_output(["rustc", "-vV"], text=True)
    host = next(line.split()[1] for line in version.splitlines() if line.startswith("host:"))
    command = ["cargo", "metadata", "--format-version", "1", "--locked", "--filter-platform", host]
    metadata = json.loads(subprocess.check_output(command, cwd=ROOT))
    packages = {package["id"]: package for package in metadata["packages"]}
    nodes = {node["id"]: node for node in metadata["resolve"]["nodes"]}
    waiting = [key for key, package in packages.items() if package["name"] == "forebay-python"]
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


def main(out: Path) -> None:
    lines = []
    owners: dict[str, list[str]] = {}
    for package in linked():
        name = f"{package['name']} {package['version']}"
        lines.append(f"{name}: {package['license'] or 'see below'}; {package['repository'] or 'no address'}")
        for text in texts(package):
            owners.setdefault(text, []).append(name)
    parts = ["Crates that are linked into forebay:\n\n" + "\n".join(lines)]
    parts += [f"{', '.join(dict.fromkeys(names))}:\n\n{text}" for text, names in owners.items()]
    out.write_text(RULE.join(parts) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
