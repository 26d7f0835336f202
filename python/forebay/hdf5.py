"""Control of the HDF5 VOL connector from the program that it is loaded into.

The connector is switched on by the environment (``forebay hdf5-env``) and needs none of this: the functions here pause it, ask
what it has done, and bring data sets near before they are read. In a program without the connector they do nothing.

    import h5py, forebay.hdf5

    with h5py.File("train.h5") as file:
        forebay.hdf5.prestage(file["image"], blocking=False)
        ...
        print(forebay.hdf5.stats())
"""

from __future__ import annotations

import contextlib
import ctypes
import math
from pathlib import Path
from typing import Any, cast, TypedDict

__all__ = ["Stats", "include", "is_loaded", "pause", "prestage", "start", "stats", "switch", "wait"]

_LIBRARY = "libforebay_vol.so"


class Stats(TypedDict):
    """What the connector has done in this process, in bytes."""

    hit: int
    """Read from the cache."""
    filled: int
    """Read from files to fill the cache."""
    passed: int
    """Read by HDF5 as without the connector."""
    kept: int
    """Put into the cache."""
    refused: int
    """Not put there: no room, or the file had changed."""
    used: int
    """What the cache holds."""
    quota: int
    """The most that it may hold."""


class _Counters(ctypes.Structure):
    _fields_ = [(name, ctypes.c_uint64) for name in Stats.__annotations__]


def _mapped(name: str) -> str | None:
    """The path of the library called ``name`` that is loaded, if one is."""
    with contextlib.suppress(OSError), open("/proc/self/maps") as maps:
        for line in maps:
            path = line.rstrip("\n").split(maxsplit=5)[-1]
            if name in path and path.startswith("/"):
                return path
    return None


def _library() -> ctypes.CDLL | None:
    path = _mapped(_LIBRARY)
    return None if path is None else ctypes.CDLL(path)


def is_loaded() -> bool:
    """Whether HDF5 has loaded the connector: it does so when the first file is opened."""
    return _library() is not None


def include() -> str:
    """The folder with ``forebay_hdf5.h``, for programs in C."""
    return str(Path(__file__).with_suffix("") / "include")


def pause() -> None:
    """Has reads pass the cache, and puts nothing into it, until :func:`start`."""
    library = _library()
    if library is not None:
        library.forebay_hdf5_pause()


def start() -> None:
    """Ends a pause."""
    library = _library()
    if library is not None:
        library.forebay_hdf5_start()


def stats() -> Stats:
    """What the connector has done in this process."""
    counters, library = _Counters(), _library()
    if library is not None:
        library.forebay_hdf5_stats(ctypes.byref(counters))
    return cast(Stats, {name: int(getattr(counters, name)) for name in Stats.__annotations__})


def prestage(dataset: Any, *, blocking: bool = True) -> bool:
    """Brings an h5py data set, a PyTables array or an HDF5 handle into the cache.

    In the background a thread reads the file where a data set lies in it in one piece; any other goes on a step with each
    read of it, as HDF5 must not be called by several threads, or by ``wait(dataset=...)``. False where the connector does not
    serve it.
    """
    return _on(dataset, "forebay_hdf5_prestage_of", ctypes.c_int(blocking))


def switch(file: Any, on: bool) -> bool:
    """Switches the cache on or off for one open file. False where the connector does not serve it."""
    return _on(file, "forebay_hdf5_switch_of", ctypes.c_int(on))


def wait(timeout: float | None = None, *, dataset: Any = None) -> bool:
    """Waits until what was read or is being prestaged is in the cache; first finishes ``dataset``, if one is given.

    False when ``timeout`` seconds were not enough.
    """
    if dataset is not None:
        _on(dataset, "forebay_hdf5_finish_of")
    library = _library()
    if library is None:
        return True
    return bool(library.forebay_hdf5_wait(ctypes.c_double(math.inf if timeout is None else timeout)))


def _on(thing: Any, function: str, *arguments: Any) -> bool:
    library = _library()
    if library is None:
        return False
    of_hdf5, handle = _handle(thing)
    with _lock(thing):
        call = getattr(library, function)
        return int(call(ctypes.c_char_p(of_hdf5.encode()), ctypes.c_int64(handle), *arguments)) >= 0


def _handle(thing: Any) -> tuple[str, int]:
    """Part of the path of the libhdf5 that ``thing`` belongs to, and its handle there."""
    if isinstance(thing, int):
        return "", thing
    if hasattr(thing, "_v_objectid"):
        return "tables.libs" if _mapped("tables.libs/libhdf5") else "", int(thing._v_objectid)
    return "h5py.libs" if _mapped("h5py.libs/libhdf5") else "", int(getattr(thing.id, "id", thing.id))


def _lock(thing: Any) -> contextlib.AbstractContextManager[Any]:
    """h5py lets one thread at a time into its HDF5."""
    if type(thing).__module__.startswith("h5py"):
        from h5py._objects import phil  # type: ignore[import-untyped, unused-ignore]

        lock: contextlib.AbstractContextManager[Any] = phil
        return lock
    return contextlib.nullcontext()
