"""Files on their way to the tiers."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ._events import ForebayRuntimeWarning
from ._forebay import WarmingRun

if TYPE_CHECKING:
    from ._dataset.dataset import Dataset

# Ctrl-C ends a program within a second, however slow the block is that is under way.
LAST_BLOCK_S = 0.5
TELL_S = 0.1


class Warming:
    """Files that are copied to the tiers in the background; made by :meth:`Dataset.warm`."""

    def __init__(self, dataset: Dataset, run: WarmingRun) -> None:
        # Without its data set it would end.
        self._dataset = dataset
        self._run = run
        self._has_warned = False

    @property
    def done(self) -> bool:
        """True when it is over: all was copied, it was cancelled, or an error ended it."""
        return self._run.done

    def stats(self) -> dict[str, Any]:
        """How far it is: ``sources``, ``bytes``, and ``placed_bytes``, ``present_bytes`` and ``refused_bytes`` of them."""
        return self._run.stats()

    def wait(self, timeout: float | None = None) -> dict[str, Any]:
        """Waits until it is over, at most ``timeout`` seconds, and gives :meth:`stats`; ``done`` tells whether it is.

        The error that ended it is raised here.
        """
        if self._run.wait(timeout):
            self._warn()
        return self.stats()

    def cancel(self) -> None:
        """Ends it soon; what was copied stays, and the next warming goes on from there."""
        self._run.cancel()

    def _follow(self, progress: Callable[[dict[str, Any]], object] | None) -> dict[str, Any]:
        """Waits until it is over, and tells ``progress`` how far it is."""
        try:
            while not self._run.wait(TELL_S):
                if progress is not None:
                    progress(self.stats())
        except BaseException:
            self._run.cancel()
            if not self._run.done:
                self._run.wait(LAST_BLOCK_S)
            raise
        stats = self.stats()
        if progress is not None:
            progress(stats)
        self._warn()
        return stats

    def _warn(self) -> None:
        stats = self.stats()
        if self._has_warned or not stats["refused_bytes"]:
            return
        self._has_warned = True
        warnings.warn(
            f"{stats['refused_bytes']} of {stats['bytes']} bytes found no room in the tiers and will be read where "
            "they lie: raise the quota, or add a tier",
            ForebayRuntimeWarning,
            stacklevel=3,
        )

    def __repr__(self) -> str:
        return f"<forebay.Warming of {self._dataset!r}{', done' if self.done else ''}>"
