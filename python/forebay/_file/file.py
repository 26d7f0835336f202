"""A file that stays open: its variables by name, read in parts."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any

import numpy as np

from .._forebay import FileReader, NotFoundError, RawArray, absolute_path
from .._samples import CF, unpack_spec
from .._tiers.origin import TieredOrigin, tiered_origin
from .._tiers.tiers import Policy, TierOptions, Tiers
from .read import Selected, _items, _numpy, _selected, _word
from .values import attribute_of


class File(Mapping[str, "FileVariable"]):
    """A file or store of any format that forebay reads, opened once for many reads.

    >>> with forebay.File("era5.nc") as file:
    ...     file["t2m"][0, :10, ::2]     # a NumPy array
    ...     file["t2m"].attrs["units"]
    ...     list(file)                   # the names of its variables, in the order of the file

    Names are those of ``forebay inspect``; variables of groups are ``"group/name"``. The path may be a URL. It can be used
    by many threads, pickled, and used after a fork. What changes in the file while it is open is an error, also in the process that
    it is sent to; open it anew.

    ``cf`` unpacks all values as the CF conventions say, and ``mask_valid`` takes valid ranges into account, as
    :class:`Field` describes; ``cf="mask"`` gives masked arrays. ``dtype`` and ``attrs`` stay those of what is stored.

    ``tiers`` are nearer places for copies of what is read, and ``policy`` and ``config`` say more of them, as for
    :func:`forebay.open`; without any of the three there are none. Files that are given the same share their tiers, which stay
    until the program ends.
    """

    __module__ = "forebay._file"

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        cf: CF = False,
        mask_valid: bool = False,
        tiers: Tiers | None = None,
        policy: Policy | None = None,
        config: str | os.PathLike[str] | None = None,
    ) -> None:
        is_plain = tiers is None and policy is None and config is None
        through = None if is_plain else TierOptions(tiers, policy, config)
        self._open_through(os.fspath(path), (cf, mask_valid), through)

    def _open_through(
        self, path: str, cf: tuple[CF, bool], through: TierOptions | None, version: str | None = None
    ) -> None:
        self._reader: FileReader | None = None
        self.path = absolute_path(path)
        """The path or URL."""
        self._cf, self._through = cf, through
        self._origin: TieredOrigin | None = tiered_origin(through)
        self._reader = FileReader(self.path, unpack_spec(*cf), None if self._origin is None else self._origin.raw, version)
        self._version: str | None = self._reader.version

    def __getitem__(self, name: str) -> FileVariable:
        reader = self._open()
        try:
            stored, shape = reader.find(name)
        except NotFoundError as error:
            raise KeyError(str(error)) from None
        return FileVariable(reader, name, stored, tuple(shape))

    def __iter__(self) -> Iterator[str]:
        return iter(self._open().names())

    def __len__(self) -> int:
        return len(self._open().names())

    def __contains__(self, name: object) -> bool:
        if not isinstance(name, str):
            return False
        try:
            self._open().find(name)
        except NotFoundError:
            return False
        return True

    @property
    def format(self) -> str:
        """The name of the file's format, such as ``"hdf5"``."""
        return self._open().format

    @property
    def groups(self) -> tuple[str, ...]:
        """The names of all groups; the root's is empty."""
        return tuple(self._open().group_names())

    @property
    def attrs(self) -> dict[str, Any]:
        """The attributes of the file itself."""
        return self.group_attrs("")

    def group_attrs(self, name: str) -> dict[str, Any]:
        """The attributes of the group ``name``."""
        rows = self._open().group_attributes(name.strip("/"))
        if rows is None:
            raise KeyError(f"{self.path}: no group {name!r}")
        return _attributes(rows)

    @property
    def dimensions(self) -> dict[str, int]:
        """The lengths of all dimensions that variables name."""
        found: dict[str, int] = {}
        for variable in self.values():
            found.update((name, length) for name, length in zip(variable.dimensions, variable.shape) if name)
        return found

    def close(self) -> None:
        """Ends it; may be called more than once. Arrays that were read stay."""
        if self._reader is not None:
            self._reader.close()
            self._reader = None

    def __enter__(self) -> File:
        self._open()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __reduce__(self) -> Any:
        return reopened, (self.path, self._cf, self._through, self._version)

    def __repr__(self) -> str:
        if self._reader is None:
            return f"<forebay.File {self.path!r}, closed>"
        return f"<forebay.File {self.path!r}, {self._reader.format}, {len(self)} variables>"

    def _open(self) -> FileReader:
        if self._reader is None:
            raise ValueError(f"{self.path}: this file was closed")
        return self._reader


class FileVariable:
    """A variable of a :class:`File`: ``variable[...]`` reads it, or a part of it, as a NumPy array."""

    __module__ = "forebay._file"

    def __init__(self, reader: FileReader, name: str, stored: str, shape: tuple[int, ...]) -> None:
        self._reader = reader
        self._stored = stored
        self.name = name
        """What the file calls it."""
        self.shape = shape
        """Elements per dimension."""

    def __getitem__(self, selection: Selected) -> Any:
        """The values, or a part of them: numbers, which drop their axis, slices with steps from 1 up, and ``...``."""
        if selection is None:
            raise TypeError("None in a selection; numpy.newaxis is for the array that is read")
        items = _items(selection)
        raw = self._reader.read(self._stored, ",".join(map(_word, items)))
        return _selected(raw, items)

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("a scalar has no length")
        return self.shape[0]

    def __iter__(self) -> Iterator[Any]:
        """Its rows, each read when its turn comes."""
        return (self[row] for row in range(len(self)))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        if copy is False:
            raise ValueError("reading a variable copies its values")
        return np.asarray(self[...], dtype)

    @cached_property
    def _facts(self) -> tuple[dict[str, Any], Any]:
        return self._reader.facts(self._stored)

    @property
    def dtype(self) -> np.dtype[Any] | None:
        """The type of its elements for NumPy; ``None`` where they differ in length or cannot be read."""
        return _numpy(self._facts[1])

    @property
    def ndim(self) -> int:
        """How many dimensions it has."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """How many elements it has."""
        return int(np.prod(self.shape, dtype=np.int64))

    @property
    def dimensions(self) -> tuple[str, ...]:
        """The names of its dimensions, where the file names them."""
        return tuple(self._facts[0]["dimensions"])

    @property
    def chunks(self) -> tuple[int, ...] | None:
        """The shape of its chunks, where it is stored in chunks."""
        chunks = self._facts[0]["chunks"]
        return None if chunks is None else tuple(chunks["shape"])

    @property
    def filters(self) -> tuple[str, ...]:
        """What its chunks are filtered by, first to last."""
        return tuple(self._facts[0]["filters"])

    @cached_property
    def attrs(self) -> dict[str, Any]:
        """Its attributes; one that cannot be read is a :class:`ValueError` that says why."""
        return _attributes(self._reader.attributes(self._stored))

    def __repr__(self) -> str:
        try:
            kind = self._facts[0]["dtype"]
        except Exception:
            kind = "of a closed file"
        return f"<forebay.FileVariable {self.name!r}, shape {self.shape}, {kind}>"


def reopened(path: str, cf: tuple[CF, bool], through: TierOptions | None, version: str | None = None) -> File:
    """The file at ``path``, through tiers that are known already; another version than ``version`` is an error."""
    file = File.__new__(File)
    file._open_through(path, cf, through, version)
    return file


def _attributes(rows: list[tuple[str, RawArray | str]]) -> dict[str, Any]:
    return {name: attribute_of(value) for name, value in rows}
