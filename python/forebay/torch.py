"""forebay for PyTorch: batches of tensors over forebay's own memory, and data sets for PyTorch's ``DataLoader``.

>>> loader = forebay.torch.Loader(ds, batch_size=64, shuffle="full", seed=7)
>>> for batch in loader:
...     model(batch["image"], batch["label"])

:class:`Loader` is the fast way: threads make whole batches ahead. The others are for programs that keep their own
``DataLoader``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from ._dataset import dataset as _dataset
from ._device import feed as _device_feed
from ._loader import draws as _draws
from ._loader import loader as _loader
from ._tiers import tiers as _tiers
from ._loader.delivery import Delivery, Pair
from ._loader.words import tail_of
from ._forebay import BatchLoader, EpochRun, LoaderMemory, RawBatch
from ._store.store import Store
from ._dataset.subset import Subset

# Before PyTorch itself: where that is not installed, it says what to do.
from ._torch.dataset import Batch, Dataset, StoreDataset, _opened, collate, stacked_tensors
from ._torch.graph_dataset import GraphDataset
from ._torch.graphs import graphs
from ._compat.torch_formats import ADIOS2, GNCF, HDF5, NC, NetCDF, Silo, Zarr

from ._torch import device_memory as _device_memory  # isort: skip

import torch  # isort: skip
import torch.distributed  # isort: skip
import torch.utils.data  # isort: skip

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ._loader.options import IterationOptions

__all__ = [
    "ADIOS2",
    "GNCF",
    "HDF5",
    "NC",
    "Batch",
    "Dataset",
    "GraphDataset",
    "IterableDataset",
    "Loader",
    "NetCDF",
    "Silo",
    "StoreDataset",
    "Zarr",
    "collate",
    "graphs",
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


def _cuda_device(device: torch.device | str | int | None) -> torch.device | None:
    """``device`` with its number, if it is one of CUDA."""
    if device is None:
        return None
    device = torch.device(device)
    if device.type != "cuda":
        return None
    return torch.device("cuda", torch.cuda.current_device()) if device.index is None else device


class _DeviceDelivery(Delivery):
    """Hands out batches that were copied to a device: at the border of two epochs the first of the next are on their way."""

    def __init__(self, feed_of: Callable[[EpochRun], _device_feed.DeviceFeed[Any, Any]]) -> None:
        self._feed_of = feed_of
        self._feed: _device_feed.DeviceFeed[Any, Any] | None = None

    def batches(self, run: EpochRun, is_following: bool) -> Iterator[Pair]:
        if self._feed is not None and is_following:
            self._feed.follow(run)
        else:
            self.close()
            self._feed = self._feed_of(run)
        return self._feed

    def close(self) -> None:
        if self._feed is not None:
            self._feed.close()


class Loader(_loader.Loader):
    """Batches of tensors: made ahead by threads, in an order that can be resumed.

    Takes what :class:`forebay.Loader` takes, and ``device`` and ``pin_memory``. ``rank`` and ``world`` are by default those of
    a store, or else of ``torch.distributed``. The latter are asked for whenever an epoch is begun and whenever ``len`` is, so
    the process group may be initialised after the loader was made.

    Args:
        device: where the batches shall go. To a CUDA device they are copied from pinned memory in a stream of their own, two
            batches ahead; work that is queued in the current stream after a batch was received waits for its copy.
        pin_memory: batches in PyTorch's pinned memory, for programs that copy them themselves. A batch may be dropped as soon as
            ``.to(device, non_blocking=True)`` returned.
    """

    __module__ = "forebay.torch"

    def __init__(
        self,
        dataset: _dataset.Dataset | Dataset | Store | Subset,
        *,
        rank: int | None = None,
        world: int | None = None,
        device: torch.device | str | int | None = None,
        pin_memory: bool = False,
        **options: Unpack[IterationOptions],
    ) -> None:
        opened = _opened(dataset)
        self._shard = _Shard(opened, rank, world)
        self.device, self.pin_memory = device, pin_memory
        self._cuda = _cuda_device(device)
        if self._cuda is not None:
            if pin_memory:
                raise ValueError("pin_memory=True with device='cuda': its batches are copied from pinned memory in any case")
            self._held = _device_feed.MOST_COPIES + 2
        self._place = self._shard.now()
        super().__init__(opened, rank=self._place[0], world=self._place[1], **options)

    @property
    def _loader(self) -> BatchLoader:
        loader = super()._loader
        place = self._shard.now()
        if place == self._place or self._is_under_way:
            return loader
        self._move_to(*place)
        self._place = place
        return self._opened

    def _batch_memory(self) -> LoaderMemory | None:
        self._memory = None
        self._copier: Any = None
        if self._cuda is not None and self._map is None:
            self._memory = _device_memory.registered_memory(self._cuda)
            self._copier = _device_memory.CudaCopier(self._cuda, self._memory)
        elif self.pin_memory:
            self._memory = _device_memory.pinned_memory()
        if self._memory is not None:
            # What is pinned has to be let go while there is a device.
            _tiers.leave_at_exit(self)
        return self._memory

    def _delivery(self) -> Delivery:
        return super()._delivery() if self._copier is None else _DeviceDelivery(self._new_feed)

    def _new_feed(self, run: EpochRun) -> _device_feed.DeviceFeed[Any, Any]:
        return _device_feed.DeviceFeed(run, self._copier, _device_memory.joint_pieces, self._arrived)

    def _arrived(self, raw: RawBatch, layout: Any, target: Any) -> Any:
        batch = Batch._on_device(raw, layout, target)
        if batch.offsets:
            batch._axes = self._axes
        return self._handed(batch)

    def _host_batch(self, raw: RawBatch) -> Batch:
        if self._memory is not None:
            values, offsets = _device_memory.pinned_tensors(raw, self._memory)
            batch = Batch._joint(raw, values, offsets)
            if batch.offsets:
                batch._axes = self._axes
            return batch
        batch = Batch._tensors(raw)
        if batch.offsets:
            batch._axes = self._axes
        return batch

    def _placed(self, batch: Any) -> Any:
        if self.device is None:
            return batch
        if hasattr(batch, "to"):
            return batch.to(self.device)
        if isinstance(batch, tuple) and hasattr(batch, "_fields"):
            return type(batch)(*(self._placed(one) for one in batch))
        if isinstance(batch, (tuple, list)):
            return type(batch)(self._placed(one) for one in batch)
        return {name: self._placed(one) for name, one in batch.items()} if isinstance(batch, dict) else batch

    @staticmethod
    def _stacked(samples: list[Any]) -> Any:
        return stacked_tensors(samples)

    def stats(self) -> dict[str, Any]:
        """As :meth:`forebay.Loader.stats`; with ``device="cuda"`` also ``pinned``: bytes that are pinned, bytes that could not
        be (``pageable_bytes``), and how often the driver refused (``refusals``)."""
        stats = super().stats()
        if self._copier is not None and self._memory is not None:
            stats["pinned"] = self._memory.stats()
        return stats

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "_memory": None, "_copier": None}

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
    call it before each epoch, with persistent workers too. :meth:`state_dict` says where this process or worker is:
    ``torchdata``'s ``StatefulDataLoader`` asks each worker for it, and resumes with as many workers.
    """

    __module__ = "forebay.torch"

    def __init__(
        self,
        dataset: _dataset.Dataset | Dataset | Store | Subset,
        *,
        rank: int | None = None,
        world: int | None = None,
        **options: Unpack[IterationOptions],
    ) -> None:
        self.dataset = _opened(dataset)
        self._shard = _Shard(self.dataset, rank, world)
        self._options = options
        self._check_tail(1)
        # In shared memory, where workers that live on see it change.
        self._epoch = torch.zeros(1, dtype=torch.int64).share_memory_()
        self._kept: tuple[tuple[int, int], Loader] | None = None
        self._resumed: dict[str, Any] | None = None

    def __len__(self) -> int:
        """Batches of an epoch of this rank without workers; with several there may be fewer or more by one for each of them."""
        whole, rest = divmod(self._epoch_samples(), self._shard.now()[1] * self._options.get("batch_size", 1))
        tail = tail_of(self._options.get("tail"), self._options.get("drop_last", False))
        return whole + (rest > 0 and tail != "drop")

    def _epoch_samples(self) -> int:
        """Samples of an epoch of all ranks, drawn or each once."""
        options = self._options
        return _draws.epoch_samples_of(
            self.dataset, options.get("weights"), options.get("replacement", True), options.get("epoch_samples")
        )

    def state_dict(self) -> dict[str, Any]:
        """Where this process is in its epoch."""
        if self._kept is not None:
            return self._kept[1].state_dict()
        return self._resumed or {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Goes on from ``state`` in the next epoch that is begun, with as many workers."""
        self._resumed = state or None
        if state:
            self._epoch[0] = state["epoch"]

    def set_epoch(self, epoch: int) -> None:
        """Makes ``epoch`` the one that is begun next."""
        self._epoch[0] = epoch

    def __iter__(self) -> Iterator[Batch]:
        info = torch.utils.data.get_worker_info()
        worker, workers = (0, 1) if info is None else (info.id, info.num_workers)
        loader = self._loader(worker, workers)
        if self._resumed is not None:
            loader.load_state_dict(self._resumed)
            self._resumed = None
        loader.set_epoch(int(self._epoch))
        return iter(loader)

    def _loader(self, worker: int, workers: int) -> Loader:
        rank, world = self._shard.now()
        shard = (rank * workers + worker, world * workers)
        if self._kept is not None and self._kept[0] == shard:
            return self._kept[1]
        options = self._options.copy()
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
        tail = tail_of(self._options.get("tail"), self._options.get("drop_last", False))
        if world * workers == 1 or tail not in (None, "short"):
            return
        who = f"{world} ranks of {workers} workers"
        remedy = "choose tail='drop', 'pad' or 'wrap'" + (", or num_workers=0" if workers > 1 else "")
        if tail == "short":
            raise ValueError(f"tail='short' for {who}, which would not all have a shorter last batch: {remedy}")
        count = self._epoch_samples()
        if count % (world * workers * batch_size) > 0:
            raise ValueError(f"{count} samples do not fill batches of {batch_size} for {who}: {remedy}")

    def __getstate__(self) -> dict[str, Any]:
        # Asked for here too: a spawned worker has no process group.
        self._shard.now()
        return {**self.__dict__, "_kept": None}

    def __repr__(self) -> str:
        return f"<forebay.torch.IterableDataset of {self.dataset!r}>"
