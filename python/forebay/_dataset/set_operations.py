"""What is taken of a set of samples: parts by number, by chance, by file, by time or by value, and statistics."""

from __future__ import annotations

import math
import operator
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from .._batch import Batch, split_samples
from .._forebay import RawSubset
from .._sizes import whole
from .._statistics import QUANTILES, Statistics, compute

if TYPE_CHECKING:
    from .._store.store import Store
    from .dataset import Dataset
    from .subset import Subset

FIELD_BATCH_BYTES = 4 << 20
"""Bytes of one field that are read at a time: enough for a request, little enough for a batch of each thread."""

_COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    ">": operator.gt,
    ">=": operator.ge,
    "<": operator.lt,
    "<=": operator.le,
    "==": operator.eq,
    "!=": operator.ne,
    "in": np.isin,
    "not in": lambda values, among: ~np.isin(values, among),
}


class SetOperations:
    """What is taken of a set of samples; a :class:`Dataset`, a :class:`Store` and a :class:`Subset` have it."""

    __module__ = "forebay"
    __slots__ = ()

    def __len__(self) -> int:
        raise NotImplementedError

    @property
    def _base(self) -> Dataset | Store:
        raise NotImplementedError

    @property
    def _own_part(self) -> RawSubset | None:
        """Which samples of ``_base`` these are, where they are not all."""
        return None

    def _part_lens(self) -> list[int]:
        """Samples of each file, in order."""
        raise NotImplementedError

    def _field_batches(self, field: str, part: RawSubset | None = None) -> Iterator[Batch]:
        """All samples in order, or those of ``part``, of which at least ``field`` is read."""
        raise NotImplementedError

    def _within(self, part: RawSubset) -> Subset:
        """The samples ``part`` of these."""
        raise NotImplementedError

    def take(self, which: Any) -> Subset:
        """The samples ``which``: a slice, a list or array of numbers (negative ones count from the end, and one may come more
        than once), or a mask with one bool for each sample. Nothing is read."""
        return self._within(chosen(which, len(self)))

    def split(
        self,
        fractions: Sequence[float],
        *,
        seed: int = 0,
        by: Literal["sample", "file", "time"] = "sample",
        gap: int = 0,
    ) -> list[Subset]:
        """Parts that share no sample, one for each of ``fractions``, which come to at most 1; whole numbers are counts of
        samples.

        ``by="sample"`` deals samples out by a shuffle of ``seed``, ``by="file"`` whole files, so that the parts have about
        these fractions of the samples, and ``by="time"`` cuts the samples as they lie: the first part has the first of them.
        ``gap`` samples are left out between two parts of ``by="time"``, so that windows do not reach into the next part.

        In each part samples lie as they do in the whole.
        """
        bounds = _bounds(fractions, len(self))
        if by not in ("sample", "file", "time"):
            raise ValueError(f"by={by!r}; there are 'sample', 'file' and 'time'")
        if whole("gap", gap) and by != "time":
            raise ValueError(f"gap={gap} with by={by!r}: only parts of by='time' have neighbours")
        number = whole("seed", seed)
        if by == "time":
            return [self._within(part) for part in _in_order(bounds, len(self), gap)]
        if by == "file":
            return [self._within(part) for part in _by_file(bounds, self._part_lens(), number)]
        cuts = zip(bounds, bounds[1:])
        return [self._within(RawSubset.split(len(self), number, start, end)) for start, end in cuts]

    def where(self, field: str, predicate: Callable[[Any], Any] | tuple[str, Any]) -> Subset:
        """The samples whose ``field`` is as ``predicate`` says: a function from an array of many samples to a mask with one
        bool for each, or a comparison such as ``(">", 0.5)`` or ``("in", [3, 5])``; any collection will do, such as a set.

        That field of all samples is read once, in parallel; the result is a list of numbers. Of a field whose samples differ
        in length, the function is given a list of arrays.
        """
        if isinstance(predicate, tuple) and len(predicate) == 2 and predicate[0] in ("in", "not in"):
            predicate = predicate[0], _listed(predicate[1])
        test = _predicate(predicate)
        masks = [np.zeros(0, bool)]
        for batch in self._field_batches(field):
            values = batch[field]
            if field in batch.offsets:
                values = [sample[field] for sample in split_samples(_alone(batch, field), self._base._axes)]
            elif isinstance(values, list):
                values = _objects(values)
            elif values.dtype.kind == "S" and isinstance(predicate, tuple) and _is_text(predicate[-1]):
                values = np.char.decode(values, "utf-8", "surrogateescape")
            mask = np.asarray(test(values))
            if mask.shape != (batch.size,) or mask.dtype != bool:
                raise ValueError(
                    f"the predicate gives {mask.dtype} of shape {mask.shape} for {batch.size} samples of {field!r}: it has to "
                    "give one bool for each sample"
                )
            masks.append(mask)
        return self.take(np.concatenate(masks))

    def to_dask(self, field: str, *, chunks: int | Literal["auto", "stored"] | Sequence[int] = "auto") -> Any:
        """One field of all samples as a ``dask.array``: axis 0 counts samples, and nothing is read until it is computed.

        It is cut between chunks of the file, so that each is read and decoded once. ``chunks="auto"`` joins chunks up to what dask's
        ``array.chunk-size`` says, ``"stored"`` none but small ones (up to 256 KiB), and a number joins up to so many samples; a list
        gives the samples of each block itself. Workers of a cluster open the files for themselves, once in each process. A field whose
        samples differ in length is no array, and an error.
        """
        from .dask_array import field_array

        return field_array(self, field, chunks)  # type: ignore[arg-type]

    def statistics(
        self,
        fields: Sequence[str] | str | None = None,
        *,
        axis: int | Mapping[str, int] | None = None,
        quantiles: Sequence[float] = QUANTILES,
        save: bool = True,
        progress: bool | Callable[[dict[str, Any]], object] | None = None,
        read_threads: int | None = None,
        memory: int | str | None = None,
    ) -> Statistics:
        """Count, mean, standard deviation, bounds, quantiles and number of missing values of ``fields`` (by default of all that
        are numbers), in one pass over all samples by threads.

        ``axis`` is an axis of one sample, or a dict of these by field: its indexes, such as channels, are measured one by one. NaN is
        missing; ``open(cf=True)`` makes NaN of fill values. What comes out does not depend on threads. ``save`` keeps it beside
        the saved indexes and takes it from there the next time, as long as the files are the same; a store is measured each time. ``progress`` shows a bar (by
        default on a terminal), or is called with a dict now and then. Give it to ``loader(normalize=...)``.

        Of a :class:`Subset`, a sample that comes twice counts twice, and weights of a mixture do not count.
        """
        return compute(self._base, fields, axis, quantiles, save, progress, read_threads, memory, self._own_part)


