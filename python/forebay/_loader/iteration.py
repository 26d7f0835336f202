"""The iterator over the batches of a loader: when a batch counts as received, and how an iteration ends."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from .._forebay import EpochRun, InvalidError
from .delivery import Delivery, Pair


class ActiveIteration:
    """The iteration of a loader that is under way: what it takes batches from, and whether it was ended from outside.

    The loader and the iterator share it. The iterator is not part of it: dropping the iterator ends the iteration.
    """

    __slots__ = ("delivery", "is_ended", "is_replaced", "run")

    def __init__(self) -> None:
        self.run: EpochRun | None = None
        self.delivery: Delivery | None = None
        self.is_ended = self.is_replaced = False

    def end(self, is_replaced: bool) -> None:
        """Notes that it was ended: for another iteration, or by ``close()`` or ``load_state_dict()``."""
        self.is_ended, self.is_replaced = True, is_replaced

    def close(self) -> None:
        """Ends the threads and drops what was made ahead. May be called more than once, and in a forked child."""
        if self.delivery is not None:
            self.delivery.close()
        if self.run is not None:
            self.run.close()


class BatchIterator:
    """Iterator over the batches of a :class:`Loader`: of one epoch or several."""

    __slots__ = ("__weakref__", "_active", "_left", "_pairs")

    def __init__(self, active: ActiveIteration, pairs: Generator[Pair, None, None], most: int | None = None) -> None:
        self._active, self._pairs, self._left = active, pairs, most

    def __iter__(self) -> BatchIterator:
        return self

    def __next__(self) -> Any:
        active = self._active
        if not active.is_ended and self._left != 0:
            try:
                raw, batch = next(self._pairs)
            except StopIteration:
                pass
            except BaseException:
                # A batch that was taken and not returned must come again: the iteration does not go on after it.
                self._pairs.close()
                raise
            else:
                if self._left is not None:
                    self._left -= 1
                # An assignment, since the interpreter runs signal handlers after a call but not between this and the return: a
                # batch is committed exactly if the consumer gets it.
                active.run.received = raw  # type: ignore[union-attr]
                return batch
        self._pairs.close()
        if active.is_replaced:
            raise InvalidError(
                "this iteration was ended by another that was begun of the same loader\n  hint: make a loader for each, such as one for "
                "training and one for evaluation"
            )
        raise StopIteration

    def close(self) -> None:
        """Ends the iteration. May be called more than once."""
        self._pairs.close()
