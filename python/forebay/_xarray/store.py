"""Files as xarray's backends know them: variables that are read when they are asked for, attributes, encodings."""

from __future__ import annotations

import json
import os
import re
import threading
import weakref
from typing import Any

import numpy as np
from xarray import Variable
from xarray.backends import AbstractDataStore, BackendArray
from xarray.coding.strings import create_vlen_dtype
from xarray.core import indexing

from .._file.file import File, FileVariable, reopened
from .._file.values import typed_attribute_of
from .._tiers.tiers import TierOptions
from .outer_index import outer

# What the libraries of NetCDF-4 keep for themselves; xarray's other engines do not show it either.
RESERVED = frozenset({
    "CLASS", "NAME", "DIMENSION_LIST", "REFERENCE_LIST", "_Netcdf4Dimid", "_Netcdf4Coordinates", "_nc3_strict", "_NCProperties",
    "_NCCOPY",
})  # fmt: skip
# What forebay itself says of Zarr arrays.
ZARR_NOTES = frozenset({"zarr_dtype", "zarr_fill_value"})
HDF5 = frozenset({"hdf5", "netcdf4"})
# What is read in vain between two rows of an array without chunks, rather than asked for apart.
GAP_BYTES = 64 << 10


class OpenedFile:
    """A file that is opened when it is needed, and again after it was closed, as xarray expects; it can be pickled.

    Shapes, types and attributes that xarray has are those of one ``version``: to open another one is an error.
    """

    def __init__(self, path: str, through: TierOptions | None, version: str | None = None) -> None:
        self.path = path
        self._through = through
        self._version = version
        self._file: File | None = None
        self._axes: dict[str, tuple[str, ...]] | None = None
        self._lock = threading.Lock()
        _all_opened.add(self)

    def axes(self, variable: FileVariable) -> tuple[str, ...]:
        """The names of all axes of ``variable``, made up where the file has none."""
        if len(variable.dimensions) == variable.ndim and all(variable.dimensions) and not _inner_shape(variable):
            return variable.dimensions
        if self._axes is None:
            self._axes = _phony_dimensions(self.get())
        return self._axes[variable.name]

    def get(self) -> File:
        """The open file."""
        with self._lock:
            if self._file is None:
                self._file = reopened(self.path, (False, False), self._through, self._version)
                self._version = self._file._version
            return self._file

    def close(self) -> None:
        """Closes it; may be called more than once."""
        with self._lock:
            if self._file is not None:
                self._file.close()
                self._file = self._axes = None

    def __reduce__(self) -> Any:
        return _unpickled, (self.path, self._through, self._version)


_all_opened: weakref.WeakSet[OpenedFile] = weakref.WeakSet()
# All variables of a file that another process sent share one, which would otherwise be opened for each.
_received: weakref.WeakValueDictionary[tuple[str, str | None, str | None], OpenedFile] = weakref.WeakValueDictionary()
_received_lock = threading.Lock()


def _unpickled(path: str, through: TierOptions | None, version: str | None) -> OpenedFile:
    key = path, None if through is None else through.key, version
    with _received_lock:
        found = _received.get(key)
        if found is None:
            found = _received[key] = OpenedFile(path, through, version)
        return found


def _after_fork() -> None:
    """Other threads of the parent may have held the locks."""
    global _received_lock
    _received_lock = threading.Lock()
    for opened in list(_all_opened):
        opened._lock = threading.Lock()


os.register_at_fork(after_in_child=_after_fork)


class FileArray(BackendArray):
    """A variable of a file: ``shape``, ``dtype``, and values once they are asked for."""

    __slots__ = ("_name", "_near", "_opened", "_stored_ndim", "_view", "dtype", "shape")

    def __init__(self, opened: OpenedFile, variable: FileVariable) -> None:
        self._opened = opened
        self._name = variable.name
        self._stored_ndim = variable.ndim
        self._view: np.dtype[Any] | None = _zarr_type(variable)
        shape, dtype = variable.shape, variable.dtype
        if dtype is None:
            dtype = create_vlen_dtype(str) if _is_text(variable) else np.dtype(object)
        elif self._view is not None:
            dtype = self._view
        elif dtype.subdtype is not None:
            # Elements that are arrays bring axes of their own.
            dtype, shape = dtype.subdtype[0], (*shape, *_inner_shape(variable))
        self.shape: tuple[int, ...] = shape
        self.dtype: np.dtype[Any] = dtype
        self._near = _near(variable.chunks, shape, dtype.itemsize)

    def __getitem__(self, key: indexing.ExplicitIndexer) -> Any:
        return indexing.explicit_indexing_adapter(key, self.shape, indexing.IndexingSupport.OUTER, self._read)

    def _read(self, key: tuple[Any, ...]) -> Any:
        variable = self._opened.get()[self._name]

        def read(slices: tuple[slice, ...]) -> Any:
            stored, inner = slices[: self._stored_ndim], slices[self._stored_ndim :]
            values: Any = np.asarray(variable[(*stored, ...)])
            if self._view is not None:
                values = _viewed(values, self._view)
            return values[(..., *inner)] if inner else values

        return outer(read, key, self.shape, self._near, self.dtype)


