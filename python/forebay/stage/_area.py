"""Staging areas: folders on a fast tier, or memory, where written bytes wait on their way."""

from __future__ import annotations

import atexit
import contextlib
import multiprocessing
import os
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, TypeAlias

from .._events import ForebayRuntimeWarning
from .._forebay import InvalidError, RawArea, RawStagedFile, stage_settings
from .._sizes import size_of, whole
from ._bar import drain_progress

if TYPE_CHECKING:
    from types import TracebackType

Progress: TypeAlias = "bool | Callable[[dict[str, Any]], object] | None"
"""A bar on standard error (``True``; by default where that is a terminal), or what is called with how far it is."""

_ITEM_KEYS = ("id", "kind", "destination", "state", "bytes", "pid", "is_deserted", "since", "error")
# Whoever ends a program and waits longer wants to know for what.
_QUIET_S = 2.0


#: As in the configuration.
MOST_DRAINERS = 1024


class Area:
    """A staging area: a private folder on a fast tier that the processes of a node share, or memory.

    :param path: a folder on a fast disk, in which a private one is made; or ``"memory"``.
    :param quota: the most that is staged at once, as ``"64GiB"`` or ``"80%"`` of what is free. What does not fit goes straight
        to its destination: a full area fails nothing.
    :param free_floor: what is left free on the disk, whatever the quota.
    :param drainers: threads that bring bytes to their destinations.
    :param bandwidth: bytes a second that they write at most.
    :param memory: bytes of buffers, and of all that is staged in an area in memory.
    :param paused: whether nothing is moved before :meth:`resume`.

    What is not given is taken from the configuration (``[stage]`` of ``forebay.toml``, ``FOREBAY_STAGE``). An area is closed,
    and thereby drained, when the program ends.
    """

    __module__ = "forebay.stage"

    def __init__(
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        quota: int | float | str | None = None,
        free_floor: int | float | str | None = None,
        drainers: int | None = None,
        bandwidth: int | float | str | None = None,
        memory: int | float | str | None = None,
        paused: bool | None = None,
    ) -> None:
        if path is not None and not os.fspath(path):
            raise ValueError("path='' names no folder; give '.' for the current one")
        if not isinstance(paused, bool | None):
            raise TypeError(f"paused={paused!r} is neither True nor False")
        given = {
            "path": None if path is None else os.fspath(path),
            "quota": _amount(quota, "quota"),
            "free_floor": _amount(free_floor, "free_floor"),
            "drainers": None if drainers is None else _drainers(drainers),
            "bandwidth": _amount(bandwidth.removesuffix("/s") if isinstance(bandwidth, str) else bandwidth, "bandwidth"),
            "memory": _amount(memory, "memory"),
            "paused": paused,
        }
        self._settings, is_area = stage_settings(given)
        if not is_area:
            _warn_of_none()
        self._raw = RawArea(self._settings)
        self._is_closed = False
        self._owner = os.getpid()
        _open.add(self)

    @property
    def path(self) -> str | None:
        """The folder, or ``None`` for memory."""
        return self._raw.path

    @property
    def closed(self) -> bool:
        """True once it was closed."""
        return self._is_closed

    def items(self) -> list[dict[str, Any]]:
        """What is in the area, of all processes, as dicts.

        ``id``, ``kind`` (``create`` or ``update``), ``destination``, ``state`` (``open``, ``sealed``, ``draining``, ``settled``,
        ``failed``), ``bytes``, ``pid``, ``is_deserted`` (its process is gone: ``forebay recover``), ``since`` and ``error``.
        """
        return [item_of(row) for row in self._raw.items()]

    def stats(self) -> dict[str, int]:
        """What this process has done here so far: bytes and writes that were staged, drained, merged or passed straight through."""
        return dict(self._raw.stats())

    def drain(self, progress: Progress = None) -> None:
        """Waits until all that this process sealed is durable; Ctrl-C ends the wait and loses nothing.

        ``progress`` is ``True`` for a bar on standard error (the default on a terminal), ``False`` for none, or called with
        a dict of ``files`` and ``bytes`` that are left, and ``done_bytes``. The first error of a file is raised.
        """
        with drain_progress(progress) as report:
            self._raw.drain(report)

    def pause(self, *, everyone: bool = False) -> None:
        """Stops moving bytes to destinations, in this process or for ``everyone`` who uses the area; writes go on."""
        self._raw.pause(everyone)

    def resume(self, *, everyone: bool = False) -> None:
        """Goes on moving bytes."""
        self._raw.resume(everyone)

    @contextlib.contextmanager
    def paused(self) -> Iterator[Area]:
        """A ``with`` block in which nothing is moved by this process."""
        self.pause()
        try:
            yield self
        finally:
            self.resume()

    def close(self, progress: Progress = None) -> None:
        """Drains the area and ends its threads; it resumes one that is paused. May be called more than once."""
        if self._is_closed:
            return
        self.resume()
        self.drain(progress)
        self._raw.close()
        self._is_closed = True
        _open.discard(self)

    def _create(self, path: str, priority: int, latest: str | None, exclusive: bool) -> RawStagedFile:
        """A new file for the absolute ``path``; with ``exclusive``, none may be there."""
        if self._is_closed:
            raise InvalidError(f"{self!r} was closed")
        if self._owner != os.getpid():
            # A forked child has threads of its own, and drains what it stages when it ends.
            self._owner = os.getpid()
            _open.add(self)
        return self._raw.create(path, priority, latest, exclusive)

    def __enter__(self) -> Area:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __reduce__(self) -> Any:
        return _unpickled, (self._settings,)

    def __repr__(self) -> str:
        return f"<forebay.stage.Area {self.path or 'memory'}{' closed' if self._is_closed else ''}>"


