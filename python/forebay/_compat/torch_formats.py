"""The call of the Stimulus paper for each format: a path, a field, a label, a boundary."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from .._torch.dataset import Batch, Dataset, _Samples
from . import file_formats as _file_formats

import numpy as np  # isort: skip
import torch  # isort: skip


class _Pairs(Dataset):
    """Samples of files of one format as pairs ``(data, label)`` of tensors."""

    _format: _file_formats.FileFormat

    def __init__(
        self,
        *source: Any,
        transfer_size: int | str | None = None,
        read_threads: int | None = None,
        memory: int | str | None = None,
        **through: Any,
    ) -> None:
        sources = _file_formats.sources_of(source)
        if read_threads is not None and read_threads < 1:
            raise ValueError(f"read_threads={read_threads}; at least 1 is needed")
        through = {"memory": memory, "transfer_size": transfer_size, **through}
        super().__init__(_file_formats.open_pairs(self._format, sources, "forebay.torch", **through))
        self._has_label = sources[0][2] is not None
        self._threads = read_threads or 1
        self._pool: tuple[int, ThreadPoolExecutor] | None = None

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
    _format = _file_formats.HDF5


class NetCDF(_Pairs):
    """Samples of NetCDF files, classic or NetCDF-4, as pairs ``(data, label)``; called as :class:`HDF5` is.

    Values are scaled, and missing ones not numbers, as the CF conventions say.
    """

    __module__ = "forebay.torch"
    _format = _file_formats.NETCDF


NC = NetCDF


class GNCF(NetCDF):
    """Samples of gridded NetCDF with CF conventions, which is what we take the paper's GNCF to be."""

    __module__ = "forebay.torch"
    _format = _file_formats.GNCF


class ADIOS2(_Pairs):
    """Samples of ADIOS2 files as pairs ``(data, label)``; called as :class:`HDF5` is.

    Of a variable that was written in steps all steps are stacked: axis 0 are the steps.
    """

    __module__ = "forebay.torch"
    _format = _file_formats.ADIOS2


class Silo(_Pairs):
    """Samples of Silo files as pairs ``(data, label)``; called as :class:`HDF5` is."""

    __module__ = "forebay.torch"
    _format = _file_formats.SILO


class Zarr(_Pairs):
    """Samples of Zarr stores as pairs ``(data, label)``; called as :class:`HDF5` is."""

    __module__ = "forebay.torch"
    _format = _file_formats.ZARR
