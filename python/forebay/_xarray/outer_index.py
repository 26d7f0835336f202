"""Outer (orthogonal) indexing of an array that can be asked for slices alone, as files can."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

Read = Callable[[tuple[slice, ...]], Any]
"""Gives the values of slices with steps from 1 up, all axes kept."""

# Indices along two axes that lie apart would each be a read of their own.
MOST_READS = 4096


class AxisPart(NamedTuple):
    """A run of one axis that is read at once."""

    read: slice
    """What is read."""
    pick: Any
    """Which of that is wanted, as NumPy takes it."""
    place: Any
    """Where in the result it goes, as indices."""


def outer(read: Read, key: Sequence[Any], shape: Sequence[int], near: Sequence[int], dtype: Any) -> Any:
    """The values that ``key`` (a number, a slice, or an array of indices for each axis) picks of an array of ``shape``.

    Indices at most ``near`` apart along their axis are read together, with what lies between them. ``dtype`` is that of a
    result without elements.
    """
    axes = [axis_parts(item, length, apart) for item, length, apart in zip(key, shape, near)]
    near = list(near)
    while math.prod(map(len, axes)) > MOST_READS:
        axis = max(range(len(axes)), key=lambda axis: len(axes[axis]))
        near[axis] = max(near[axis], 1) * 4
        axes[axis] = axis_parts(key[axis], shape[axis], near[axis])
    # With the dots, no element is taken out of an array that has no axis left.
    dropped = (*(0 if isinstance(item, (int, np.integer)) else slice(None) for item in key), ...)
    if all(len(parts) == 1 for parts in axes):
        parts = tuple(parts[0] for parts in axes)
        return np.asarray(_picked(read(tuple(part.read for part in parts)), parts))[dropped]
    lengths = [sum(len(part.place) for part in parts) for parts in axes]
    found = np.empty(lengths, dtype)
    for parts in itertools.product(*axes):
        found[np.ix_(*(part.place for part in parts))] = _picked(read(tuple(part.read for part in parts)), parts)
    return found[dropped]


def axis_parts(item: Any, length: int, near: int) -> list[AxisPart]:
    """The runs by which ``item`` is read of an axis of ``length``."""
    if isinstance(item, slice):
        wanted = range(length)[item]
        if not wanted:
            return []
        place = np.arange(len(wanted))
        if wanted.step > 0:
            return [AxisPart(slice(wanted[0], wanted[-1] + 1, wanted.step), slice(None), place)]
        return [AxisPart(slice(wanted[-1], wanted[0] + 1, -wanted.step), slice(None, None, -1), place)]
    if isinstance(item, (int, np.integer)):
        item = [int(item)]
    return _runs(np.asarray(item, dtype=np.int64), length, near)


def _runs(indices: np.ndarray[Any, Any], length: int, near: int) -> list[AxisPart]:
    outside = (indices < -length) | (indices >= length)
    if outside.any():
        raise IndexError(f"index {indices[outside][0]} of an axis of {length}")
    indices = np.where(indices < 0, indices + length, indices)
    known = np.unique(indices)
    runs = np.split(known, np.flatnonzero(np.diff(known) > max(near, 1)) + 1) if len(known) else []
    parts = []
    for run in runs:
        first, last = int(run[0]), int(run[-1])
        steps = np.unique(np.diff(run))
        step = int(steps[0]) if len(steps) == 1 else 1
        place = np.flatnonzero((indices >= first) & (indices <= last))
        parts.append(AxisPart(slice(first, last + 1, step), (indices[place] - first) // step, place))
    return parts


def _picked(values: Any, parts: Sequence[AxisPart]) -> Any:
    for axis, part in enumerate(parts):
        values = values[(slice(None),) * axis + (part.pick,)]
    return values