def _is_text(value: Any) -> bool:
    """True of a text, and of several."""
    return isinstance(value, str) or (isinstance(value, (list, tuple)) and any(isinstance(one, str) for one in value))


def _listed(among: Any) -> Any:
    """``among`` as NumPy takes it: a set, the keys of a dict or an iterator, each of which would be one object to it, as a list. Texts in
    an array too, by which they are known as such."""
    if isinstance(among, (str, bytes)) or not isinstance(among, Iterable):
        return among
    kind = getattr(getattr(among, "dtype", None), "kind", "O")
    return list(among) if kind in "OUT" else among


def _objects(values: list[Any]) -> npt.NDArray[Any]:
    """``values``, texts or lists of them, as an array of objects, which can be compared."""
    table = np.empty(len(values), object)
    for number, value in enumerate(values):
        table[number] = value
    return table


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
    return RawSubset.listed(count, np.where(numbers < 0, numbers + count, numbers).astype(np.uint64).tobytes())


def _bounds(fractions: Sequence[float], count: int) -> list[int]:
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


def _in_order(bounds: list[int], count: int, gap: int) -> Iterator[RawSubset]:
    """Parts as the samples lie, of which all but the first begin ``gap`` later."""
    for number, (start, end) in enumerate(zip(bounds, bounds[1:])):
        begin = min(end, start + gap) if number else start
        yield RawSubset.slice(count, begin if begin < end else 0, 1, end - begin)


def _by_file(bounds: list[int], lens: list[int], seed: int) -> Iterator[RawSubset]:
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
        yield RawSubset.listed(int(starts[-1]), np.concatenate([np.zeros(0, np.uint64), *numbers]).tobytes())


def _predicate(predicate: Any) -> Callable[[Any], Any]:
    if callable(predicate):
        test: Callable[[Any], Any] = predicate
        return test
    if isinstance(predicate, tuple) and len(predicate) == 2 and predicate[0] in _COMPARISONS:
        compare, value = _COMPARISONS[predicate[0]], predicate[1]
        return lambda values: compare(values, value)
    known = ", ".join(repr(name) for name in _COMPARISONS)
    raise TypeError(f"predicate={predicate!r}: give a function of an array, or a pair such as ('>', 0.5) with one of {known}")


def _alone(batch: Batch, field: str) -> Batch:
    """The batch with that field alone."""
    one = Batch({field: batch[field]})
    one.indices, one.offsets = batch.indices, {field: batch.offsets[field]}
    return one
