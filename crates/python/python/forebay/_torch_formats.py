"""The call of the Stimulus paper for each format: a path, a field, a label, a boundary."""

from __future__ import annotations

import math
import operator
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from . import _dataset
from ._forebay import ForebayError, format_at
from ._read import inspect as inspect_file
from ._samples import Boundary, Field, Fixed, Paths, Ragged
from ._torch_dataset import Batch, Dataset, _Samples

import numpy as np  # isort: skip
import torch  # isort: skip


class _Pairs(Dataset):
    """Samples of files of one format as pairs ``(data, label)`` of tensors."""

    _formats: tuple[str, ...] = ()
    """How the names of formats begin that it takes."""
    _options: dict[str, Any] = {}
    """What it says to :func:`forebay.open`."""

    def __init__(
        self,
        *source: Any,
        transfer_size: int | str | None = None,
        read_threads: int | None = None,
        memory: int | str | None = None,
        **through: Any,
    ) -> None:
        sources = _sources(source)
        field: Any
        label: Any
        field, label = sources[0][1:3]
        if any(one[1:3] != (field, label) for one in sources):
            raise ValueError("all files must name the same field and label")
        if read_threads is not None and read_threads < 1:
            raise ValueError(f"read_threads={read_threads}; at least 1 is needed")
        known = {path: _look(path) for path, *_ in sources}
        for path, facts in known.items():
            self._check_file(path, facts)
        through = {**self._options, **through}
        field, label = (self._variable(known[sources[0][0]], name) for name in (field, label))
        boundaries = {path: _boundary(path, field, boundary, known[path]) for path, _, _, boundary in sources}
        samples = boundaries[sources[0][0]]
        for path, other in boundaries.items():
            if other != samples:
                raise ValueError(f"{path}: samples are {other}, in {sources[0][0]} {samples}")
        names: dict[str, str | Field] = {"data": Field(field, samples=samples)}
        if label is not None:
            names["label"] = Field(label, samples=Fixed(1))
        files = [path for path, *_ in sources]
        super().__init__(_dataset.open(files, names, memory=memory, transfer_size=transfer_size, **through))
        for path, found in self.dataset._opened.formats():
            self._check(path, found)
        self._has_label = label is not None
        self._threads = read_threads or 1
        self._pool: tuple[int, ThreadPoolExecutor] | None = None

    @classmethod
    def _check_file(cls, path: str, facts: _Facts | None) -> None:
        """Refuses a file of another format, before variables are looked for in it."""
        if facts is not None:
            cls._check(path, facts["format"])
        elif os.path.exists(path) or "://" in path:
            found = format_at(_dataset._path(path))
            if found is not None:
                cls._check(path, found)

    @classmethod
    def _check(cls, path: str, found: str) -> None:
        if found.startswith(cls._formats):
            return
        others = [front.__name__ for front in _FRONTS if found.startswith(front._formats)]
        remedy = f"forebay.torch.{others[0]} takes it" if others else "forebay.open takes files of any format"
        raise ValueError(f"{path}: a file of format {found}, which {cls.__name__} does not take; {remedy}")

    def _variable(self, _facts: _Facts | None, name: Any) -> Any:
        """What a file that has ``facts`` calls the variable that the user calls ``name``."""
        return name

    def _item(self, sample: Any) -> Any:
        return (sample["data"], sample["label"]) if self._has_label else sample["data"]

    def __getitems__(self, indices: Sequence[int]) -> list[Any]:
        if self._threads == 1 or len(indices) < 2:
            return super().__getitems__(indices)
        share = math.ceil(len(indices) / self._threads)
        shares = [indices[at : at + share] for at in range(0, len(indices), share)]
        batches = list(self._executor().map(self._batch, shares))
        samples = [self._item(sample) for batch in batches for sample in self._split(batch)]
        return _Samples(samples, lambda: self._item(self._joined(batches)))

    def _joined(self, batches: list[Batch]) -> dict[str, Any]:
        """The fields of ``batches`` as one batch of all would have them."""
        joined: dict[str, Any] = {}
        for name, first in batches[0].items():
            parts = [batch[name] for batch in batches]
            axis = self.dataset._axes.get(name, 0)
            joined[name] = torch.cat(parts, axis) if isinstance(first, torch.Tensor) else np.concatenate(parts, axis)
        return joined

    def _executor(self) -> ThreadPoolExecutor:
        # The threads of another process are not here.
        if self._pool is None or self._pool[0] != os.getpid():
            self._pool = os.getpid(), ThreadPoolExecutor(self._threads, "forebay")
        return self._pool[1]

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_pool": None}


