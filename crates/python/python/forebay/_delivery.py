"""Batches of one iteration on their way to the consumer, epoch after epoch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from ._forebay import EpochRun


class Delivery:
    """Hands the batches of each epoch to the consumer; ``made_of`` gives those of one."""

    def __init__(self, made_of: Callable[[EpochRun], Iterator[Any]]) -> None:
        self._made_of = made_of

    def batches(self, run: EpochRun, is_following: bool) -> Iterator[Any]:
        """The batches of ``run``. Where it ``is_following``, it was begun while the last batches of the one before were taken."""
        return self._made_of(run)

    def close(self) -> None:
        """Lets go of what is held from epoch to epoch. May be called more than once."""
