"""Callables of the user over batches: run ahead of the consumer by threads, delivered in order."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

from ._delivery import Delivery
from ._forebay import BatchLoader, EpochRun, InvalidError, RawBatch

_PATIENCE_SECONDS = 5.0
"""How long an iteration that is closed waits for calls under way: one that takes longer ends when it does."""


class MapDelivery(Delivery):
    """Hands out batches that went through a callable; its threads stay from epoch to epoch."""

    def __init__(self, function: Callable[[RawBatch], Any], threads: int, loader: Callable[[], BatchLoader]) -> None:
        self._mapped = MappedBatches(function, threads)
        self._loader = loader

    def batches(self, run: EpochRun, is_following: bool) -> Iterator[Any]:
        self._mapped.begin(self._loader(), run)
        while made := self._mapped.next():
            yield made.pop()

    def close(self) -> None:
        self._mapped.close()


class MappedBatches:
    """Batches of one epoch after another that go through a callable, ahead of the consumer.

    A batch counts as used when it is delivered, not when the callable had it. What the callable raises is raised in its batch's
    place, after all batches before it, and is the end.
    """

    def __init__(self, function: Callable[[RawBatch], Any], threads: int) -> None:
        self._function, self._count = function, threads
        self._process = os.getpid()
        self._is_finalizing = sys.is_finalizing
        self._changed = threading.Condition()
        # Batches are taken one at a time: their numbers are those of the order.
        self._taking = threading.Lock()
        self._loader: BatchLoader | None = None
        # The epoch that batches are taken of; None at its end.
        self._run: EpochRun | None = None
        self._taken = self._delivered = 0
        self._ahead = threads + 1
        self._done: dict[int, tuple[RawBatch, Any, BaseException | None]] = {}
        self._end: int | None = None
        self._error: BaseException | None = None
        self._is_closed = False
        self._threads: list[threading.Thread] = []

    def begin(self, loader: BatchLoader, run: EpochRun) -> None:
        """Goes on with ``run``, once all batches of the one before were delivered."""
        with self._changed:
            self._loader, self._run = loader, run
            self._taken = self._delivered = 0
            self._end = self._error = None
            self._changed.notify_all()
            if self._threads or self._is_closed or loader.makes_on_caller():
                return
            names = (f"forebay-map-{number}" for number in range(self._count))
            self._threads = [threading.Thread(target=self._work, name=name, daemon=True) for name in names]
            for thread in self._threads:
                thread.start()

    def next(self) -> list[Any]:
        """The next batch alone, or nothing when the epoch is over."""
        if self._process != os.getpid():
            raise InvalidError("an epoch does not survive a fork; begin a new one in the child")
        loader, run = self._loader, self._run
        assert loader is not None
        if not self._threads:
            raw = None if run is None or self._is_closed else run.next(False)
            made = [] if raw is None else [self._function(raw)]
            if raw is not None:
                loader.commit(raw)
            return made
        with self._changed:
            while self._delivered not in self._done:
                if self._is_closed or self._end == self._delivered:
                    if self._error is not None:
                        raise self._error
                    return []
                self._changed.wait()
            raw, value, error = self._done.pop(self._delivered)
            if error is None:
                self._delivered += 1
            self._changed.notify_all()
        if error is not None:
            raise error
        loader.commit(raw)
        return [value]

    def _work(self) -> None:
        while (taken := self._take()) is not None:
            number, raw = taken
            value, error = None, None
            try:
                value = self._function(raw)
            except BaseException as raised:
                error = raised
            with self._changed:
                if self._is_closed:
                    return
                self._done[number] = raw, value, error
                self._changed.notify_all()
            # Nothing here holds on to a batch that was delivered.
            del taken, raw, value
            if error is not None:
                return

    def _take(self) -> tuple[int, RawBatch] | None:
        """The next batch and its number, of the next epoch where this one is over; nothing once all is closed."""
        with self._taking:
            while True:
                with self._changed:
                    while not self._is_closed and (self._run is None or self._taken >= self._delivered + self._ahead):
                        self._changed.wait()
                    run = self._run
                    if self._is_closed or run is None:
                        return None
                raw = error = None
                try:
                    raw = run.next(False)
                except BaseException as raised:
                    error = raised
                with self._changed:
                    if raw is not None:
                        self._taken += 1
                        return self._taken - 1, raw
                    self._end, self._error = self._taken, error
                    self._run = run = None
                    self._changed.notify_all()

    def close(self) -> None:
        """Ends the threads after the calls they are in. May be called more than once."""
        # At the end of the interpreter threads are gone, and modules are empty.
        if self._is_finalizing() or self._process != os.getpid():
            return
        with self._changed:
            self._is_closed = True
            self._done.clear()
            self._changed.notify_all()
            run, self._run = self._run, None
        if run is not None and self._threads:
            # One that is over may be followed by the next.
            run.close()
        for thread in self._threads:
            if thread is not threading.current_thread():
                thread.join(_PATIENCE_SECONDS)
