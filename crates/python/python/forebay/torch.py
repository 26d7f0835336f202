"""forebay for PyTorch: batches of tensors over forebay's own memory, and data sets for PyTorch's ``DataLoader``.

>>> loader = forebay.torch.Loader(ds, batch_size=64, shuffle="full", seed=7)
>>> for batch in loader:
...     model(batch["image"], batch["label"])

:class:`Loader` is the fast way: threads make whole batches ahead. The others are for programs that keep their own
``DataLoader``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from . import _dataset, _loader
from ._forebay import BatchLoader, RawBatch
from ._store import Store
from ._subset import Subset

# Before PyTorch itself: where that is not installed, it says what to do.
from ._torch_dataset import Batch, Dataset, StoreDataset, _opened, collate
from ._torch_formats import ADIOS2, GNCF, HDF5, NC, NetCDF, Silo, Zarr

import torch  # isort: skip
import torch.distributed  # isort: skip
import torch.utils.data  # isort: skip

__all__ = [
    "ADIOS2",
    "GNCF",
    "HDF5",
    "NC",
    "Batch",
    "Dataset",
    "IterableDataset",
    "Loader",
    "NetCDF",
    "Silo",
    "StoreDataset",
    "Zarr",
    "collate",
]


class _Shard:
    """Rank and world as they are given, or those of a store, or else those of the process group from when there is one:
    trainers make it after the loaders."""

    def __init__(self, dataset: Any, rank: int | None, world: int | None) -> None:
        rank, world = _loader.shard_of(dataset, rank, world)
        if (rank is None) != (world is None):
            raise ValueError("rank and world are given together or not at all")
        self._follows = rank is None
        self._known = (rank or 0, 1 if world is None else world)

    def now(self) -> tuple[int, int]:
        """Rank and world; those of a process group that is gone stay."""
        if self._follows and torch.distributed.is_available() and torch.distributed.is_initialized():
            self._known = torch.distributed.get_rank(), torch.distributed.get_world_size()
        return self._known


class Loader(_loader.Loader):
    """Batches of tensors: made ahead by threads, in an order that can be resumed.

    Takes what :class:`forebay.Loader` takes, and ``device``, where the batches shall go. ``rank`` and ``world`` are by
    default those of a store, or else of ``torch.distributed``. The latter are asked for whenever an epoch is begun and
    whenever ``len`` is, so the process group may be initialised after the loader was made.
    """

    __module__ = "forebay.torch"

    def __init__(
        self,
        dataset: _dataset.Dataset | Dataset | Store | Subset,
        *,
        rank: int | None = None,
        world: int | None = None,
        device: torch.device | str | int | None = None,
        **options: Any,
    ) -> None:
        opened = _opened(dataset)
        self._shard = _Shard(opened, rank, world)
        self.device = device
        self._place = self._shard.now()
        super().__init__(opened, rank=self._place[0], world=self._place[1], **options)

    @property
    def _loader(self) -> BatchLoader:
        loader = super()._loader
        place = self._shard.now()
        if place == self._place or self._run is not None:
            return loader
        self._move_to(*place)
        self._place = place
        return self._opened

    def _batch(self, raw: RawBatch) -> Batch:
        batch = Batch._tensors(raw)
        return batch if self.device is None else batch.to(self.device)

    @property
    def sampler(self) -> Loader:
        """The loader itself: frameworks look here for ``set_epoch``."""
        return self

    @property
    def batch_sampler(self) -> None:
        """None, as in a ``DataLoader`` that does not put batches together: Lightning looks here."""
        return None


class IterableDataset(torch.utils.data.IterableDataset[Any]):
    """Whole batches, for ``DataLoader(dataset, batch_size=None, num_workers=k)``.

    Takes what :class:`Loader` takes, but for ``device``. Workers share the samples of their rank: worker w of k on rank
    r of W is rank r * k + w of W * k. All have the same number of batches, so the samples must fill them, or ``tail``
    must be ``"drop"``, ``"pad"`` or ``"wrap"``. By default workers share the cores and the memory of the process.

    Every epoch has the order of :meth:`set_epoch`, which holds for workers that are begun, or begin anew, after it:
    call it before each epoch, with persistent workers too. There is no state to resume from; :class:`Loader` has one.
    """

    __module__ = "forebay.torch"

    def __init__(
        self,
        dataset: _dataset.Dataset | Dataset | Store | Subset,
        *,
        rank: int | None = None,
        world: int | None = None,
        **options: Any,
    ) -> None:
        self.dataset = _opened(dataset)
        self._shard = _Shard(self.dataset, rank, world)
        self._options = options
        self._check_tail(1)
        # In shared memory, where workers that live on see it change.
        self._epoch = torch.zeros(1, dtype=torch.int64).share_memory_()
        self._kept: tuple[tuple[int, int], Loader] | None = None

    def set_epoch(self, epoch: int) -> None:
        """Makes ``epoch`` the one that is begun next."""
        self._epoch[0] = epoch

    def __iter__(self) -> Iterator[Batch]:
        info = torch.utils.data.get_worker_info()
        worker, workers = (0, 1) if info is None else (info.id, info.num_workers)
        loader = self._loader(worker, workers)
        loader.set_epoch(int(self._epoch))
        return iter(loader)

    def _loader(self, worker: int, workers: int) -> Loader:
        rank, world = self._shard.now()
        shard = (rank * workers + worker, world * workers)
        if self._kept is not None and self._kept[0] == shard:
            return self._kept[1]
        options = dict(self._options)
        if torch.utils.data.get_worker_info() is not None:
            # Workers are not part of the process group.
            options["check_ranks"] = False
        self._check_tail(workers)
        loader = Loader(self.dataset, rank=shard[0], world=shard[1], **options)
        self._kept = shard, loader
        return loader

    def _check_tail(self, workers: int) -> None:
        """Refuses a last batch that not all workers of all ranks would have."""
        world = self._shard.now()[1]
        batch_size = self._options.get("batch_size", 1)
        tail = _loader._tail(self._options.get("tail"), self._options.get("drop_last", False))
        if world * workers == 1 or tail not in (None, "short"):
            return
        who = f"{world} ranks of {workers} workers"
        remedy = "choose tail='drop', 'pad' or 'wrap'" + (", or num_workers=0" if workers > 1 else "")
        if tail == "short":
            raise ValueError(f"tail='short' for {who}, which would not all have a shorter last batch: {remedy}")
        if getattr(self.dataset, "_drawn", None) is not None or any(name in self._options for name in ("weights", "balance")):
            # Its loaders know how many samples are drawn.
            return
        if len(self.dataset) % (world * workers * batch_size) > 0:
            raise ValueError(f"{len(self.dataset)} samples do not fill batches of {batch_size} for {who}: {remedy}")

    def __getstate__(self) -> dict[str, Any]:
        # Asked for here too: a spawned worker has no process group.
        self._shard.now()
        return {**self.__dict__, "_kept": None}

    def __repr__(self) -> str:
        return f"<forebay.torch.IterableDataset of {self.dataset!r}>"
