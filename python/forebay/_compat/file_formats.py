"""The sources of the Stimulus paper, whichever framework asks: a path, a field, a label, a boundary."""

from __future__ import annotations

import dataclasses
import math
import operator
import os
from typing import Any

import numpy as np

from .._dataset.dataset import Dataset
from .._dataset.opening import open as open_set
from .._file.read import inspect as inspect_file
from .._forebay import ForebayError, absolute_path, format_at
from .._samples import Boundary, Field, Fixed, Paths, Ragged

Source = tuple[str, str, "str | None", Any]
Facts = dict[str, Any]


@dataclasses.dataclass(frozen=True)
class FileFormat:
    """A format of files as the paper names it."""

    name: str
    begins: tuple[str, ...]
    """How forebay's own names of such formats begin."""
    options: dict[str, Any] = dataclasses.field(default_factory=dict)
    """What is said to :func:`forebay.open`."""
    has_steps: bool = False
    """Whether a variable may have been written in steps, all of which are taken."""

    def check_file(self, path: str, facts: Facts | None, module: str) -> None:
        """Refuses a file of another format, before variables are looked for in it."""
        if facts is not None:
            self.check(path, facts["format"], module)
        elif os.path.exists(path) or "://" in path:
            found = format_at(absolute_path(path))
            if found is not None:
                self.check(path, found, module)

    def check(self, path: str, found: str, module: str) -> None:
        """Refuses the format ``found``, unless it is this one; ``module`` has the others."""
        if found.startswith(self.begins):
            return
        others = [front.name for front in FORMATS if found.startswith(front.begins)]
        remedy = f"{module}.{others[0]} takes it" if others else "forebay.open takes files of any format"
        raise ValueError(f"{path}: a file of format {found}, which {self.name} does not take; {remedy}")

    def variable(self, facts: Facts | None, name: Any) -> Any:
        """What a file that has ``facts`` calls the variable that the user calls ``name``."""
        stacked = f"{name}@steps"
        return stacked if self.has_steps and facts is not None and stacked in facts["variables"] else name


# NetCDF-4 files are HDF5 files.
HDF5 = FileFormat("HDF5", ("hdf5", "netcdf4"))
NETCDF = FileFormat("NetCDF", ("netcdf", "hdf5"), {"cf": True})
GNCF = FileFormat("GNCF", ("netcdf", "hdf5"), {"cf": True})
ADIOS2 = FileFormat("ADIOS2", ("adios", "bp"), has_steps=True)
SILO = FileFormat("Silo", ("silo",))
ZARR = FileFormat("Zarr", ("zarr",))
FORMATS = (HDF5, NETCDF, ADIOS2, SILO, ZARR)


def open_pairs(wanted: FileFormat, sources: list[Source], module: str, **how: Any) -> Dataset:
    """The samples of ``sources`` as one set: fields ``data`` and, where sources name one, ``label``.

    ``module`` is the front that was asked, which errors name; ``how`` goes to :func:`forebay.open`.
    """
    name: Any
    label: Any
    name, label = sources[0][1:3]
    if any(one[1:3] != (name, label) for one in sources):
        raise ValueError("all files must name the same field and label")
    known = {path: look(path) for path, *_ in sources}
    for path, facts in known.items():
        wanted.check_file(path, facts, module)
    name, label = (wanted.variable(known[sources[0][0]], one) for one in (name, label))
    boundaries = {path: boundary_of(path, name, boundary, known[path]) for path, _, _, boundary in sources}
    samples = boundaries[sources[0][0]]
    for path, other in boundaries.items():
        if other != samples:
            raise ValueError(f"{path}: samples are {other}, in {sources[0][0]} {samples}")
    names: dict[str, str | Field] = {"data": Field(name, samples=samples)}
    if label is not None:
        names["label"] = Field(label, samples=Fixed(1))
    opened = open_set([path for path, *_ in sources], names, **{**wanted.options, **how})
    for path, found in opened._opened.formats():
        wanted.check(path, found, module)
    return opened


def sources_of(given: tuple[Any, ...]) -> list[Source]:
    """The sources as tuples of four, however they were given."""
    if len(given) == 1 and isinstance(given[0], list):
        given = tuple(given[0])
    if given and isinstance(given[0], (str, os.PathLike)):
        given = (given,)
    if not given:
        raise ValueError("no files; a source is (path, field, label, ('FIXED', n))")
    found: list[Source] = []
    for source in given:
        if not isinstance(source, (tuple, list)) or not 2 <= len(source) <= 4:
            raise ValueError(f"{source!r} is no source; one is (path, field, label, ('FIXED', n))")
        path, field, label, boundary = (*source, None, None)[:4]
        found.append((os.fspath(path), field, label, boundary))
    return found


def look(path: str) -> Facts | None:
    """What is in the file at ``path``: described once, whatever is asked of it here, as that takes round trips where files are far.

    Nothing for patterns and folders of files, and for what opening it says more about.
    """
    if not os.path.exists(path) and "://" not in path:
        return None
    try:
        return inspect_file(path)
    except ForebayError:
        return None


def _row(path: Paths, field: str, facts: Facts | None) -> tuple[np.dtype[Any], tuple[int, ...]]:
    """The type of the elements of a row of ``field``, and its shape."""
    variable = facts["variables"].get(field) if facts is not None else None
    if variable is not None and variable["numpy"] is not None and variable["shape"]:
        return variable["numpy"], variable["shape"][1:]
    opened = open_set(path, [field], tiers=[]).describe()["fields"][field]
    return opened["numpy"], opened["shape"]


def boundary_of(path: Paths, field: str, boundary: Any, facts: Facts | None) -> Boundary:
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
