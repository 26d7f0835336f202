"""What DDStore has for PyTorch's ``DataLoader``."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from .._forebay import InvalidError

# Before PyTorch itself: where that is not installed, it says what to do.
from .._torch.dataset import Dataset as _Dataset  # noqa: F401
from . import dist_dataset as _dist_dataset

import torch  # isort: skip
import torch.utils.data  # isort: skip


class DistDataset(_dist_dataset.DistDataset, torch.utils.data.Dataset[Any]):
    __doc__ = _dist_dataset.DistDataset.__doc__
    __module__ = "pyddstore.torch"


class DistDatasetReader:
    """An error: a store belongs to one job."""

    __module__ = "pyddstore.torch"

    def __init__(self, *_: Any, **__: Any) -> None:
        raise InvalidError(
            "DistDatasetReader joins the store of another job\n  hint: a forebay.Store belongs to one job; run its readers as "
            "ranks of it, with a DistDataset"
        )


class ThreadDataLoader(torch.utils.data.DataLoader[Any]):
    """A ``DataLoader`` whose ``num_workers`` are threads of this process, at least one: each fetches and collates whole batches.

    :class:`forebay.torch.Loader` is faster: it needs no Python in its threads. ``reuse_buffers`` and ``collate_copies`` have
    no effect: memory need not be registered.
    """

    __module__ = "pyddstore.torch"

    def __init__(self, dataset: Any, reuse_buffers: bool = False, collate_copies: bool = False, **options: Any) -> None:
        super().__init__(dataset, **options)
        if isinstance(dataset, torch.utils.data.IterableDataset):
            raise TypeError("ThreadDataLoader takes data sets that are indexed")

    def __iter__(self) -> Iterator[Any]:  # type: ignore[override]
        chosen = self.sampler if self.batch_sampler is None else self.batch_sampler
        workers = max(1, self.num_workers)
        fetched: deque[Future[Any]] = deque()
        pool = ThreadPoolExecutor(workers)
        try:
            for index in chosen:
                fetched.append(pool.submit(self._fetch, index))
                if len(fetched) > workers * (self.prefetch_factor or 2):
                    yield fetched.popleft().result()
            while fetched:
                yield fetched.popleft().result()
        finally:
            pool.shutdown(cancel_futures=True)

    def close(self) -> None:
        """Nothing: an epoch leaves no threads behind."""

    def _fetch(self, index: Any) -> Any:
        if self.batch_sampler is None:
            batch = self.dataset[index]
        elif hasattr(self.dataset, "__getitems__"):
            batch = self.dataset.__getitems__(index)
        else:
            batch = [self.dataset[one] for one in index]
        batch = self.collate_fn(batch)
        if self.pin_memory and torch.cuda.is_available():
            batch = torch.utils.data._utils.pin_memory.pin_memory(batch)
        return batch
