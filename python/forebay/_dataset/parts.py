"""Parts of a set of samples as numbers: chosen, divided, packed for pickling."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from .._forebay import RawSubset


def chosen(which: Any, count: int) -> RawSubset:
    """The samples ``which`` of ``count``."""
    if isinstance(which, slice):
        taken = range(*which.indices(count))
        return RawSubset.slice(count, taken.start if len(taken) else 0, taken.step, len(taken))
    table = np.asarray(which if hasattr(which, "__array__") or isinstance(which, range) else list(which))
    if table.dtype == bool:
        if table.shape != (count,):
            raise IndexError(f"a mask of shape {table.shape} for {count} samples")
        table = np.flatnonzero(table)
    elif table.ndim != 1 or (table.size and table.dtype.kind not in "iu"):
        raise IndexError("samples are chosen by a slice, a list of numbers or a mask")
    outside = (table < -count) | (table >= count) if table.dtype.kind == "i" else table >= count
    if outside.any():
        raise IndexError(f"sample {table[outside][0]} of {count}")
    numbers = table.astype(np.int64)
    return listed(np.where(numbers < 0, numbers + count, numbers), count)


def listed(numbers: npt.ArrayLike, count: int) -> RawSubset:
    """The samples ``numbers`` of ``count``, in this order."""
    return RawSubset.listed(count, np.asarray(numbers, np.uint64).tobytes())


def indices_of(part: RawSubset) -> npt.NDArray[np.int64]:
    """The number in the whole set of each sample of ``part``, in memory that may be written to."""
    return np.frombuffer(bytearray(part.samples()), np.int64)


def bounds_of(fractions: Sequence[float], count: int) -> list[int]:
    """Where parts of ``count`` samples begin and end, laid side by side."""
    parts = list(fractions)
    if not parts:
        raise ValueError("fractions is empty: give one number for each part, as in [0.8, 0.2]")
    for part in parts:
        if isinstance(part, bool) or not isinstance(part, (int, float, np.integer, np.floating)):
            raise TypeError(f"{part!r} is no fraction: give numbers, as in [0.8, 0.2]")
        if not math.isfinite(part) or part < 0:
            raise ValueError(f"a fraction of {part}: give numbers from 0 to 1")
    if all(isinstance(part, (int, np.integer)) for part in parts) and parts != [1]:
        if sum(parts) > count:
            raise ValueError(f"parts of {sum(parts)} samples in all, and there are {count}")
        return [0, *np.cumsum(parts).tolist()]
    if sum(parts) > 1 + 1e-9:
        raise ValueError(f"fractions come to {sum(parts)}: give at most 1 in all, or whole numbers of samples")
    return [0, *(min(count, round(share * count)) for share in np.cumsum(parts).tolist())]


def by_sample(bounds: list[int], count: int, seed: int) -> Iterator[RawSubset]:
    """Parts that a shuffle of ``count`` samples deals out."""
    for start, end in zip(bounds, bounds[1:]):
        yield RawSubset.split(count, seed, start, end)


def in_order(bounds: list[int], count: int, gap: int) -> Iterator[RawSubset]:
    """Parts as the samples lie, of which all but the first begin ``gap`` later."""
    for number, (start, end) in enumerate(zip(bounds, bounds[1:])):
        begin = min(end, start + gap) if number else start
        yield RawSubset.slice(count, begin if begin < end else 0, 1, end - begin)


def by_file(bounds: list[int], lens: list[int], seed: int) -> Iterator[RawSubset]:
    """Parts of whole files, in the order of a shuffle: each ends with the file that brings it nearest to its bound."""
    count = len(lens)
    # The file at each place of the shuffle by which samples are dealt out too.
    at_places = (RawSubset.split(count, seed, place, place + 1).samples() for place in range(count))
    shuffled = [int.from_bytes(sample, sys.byteorder) for sample in at_places]
    ends = np.concatenate([[0], np.cumsum([lens[file] for file in shuffled])])
    cuts = [int(np.abs(ends - bound).argmin()) for bound in bounds]
    starts = np.concatenate([[0], np.cumsum(lens)])
    for number, (start, end) in enumerate(zip(cuts, cuts[1:])):
        if start == end and bounds[number] < bounds[number + 1]:
            raise ValueError(f"part {number} has no file: {count} files are too few, or too different in length, for these parts")
        files = sorted(shuffled[start:end])
        numbers = [np.arange(starts[file], starts[file + 1], dtype=np.uint64) for file in files]
        yield listed(np.concatenate([np.zeros(0, np.uint64), *numbers]), int(starts[-1]))


def packed(indices: npt.NDArray[np.int64], count: int) -> tuple[str, Any]:
    """The samples of a subset as it is pickled: a slice, a bitmap, or a list."""
    steps = np.diff(indices)
    if len(steps) == 0 or (steps == steps[0]).all():
        first = int(indices[0]) if len(indices) else 0
        return "slice", (first, int(steps[0]) if len(steps) else 1, len(indices))
    if (steps > 0).all() and count < 64 * len(indices):
        mask = np.zeros(count, bool)
        mask[indices] = True
        return "bits", np.packbits(mask)
    return "listed", indices


def unpacked(kind: str, packed: Any, count: int) -> RawSubset:
    """The subset of ``count`` samples that :func:`packed` made this of."""
    if kind == "slice" and packed[1] != 0:
        return RawSubset.slice(count, *packed)
    if kind == "slice":
        packed = np.full(packed[2], packed[0])
    elif kind == "bits":
        packed = np.flatnonzero(np.unpackbits(packed, count=count))
    return listed(packed, count)
