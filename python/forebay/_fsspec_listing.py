"""Folders of an object store, which has none: made of the names of its objects."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

Row = tuple[str, int, "float | None"]
"""Name, length and time of modification of an object."""


def entries(folder: str, rows: Iterable[Row]) -> list[dict[str, Any]]:
    """What is in ``folder``, of all that lies below it: objects, and a folder for each name that others begin with."""
    found = everything(folder, rows, 1, True)
    return [found[name] for name in sorted(found)]


def everything(folder: str, rows: Iterable[Row], maxdepth: int | None, withdirs: bool) -> dict[str, dict[str, Any]]:
    """All objects below ``folder``, at most ``maxdepth`` names deep, and with ``withdirs`` the folders they are in, by name."""
    found: dict[str, dict[str, Any]] = {}
    start = folder.rstrip("/") + "/"
    for name, size, modified in rows:
        if not name.startswith(start):
            continue
        parts = name[len(start) :].split("/")
        depth = len(parts) if maxdepth is None else min(maxdepth, len(parts))
        if withdirs:
            for count in range(1, min(depth + 1, len(parts))):
                inner = start + "/".join(parts[:count])
                found.setdefault(inner, {"name": inner, "size": 0, "type": "directory"})
        if depth == len(parts):
            found[name] = {"name": name, "size": size, "type": "file", "mtime": modified}
    return found
