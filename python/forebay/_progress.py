"""How far a rank is with its share, on the terminal of rank 0 or by a callable."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

_INTERVAL_SECONDS = 0.2

Report = Callable[[int, int, int], None]


@contextlib.contextmanager
def share_progress(
    progress: bool | Callable[[dict[str, Any]], object] | None, rank: int, verb: str = "filling"
) -> Iterator[Report | None]:
    """What is called with samples done, samples of the share, and bytes done; ``None`` where nobody wants to know."""
    if callable(progress):
        user = progress
        yield lambda samples, of, size: (user({"samples": samples, "of": of, "bytes": size}), None)[1]
        return
    shown = sys.stderr.isatty() if progress is None else progress
    if not shown or rank != 0:
        yield None
        return
    bar = _Bar(verb)
    try:
        yield bar
    finally:
        bar.end()


class _Bar:
    """One line on standard error, drawn anew a few times a second."""

    def __init__(self, verb: str) -> None:
        self._verb = verb
        self._began = time.monotonic()
        self._drawn = 0.0
        self._is_there = False

    def __call__(self, samples: int, of: int, size: int) -> None:
        now = time.monotonic()
        if now - self._drawn < _INTERVAL_SECONDS and samples < of:
            return
        self._drawn, self._is_there = now, True
        part = samples / of if of else 1.0
        rate = size / max(now - self._began, 1e-9) / 1e6
        bar = "#" * round(30 * part)
        sys.stderr.write(f"\r{self._verb} [{bar:30}] {100 * part:3.0f} %  {size / 1e6:,.0f} MB, {rate:,.0f} MB/s on rank 0 ")
        sys.stderr.flush()

    def end(self) -> None:
        if self._is_there:
            sys.stderr.write("\n")
            sys.stderr.flush()
