"""Samples by number for Grain."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any, SupportsIndex

from .._batch import Batch, split_samples
from .._dataset import dataset as _dataset
from .._dataset.subset import Subset
from .._store.store import Store


class RandomAccessDataSource:
    """Samples by number, as Grain's protocol of the same name asks for them: each a dict of NumPy arrays.

    >>> grain.MapDataset.source(forebay.jax.RandomAccessDataSource(ds)).shuffle(seed=7).batch(64)

    Grain orders and batches the samples itself; those that it asks for together are read in one call. It can be pickled: workers open the
    files for themselves.
    """

    __module__ = "forebay.jax"

    def __init__(self, dataset: _dataset.Dataset | Store | Subset) -> None:
        if not isinstance(dataset, (_dataset.Dataset, Store, Subset)):
            raise TypeError(f"a forebay.Dataset is needed, as forebay.open gives it, or a Store, not {type(dataset).__name__}")
        self.dataset = dataset

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, record_key: SupportsIndex) -> dict[str, Any]:
        return self._getitems([record_key])[0]

    def _getitems(self, record_keys: Sequence[SupportsIndex]) -> list[dict[str, Any]]:
        """The samples ``record_keys``, each chunk read once."""
        batch = Batch._of(self.dataset._raw_batch([operator.index(one) for one in record_keys]))
        return split_samples(batch, self.dataset._axes)

    __getitems__ = _getitems

    def __repr__(self) -> str:
        # Grain compares it when a run is resumed: it says which samples these are, and nothing of this process.
        return f"RandomAccessDataSource({len(self)} samples, fingerprint={getattr(self.dataset, 'fingerprint', None)!r})"
