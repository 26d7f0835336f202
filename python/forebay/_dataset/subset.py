"""Parts of a set of samples, and their loaders."""

from __future__ import annotations

import operator
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from .._batch import Batch, split_samples
from .._forebay import BatchLoader, InvalidError, LoaderMemory, RawBatch, RawDraws, RawSubset
from .._loader.draws import DrawSpec
from .._loader.loader import Loader
from .parts import chosen, indices_of, packed, unpacked
from .sample_set import SampleSet

if TYPE_CHECKING:
    from typing_extensions import Self

    from .._store.store import Store
    from .dataset import Dataset


class Subset(SampleSet):
    """Some samples of a data set or store, made by :meth:`Dataset.take`, :meth:`~Dataset.split`, :meth:`~Dataset.where`,
    :func:`concat` or :func:`mix`. It is indexed and loaded as the whole is.

    Its samples have numbers of their own, from 0 on: ``subset[i]``, ``batch.indices`` and states of loaders count by them.
    ``indices`` and :meth:`base_indices` lead back to the numbers in ``base``. ``batch.seeds`` follow the numbers of the subset.
    """

    __module__ = "forebay"

    _part: RawSubset

    def __init__(self, base: Dataset | Store, part: RawSubset, drawn: DrawSpec | None = None) -> None:
        self.base = base
        self._part = part
        self._drawn = drawn

    @property
    def _base(self) -> Dataset | Store:
        return self.base

    @property
    def _file_set(self) -> Dataset | None:
        return self.base._file_set

    @property
    def _job_shard(self) -> tuple[int, int] | None:  # type: ignore[override]
        return self.base._job_shard

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
        return indices_of(self._part)

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
        taken = np.frombuffer(chosen(numbers, len(self)).samples(), np.int64)
        batch = Batch._of(self._raw_batch(taken.tolist()))
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
        return Loader(self, **options)

    def _batch_loader(
        self,
        options: dict[str, Any],
        on_lost: str,
        subset: RawSubset | None = None,
        draws: RawDraws | None = None,
        memory: LoaderMemory | None = None,
        transforms: dict[str, Any] | None = None,
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

    def _within(self, part: RawSubset, drawn: DrawSpec | None = None) -> Subset:
        if self._drawn is not None:
            raise InvalidError("parts of a mixture are not mixed\n  hint: take parts of the sets, and mix these")
        return Subset(self.base, self._part.then(part), drawn)

    def _read_through(self, **options: Any) -> Self:
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
        return _restored, (self.base, *packed(self.indices, len(self.base)), self._drawn)


def _restored(base: Dataset | Store, kind: str, packed: Any, drawn: DrawSpec | None) -> Subset:
    return Subset(base, unpacked(kind, packed, len(base)), drawn)
