"""Sees files when the libraries that write them close them, and stores when a test ends."""

from __future__ import annotations

import functools
import os
import shutil
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

Check = Callable[..., None]
# A property-based test makes stores by the thousand.
STORES_PER_TEST = 100
ZARR_DOCUMENTS = ("zarr.json", ".zarray", ".zgroup")


class Watch:
    """What the running test has opened; ``check`` is called with each path that was closed."""

    def __init__(self, check: Check) -> None:
        self.check = check
        self.opened: dict[str, Callable[[str], bool]] = {}
        self.stores: list[Any] = []
        self.copied: set[int] = set()
        self.closed: list[Any] = []
        self.locks: list[Any] = []

    def close(self, path: Any) -> None:
        """Checks a file that was just closed, or has it wait while a lock is held that reading it again would want."""
        if any(lock.locked() for lock in self.locks):
            self.closed.append(path)
        else:
            self.check(path)

    def check_closed(self) -> None:
        """Checks the files that had to wait."""
        closed, self.closed = self.closed, []
        for path in closed:
            self.check(path)

    def end_test(self) -> None:
        """Checks what the test left behind: files that were closed by nobody's call, stores."""
        self.check_closed()
        opened, self.opened = self.opened, {}
        for path, is_open in opened.items():
            if not is_open(path):
                self.check(path)
        stores, self.stores = self.stores[:STORES_PER_TEST], []
        for store in stores:
            self.check_store(store)

    def check_store(self, store: Any) -> None:
        """Checks a Zarr store, or a copy as a folder of one that is none."""
        if isinstance(store, (str, os.PathLike)):
            for root in _roots(Path(store)):
                self.check(root)
            return
        folder = tempfile.mkdtemp(prefix="peers-")
        try:
            content = _copy_store(store, folder)
            if content is not None and content not in self.copied:
                self.copied.add(content)
                for root in _roots(Path(folder)):
                    self.check(root, f"{type(store).__name__}/{root.relative_to(folder)}")
        finally:
            shutil.rmtree(folder)


def _roots(folder: Path) -> list[Path]:
    """The topmost folders that are groups or arrays."""
    if not folder.is_dir():
        return []
    if any((folder / name).exists() for name in ZARR_DOCUMENTS):
        return [folder]
    return [root for below in sorted(folder.iterdir()) if below.is_dir() for root in _roots(below)]


def _copy_store(store: Any, folder: str) -> int | None:
    """Copies a store into ``folder``; gives a hash of all it holds, or nothing where it holds nothing."""
    if type(store).__name__ == "ZipStore":
        if not zipfile.is_zipfile(store.path):
            return None
        with zipfile.ZipFile(store.path) as archive:
            items = [(name, archive.read(name)) for name in archive.namelist() if not name.endswith("/")]
    else:
        items = [(key, buffer.to_bytes()) for key, buffer in dict(store._store_dict).items()]
    for key, value in items:
        place = Path(folder, key)
        if not place.resolve().is_relative_to(Path(folder).resolve()) or place.is_dir():
            continue
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(value)
    return hash(tuple(sorted(items))) if items else None


def watch_h5py(watch: Watch) -> None:
    import h5py

    def is_open(path: str) -> bool:
        ids = h5py.h5f.get_obj_ids(h5py.h5f.OBJ_ALL, h5py.h5f.OBJ_FILE)
        return any(os.path.realpath(os.fsdecode(file.name)) == os.path.realpath(path) for file in ids)

    opening, closing = h5py.File.__init__, h5py.File.close

    @functools.wraps(opening)
    def init(self: Any, name: Any, *args: Any, **options: Any) -> None:
        opening(self, name, *args, **options)
        if isinstance(name, (str, bytes, os.PathLike)) and options.get("driver") in (None, "sec2", "stdio"):
            watch.opened[os.path.abspath(os.fsdecode(name))] = is_open

    @functools.wraps(closing)
    def close(self: Any) -> None:
        path = self.filename if self and self.driver in ("sec2", "stdio", "core") else None
        closing(self)
        if path and os.path.exists(path) and not is_open(path):
            watch.close(path)

    h5py.File.__init__, h5py.File.close = init, close


def watch_tables(watch: Watch) -> None:
    import tables

    def is_open(path: str) -> bool:
        return any(os.path.realpath(name) == os.path.realpath(path) for name in tables.file._open_files.filenames)

    # Registers the filters of PyTables with h5py, which reads its files.
    import hdf5plugin  # noqa: F401

    closing = tables.File.close

    @functools.wraps(closing)
    def close(self: Any) -> None:
        path = os.path.abspath(self.filename)
        closing(self)
        if not is_open(path):
            watch.close(path)

    tables.File.close = close


def watch_netcdf4(watch: Watch) -> None:
    """The class is compiled and cannot be changed: a class of the same name takes its place, and groups are of it too."""
    import netCDF4

    compiled = netCDF4.Dataset

    class AnyDataset(type):
        def __instancecheck__(cls, value: Any) -> bool:
            return isinstance(value, compiled)

    class Dataset(compiled, metaclass=AnyDataset):  # type: ignore[misc, valid-type]
        def close(self) -> Any:
            path = self.filepath() if self.isopen() else None
            buffer = super().close()
            if path is not None:
                watch.close(path)
            return buffer

    Dataset.__module__, Dataset.__qualname__ = "netCDF4", "Dataset"
    netCDF4.Dataset = Dataset


def watch_scipy(watch: Watch) -> None:
    from scipy.io import netcdf_file

    closing = netcdf_file.close

    @functools.wraps(closing)
    def close(self: Any) -> None:
        path = getattr(self, "filename", None)
        closing(self)
        watch.close(path)

    netcdf_file.close = close


def watch_zarr(watch: Watch) -> None:
    from zarr.storage import LocalStore, MemoryStore, ZipStore

    def wrap(kind: Any, value: Callable[[Any], Any]) -> None:
        opening = kind.__init__

        @functools.wraps(opening)
        def init(self: Any, *args: Any, **options: Any) -> None:
            opening(self, *args, **options)
            if len(watch.stores) < STORES_PER_TEST:
                found = value(self)
                if found not in watch.stores:
                    watch.stores.append(found)

        kind.__init__ = init

    wrap(LocalStore, lambda store: Path(store.root))
    wrap(MemoryStore, lambda store: store)
    wrap(ZipStore, lambda store: store)


def watch_xarray(watch: Watch) -> None:
    """xarray closes files under its own locks, and its tests remove what they wrote: both are checked as a write ends."""
    import xarray
    from xarray.backends import locks

    watch.locks += [locks.HDF5_LOCK, locks.NETCDFC_LOCK]

    def wrap(kind: Any, name: str, checked: Callable[[Any], None]) -> None:
        writing = getattr(kind, name)

        @functools.wraps(writing)
        def write(self: Any, *args: Any, **options: Any) -> Any:
            result = writing(self, *args, **options)
            targets = [*args[:1], *(options[key] for key in ("store", "path", "filepath") if key in options)]
            if targets and options.get("compute", True):
                checked(targets[0])
            return result

        setattr(kind, name, write)

    def check_store(store: Any) -> None:
        if isinstance(store, (str, os.PathLike)) and "://" not in os.fspath(store):
            watch.check_store(Path(store))
        elif type(store).__name__ == "MemoryStore":
            watch.check_store(store)

    for kind in (xarray.Dataset, xarray.DataArray, xarray.DataTree):
        wrap(kind, "to_zarr", check_store)
        wrap(kind, "to_netcdf", lambda target: (watch.check_closed(), watch.check(target))[0])
