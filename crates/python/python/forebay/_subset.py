"""Parts of a set of samples: chosen by number, by chance, by file, by time or by value."""

from __future__ import annotations

import math
import operator
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from ._batch import Batch, split_samples
from ._draws import DrawSpec
from ._forebay import BatchLoader, InvalidError, LoaderMemory, RawBatch, RawDraws, RawSubset
from ._sizes import whole
from ._statistics import QUANTILES, Statistics, compute

if TYPE_CHECKING:
    from ._dataset import Dataset
    from ._loader import Loader
    from ._store import Store

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
        return self._within(_chosen(which, len(self)))

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
        bool for each, or a comparison such as ``(">", 0.5)`` or ``("in", [3, 5])``.

        That field of all samples is read once, in parallel; the result is a list of numbers. Of a field whose samples differ
        in length, the function is given a list of arrays.
        """
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


def _is_text(value: Any) -> bool:
    """True of a text, and of several."""
    return isinstance(value, str) or (isinstance(value, (list, tuple, set)) and any(isinstance(one, str) for one in value))


def _objects(values: list[Any]) -> npt.NDArray[Any]:
    """``values``, texts or lists of them, as an array of objects, which can be compared."""
    table = np.empty(len(values), object)
    for number, value in enumerate(values):
        table[number] = value
    return table


class Subset(SetOperations):
    """Some samples of a data set or store, made by :meth:`Dataset.take`, :meth:`~Dataset.split`, :meth:`~Dataset.where`,
    :func:`concat` or :func:`mix`. It is indexed and loaded as the whole is.

    Its samples have numbers of their own, from 0 on: ``subset[i]``, ``batch.indices`` and states of loaders count by them.
    ``indices`` and :meth:`base_indices` lead back to the numbers in ``base``. ``batch.seeds`` follow the numbers of the subset.
    """

    __module__ = "forebay"

    def __init__(self, base: Dataset | Store, part: RawSubset, drawn: DrawSpec | None = None) -> None:
        self.base = base
        self._part = part
        self._drawn = drawn

    @property
    def _base(self) -> Dataset | Store:
        return self.base

    @property
    def label(self) -> str | None:
        """The name of the field that is the label, if one was named."""
        return self.base.label

    @property
    def fields(self) -> list[str]:
        """The names of the fields."""
        return self.base.fields

    @property
    def categories(self) -> dict[str, dict[str, int]]:
        """By field whose integers stand for names, the integer of each name, as in ``base``; none where it is a store."""
        categories: dict[str, dict[str, int]] = getattr(self.base, "categories", {})
        return categories

    @property
    def tiers(self) -> list[dict[str, Any]]:
        """The tiers it is read through."""
        return self.base.tiers

    @property
    def files(self) -> list[str]:
        """The files of ``base``, which may hold samples that are not here; none where it is a store."""
        files: list[str] = getattr(self.base, "files", [])
        return files

    @property
    def indices(self) -> npt.NDArray[np.int64]:
        """The number in ``base`` of each sample."""
        return np.frombuffer(bytearray(self._part.samples()), np.int64)

    @property
    def fingerprint(self) -> str:
        """Differs when the files, what a sample is, or which samples these are, is not the same."""
        of_base = getattr(self.base, "fingerprint", "")
        return f"{of_base}-{self._part.digest}"

    def base_indices(self, numbers: Any) -> npt.NDArray[np.int64]:
        """The numbers in ``base`` of the samples ``numbers``, such as ``batch.indices``; -1, padding, stays -1."""
        table = np.asarray(numbers, dtype=np.int64)
        outside = (table < -1) | (table >= len(self))
        if outside.any():
            raise IndexError(f"sample {table[outside].flat[0]} of {len(self)}")
        found = np.frombuffer(self._part.samples(np.maximum(table, 0).astype(np.uint64).tobytes()), np.int64)
        return np.where(table < 0, np.int64(-1), found.reshape(table.shape))

    def __len__(self) -> int:
        return len(self._part)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice) or (not isinstance(index, (int, np.integer, str)) and np.ndim(index) > 0):
            return self.batch(index)
        number = operator.index(index)
        if not -len(self) <= number < len(self):
            raise IndexError(f"sample {number} of {len(self)}")
        return self.base[int(self.base_indices(number % len(self)))]

    def __iter__(self) -> Any:
        return (self[number] for number in range(len(self)))

    def __getitems__(self, indices: Sequence[int]) -> list[dict[str, Any]]:
        """The samples ``indices`` as a list, read together."""
        return split_samples(self.batch(indices), self._axes)

    def batch(self, numbers: Any) -> Batch:
        """The samples ``numbers``, side by side: a slice, a sequence or array of whole numbers, or a mask."""
        chosen = np.frombuffer(_chosen(numbers, len(self)).samples(), np.int64)
        batch = Batch._of(self._raw_batch(chosen.tolist()))
        if batch.offsets:
            batch._axes = self._axes
        return batch

    @property
    def _axes(self) -> dict[str, int]:
        return self.base._axes

    def _raw_batch(self, numbers: Sequence[int]) -> RawBatch:
        table = np.array(numbers, dtype=np.int64)
        for number in (table.min(), table.max()) if table.size else ():
            if not -len(self) <= number < len(self):
                raise IndexError(f"sample {number} of {len(self)}")
        table %= max(len(self), 1)
        return self.base._raw_batch(self.base_indices(table).tolist()).renumbered(table.tolist())

    def loader(self, **options: Any) -> Loader:
        """A loader of these samples; see :class:`Loader` for what it takes."""
        from ._loader import Loader

        return Loader(self, **options)

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
        """As :meth:`Dataset.statistics`, of these samples alone: one that comes twice counts twice, and weights of a mixture do
        not count."""
        from ._store import Store

        if isinstance(self.base, Store):
            raise InvalidError("statistics are those of files\n  hint: ask the data set that the store was filled from")
        return compute(self.base, fields, axis, quantiles, save, progress, read_threads, memory, self._part)

    def _batch_loader(
        self,
        options: str,
        on_lost: str,
        subset: RawSubset | None,
        draws: RawDraws | None,
        memory: LoaderMemory | None = None,
        transforms: str | None = None,
    ) -> BatchLoader:
        assert subset is None
        return self.base._batch_loader(options, on_lost, self._part, draws, memory, transforms)

    def _part_lens(self) -> list[int]:
        ends = np.cumsum(self.base._part_lens())
        files = np.searchsorted(ends, self.indices, side="right")
        if (np.diff(files) < 0).any():
            raise InvalidError("the samples of this subset do not lie file by file\n  hint: split the data set, and take of the parts")
        counts: list[int] = np.bincount(files, minlength=len(ends)).tolist()
        return counts

    def _field_batches(self, field: str, part: RawSubset | None = None) -> Iterator[Batch]:
        return self.base._field_batches(field, self._part if part is None else self._part.then(part))

    def _within(self, part: RawSubset) -> Subset:
        if self._drawn is not None:
            raise InvalidError("parts of a mixture are not mixed\n  hint: take parts of the sets, and mix these")
        return Subset(self.base, self._part.then(part))

    def _read_through(self, **options: Any) -> Subset:
        base = self.base._read_through(**options)
        return self if base is self.base else type(self)(base, self._part, self._drawn)

    def describe(self) -> dict[str, Any]:
        """What there is: as :meth:`Dataset.describe` says of the whole, with the ``samples`` and ``fingerprint`` of these."""
        return {**self.base.describe(), "samples": len(self), "fingerprint": self.fingerprint}

    def stats(self) -> dict[str, Any]:
        """What indexing has read so far, as of ``base``."""
        return self.base.stats()

    def close(self) -> None:
        """Closes ``base``, for all subsets of it."""
        self.base.close()

    def __enter__(self) -> Subset:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<forebay.Subset of {len(self)} samples of {self.base!r}>"

    def __reduce__(self) -> Any:
        return _restored, (self.base, *_packed(self.indices, len(self.base)), self._drawn)


def _packed(indices: npt.NDArray[np.int64], count: int) -> tuple[str, Any]:
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


def _restored(base: Dataset | Store, kind: str, packed: Any, drawn: DrawSpec | None) -> Subset:
    if kind == "slice" and packed[1] != 0:
        return Subset(base, RawSubset.slice(len(base), *packed), drawn)
    if kind == "slice":
        packed = np.full(packed[2], packed[0])
    elif kind == "bits":
        packed = np.flatnonzero(np.unpackbits(packed, count=len(base)))
    return Subset(base, RawSubset.listed(len(base), np.asarray(packed, np.uint64).tobytes()), drawn)


def _chosen(which: Any, count: int) -> RawSubset:
    """The samples ``which`` of ``count``."""
    if isinstance(which, slice):
        chosen = range(*which.indices(count))
        return RawSubset.slice(count, chosen.start if len(chosen) else 0, chosen.step, len(chosen))
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
