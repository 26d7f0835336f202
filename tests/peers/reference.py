"""What other libraries read from a file: its variables by the names forebay gives them, and their stored values."""

from __future__ import annotations

import contextlib
import os
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

Variables = dict[str, Callable[[], Any]]
# Larger ones are not compared: some tests make arrays of terabytes that hold nothing.
LARGEST_BYTES = 256 << 20


class TooLarge(Exception):
    """A variable that would take long to compare."""


@contextlib.contextmanager
def variables(path: str, kind: str) -> Iterator[Variables]:
    """The variables of the file at ``path``, of the format that forebay calls ``kind``, by its own library."""
    opening = {"zarr": zarr_variables, "netcdf3": netcdf_variables, "netcdf4": netcdf_variables}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with opening.get(kind, hdf5_variables)(path) as found:
            yield found


@contextlib.contextmanager
def hdf5_variables(path: str) -> Iterator[Variables]:
    """Every name of every data set in groups that hard links lead to."""
    import h5py

    with h5py.File(path, "r", locking=False) as file:
        found = Found(lambda name: _find_hdf5(h5py, file, name))
        _walk_hdf5(h5py, file, b"", found, set())
        yield found


class Found(dict[str, Callable[[], Any]]):
    """Variables by name; ``find`` looks for one that the walk did not meet, or raises :class:`KeyError`."""

    def __init__(self, find: Callable[[str], Callable[[], Any]]) -> None:
        super().__init__()
        self.find = find

    def __missing__(self, name: str) -> Callable[[], Any]:
        return self.find(name)


def _find_hdf5(h5py: Any, file: Any, name: str) -> Callable[[], Any]:
    """A data set behind a link to a group."""
    member = file[name]
    if not isinstance(member, h5py.Dataset):
        raise KeyError(name)
    return lambda: _hdf5_values(h5py, member)


def _walk_hdf5(h5py: Any, group: Any, prefix: bytes, found: Variables, above: set[Any]) -> None:
    """Enters each group once, as forebay does; a link that leads nowhere is no variable."""
    address = (h5py.h5o.get_info(group.id).fileno, h5py.h5o.get_info(group.id).addr)
    if address in above:
        return
    above.add(address)
    for name in group.id:
        try:
            member = group[name]
        except (KeyError, OSError, RuntimeError):
            continue
        path = prefix + name
        if isinstance(member, h5py.Dataset):
            found[_name(path)] = lambda member=member: _hdf5_values(h5py, member)
        elif isinstance(member, h5py.Group) and isinstance(group.get(_text(name), getlink=True), h5py.HardLink):
            _walk_hdf5(h5py, member, path + b"/", found, above)


def _text(name: bytes) -> str:
    return name.decode("utf-8", "surrogateescape")


def _name(path: bytes) -> str:
    """The name as forebay writes it: bytes that are no UTF-8 are escaped."""
    return path.decode("utf-8", "backslashreplace")


def _hdf5_values(h5py: Any, dataset: Any) -> Any:
    if dataset.shape is None:
        # A null data space: forebay has an array of no elements.
        return np.empty(0, dataset.dtype)
    _limit(dataset.shape, dataset.dtype)
    values = np.asarray(dataset[()], dataset.dtype if dataset.dtype.hasobject and dataset.shape == () else None)
    item = h5py.check_vlen_dtype(dataset.dtype)
    return _ordered(values, item) if isinstance(item, np.dtype) and not item.isnative else values


def _ordered(sequences: Any, item: np.dtype[Any]) -> Any:
    """h5py leaves the bytes of sequences as they are stored and calls them native: even what it wrote itself."""
    found = np.empty(sequences.shape, object)
    for index in np.ndindex(sequences.shape):
        found[index] = sequences[index].view(item)
    return found


@contextlib.contextmanager
def netcdf_variables(path: str) -> Iterator[Variables]:
    """Every variable of every group, as stored."""
    import netCDF4

    with netCDF4.Dataset(path, "r") as file:
        file.set_auto_maskandscale(False)
        file.set_auto_chartostring(False)
        file.set_always_mask(False)
        found: Variables = {}
        _walk_netcdf(file, "", found)
        yield found


def _walk_netcdf(group: Any, prefix: str, found: Variables) -> None:
    for name, variable in group.variables.items():
        found[prefix + name] = lambda variable=variable: _netcdf_values(variable)
    for name, member in group.groups.items():
        _walk_netcdf(member, f"{prefix}{name}/", found)


def _netcdf_values(variable: Any) -> Any:
    _limit(variable.shape, np.dtype(getattr(variable, "dtype", None) or object))
    values = variable[...]
    if variable.shape == () and (isinstance(values, str) or variable.dtype == object or _is_sequence(variable)):
        element = np.empty((), object)
        element[()] = values
        return element
    return np.asarray(values)


def _is_sequence(variable: Any) -> bool:
    import netCDF4

    return isinstance(variable.datatype, netCDF4.VLType)


@contextlib.contextmanager
def zarr_variables(path: str) -> Iterator[Variables]:
    """Every array of every group; an array by itself is called ``.``."""
    import zarr

    root = zarr.open(path, mode="r")
    if isinstance(root, zarr.Array):
        yield {".": lambda: _zarr_values(root)}
        return
    found = Found(lambda name: _find_zarr(zarr, path, name))
    for name, member in root.members(max_depth=None):
        if isinstance(member, zarr.Array):
            found[name] = lambda member=member: _zarr_values(member)
    yield found


def _find_zarr(zarr: Any, path: str, name: str) -> Callable[[], Any]:
    """An array below a folder that is no group: forebay lists it, zarr-python opens it by its path alone."""
    above = [os.path.join(path, *name.split("/")[:count]) for count in range(1, name.count("/") + 1)]
    documents = ("zarr.json", ".zgroup")
    if all(any(os.path.exists(os.path.join(folder, one)) for one in documents) for folder in above):
        raise KeyError(name)
    array = zarr.open_array(os.path.join(path, name), mode="r")
    return lambda: _zarr_values(array)


def _zarr_values(array: Any) -> Any:
    _limit(array.shape, np.dtype(object) if array.dtype.kind == "T" else array.dtype)
    values = array[...]
    if isinstance(values, (str, bytes)) and array.dtype.kind in "TO":
        return np.array(values, object)
    values = np.asarray(values)
    if values.dtype.kind == "T":
        return values.astype(object)
    return values


def _limit(shape: tuple[int, ...], dtype: Any) -> None:
    if np.prod(shape, dtype=float) * max(dtype.itemsize, 1) > LARGEST_BYTES:
        raise TooLarge(f"more than {LARGEST_BYTES >> 20} MiB")


def stamp(path: str) -> Any:
    """Tells versions of a file or folder apart."""
    if not os.path.isdir(path):
        status = os.stat(path)
        return status.st_ino, status.st_size, status.st_mtime_ns
    found = []
    for folder, _, names in os.walk(path):
        for name in names:
            status = os.stat(os.path.join(folder, name))
            found.append((folder, name, status.st_size, status.st_mtime_ns))
    return hash(tuple(sorted(found)))
