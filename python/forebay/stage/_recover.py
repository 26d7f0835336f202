"""What killed processes left in an area."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

from .._forebay import stage_recover
from ._area import Progress, item_of
from ._bar import drain_progress


def recover(
    path: str | os.PathLike[str],
    *,
    apply: str | Iterable[str] = (),
    discard: str | Iterable[str] = (),
    host: str | Iterable[str] = (),
    dry_run: bool = False,
    progress: Progress = None,
) -> dict[str, list[dict[str, Any]]]:
    """Finishes what processes that are gone had sealed in the area in ``path``, as ``forebay recover`` does.

    Gives items as :meth:`Area.items` does, by what became of them: ``finished``, ``discarded`` (never sealed, or as asked),
    ``refused`` (the destination was changed by others, or refuses; ``error`` says how to choose) and ``in_use`` (of processes
    that run). It may be called at any time, and again.

    :param apply: ids of items that are applied although their destination was changed by others.
    :param discard: ids of items that are removed, with their bytes.
    :param host: other machines whose items are recovered too, in an area on a file system that machines share: their processes
        are gone, which only the caller can know.
    :param dry_run: says what would be done, and does nothing.
    """
    with drain_progress(progress) as report:
        parts = stage_recover(
            os.fsdecode(path), _names(apply), _names(discard), _names(host), bool(dry_run), report
        )
    names = ("finished", "discarded", "refused", "in_use")
    return {name: [item_of(row) for row in rows] for name, rows in zip(names, parts)}


def _names(given: str | Iterable[str]) -> list[str]:
    """One name, or several."""
    return [given] if isinstance(given, str) else list(given)