class HDF5(_Pairs):
    """Samples of HDF5 files as pairs ``(data, label)`` of tensors, for PyTorch's ``DataLoader``.

    >>> dataset = HDF5(("images.h5", "image", "label", ("FIXED", 4096)), transfer_size=1048576, read_threads=4)
    >>> for images, labels in DataLoader(dataset, batch_size=4, shuffle=True): ...

    A source is ``(path, field, label, boundary)``; there may be several, or a list of them, which are one set, file
    after file. The boundary is ``("FIXED", n)``, where n bytes, whole rows of ``field``, are one sample; or
    ``("VARIABLE", name)``, where the variable ``name`` has the offsets of the samples; without one, a row is a sample.
    A label has one row a sample; it may be ``None``, and items are then the data alone. ``tiers``, ``policy`` and what
    else says how files are read through tiers is taken as by :func:`forebay.open`.
    """

    __module__ = "forebay.torch"
    # NetCDF-4 files are HDF5 files.
    _formats = ("hdf5", "netcdf4")


class NetCDF(_Pairs):
    """Samples of NetCDF files, classic or NetCDF-4, as pairs ``(data, label)``; called as :class:`HDF5` is.

    Values are scaled, and missing ones not numbers, as the CF conventions say.
    """

    __module__ = "forebay.torch"
    _formats = ("netcdf", "hdf5")
    _options = {"cf": True}


NC = NetCDF


class GNCF(NetCDF):
    """Samples of gridded NetCDF with CF conventions, which is what we take the paper's GNCF to be."""

    __module__ = "forebay.torch"


class ADIOS2(_Pairs):
    """Samples of ADIOS2 files as pairs ``(data, label)``; called as :class:`HDF5` is.

    Of a variable that was written in steps all steps are stacked: axis 0 are the steps.
    """

    __module__ = "forebay.torch"
    _formats = ("adios", "bp")

    def _variable(self, facts: _Facts | None, name: Any) -> Any:
        stacked = f"{name}@steps"
        return stacked if facts is not None and stacked in facts["variables"] else name


class Silo(_Pairs):
    """Samples of Silo files as pairs ``(data, label)``; called as :class:`HDF5` is."""

    __module__ = "forebay.torch"
    _formats = ("silo",)


class Zarr(_Pairs):
    """Samples of Zarr stores as pairs ``(data, label)``; called as :class:`HDF5` is."""

    __module__ = "forebay.torch"
    _formats = ("zarr",)


_FRONTS: tuple[type[_Pairs], ...] = (HDF5, NetCDF, ADIOS2, Silo, Zarr)

_Source = tuple[str, str, "str | None", Any]
_Facts = dict[str, Any]


def _sources(given: tuple[Any, ...]) -> list[_Source]:
    """The sources as tuples of four, however they were given."""
    if len(given) == 1 and isinstance(given[0], list):
        given = tuple(given[0])
    if given and isinstance(given[0], (str, os.PathLike)):
        given = (given,)
    if not given:
        raise ValueError("no files; a source is (path, field, label, ('FIXED', n))")
    found: list[_Source] = []
    for source in given:
        if not isinstance(source, (tuple, list)) or not 2 <= len(source) <= 4:
            raise ValueError(f"{source!r} is no source; one is (path, field, label, ('FIXED', n))")
        path, field, label, boundary = (*source, None, None)[:4]
        found.append((os.fspath(path), field, label, boundary))
    return found


def _look(path: str) -> _Facts | None:
    """What is in the file at ``path``: described once, whatever is asked of it here, as that takes round trips where files are far.

    Nothing for patterns and folders of files, and for what opening it says more about.
    """
    if not os.path.exists(path) and "://" not in path:
        return None
    try:
        return inspect_file(path)
    except ForebayError:
        return None


def _row(path: Paths, field: str, facts: _Facts | None) -> tuple[np.dtype[Any], tuple[int, ...]]:
    """The type of the elements of a row of ``field``, and its shape."""
    variable = facts["variables"].get(field) if facts is not None else None
    if variable is not None and variable["numpy"] is not None and variable["shape"]:
        return variable["numpy"], variable["shape"][1:]
    opened = _dataset.open(path, [field], tiers=[]).describe()["fields"][field]
    return opened["numpy"], opened["shape"]


def _boundary(path: Paths, field: str, boundary: Any, facts: _Facts | None) -> Boundary:
    """What ``("FIXED", n)`` or ``("VARIABLE", name)`` means for ``field`` of ``path``, which has ``facts``."""
    if boundary is None:
        return Fixed(1)
    if not isinstance(boundary, (tuple, list)) or len(boundary) != 2:
        raise ValueError(f"{boundary!r} is no boundary; there are ('FIXED', bytes) and ('VARIABLE', name)")
    mode, value = boundary
    if mode == "VARIABLE":
        return Ragged(offsets=value)
    if mode != "FIXED":
        raise ValueError(f"{mode!r} is no boundary; there are ('FIXED', bytes) and ('VARIABLE', name)")
    dtype, shape = _row(path, field, facts)
    row_len = dtype.itemsize * math.prod(shape)
    sample_len = operator.index(value)
    if sample_len < 1 or row_len == 0 or sample_len % row_len:
        raise ValueError(
            f"{path}: variable {field!r}: samples of {sample_len} bytes; a row has {row_len}, a sample is whole rows"
        )
    return Fixed(sample_len // row_len)
