"""A user's own format, written in Python."""

from __future__ import annotations

import math
import operator
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Union

import numpy as np
import numpy.typing as npt

from ._forebay import FormatFile
from ._forebay import register_format as _register

Extent = Union[
    tuple[int, int],
    tuple[Union[int, Sequence[int]], Union[str, "os.PathLike[str]", None], int, int],
]
"""Where bytes lie: ``(offset, length)``, or ``(chunk, file, offset, length)``."""

Filter = Union[str, int, tuple[Union[str, int], Sequence[int]]]
"""What was done to the bytes of a chunk: a name, the number of an HDF5 filter, or one of these with its client values."""

_FILTERS = (
    "adler32", "bitshuffle", "blosc", "blosc2", "bzip2", "crc32", "crc32c", "fletcher32", "gzip", "lz4", "lz4_blocks",
    "lzf", "shuffle", "zlib", "zstd",
)  # fmt: skip

Read = Callable[[tuple[slice, ...]], Any]
"""Gives the part of a variable that slices choose."""


@dataclass(frozen=True)
class Variable:
    """One array of a file, as ``describe`` of a user's own format gives it; see :func:`register_format`.

    Its values are found in one of these ways:

    - ``extents=[(offset, length)]``: all values lie in the file from ``offset`` on, in C order and as ``dtype`` says;
    - ``extents`` with ``chunks``, the shape of a chunk: one ``(offset, length)`` for each chunk in C order, or
      ``(chunk, file, offset, length)``, where ``chunk`` is its number or its place in the grid of chunks, and ``file``
      the name of a file beside this one, or ``None``; a chunk that is not there reads as ``fill``. Chunks at the border
      are stored whole; only rows of axis 0 past it may be left out, and only where a chunk has all of the other axes;
    - ``read``: a callable that is given a tuple of slices, one for each axis, and gives the array they choose. One
      call is made at a time, from any thread. Samples are read by whole chunks where ``chunks`` says what these are,
      else by about 1 MiB of rows: a chunk that fails takes no other with it;
    - ``values``: the array itself, for what is small and worked out.

    ``filters`` says what was done to the bytes of each chunk before they were written, in that order, such as ``["shuffle",
    "zstd"]``: forebay undoes it, chunk by chunk and without Python. A name stands for what numcodecs calls so (``lz4`` is one block behind its
    length, ``lz4_blocks`` the framing of HDF5); codecs of numcodecs are taken as they are, and HDF5's filters by number
    with their client values, ``(32008, (0, 5, 4, 0, 2))``. The length of an extent is then that of the stored bytes.

    ``dimensions`` names the axes; ``attributes`` are numbers, texts and arrays by name.
    """

    name: str
    dtype: npt.DTypeLike
    shape: Sequence[int]
    extents: Sequence[Extent] | None = None
    chunks: Sequence[int] | None = None
    attributes: Mapping[str, Any] = field(default_factory=dict)
    dimensions: Sequence[str] = ()
    read: Read | None = None
    values: npt.ArrayLike | None = None
    fill: Any = None
    filters: Sequence[Any] = ()

    def _plain(self) -> dict[str, Any]:
        """What the compiled part takes."""
        dtype = np.dtype(self.dtype)
        shape = _lens("shape", self.shape, 0)
        chunks = None if self.chunks is None else _lens("chunks", self.chunks, 1)
        self._check(shape, chunks)
        read = None if self.read is None else _reading(self.read, dtype)
        return {
            "name": str(self.name).strip("/"),
            "dtype": dtype,
            "shape": shape,
            "chunks": chunks,
            "extents": [_extent(number, one, shape, chunks) for number, one in enumerate(self.extents or ())],
            "values": None if self.values is None else self._inline(dtype, shape),
            "fill": b"" if self.fill is None else np.asarray(self.fill, dtype).tobytes(),
            "attributes": [(str(name), *_attribute(value)) for name, value in self.attributes.items()],
            "dimensions": [str(name) for name in self.dimensions],
            "read": read,
            "filters": [_filter(one, dtype.itemsize) for one in self.filters],
        }

    def _check(self, shape: list[int], chunks: list[int] | None) -> None:
        ways = [way for way in ("extents", "read", "values") if getattr(self, way) is not None]
        if len(ways) != 1:
            raise ValueError(f"{self._who}: one of extents, read and values says where it lies, not {ways or 'none'}")
        if self.filters and self.extents is None:
            raise ValueError(f"{self._who}: filters are of the bytes that extents name, and there are none")
        if chunks is not None and len(chunks) != len(shape):
            raise ValueError(f"{self._who}: chunks of {len(chunks)} axes for a shape of {len(shape)}")
        if self.dimensions and len(self.dimensions) != len(shape):
            raise ValueError(f"{self._who}: {len(self.dimensions)} dimensions for a shape of {len(shape)}")

    def _inline(self, dtype: np.dtype[Any], shape: list[int]) -> bytes:
        values = np.asarray(self.values, dtype)
        if list(values.shape) != shape:
            raise ValueError(f"{self._who}: values of shape {values.shape} where {tuple(shape)} belong")
        return values.tobytes()

    @property
    def _who(self) -> str:
        return f"variable {self.name!r}"


