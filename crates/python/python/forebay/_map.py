"""Callables of the user over batches: run ahead of the consumer by threads, delivered in order."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Any

from ._forebay import BatchLoader, EpochRun, RawBatch

_PATIENCE_SECONDS = 5.0
"""How long an epoch that is closed waits for calls under way: one that takes longer ends when it does."""


class MappedRun:
    """An epoch whose batches go through a callable, ahead of the consumer.

    A batch counts as used when it is delivered, not when the callable had it. What the callable raises is raised in its batch's
    place, after all batches before it.
    """

    def __init__(self, loader: BatchLoader, run: EpochRun, function: Callable[[RawBatch], Any], threads: int) -> None:
        self._loader, self._run = loader, run
        self._function = function
        self._process = os.getpid()
        self._changed = threading.Condition()
        # Batches are taken one at a time: their numbers are those of the order.
        self._taking = threading.Lock()
        self._taken = self._delivered = 0
        self._ahead = threads + 1
        self._done: dict[int, tuple[RawBatch, Any, BaseException | None]] = {}
        self._end: int | None = None
        self._error: BaseException | None = None
        self._is_closed = False
        self._threads: list[threading.Thread] = []
        if not loader.makes_on_caller():
            for number in range(threads):
                thread = threading.Thread(target=self._work, name=f"forebay-map-{number}", daemon=True)
                self._threads.append(thread)
            for thread in self._threads:
                thread.start()

    def next(self) -> list[Any]:
        """The next batch alone, or nothing when the epoch is over."""
        if not self._threads:
            raw = self._run.next(False)
            made = [] if raw is None else [self._function(raw)]
            if raw is not None:
                self._loader.commit(raw)
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
        self._loader.commit(raw)
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
        """The next batch and its number; nothing when there is none."""
        with self._taking:
            with self._changed:
                while not self._is_closed and self._taken >= self._delivered + self._ahead:
                    self._changed.wait()
                if self._is_closed or self._end is not None:
                    return None
            raw = error = None
            try:
                raw = self._run.next(False)
            except BaseException as raised:
                error = raised
            with self._changed:
                if raw is None:
                    self._end, self._error = self._taken, error
                    self._changed.notify_all()
                    return None
                self._taken += 1
                return self._taken - 1, raw

    def close(self) -> None:
        """Ends the threads after the calls they are in. May be called more than once."""
        if self._process != os.getpid():
            return
        with self._changed:
            self._is_closed = True
            self._done.clear()
            self._changed.notify_all()
            is_over = self._end is not None
        if not is_over:
            # One that is over may be followed by the next.
            self._run.close()
        for thread in self._threads:
            if thread is not threading.current_thread():
                thread.join(_PATIENCE_SECONDS)