def item_of(row: tuple[Any, ...]) -> dict[str, Any]:
    """An item of an area, as a dict."""
    return dict(zip(_ITEM_KEYS, row))


def _amount(amount: int | float | str | None, what: str) -> int | str | None:
    """Bytes, or text that is a share such as ``"50%"``."""
    if isinstance(amount, str) and amount.endswith("%") and what != "bandwidth":
        return amount
    try:
        return size_of(amount, what)
    except ValueError as error:
        raise ValueError(f"{what}={amount!r}: {error}") from None


def _drainers(count: int) -> int:
    if whole("drainers", count) > MOST_DRAINERS:
        raise ValueError(f"drainers={count}: at most {MOST_DRAINERS}")
    return count


def _warn_of_none() -> None:
    warnings.warn(
        "no staging area is configured, so files are written straight to their destinations: set FOREBAY_STAGE to a folder on a "
        "fast disk, or give area=",
        ForebayRuntimeWarning,
        stacklevel=2,
    )


def _unpickled(settings: dict[str, Any]) -> Area:
    """The area of a process that was spawned: the same folder, with threads of its own."""
    area = Area.__new__(Area)
    area._settings, area._raw, area._is_closed, area._owner = settings, RawArea(settings), False, os.getpid()
    _open.add(area)
    return area


class _OpenAreas:
    """The areas of this process, which are drained when it ends."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._areas: list[Area] = []
        self._named: dict[str | None, Area] = {}
        self._is_registered = False

    def add(self, area: Area) -> None:
        with self._lock:
            self._areas.append(area)
            if not self._is_registered:
                self._is_registered = True
                _drain_in_workers()

    def discard(self, area: Area) -> None:
        with self._lock:
            self._areas = [other for other in self._areas if other is not area]
            self._named = {name: other for name, other in self._named.items() if other is not area}

    def named(self, path: str | None) -> Area:
        """The area in the folder ``path``, or that of the configuration; opened by whoever asks first."""
        with self._lock:
            found = self._named.get(path)
        if found is not None:
            return found
        made = Area(path)
        with self._lock:
            kept = self._named.setdefault(path, made)
        if kept is not made:
            made.close()
        return kept

    def all(self) -> list[Area]:
        with self._lock:
            return list(self._areas)


_open = _OpenAreas()


def area_of(area: Area | str | os.PathLike[str] | None) -> Area:
    """The area that an argument names: an :class:`Area`, a folder or ``"memory"``, or ``None`` for the configured one."""
    if isinstance(area, Area):
        return area
    if area is None:
        return _open.named(None)
    path = os.fspath(area)
    return _open.named(path if path == "memory" else os.path.abspath(path))


def areas() -> list[Area]:
    """The areas that this process has open."""
    return _open.all()


_last: list[Callable[[], None]] = []


def at_exit(work: Callable[[], None]) -> None:
    """Has ``work`` done when the program ends and all areas are drained."""
    _last.append(work)


def _drain_all() -> None:
    """Drains all areas when the program ends; what cannot be moved stays staged, and is told."""
    for area in _open.all():
        try:
            _drain_telling(area)
        except KeyboardInterrupt:
            for left in _open.all():
                left._raw.leave()
            _say(f"interrupted; {_kept(area)}")
            return
        except Exception as error:
            area._raw.leave()
            _say(f"{error}; {_kept(area)}")
    for work in _last:
        try:
            work()
        except KeyboardInterrupt:
            return
        except Exception as error:
            _say(f"{error}")


def _kept(area: Area) -> str:
    """What becomes of that which is not durable when the program ends."""
    if area.path is None:
        return "what was staged in memory and is not durable is lost"
    return f"what is not durable stays in {area.path}: `forebay recover {area.path}` finishes it"


def _drain_telling(area: Area) -> None:
    began, told = time.monotonic(), False

    def tell(done: dict[str, Any]) -> None:
        nonlocal told
        if not told and time.monotonic() - began > _QUIET_S:
            told = True
            keep = f"leaves them in {area.path}" if area.path else "loses them"
            _say(f"waiting for {done['files']} files ({done['bytes'] / 1e6:,.0f} MB) to become durable; Ctrl-C {keep}")

    area.close(tell)


def _say(text: str) -> None:
    # Standard error may be closed when the interpreter ends.
    with contextlib.suppress(Exception):
        print(f"forebay: {text}", file=sys.stderr, flush=True)


atexit.register(_drain_all)


def _drain_in_workers() -> None:
    """A worker of ``multiprocessing`` that was forked ends without ``atexit``."""
    if multiprocessing.parent_process() is not None:
        from multiprocessing import util

        util.Finalize(None, _drain_all, exitpriority=10)


def _after_fork() -> None:
    """What the parent has open is the parent's; the lock may have been held."""
    global _open
    _open = _OpenAreas()


os.register_at_fork(after_in_child=_after_fork)