def register_format(
    name: str,
    probe: Callable[[str, bytes], bool],
    describe: Callable[[FormatFile], Sequence[Variable]],
) -> None:
    """Adds a format of your own, which forebay then reads as any other: in place, in loaders, through tiers.

    ``probe(path, head)`` says whether a file is of this format, by its first bytes (4 KiB at most); for a folder these
    are empty. ``describe(file)`` gives its variables, a list of :class:`Variable`; ``file`` has ``path``, ``size``,
    ``is_folder`` and ``read(offset, length)``, which works for remote files too. It must not read what it need not:
    values stay where they are.

    Formats that were registered are asked before those that are built in; the same name again replaces the former. An
    exception becomes an error that names file and format, with the exception as its cause. A forked process has what
    its parent registered; a spawned one must import the module that registers it, so register where it is imported.
    """
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.+-]*", name):
        raise ValueError(f"{name!r} is no name of a format; letters, digits and _ . + - make one")
    if not callable(probe) or not callable(describe):
        raise TypeError("probe and describe are callables")

    def plain(file: FormatFile) -> list[dict[str, Any]]:
        described = list(describe(file))
        for one in described:
            if not isinstance(one, Variable):
                raise TypeError(f"describe gives a list of forebay.Variable, not {one!r}")
        return [one._plain() for one in described]

    _register(name, probe, plain)


def _lens(what: str, given: Sequence[int], least: int) -> list[int]:
    lens = [operator.index(length) for length in given]
    if any(length < least for length in lens):
        raise ValueError(f"{what}={tuple(lens)}; each is at least {least}")
    return lens


def _extent(number: int, one: Any, shape: list[int], chunks: list[int] | None) -> tuple[int, str | None, int, int]:
    """Chunk number, file, offset, length."""
    if len(one) == 2:
        chunk, file, (offset, length) = number, None, one
    elif len(one) == 4:
        chunk, file, offset, length = one
    else:
        raise ValueError(f"{one!r} is no extent; one is (offset, length) or (chunk, file, offset, length)")
    if not hasattr(chunk, "__index__"):
        chunk = _number(chunk, shape, shape if chunks is None else chunks)
    numbers = [operator.index(part) for part in (chunk, offset, length)]
    if min(numbers) < 0:
        raise ValueError(f"{one!r} is no extent: nothing lies before the start of a file")
    return numbers[0], None if file is None else os.fspath(file), numbers[1], numbers[2]


def _filter(one: Any, element_len: int) -> tuple[str, list[int]]:
    """Name, or number, and client values."""
    if hasattr(one, "get_config"):
        one = one.get_config()
    if isinstance(one, Mapping):
        config = dict(one)
        values = [config["elementsize"]] if config.get("elementsize") else []
        one = ({"bz2": "bzip2"}.get(config["id"], config["id"]), values)
    name, values = one if isinstance(one, tuple) else (one, [])
    if name == "shuffle" and not values:
        values = [element_len]
    known = name in _FILTERS if isinstance(name, str) else operator.index(name) > 0
    if not known:
        raise ValueError(f"filter {name!r}; there are {', '.join(_FILTERS)}, and HDF5's by number")
    return str(name), [operator.index(value) for value in values]


def _number(place: Any, shape: list[int], chunks: list[int]) -> int:
    """The number, in C order, of the chunk at ``place`` of the grid of chunks."""
    counts = [math.ceil(length / max(chunk, 1)) for length, chunk in zip(shape, chunks)]
    if len(place) != len(counts) or not all(0 <= at < count for at, count in zip(place, counts)):
        raise ValueError(f"chunk {tuple(place)} of a grid of {tuple(counts)}")
    number = 0
    for at, count in zip(place, counts):
        number = number * count + operator.index(at)
    return number


def _attribute(value: Any) -> tuple[np.dtype[Any], list[int], bytes]:
    array = np.asarray(value)
    if array.dtype.kind in "UO":
        array = np.array([str(one).encode() for one in array.ravel()] or [b""]).reshape(array.shape or ())
    if array.dtype.itemsize == 0:
        array = array.astype("S1")
    return array.dtype, list(array.shape), array.tobytes()


def _reading(read: Read, dtype: np.dtype[Any]) -> Callable[[list[tuple[int, int, int]]], bytes]:
    """``read`` with slices for bounds, and bytes in this machine's order for what it gives."""
    native = dtype.newbyteorder("=")

    def reading(bounds: list[tuple[int, int, int]]) -> bytes:
        given = np.asarray(read(tuple(slice(*one) for one in bounds)))
        wanted = tuple(len(range(*one)) for one in bounds)
        if given.shape != wanted + dtype.shape:
            raise ValueError(f"an array of shape {given.shape} where {wanted + dtype.shape} belongs")
        if given.dtype.newbyteorder("=") != native.base:
            raise TypeError(f"an array of {given.dtype} where {dtype.base} belongs")
        return given.astype(native.base, copy=False).tobytes()

    return reading
