"""Callables of the user over batches: run ahead of the consumer by threads, delivered in order."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from collections.abc import Callable, Iterator
from queue import Empty, SimpleQueue
from typing import Any

from .._forebay import BatchLoader, EpochRun, InvalidError, RawBatch
from .delivery import Delivery, Pair

_PATIENCE_SECONDS = 5.0
"""How long an iteration that is closed waits for calls under way: one that takes longer ends when it does."""


class MapDelivery(Delivery):
    """Hands out batches that went through a callable; its threads stay from epoch to epoch."""

    def __init__(self, function: Callable[[RawBatch], Any], threads: int, loader: Callable[[], BatchLoader]) -> None:
        self._mapped = MappedBatches(function, threads)
        self._loader = loader

    def batches(self, run: EpochRun, is_following: bool) -> Iterator[Pair]:
        self._mapped.begin(self._loader(), run)
        while made := self._mapped.next():
            yield made.pop()

    def close(self) -> None:
        self._mapped.close()


class MappedBatches:
    """Batches of one epoch after another that go through a callable, ahead of the consumer.

    What the callable raises is raised in its batch's place, after all batches before it, and is the end.

    The consumer waits on a ``SimpleQueue`` and holds no lock: a signal handler may raise in it at any point. A
    ``threading.Condition`` would be left without its lock.
    """

    def __init__(self, function: Callable[[RawBatch], Any], threads: int) -> None:
        self._function, self._count = function, threads
        self._process = os.getpid()
        self._is_finalizing = sys.is_finalizing
        # The epoch that the consumer is in.
        self._run: EpochRun | None = None
        self._is_closed = False
        self._threads: list[threading.Thread] = []
        # From the consumer to the threads: epochs to take batches of, and a permit for each batch that may be taken. None and
        # False end the threads.
        self._runs: SimpleQueue[EpochRun | None] = SimpleQueue()
        self._permits: SimpleQueue[bool] = SimpleQueue()
        # From the threads to the consumer, as they come: number, batch (None at the end of an epoch), what was made of it, error.
        self._done: SimpleQueue[tuple[int, RawBatch | None, Any, BaseException | None]] = SimpleQueue()
        # Those that came before their turn; the consumer's alone.
        self._early: dict[int, tuple[int, RawBatch | None, Any, BaseException | None]] = {}
        self._delivered = 0
        # Held by the thread that takes a batch: their numbers are those of the order, over all epochs.
        self._taking = threading.Lock()
        self._taken = 0
        self._taken_of: EpochRun | None = None

    def begin(self, loader: BatchLoader, run: EpochRun) -> None:
        """Goes on with ``run``, once all batches of the one before were delivered."""
        self._run = run
        if self._is_closed or (not self._threads and loader.makes_on_caller()):
            return
        self._runs.put(run)
        if self._threads:
            return
        for _ in range(self._count + 1):
            self._permits.put(True)
        for number in range(self._count):
            thread = threading.Thread(target=self._work, name=f"forebay-map-{number}", daemon=True)
            try:
                thread.start()
            except RuntimeError as error:
                # start() waits on a Condition: where a signal handler raised in it, that is the context of its error.
                raise error.__context__ or error from None
            self._threads.append(thread)

    def next(self) -> list[Pair]:
        """The next batch alone, or nothing when the epoch is over."""
        if self._process != os.getpid():
            raise InvalidError("an epoch does not survive a fork; begin a new one in the child")
        run = self._run
        if not self._threads:
            raw = None if run is None or self._is_closed else run.next()
            return [] if raw is None else [(raw, self._function(raw))]
        while not self._is_closed:
            done = self._early.pop(self._delivered, None)
            if done is None:
                done = self._done.get()
                self._early[done[0]] = done
                del done
                continue
            _, raw, value, error = done
            if error is not None:
                raise error
            self._delivered += 1
            if raw is None:
                return []
            self._permits.put(True)
            return [(raw, value)]
        return []

    def _work(self) -> None:
        while self._permits.get() and (taken := self._take()) is not None:
            number, raw = taken
            value = error = None
            try:
                value = self._function(raw)
            except BaseException as raised:
                error = raised
            if self._is_closed:
                break
            self._done.put((number, raw, value, error))
            is_failed = error is not None
            # Nothing here holds on to a batch that was delivered.
            del taken, raw, value, error
            if is_failed:
                return
        # close() puts one for all threads.
        self._permits.put(False)

    def _take(self) -> tuple[int, RawBatch] | None:
        """The next batch and its number, of the next epoch where this one is over; nothing once all is closed."""
        with self._taking:
            while not self._is_closed:
                if self._taken_of is None:
                    self._taken_of = self._runs.get()
                    continue
                raw = error = None
                try:
                    raw = self._taken_of.next()
                except BaseException as raised:
                    error = raised
                number, self._taken = self._taken, self._taken + 1
                if raw is not None:
                    return number, raw
                self._taken_of = None
                self._done.put((number, None, None, error))
        return None

    def close(self) -> None:
        """Ends the threads after the calls they are in. May be called more than once."""
        # At the end of the interpreter threads are gone, and modules are empty.
        if self._is_finalizing() or self._process != os.getpid():
            return
        self._is_closed = True
        self._permits.put(False)
        self._runs.put(None)
        # Wakes a consumer on another thread.
        self._done.put((-1, None, None, None))
        if self._run is not None and self._threads:
            self._run.close()
        for thread in self._threads:
            if thread is not threading.current_thread():
                thread.join(_PATIENCE_SECONDS)
        self._run = None
        self._early.clear()
        with contextlib.suppress(Empty):
            while True:
                self._done.get_nowait()
