"""What a sample is: which part of which variable."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from os import PathLike
from typing import Any, Literal, Union

import numpy as np
import numpy.typing as npt

from ._sizes import whole

Axis = Union[int, str]
"""An axis, by position or by the name the file gives it."""

Paths = Union[str, "PathLike[str]", Sequence[Union[str, "PathLike[str]"]]]
"""A path, a pattern, a folder, or a list of these."""

NO_TYPE_REMEDY = "leave it out by fields=[...], or take a member of a compound by forebay.Field(member=)"
"""What can be done about a field whose type a framework does not have."""


@dataclass(frozen=True)
class Fixed:
    """A fixed number of rows of axis 0 is one sample; of flat data, of elements.

    >>> Fixed(4)
    Fixed(rows=4)
    """

    rows: int = 1

    def _spec(self, _name: str) -> Any:
        return {"fixed": {"rows": whole("rows", self.rows)}}


@dataclass(frozen=True)
class Along:
    """One index of an axis is one sample, such as one moment of a field over time, longitude and latitude.

    ``axis`` is a name that the file gives, or a position. A sample of one index does not have the axis any more; with
    ``rows`` greater than 1 it has that many indexes, and keeps it.

    >>> Along("time", rows=4)
    Along(axis='time', rows=4)
    """

    axis: Axis
    rows: int = 1

    def _spec(self, _name: str) -> Any:
        axis = self.axis if isinstance(self.axis, str) else whole("axis", self.axis)
        return {"along": {"axis": axis, "rows": whole("rows", self.rows)}}


@dataclass(frozen=True)
class Whole:
    """All of a variable is one sample: one for each file."""

    def _spec(self, _name: str) -> Any:
        return "whole"


@dataclass(frozen=True)
class Ragged:
    """Samples of different lengths, such as molecules or graphs.

    ``offsets`` says where each begins and ends:

    - the name of a variable with n + 1 rising offsets, or with n pairs of begin and end;
    - a pair of names, ``("begin", "end")``;
    - an array of n + 1 offsets, of n pairs, or of n triples (file, begin, end);
    - a dict of these by field, for fields that have offsets of their own; a field it does not name has a row a sample.

    ``lengths`` is a variable, or an array, with the length of each sample instead. ``axis`` is the axis samples are cut along, one
    for all fields or a dict by field; 0 where nothing is said.
    """

    offsets: Any = None
    axis: int | Mapping[str, int] = 0
    lengths: Any = None

    def _spec(self, name: str) -> Any:
        axis = self.axis.get(name, 0) if isinstance(self.axis, Mapping) else self.axis
        if (self.offsets is None) == (self.lengths is None):
            raise ValueError("Ragged needs either offsets or lengths")
        if self.lengths is not None:
            lengths = self.lengths.get(name) if isinstance(self.lengths, Mapping) else self.lengths
            if lengths is None:
                return Fixed(1)._spec(name)
            if not isinstance(lengths, str):
                offsets = _offsets(np.concatenate([[0], np.cumsum(np.asarray(lengths, np.int64))]))
                return {"ragged": {"offsets": offsets, "axis": whole("axis", axis)}}
            return {"ragged": {"offsets": {"lengths": lengths}, "axis": whole("axis", axis)}}
        offsets = self.offsets.get(name) if isinstance(self.offsets, Mapping) else self.offsets
        if offsets is None:
            return Fixed(1)._spec(name)
        return {"ragged": {"offsets": _offsets(offsets), "axis": whole("axis", axis)}}

    def _names(self, name: str) -> bool:
        """True when it says something of the field ``name`` itself."""
        given = self.offsets if self.offsets is not None else self.lengths
        return isinstance(given, Mapping) and name in given


def _offsets(offsets: Any) -> Any:
    if isinstance(offsets, str):
        return {"variable": offsets}
    if isinstance(offsets, tuple) and len(offsets) == 2 and all(isinstance(name, str) for name in offsets):
        return {"begin_end": list(offsets)}
    table = np.asarray(offsets)
    if table.dtype.kind not in "iu" or (table.size and table.min() < 0):
        raise ValueError("offsets must be whole numbers from 0 up")
    if table.ndim == 1:
        table = np.stack([table[:-1], table[1:]], axis=1)
    if table.ndim == 2 and table.shape[1] == 2:
        return {"listed_in_one_file": table.tolist()}
    if table.ndim != 2 or table.shape[1] != 3:
        raise ValueError(f"offsets of shape {np.shape(offsets)}: n + 1 offsets, n pairs, or n triples are needed")
    return {"listed": table.tolist()}


def _axis(axis: Any) -> Axis:
    return axis if isinstance(axis, str) else whole("axis", axis)


def _lens(lens: Mapping[Axis, int] | Sequence[int] | int | None) -> list[dict[str, Any]]:
    if lens is None:
        return []
    if isinstance(lens, (int, np.integer)):
        lens = [int(lens)]
    pairs = lens.items() if isinstance(lens, Mapping) else enumerate(lens)
    return [
        {"axis": _axis(axis), "len": whole("length", length)}
        for axis, length in pairs
    ]


@dataclass(frozen=True)
class Windows:
    """Boxes of one size at regular places of a large array: patches, fields of view, stretches of time.

    ``size``, ``stride`` (from one box to the next; by default boxes touch) and ``step`` (from one element in a box to
    the next) are dicts by axis, ``{"time": 16}`` or ``{0: 16}``, or sequences from axis 0 on. Axes that are not named
    are taken whole. What is left at the end of an axis, shorter than a box, is left out. A file that is shorter than one box is an error; with
    ``targets`` or ``files_axis`` it has no box of its own.

    ``targets`` are lead times: ``{"time": (1, 6)}`` makes one more field of each, ``NAME_target``, with what lies 1 and 6
    indexes after the last of the box; ``range(1, 7)`` takes all six. They count along the first axis. A window has all of
    its targets, or is left out. :class:`Field` says by ``part`` which of the two a field gives.

    A field whose variable lacks an axis that is named here, such as a map without time, is cut along the others, and
    comes with every sample.
    """

    size: Any
    stride: Any = None
    step: Any = None
    targets: Mapping[Axis, Any] | None = None

    def _spec(self, _name: str) -> Any:
        return {"windows": {"size": _lens(self.size), "stride": _lens(self.stride), "step": _lens(self.step)}}

    def _series(self, files: FilesAxis | None, is_target: bool) -> Any:
        """The windows, or what follows them, over ``files``."""
        return {
            "series": {
                "size": _lens(self.size),
                "stride": _lens(self.stride),
                "step": _lens(self.step),
                "files": None if files is None else files._spec(),
                "targets": self._leads(),
                "is_target": is_target,
            }
        }

    def _leads(self) -> Any:
        if self.targets is None:
            return None
        if not isinstance(self.targets, Mapping) or len(self.targets) != 1:
            raise ValueError(f"targets={self.targets!r}: lead times of one axis are needed, as in {{'time': (1, 6)}}")
        ((axis, leads),) = self.targets.items()
        leads = [leads] if isinstance(leads, (int, np.integer)) else list(leads)
        return {"axis": _axis(axis), "after": [whole("lead time", lead) for lead in leads]}


@dataclass(frozen=True)
class FilesAxis:
    """An axis that goes on from file to file."""

    axis: Axis
    gaps: Literal["split", "cross"] = "split"

    def _spec(self) -> Any:
        if self.gaps not in ("split", "cross"):
            raise ValueError(f"gaps={self.gaps!r}; there are 'split' and 'cross'")
        return {"axis": _axis(self.axis), "crosses_gaps": self.gaps == "cross"}


@dataclass(frozen=True)
class Constant:
    """All of a variable comes with every sample, such as a map of heights; of several files, the first that has it."""

    def _spec(self, _name: str) -> Any:
        return "constant"


@dataclass(frozen=True)
class Groups:
    """Each group of a file is one sample, such as one molecule; fields name what is in every group.

    ``pattern`` says which groups, by their whole name: ``*`` stands for anything between two slashes, ``?`` for one
    character of it. They come in the order of their names. Samples of different lengths are joined along their first axis.

    With ``rows=True`` each row of the members of a group is a sample, such as one conformation of a molecule: all members have as many
    rows in a group. A member without that axis, such as the numbers of the atoms, is ``Field("z", samples=Groups(pattern))``, and comes with
    every row of its group.

    >>> Groups("mol_*", rows=True)
    Groups(pattern='mol_*', rows=True)
    """

    pattern: str = "*"
    rows: bool = False

    def _spec(self, _name: str) -> Any:
        return {"group_rows" if self.rows else "groups": {"pattern": str(self.pattern)}}


@dataclass(frozen=True)
class Centres:
    """Boxes of one size around listed places of a large array.

    ``at`` is the name of a variable, or an array, with one row a box and one column an axis of ``size``; an array for
    more than one file has the number of the file as its first column.
    """

    at: Any
    size: Any

    def _spec(self, _name: str) -> Any:
        size = _lens(self.size)
        if isinstance(self.at, str):
            return {"centres": {"at": {"variable": self.at}, "size": size}}
        table = np.atleast_2d(np.asarray(self.at))
        if table.dtype.kind not in "iu" or (table.size and table.min() < 0):
            raise ValueError("centres must be whole numbers from 0 up")
        if table.shape[1] == len(size):
            return {"centres": {"at": {"listed_in_one_file": table.tolist()}, "size": size}}
        return {"centres": {"at": {"listed": table.tolist()}, "size": size}}


@dataclass(frozen=True)
class Sparse:
    """Sparse rows made whole: the field's variable holds the values, ``indices`` their columns.

    The rows are given by ``samples=Ragged(offsets="indptr")``. A column named twice in a row has its last value.
    ``columns`` is how many a row has; a matrix of AnnData says so itself. One that is compressed by columns (CSC) is
    refused.
    """

    indices: str
    columns: int | None = None


Boundary = Union[Fixed, Along, Ragged, Whole, Windows, Centres, Groups, Constant]

CF = Union[bool, Literal["mask", "time", "days", "values"]]
"""How values are unpacked that follow the CF conventions."""

_CF = {True: "decoded", "mask": "masked", "time": "time", "days": "days", "values": "values"}


def unpack_spec(cf: CF, mask_valid: bool) -> dict[str, Any] | None:
    """What the compiled part takes about ``cf``."""
    if cf is False:
        return None
    if cf not in _CF:
        raise ValueError(f"cf={cf!r}; there are True, False, 'mask', 'values', 'time' and 'days'")
    return {"kind": _CF[cf], "valid": bool(mask_valid)}


_NUMBERS = {
    "int8": "I8", "int16": "I16", "int32": "I32", "int64": "I64",
    "uint8": "U8", "uint16": "U16", "uint32": "U32", "uint64": "U64",
    "float16": "F16", "bfloat16": "Bf16", "float32": "F32", "float64": "F64",
}  # fmt: skip


@dataclass(frozen=True)
class Field:
    """One field of a sample.

    ``variable`` is its name in the files; ``files`` are other files it comes from, joined by sample; ``samples`` is its
    own boundary; ``dtype`` what it is cast to (``"bfloat16"`` too; floats beyond the range of integers become the nearest there is, NaN 0); ``scale`` and ``offset`` what its values are
    multiplied by and what is then added; ``axes`` the order the axes of one sample shall have, such as ``(2, 0, 1)``
    for channels-last images that shall be channels-first. All of it happens on the way from the file to the batch.

    ``cf`` unpacks values as the CF conventions say, before all else; by default as given to :func:`open`:

    - ``False``: values as they are stored;
    - ``True``: as xarray decodes them. ``scale_factor`` and ``add_offset`` are applied, each file's own; missing values
      become NaN, for which integers become floats; numbers with units such as ``"hours since 1900-01-01"`` become
      ``datetime64[ns]``, or days since 1970-01-01 of a calendar that computers do not keep, such as ``noleap``;
    - ``"mask"``: missing values become 0 instead, whatever ``scale`` and ``offset`` are, and one more field,
      ``NAME_mask``, is true where one is missing; a field that declares none has no mask;
    - ``"days"``: as ``True``, but all times are days since 1970-01-01 of their calendar;
    - ``"values"``: as ``True``, but times stay numbers; ``"time"``: a time, or an error.

    ``member`` takes one member of a variable of compounds, as ``file["table"]["energy"]`` does in h5py; those of nested ones are
    joined by dots.

    ``part`` is for :class:`Windows` with targets: ``"input"`` or ``"target"`` gives one of the two, under the field's name; by
    default both come, the target as ``NAME_target``.

    With ``mask_valid`` numbers outside ``valid_range``, ``valid_min`` and ``valid_max`` are missing too, as they are to
    netCDF4-python and are not to xarray.
    """

    variable: str
    files: Paths | None = None
    samples: Boundary | None = None
    dtype: npt.DTypeLike | str | None = None
    scale: float | None = None
    offset: float | None = None
    axes: Sequence[int] | None = None
    sparse: Sparse | None = None
    name: str | None = field(default=None)
    cf: CF | None = None
    mask_valid: bool | None = None
    part: Literal["input", "target"] | None = None
    member: str | None = None

    def _number(self) -> str | None:
        if self.dtype is None:
            return None
        name = str(self.dtype).replace("torch.", "")
        if name not in _NUMBERS:
            try:
                name = np.dtype(self.dtype).name
            except TypeError:
                name = ""
        if name not in _NUMBERS:
            raise ValueError(f"values cannot be cast to {self.dtype!r}; there are {', '.join(_NUMBERS)}")
        return _NUMBERS[name]

    def _unpack(self, cf: CF, mask_valid: bool) -> dict[str, Any] | None:
        valid = mask_valid if self.mask_valid is None else self.mask_valid
        return unpack_spec(cf if self.cf is None else self.cf, valid)

    def _specs(
        self, name: str, samples: Boundary, files: int, cf: CF, mask_valid: bool, over: FilesAxis | None
    ) -> list[dict[str, Any]]:
        """What the compiled part takes: one field, or one with its targets."""
        boundary = _over_files(self.samples or samples, over)
        spec = self._spec(name, boundary, files, cf, mask_valid)
        targets = boundary.targets if isinstance(boundary, Windows) else None
        if self.part not in (None, "input", "target"):
            raise ValueError(f"part={self.part!r}; there are 'input' and 'target'")
        if targets is None and self.part == "target":
            raise ValueError(f"field {name!r} is a target, and its windows have none: give Windows(..., targets=)")
        if not isinstance(boundary, Windows) or (over is None and targets is None):
            return [spec]
        window = {**spec, "samples": boundary._series(over, False)}
        if targets is None or self.part == "input":
            return [window]
        target = {**spec, "samples": boundary._series(over, True)}
        if self.part == "target":
            return [target]
        return [window, {**target, "name": f"{name}_target"}]

    def _spec(
        self, name: str, samples: Boundary, files: int, cf: CF = False, mask_valid: bool = False
    ) -> dict[str, Any]:
        convert: dict[str, Any] = {
            "to": self._number(),
            "scale": None if self.scale is None else float(self.scale),
            "add": None if self.offset is None else float(self.offset),
            "axes": None if self.axes is None else [whole("axis", axis) for axis in self.axes],
            "unpack": self._unpack(cf, mask_valid),
        }
        spec = {"name": name, "variable": self.variable, "files": files, "convert": convert}
        spec["samples"] = samples._spec(name)
        if self.member is not None:
            spec["member"] = str(self.member)
        if self.sparse is not None:
            columns = None if self.sparse.columns is None else whole("columns", self.sparse.columns)
            spec["dense"] = {"indices": self.sparse.indices, "columns": columns}
        return spec


def _over_files(samples: Boundary, over: FilesAxis | None) -> Boundary:
    """``samples`` as windows, where they may go on from file to file."""
    if over is None or isinstance(samples, (Windows, Constant)):
        return samples
    if isinstance(samples, Fixed):
        return samples if samples.rows == 1 else Windows({0: samples.rows})
    if isinstance(samples, Along):
        return samples if samples.rows == 1 else Windows({samples.axis: samples.rows})
    raise ValueError(
        f"files_axis={over.axis!r} with samples={samples!r}: only Windows, Fixed and Along go on from file to file"
    )
