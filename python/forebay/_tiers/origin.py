"""Files and objects by name, read through tiers that all users of one configuration share."""

from __future__ import annotations

import os
import threading
from collections.abc import Hashable
from typing import Any

from .._forebay import RawOrigin
from .tiers import TierOptions, leave_at_exit


class TieredOrigin:
    """What opens files and URLs through the tiers of ``through``; without tiers, where they lie."""

    def __init__(self, through: TierOptions) -> None:
        self.through = through
        self._raw = RawOrigin(through.config, through.rank, through.newcomers_compete)
        self._process = os.getpid()
        leave_at_exit(self)

    @property
    def raw(self) -> RawOrigin:
        """The compiled part."""
        if self._process != os.getpid():
            # A forked child has tiers of its own, and leaves them when it ends.
            self._process = os.getpid()
            leave_at_exit(self)
        return self._raw

    def stats(self) -> dict[str, Any] | None:
        """What was read from where; nothing without tiers."""
        return self.raw.stats()

    def _leave(self) -> None:
        self._raw.close()


# A memory tier for each file would be as many budgets. They stay, as what is opened next time wants the same copies.
_shared: dict[Hashable, TieredOrigin] = {}
_lock = threading.Lock()


def shared_origin(through: TierOptions) -> TieredOrigin:
    """The origin of this process for ``through``: the same whenever the same tiers are asked for."""
    if not through.tiers:
        return TieredOrigin(through)
    key = through.key, through.policy
    try:
        hash(key)
    except TypeError:
        return TieredOrigin(through)
    with _lock:
        found = _shared.get(key)
        if found is None:
            found = _shared[key] = TieredOrigin(through)
        return found


def tiered_origin(through: TierOptions | None) -> TieredOrigin | None:
    """The same, but nothing where there are no tiers."""
    return shared_origin(through) if through is not None and through.tiers else None


def _after_fork() -> None:
    """Another thread of the parent may have held the lock."""
    global _lock
    _lock = threading.Lock()


os.register_at_fork(after_in_child=_after_fork)
