"""How notebooks show what is in a set, a batch or a loader."""

from __future__ import annotations

import html
from collections.abc import Iterable, Mapping
from typing import Any


def table(title: str, columns: Iterable[str], rows: Iterable[Iterable[Any]]) -> str:
    """A table of ``rows`` under ``title``."""

    def row(cells: Iterable[Any], tag: str) -> str:
        return "<tr>" + "".join(f"<{tag}>{html.escape(str(cell))}</{tag}>" for cell in cells) + "</tr>"

    body = "".join(row(cells, "td") for cells in rows)
    return f"<div><b>{html.escape(title)}</b><table>{row(columns, 'th')}{body}</table></div>"


def facts(title: str, values: Mapping[str, Any]) -> str:
    """A table of names and values."""
    return table(title, ("", ""), values.items())
