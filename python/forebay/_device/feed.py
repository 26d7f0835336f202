"""Batches on their way to a device: which copy is started when, and when host memory may be used again."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from .._forebay import InvalidError

AHEAD = 2
"""Copies that are under way or done, ahead of the batch that the consumer has."""
MOST_COPIES = 6
"""Copies whose host memory is held: one more has to wait for the oldest."""
MARKED_STEPS, MOST_MARKS = 4, 2
"""Every so many batches the point is marked that the device has to come to, and so many marks may be ahead of it: a program that only
queues work would otherwise fill the device with batches. A mark takes 24 us of a host whose step takes 1 ms."""
SETTLED_COPIES = 3
"""Copies that are let go together: they are done in the order they were started in, so one question answers for all."""


class Event(Protocol):
    """A point in a stream of a device."""

    def query(self) -> bool:
        """True when all before it is done."""

    def synchronize(self) -> None:
        """Waits until all before it is done."""


Host = TypeVar("Host", contravariant=True)
Target = TypeVar("Target")


class Copier(Protocol[Host, Target]):
    """Copies to a device, in a stream of their own."""

    def start(self, host: Host) -> tuple[Target, Event]:
        """Begins to copy ``host``; once the event is done, it may be used for something else."""

    def receive(self, target: Target, copied: Event) -> None:
        """Has what the consumer queues from now on wait for the copy, and the memory of ``target`` stay until that is done."""

    def mark(self) -> Event:
        """The point that the consumer's stream has come to."""


class Source(Protocol):
    """Ordered source of batches."""

    def poll(self) -> Any | None:
        """The next batch if it is there, and otherwise None."""

    def poll_following(self) -> Any | None:
        """When there is no more, the first batches of what follows, each if it is there, and otherwise None."""

    def next(self) -> Any | None:
        """The next batch, waiting for it; None when there is no more."""


@dataclass
class _Coming(Generic[Target]):
    """A batch that is being copied, or why there is none."""

    raw: Any
    layout: Any
    target: Target | None = None
    copied: Event | None = None
    error: Exception | None = None


_left_behind: list[Any] = []
"""What a forked child found: it belongs to a device that the child has no access to, and is neither used nor freed."""


class DeviceFeed(Generic[Host, Target]):
    """Gives the batches of a run on a device, in order, each with what the run gave.

    The copies of the next batches are started before a batch is handed out, those of the run that follows among them. Host memory is
    let go once its copy is done. An error comes where its batch would have come. In a forked child nothing of it is touched.

    Args:
        source: the run.
        copier: what copies.
        pieces: of a batch, the host memory to copy, and what ``finish`` needs to know of it.
        finish: the batch, of what ``pieces`` said and where the copies are.
    """

    def __init__(
        self,
        source: Source,
        copier: Copier[Host, Target],
        pieces: Callable[[Any], tuple[Host, Any]],
        finish: Callable[[Any, Any, Target], Any],
    ) -> None:
        self._source, self._copier = source, copier
        self._pieces, self._finish = pieces, finish
        self._coming: deque[_Coming[Target]] = deque()
        # Of the run that follows this one.
        self._following: deque[_Coming[Target]] = deque()
        # Host memory that a copy may still read, oldest first.
        self._copies: deque[tuple[Event, Host]] = deque()
        self._marks: deque[Event] = deque()
        self._given = 0
        self._process = os.getpid()

    def __iter__(self) -> DeviceFeed[Host, Target]:
        return self

    def __next__(self) -> tuple[Any, Any]:
        if self._process != os.getpid():
            self.close()
            raise InvalidError("an epoch does not survive a fork; begin a new one in the child")
        self._let_go()
        self._keep_pace()
        if not self._coming and not self._wait_for_one():
            raise StopIteration
        batch = self._coming.popleft()
        if batch.error is not None:
            raise batch.error
        while len(self._coming) + len(self._following) < AHEAD and self._take_one():
            pass
        assert batch.target is not None and batch.copied is not None
        self._copier.receive(batch.target, batch.copied)
        return batch.raw, self._finish(batch.raw, batch.layout, batch.target)

    def follow(self, source: Source) -> None:
        """Goes on with the run that follows the one that is over: its first batches are on their way."""
        self._source = source
        self._coming, self._following = self._following, deque()

    def close(self) -> None:
        """Waits for the copies that are under way, and lets all go. May be called more than once."""
        held = (self._copies, self._coming, self._following, self._marks)
        self._copies, self._coming, self._following, self._marks = deque(), deque(), deque(), deque()
        if self._process != os.getpid():
            _left_behind.append(held)
            return
        for copied, _ in held[0]:
            copied.synchronize()

    def _wait_for_one(self) -> bool:
        raw = self._source.next()
        if raw is None:
            return False
        self._start(raw, self._coming)
        return True

    def _take_one(self) -> bool:
        """Starts the copy of the next batch if it is there; false when it is not, or there is none after an error."""
        if any(queue and queue[-1].error is not None for queue in (self._coming, self._following)):
            return False
        queue, raw = self._coming, None
        try:
            if not self._following:
                raw = self._source.poll()
            if raw is None:
                queue = self._following
                raw = self._source.poll_following()
        except Exception as error:
            queue.append(_Coming(None, None, error=error))
            return False
        if raw is None:
            return False
        self._start(raw, queue)
        return True

    def _start(self, raw: Any, queue: deque[_Coming[Target]]) -> None:
        while len(self._copies) >= MOST_COPIES:
            self._copies.popleft()[0].synchronize()
        host, layout = self._pieces(raw)
        target, copied = self._copier.start(host)
        self._copies.append((copied, host))
        queue.append(_Coming(raw, layout, target, copied))

    def _let_go(self) -> None:
        """Lets go of host memory whose copies are done."""
        while len(self._copies) >= SETTLED_COPIES and self._copies[SETTLED_COPIES - 1][0].query():
            for _ in range(SETTLED_COPIES):
                self._copies.popleft()

    def _keep_pace(self) -> None:
        """Waits where the device has the work of too many batches to do."""
        self._given += 1
        if self._given % MARKED_STEPS == 0:
            self._marks.append(self._copier.mark())
            if len(self._marks) > MOST_MARKS:
                self._marks.popleft().synchronize()
