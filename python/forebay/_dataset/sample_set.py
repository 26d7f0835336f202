"""A set of samples, whatever holds them, and what can be taken of it: parts by number, by chance, by file, by time or by value, and
statistics."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from .._forebay import BatchLoader, LoaderMemory, RawBatch, RawDraws, RawSubset
from .._sizes import whole
from .._statistics import QUANTILES, Statistics, compute
from .condition import Condition
from .dask_array import field_array
from .parts import bounds_of, by_file, by_sample, chosen, in_order

if TYPE_CHECKING:
    from typing_extensions import Self

    from .._batch import Batch
    from .._loader.draws import DrawSpec
    from .._loader.loader import Loader
    from .._store.store import Store
    from .dataset import Dataset
    from .subset import Subset

FIELD_BATCH_BYTES = 4 << 20
"""Bytes of one field that are read at a time: enough for a request, little enough for a batch of each thread."""


class SampleSet(ABC):
    """Samples by number: a :class:`Dataset`, a :class:`Store` or a :class:`Subset`.

    What is public here is written in terms of the abstract methods, and asks for nothing else of the classes that have them.
    """

    __module__ = "forebay"
    __slots__ = ()

    _part: RawSubset | None = None
    """The part of ``_base`` that these samples are; None for all of it."""
    _drawn: DrawSpec | None = None
    """Draws of an epoch; None where each sample comes once."""
    _job_shard: tuple[int, int] | None = None
    """Rank and world of the job whose ranks hold these samples; None of samples in files."""
    _may_grow = False
    """True where :meth:`_opened_anew` may find more samples."""

    @abstractmethod
    def __len__(self) -> int: ...

    @property
    @abstractmethod
    def fields(self) -> list[str]:
        """The names of the fields."""

    @property
    @abstractmethod
    def tiers(self) -> list[dict[str, Any]]:
        """The tiers it is read through."""

    @abstractmethod
    def loader(self, **options: Any) -> Loader:
        """A loader of these samples."""

    @property
    @abstractmethod
    def _base(self) -> Dataset | Store:
        """The whole set that these are samples of."""

    @property
    @abstractmethod
    def _file_set(self) -> Dataset | None:
        """The data set of files that these are samples of; None of what lies in the memory of ranks."""

    @property
    @abstractmethod
    def _axes(self) -> dict[str, int]:
        """By field whose samples differ in length, along which axis."""

    @abstractmethod
    def _part_lens(self) -> list[int]:
        """Samples of each file, in order."""

    @abstractmethod
    def _within(self, part: RawSubset, drawn: DrawSpec | None = None) -> Subset:
        """The samples ``part`` of these, drawn as ``drawn`` says."""

    @abstractmethod
    def _raw_batch(self, numbers: Sequence[int]) -> RawBatch:
        """The samples ``numbers``, side by side."""

    @abstractmethod
    def _field_batches(self, field: str, part: RawSubset | None = None) -> Iterator[Batch]:
        """All samples in order, or those of ``part``, of which at least ``field`` is read."""

    @abstractmethod
    def _read_through(self, **options: Any) -> Self:
        """These samples, read as ``options`` say of tiers; what they do not say stays as it is."""

    @abstractmethod
    def _batch_loader(
        self,
        options: dict[str, Any],
        on_lost: str,
        subset: RawSubset | None = None,
        draws: RawDraws | None = None,
        memory: LoaderMemory | None = None,
        transforms: dict[str, Any] | None = None,
    ) -> BatchLoader:
        """The compiled loader of these samples."""

    def _opened_anew(self) -> Self:
        """These samples, of the files as they are now."""
        return self

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
        bounds = bounds_of(fractions, len(self))
        if by not in ("sample", "file", "time"):
            raise ValueError(f"by={by!r}; there are 'sample', 'file' and 'time'")
        if whole("gap", gap) and by != "time":
            raise ValueError(f"gap={gap} with by={by!r}: only parts of by='time' have neighbours")
        number = whole("seed", seed)
        if by == "time":
            return [self._within(part) for part in in_order(bounds, len(self), gap)]
        if by == "file":
            return [self._within(part) for part in by_file(bounds, self._part_lens(), number)]
        return [self._within(part) for part in by_sample(bounds, len(self), number)]

    def where(self, field: str, predicate: Callable[[Any], Any] | tuple[str, Any]) -> Subset:
        """The samples whose ``field`` is as ``predicate`` says: a function from an array of many samples to a mask with one
        bool for each, or a comparison such as ``(">", 0.5)`` or ``("in", [3, 5])``; any collection will do, such as a set.

        That field of all samples is read once, in parallel; the result is a list of numbers. Of a field whose samples differ
        in length, the function is given a list of arrays.
        """
        condition = Condition(field, predicate)
        masks = [condition.mask(batch, self._axes) for batch in self._field_batches(field)]
        return self.take(np.concatenate([np.zeros(0, bool), *masks]))

    def to_dask(self, field: str, *, chunks: int | Literal["auto", "stored"] | Sequence[int] = "auto") -> Any:
        """One field of all samples as a ``dask.array``: axis 0 counts samples, and nothing is read until it is computed.

        It is cut between chunks of the file, so that each is read and decoded once. ``chunks="auto"`` joins chunks up to what dask's
        ``array.chunk-size`` says, ``"stored"`` none but small ones (up to 256 KiB), and a number joins up to so many samples; a list
        gives the samples of each block itself. Workers of a cluster open the files for themselves, once in each process. A field whose
        samples differ in length is no array, and an error.
        """
        return field_array(self, field, chunks)

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
        return compute(self._base, fields, axis, quantiles, save, progress, read_threads, memory, self._part)
