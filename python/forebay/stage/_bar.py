"""How far a drain is, on a terminal or by a callable."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

_INTERVAL_S = 0.2

Report = Callable[[int, int, int], None]


@contextlib.contextmanager
def drain_progress(progress: bool | Callable[[dict[str, Any]], object] | None) -> Iterator[Report | None]:
    """What is called with files left, bytes left and bytes done; ``None`` where nobody wants to know."""
    if callable(progress):
        user = progress

        def report(files: int, left: int, done: int) -> None:
            user({"files": files, "bytes": left, "done_bytes": done})

        yield report
        return
    if not (sys.stderr.isatty() if progress is None else progress):
        yield None
        return
    bar = _DrainBar()
    try:
        yield bar
    finally:
        bar.end()


class _DrainBar:
    """One line on standard error, drawn anew a few times a second."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._drawn = 0.0
        self._is_there = False

    def __call__(self, files: int, left: int, done: int) -> None:
        now = time.monotonic()
        # Nothing is shown of a drain that has nothing to do.
        if (now - self._drawn < _INTERVAL_S and files) or not (files or self._is_there):
            return
        self._drawn, self._is_there = now, True
        part = done / (done + left) if files and done + left else float(not files)
        rate = done / max(now - self._began, 1e-9) / 1e6
        bar = "#" * round(30 * part)
        sys.stderr.write(f"\rdraining [{bar:30}] {100 * part:3.0f} %  {files} files, {left / 1e6:,.0f} MB left, {rate:,.0f} MB/s ")
        sys.stderr.flush()

    def end(self) -> None:
        if self._is_there:
            sys.stderr.write("\n")
            sys.stderr.flush()
