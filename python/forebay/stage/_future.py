"""Futures of staged files: when one is staged, and when it is durable."""

from __future__ import annotations

import asyncio
import concurrent.futures
import os
import threading
from collections.abc import Generator
from typing import Any

from .._forebay import RawSealed

# How late callbacks and coroutines may be; `result` and `done` ask the compiled part and are not late.
_TICK_S = 0.02


class StageFuture(concurrent.futures.Future[str]):
    """One event of a file, as a ``concurrent.futures.Future`` whose result is the path of the destination.

    It can be waited for by ``result(timeout)``, ``concurrent.futures.wait`` and ``await``. It cannot be cancelled; it is
    cancelled when its file is abandoned.
    """

    __module__ = "forebay.stage"

    def __init__(self, path: str, event: str) -> None:
        super().__init__()
        self.path = path
        """The destination."""
        self.event = event
        """``"staged"`` or ``"durable"``."""
        self._sealed: RawSealed | None = None
        # Reentrant: what settles it runs callbacks, which may ask whether it is done.
        self._settling = threading.RLock()
        # What is running cannot be cancelled; before the file is sealed only abandoning it cancels.
        self._process = os.getpid()

    def cancel(self) -> bool:
        """False: bytes that were written are on their way."""
        return self.cancelled()

    def done(self) -> bool:
        """True when the event has happened, or never will."""
        return self._settle()

    def result(self, timeout: float | None = None) -> str:
        """The path of the destination, once the event has happened; the error that ended it is raised."""
        self._wait(timeout)
        return super().result(timeout)

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """The error that ended it, or ``None`` once the event has happened."""
        self._wait(timeout)
        return super().exception(timeout)

    def __await__(self) -> Generator[Any, None, str]:
        return asyncio.wrap_future(self).__await__()

    def _wait(self, timeout: float | None) -> None:
        """Waits in the compiled part, without a thread in between."""
        sealed = self._sealed
        if sealed is None or super().done():
            return
        if not sealed.wait(self.event, timeout):
            raise concurrent.futures.TimeoutError(f"{self.path} is not {self.event} yet")
        self._settle()

    def _settle(self) -> bool:
        """Takes over what the compiled part knows; true when it is over."""
        sealed = self._sealed
        if super().done():
            return True
        if sealed is None or not sealed.is_set(self.event):
            return False
        with self._settling:
            if super().done():
                return True
            error = sealed.error(self.event)
            if error is None:
                self.set_result(self.path)
            else:
                self.set_exception(error)
        return True

    def _begin(self, sealed: RawSealed) -> None:
        """Its file was sealed."""
        self.set_running_or_notify_cancel()
        self._sealed = sealed
        _watcher.add(self)

    def _fail(self, error: BaseException) -> None:
        """Its file could not be sealed."""
        if not super().done():
            self.set_exception(error)

    def _drop(self) -> None:
        """Its file was abandoned."""
        if super().cancel():
            self.set_running_or_notify_cancel()

    def __repr__(self) -> str:
        state = "pending"
        if super().done():
            state = "cancelled" if self.cancelled() else "failed" if super().exception() else "done"
        return f"<forebay.stage.StageFuture {self.event} of {self.path}: {state}>"


class _Watcher:
    """One thread that settles futures, so that their callbacks run and coroutines go on; it ends when none is pending."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._pending: list[StageFuture] = []
        self._thread: threading.Thread | None = None

    def add(self, future: StageFuture) -> None:
        with self._lock:
            self._pending.append(future)
            if self._thread is None:
                self._thread = threading.Thread(target=self._watch, name="forebay-futures", daemon=True)
                self._thread.start()

    def _watch(self) -> None:
        while True:
            with self._lock:
                pending = list(self._pending)
                if not pending:
                    self._thread = None
                    return
            first = pending[0]
            if first._sealed is not None:
                first._sealed.wait(first.event, _TICK_S)
            done = {id(future) for future in pending if future._settle()}
            with self._lock:
                self._pending = [future for future in self._pending if id(future) not in done]


_watcher = _Watcher()


def _after_fork() -> None:
    """Threads and what they wait for are the parent's."""
    global _watcher
    _watcher = _Watcher()


os.register_at_fork(after_in_child=_after_fork)