class FileStore(AbstractDataStore):
    """The variables and attributes of one group of a file."""

    __slots__ = ("_group", "_opened")

    def __init__(self, opened: OpenedFile, group: str | None) -> None:
        self._opened = opened
        self._group = (group or "").strip("/")
        if self._group and self._group not in opened.get().groups:
            raise OSError(f"{opened.path}: group not found: {group}")

    def get_variables(self) -> dict[str, Variable]:
        """Those of the group itself, by name."""
        file = self._opened.get()
        return {name.rpartition("/")[2]: self._variable(file, name) for name in self._names(file)}

    def get_attrs(self) -> dict[str, Any]:
        """Those of the group."""
        file = self._opened.get()
        rows = file._open().group_attributes(self._group) or []
        is_zarr = file.format == "zarr"
        values = _attributes(rows, is_zarr)
        return {name: value for name, value in values.items() if not (is_zarr and name.lower().startswith("_nc"))}

    def get_dimensions(self) -> dict[str, int]:
        """Those that variables of the group have."""
        variables = self.get_variables().values()
        return {str(name): length for variable in variables for name, length in zip(variable.dims, variable.shape)}

    def get_encoding(self) -> dict[str, Any]:
        """Which dimensions may grow."""
        file = self._opened.get()
        is_hdf5 = file.format in HDF5
        # Dimensions of HDF5 belong to a group, and variables of the groups in it have them too.
        growing = set(file._open().growing_scales(self._group)) if is_hdf5 else set()
        for variable in (file[name] for name in self._names(file)):
            named = (*variable.dimensions, *[""] * (variable.ndim - len(variable.dimensions)))
            for given, axis, grows in zip(named, self._opened.axes(variable), _growing(variable)):
                if grows and not (is_hdf5 and given):
                    growing.add(axis)
        return {"unlimited_dims": growing}

    def close(self) -> None:
        """Closes the file; it is opened again for what is read after that."""
        self._opened.close()

    def _names(self, file: File) -> list[str]:
        return [name for name in file if name.rpartition("/")[0] == self._group]

    def _variable(self, file: File, name: str) -> Variable:
        variable, is_zarr = file[name], file.format == "zarr"
        array, dimensions = FileArray(self._opened, variable), self._opened.axes(variable)
        rows = variable._reader.attributes(variable._stored)
        attributes = _attributes(rows, is_zarr)
        if array.dtype.kind == "S" and "_FillValue" in attributes:
            attributes["_FillValue"] = np.bytes_(attributes["_FillValue"])
        encoding = _encoding(variable, array, dimensions, file.format)
        encoding["source"] = self._opened.path
        if "least_significant_digit" in attributes and not is_zarr:
            encoding["least_significant_digit"] = attributes.pop("least_significant_digit")
        return Variable(dimensions, indexing.LazilyIndexedArray(array), attributes, encoding)


def _attributes(rows: Any, is_zarr: bool) -> dict[str, Any]:
    found = {}
    for name, raw in rows:
        if name in RESERVED or (is_zarr and name in ZARR_NOTES):
            continue
        found[name] = typed_attribute_of(raw, as_json=is_zarr and name != "_FillValue")
    return found


def _encoding(variable: FileVariable, array: FileArray, dimensions: tuple[str, ...], format: str) -> dict[str, Any]:
    encoding: dict[str, Any] = {"dtype": _encoded_type(variable, array), "original_shape": array.shape}
    chunks = variable.chunks
    if chunks is not None:
        chunks = (*chunks, *array.shape[len(chunks) :])
        encoding["preferred_chunks"] = dict(zip(dimensions, chunks))
    if format == "zarr":
        encoding["chunks"] = chunks
    if format not in HDF5:
        return encoding
    encoding["chunksizes"], encoding["contiguous"] = chunks, chunks is None
    filters = variable.filters
    level = next((int(name[5:]) for name in filters if re.fullmatch(r"gzip-\d+", name)), 0)
    encoding |= {"zlib": bool(level), "complevel": level}
    encoding |= {name: name in filters for name in ("shuffle", "fletcher32")}
    return encoding


def _encoded_type(variable: FileVariable, array: FileArray) -> Any:
    """The type as xarray writes it: ``str`` for texts, and with the names of its values for an enumeration."""
    if variable.dtype is None:
        return str if _is_text(variable) else array.dtype
    words = re.fullmatch(r"enum \S+ \{(.*)\}", variable._facts[0]["dtype"], re.DOTALL)
    if words is None:
        return array.dtype
    # Names may have commas and equals signs in them.
    members = re.findall(r"(.*?)=(-?\d+)(?:, |$)", words[1], re.DOTALL)
    names = {name: int(value) for name, value in members}
    own = variable.name.rpartition("/")[2]
    # A type without a name needs another than its variable has: both are written into one group.
    enum_name = (variable._facts[0]["type_name"] or f"{own}_enum").rpartition("/")[2]
    return np.dtype(array.dtype, metadata={"enum": names, "enum_name": enum_name})


