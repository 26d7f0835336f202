"""Batches of one iteration on their way to the consumer, epoch after epoch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from .._forebay import EpochRun, RawBatch

Pair = tuple[RawBatch, Any]
"""A batch as it was read, which is committed once the consumer has it, and what the consumer gets."""


class Delivery:
    """Hands the batches of each epoch to the consumer; ``made_of`` gives those of one."""

    def __init__(self, made_of: Callable[[EpochRun], Iterator[Pair]]) -> None:
        self._made_of = made_of

    def batches(self, run: EpochRun, is_following: bool) -> Iterator[Pair]:
        """The batches of ``run``. Where it ``is_following``, it was begun while the last batches of the one before were taken."""
        return self._made_of(run)

    def close(self) -> None:
        """Lets go of what is held from epoch to epoch. May be called more than once."""