def _near(chunks: tuple[int, ...] | None, shape: tuple[int, ...], itemsize: int) -> list[int]:
    """How far apart indices along each axis are read together: within neighbouring chunks, or a short gap."""
    if chunks is not None:
        return [*chunks, *shape[len(chunks) :]]
    inner = [int(np.prod(shape[axis + 1 :], dtype=np.int64)) * max(itemsize, 1) for axis in range(len(shape))]
    return [GAP_BYTES // max(length, 1) for length in inner]


def _growing(variable: FileVariable) -> list[bool]:
    """Which of its axes have no bound."""
    return [limit is None for limit in variable._facts[0]["max_shape"]]


def _is_text(variable: FileVariable) -> bool:
    """True for texts of any length."""
    return bool(variable._facts[0]["dtype"] == "string")


def _inner_shape(variable: FileVariable) -> tuple[int, ...]:
    """The axes of elements that are arrays themselves."""
    dtype = variable.dtype
    return () if dtype is None or dtype.subdtype is None or _zarr_type(variable) is not None else dtype.subdtype[1]


def _zarr_type(variable: FileVariable) -> np.dtype[Any] | None:
    """The type that NumPy has for what Zarr calls it: texts of fixed length and times come as numbers."""
    note = variable.attrs.get("zarr_dtype")
    if not isinstance(note, str):
        return None
    try:
        dtype = np.dtype(_zarr_type_name(note))
    except (TypeError, ValueError, KeyError):
        return None
    return dtype.newbyteorder("=") if dtype.kind in "UMm" else None


def _zarr_type_name(note: str) -> str:
    """NumPy's name of a type that a document of version 2 calls by it, and one of version 3 describes."""
    if not note.startswith("{"):
        return note
    described = json.loads(note)
    name, options = described["name"], described["configuration"]
    if name == "fixed_length_utf32":
        return f"<U{int(options['length_bytes']) // 4}"
    kinds = {"numpy.datetime64": "M8", "numpy.timedelta64": "m8"}
    return f"{kinds[name]}[{options.get('scale_factor', 1)}{options['unit']}]"


def _viewed(values: Any, dtype: np.dtype[Any]) -> Any:
    if dtype.kind == "U":
        # Letters along the last axis, as numbers.
        return np.ascontiguousarray(values).view(dtype)[..., 0]
    return values.view(dtype)


def _phony_dimensions(file: File) -> dict[str, tuple[str, ...]]:
    """The names of all axes by variable; an axis without one gets that which the NetCDF library would make up."""
    by_group: dict[str, list[str]] = {}
    for name in file:
        by_group.setdefault(name.rpartition("/")[0], []).append(name)
    # The dimensions of a group come first: an axis of their length without a name is one of them.
    own = {group: [one for one in map(_own_dimension, map(file.__getitem__, names)) if one[0]] for group, names in by_group.items()}
    owned = {group: {name for name, _ in dimensions} for group, dimensions in own.items()}
    named = {_owner(owned, variable.name.rpartition("/")[0], name) for variable in file.values() for name in variable.dimensions if name}
    number, found = len(named), {}
    for group in _inner_first(set(by_group), file.groups):
        known = own[group]
        for name in by_group[group]:
            variable = file[name]
            shape = (*variable.shape, *_inner_shape(variable))
            given = (*variable.dimensions, *[""] * (len(shape) - len(variable.dimensions)))
            grows = (*_growing(variable), *[False] * (len(shape) - variable.ndim))
            axes: list[str] = []
            for axis, size in zip(given, zip(shape, grows)):
                if not axis:
                    axis = next((one for one, other in known if size == other and one not in axes), "")
                if not axis:
                    axis = f"phony_dim_{number}"
                    number += 1
                    known.append((axis, size))
                axes.append(axis)
            found[name] = tuple(axes)
    return found


def _own_dimension(variable: FileVariable) -> tuple[str, tuple[int, bool]]:
    """The name, length and growth of the dimension that a variable stands for; no name where it stands for none."""
    if variable.ndim != 1 or variable.dimensions != (variable.name.rpartition("/")[2],):
        return "", (0, False)
    return variable.dimensions[0], (variable.shape[0], _growing(variable)[0])


def _owner(owned: dict[str, set[str]], group: str, name: str) -> tuple[str, str]:
    """The group that the dimension ``name`` of a variable in ``group`` is of, and the name: one of its own, or of the nearest above it."""
    while group and name not in owned.get(group, ()):
        group = group.rpartition("/")[0]
    return group, name


def _inner_first(groups: set[str], order: tuple[str, ...]) -> list[str]:
    """Groups in the order in which the NetCDF library numbers dimensions: those inside a group before it."""
    places = {name: place for place, name in enumerate(order)}

    def key(group: str) -> list[tuple[int, str]]:
        ends = [end for end, letter in enumerate(f"{group}/") if letter == "/"] if group else []
        above = [(places.get(group[:end], len(places)), group[:end]) for end in ends]
        return [*above, (len(places) + 1, "")]

    return sorted(groups, key=key)
