"""forebay for PyTorch: batches of tensors over forebay's own memory, and data sets for PyTorch's ``DataLoader``.

>>> loader = forebay.torch.Loader(ds, batch_size=64, shuffle="full", seed=7)
>>> for batch in loader:
...     model(batch["image"], batch["label"])

:class:`Loader` is the fast way: threads make whole batches ahead. The others are for programs that keep their own
``DataLoader``.
"""

from __future__ import annotations

import math
import operator
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

try:
    import torch
    import torch.distributed
    import torch.utils.data
except ModuleNotFoundError as error:
    if error.name != "torch":
        raise
    raise ModuleNotFoundError("forebay.torch needs PyTorch: pip install torch", name="torch") from None

from . import _batch, _dataset, _loader
from ._forebay import Memory, RawBatch, memory_budget
from ._samples import Boundary, Field, Fixed, Paths, Ragged

__all__ = ["HDF5", "Batch", "Dataset", "IterableDataset", "Loader", "collate"]


def _tensor_of(memory: Memory) -> Any:
    """The tensor that lies in ``memory``; an array where PyTorch has no such type."""
    array = _batch.array_of(memory)
    if memory.is_bfloat16:
        return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
    try:
        return torch.from_numpy(array)
    except TypeError:
        return array


class Batch(_batch.Batch):
    """Samples side by side: a dict of tensors by field name; arrays where PyTorch has no such type.

    ``indices`` and ``offsets`` are tensors too.
    """

    __module__ = "forebay.torch"
    __slots__ = ()

    @classmethod
    def _tensors(cls, raw: RawBatch) -> Batch:
        batch = cls._of(raw, _tensor_of)
        batch.indices = torch.from_numpy(batch.indices)
        batch.offsets = {name: torch.from_numpy(offsets) for name, offsets in batch.offsets.items()}
        return batch

    def to(self, device: torch.device | str | int, non_blocking: bool = False) -> Batch:
        """The same batch on ``device``."""

        def move(value: Any) -> Any:
            return value.to(device, non_blocking=non_blocking) if isinstance(value, torch.Tensor) else value

        moved = type(self)((name, move(value)) for name, value in self.items())
        moved.indices = move(self.indices)
        moved.offsets = {name: move(offsets) for name, offsets in self.offsets.items()}
        for name in ("seeds", "epoch", "step", "skipped"):
            setattr(moved, name, getattr(self, name))
        return moved


def _rank_and_world(rank: int | None, world: int | None) -> tuple[int, int]:
    """Rank and world as they are given, or else those of the process group, if there is one."""
    if (rank is None) != (world is None):
        raise ValueError("rank and world are given together or not at all")
    if rank is not None and world is not None:
        return rank, world
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        return torch.distributed.get_rank(), torch.distributed.get_world_size()
    return 0, 1


class Loader(_loader.Loader):
    """Batches of tensors: made ahead by threads, in an order that can be resumed.

    Takes what :class:`forebay.Loader` takes, and ``device``, where the batches shall go. ``rank`` and ``world`` are by
    default those of ``torch.distributed``, where it is initialised.
    """

    __module__ = "forebay.torch"

    def __init__(
        self,
        dataset: _dataset.Dataset | Dataset,
        *,
        rank: int | None = None,
        world: int | None = None,
        device: torch.device | str | int | None = None,
        **options: Any,
    ) -> None:
        rank, world = _rank_and_world(rank, world)
        self.device = device
        super().__init__(_opened(dataset), rank=rank, world=world, **options)

    def _batch(self, raw: RawBatch) -> Batch:
        batch = Batch._tensors(raw)
        return batch if self.device is None else batch.to(self.device)

    @property
    def sampler(self) -> Loader:
        """The loader itself: frameworks look here for ``set_epoch``."""
        return self


def _opened(dataset: Any) -> _dataset.Dataset:
    """The plain data set of ``dataset``."""
    if isinstance(dataset, Dataset):
        dataset = dataset.dataset
    if not isinstance(dataset, _dataset.Dataset):
        raise TypeError(f"a forebay.Dataset is needed, as forebay.open gives it, not {type(dataset).__name__}")
    return dataset


class _Samples(list[Any]):
    """Samples that know the batch they are views of."""

    def __init__(self, samples: list[Any], batch: Any) -> None:
        super().__init__(samples)
        self.batch = batch


class Dataset(torch.utils.data.Dataset[Any]):
    """Samples by number, for PyTorch's ``DataLoader``: each a dict of tensors.

    The samples of a batch are read in one call, so a chunk they share is decoded once. ``DataLoader`` stacks them
    again by default; ``collate_fn=forebay.torch.collate`` hands the batch over as it was read. Workers may be forked or
    spawned: each opens the files for itself.
    """

    __module__ = "forebay.torch"

    def __init__(self, dataset: _dataset.Dataset) -> None:
        self.dataset = _opened(dataset)

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, index: int) -> Any:
        return self._item(self._read([index])[0])

    def __getitems__(self, indices: Sequence[int]) -> list[Any]:
        """The samples ``indices`` as a list, each chunk read once."""
        batch = self._batch(indices)
        return _Samples([self._item(sample) for sample in self._split(batch)], self._item(batch))

    def _item(self, sample: Any) -> Any:
        return sample

    def _read(self, indices: Sequence[int]) -> list[dict[str, Any]]:
        return self._split(self._batch(indices))

    def _batch(self, indices: Sequence[int]) -> Batch:
        numbers = [self.dataset._checked(operator.index(index)) for index in indices]
        return Batch._tensors(self.dataset._reader.get(numbers))

    def _split(self, batch: Batch) -> list[dict[str, Any]]:
        """The samples of ``batch``, each a dict of views."""
        samples: list[dict[str, Any]] = [{} for _ in range(batch.size)]
        for name, values in batch.items():
            offsets = batch.offsets.get(name)
            if offsets is None:
                parts = values.unbind() if isinstance(values, torch.Tensor) else values
            elif isinstance(values, torch.Tensor):
                parts = values.split(offsets.diff().tolist(), dim=self.dataset._axes[name])
            else:
                parts = np.split(values, offsets[1:-1].numpy(), axis=self.dataset._axes[name])
            for sample, part in zip(samples, parts):
                sample[name] = part
        return samples

    def __repr__(self) -> str:
        return f"<forebay.torch.{type(self).__name__} of {self.dataset!r}>"


def collate(samples: Sequence[Any]) -> Any:
    """The batch that ``samples`` of a :class:`Dataset` are views of: for ``DataLoader(collate_fn=...)``.

    Fields whose samples differ in length arrive joined, with ``batch.offsets``. Samples of other kinds are collated as
    PyTorch does.
    """
    if isinstance(samples, _Samples):
        return samples.batch
    return torch.utils.data.default_collate(list(samples))


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
        dataset: _dataset.Dataset | Dataset,
        *,
        rank: int | None = None,
        world: int | None = None,
        **options: Any,
    ) -> None:
        self.dataset = _opened(dataset)
        # Asked now: workers are not part of the process group.
        self._shard = _rank_and_world(rank, world)
        self._options = options
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
        rank, world = self._shard
        shard = (rank * workers + worker, world * workers)
        if self._kept is not None and self._kept[0] == shard:
            return self._kept[1]
        options = dict(self._options)
        if workers > 1:
            self._check_tail(workers)
            cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
            options.setdefault("read_threads", max(1, cores // workers))
            # Half of what the job allows, as a loader alone takes.
            siblings = workers * int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
            options.setdefault("memory", memory_budget() // 2 // siblings)
        loader = Loader(self.dataset, rank=shard[0], world=shard[1], **options)
        self._kept = shard, loader
        return loader

    def _check_tail(self, workers: int) -> None:
        parts = self._shard[1] * workers
        batch_size = self._options.get("batch_size", 1)
        is_said = self._options.get("drop_last") or self._options.get("tail") not in (None, "short")
        if is_said or len(self.dataset) % (parts * batch_size) == 0:
            return
        raise ValueError(
            f"{len(self.dataset)} samples do not fill batches of {batch_size} for {self._shard[1]} ranks of {workers} "
            "workers: choose tail='drop', 'pad' or 'wrap', or num_workers=0"
        )

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_kept": None}

    def __repr__(self) -> str:
        return f"<forebay.torch.IterableDataset of {self.dataset!r}>"


class HDF5(Dataset):
    """Samples of HDF5 files as pairs ``(data, label)`` of tensors, for PyTorch's ``DataLoader``.

    >>> dataset = HDF5(("images.h5", "image", "label", ("FIXED", 4096)), transfer_size=1048576, read_threads=4)
    >>> for images, labels in DataLoader(dataset, batch_size=4, shuffle=True): ...

    A source is ``(path, field, label, boundary)``; there may be several, or a list of them, which are one set, file
    after file. The boundary is ``("FIXED", n)``, where n bytes, whole rows of ``field``, are one sample; or
    ``("VARIABLE", name)``, where the variable ``name`` has the offsets of the samples; without one, a row is a sample.
    A label has one row a sample; it may be ``None``, and items are then the data alone. ``tiers``, ``policy`` and what
    else says how files are read through tiers is taken as by :func:`forebay.open`.
    """

    __module__ = "forebay.torch"

    def __init__(
        self,
        *source: Any,
        transfer_size: int | str | None = None,
        read_threads: int | None = None,
        memory: int | str | None = None,
        **through: Any,
    ) -> None:
        sources = _sources(source)
        field, label = sources[0][1:3]
        if any(one[1:3] != (field, label) for one in sources):
            raise ValueError("all files must name the same field and label")
        if read_threads is not None and read_threads < 1:
            raise ValueError(f"read_threads={read_threads}; at least 1 is needed")
        boundaries = {path: _boundary(path, field, boundary) for path, _, _, boundary in sources}
        samples = boundaries[sources[0][0]]
        for path, other in boundaries.items():
            if other != samples:
                raise ValueError(f"{path}: samples are {other}, in {sources[0][0]} {samples}")
        names: dict[str, str | Field] = {"data": Field(field, samples=samples)}
        if label is not None:
            names["label"] = Field(label, samples=Fixed(1))
        files = [path for path, *_ in sources]
        super().__init__(_dataset.open(files, names, memory=memory, transfer_size=transfer_size, **through))
        self._has_label = label is not None
        self._threads = read_threads or 1
        self._pool: tuple[int, ThreadPoolExecutor] | None = None

    def _item(self, sample: Any) -> Any:
        return (sample["data"], sample["label"]) if self._has_label else sample["data"]

    def __getitems__(self, indices: Sequence[int]) -> list[Any]:
        if self._threads == 1 or len(indices) < 2:
            return super().__getitems__(indices)
        share = math.ceil(len(indices) / self._threads)
        shares = [indices[at : at + share] for at in range(0, len(indices), share)]
        return [self._item(sample) for part in self._executor().map(self._read, shares) for sample in part]

    def _executor(self) -> ThreadPoolExecutor:
        # The threads of another process are not here.
        if self._pool is None or self._pool[0] != os.getpid():
            self._pool = os.getpid(), ThreadPoolExecutor(self._threads, "forebay")
        return self._pool[1]

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_pool": None}


_Source = tuple[str, str, "str | None", Any]


def _sources(given: tuple[Any, ...]) -> list[_Source]:
    """The sources as tuples of four, however they were given."""
    if len(given) == 1 and isinstance(given[0], list):
        given = tuple(given[0])
    if given and isinstance(given[0], (str, os.PathLike)):
        given = (given,)
    if not given:
        raise ValueError("no files; a source is (path, field, label, ('FIXED', n))")
    found: list[_Source] = []
    for source in given:
        if not isinstance(source, (tuple, list)) or not 2 <= len(source) <= 4:
            raise ValueError(f"{source!r} is no source; one is (path, field, label, ('FIXED', n))")
        path, field, label, boundary = (*source, None, None)[:4]
        found.append((os.fspath(path), field, label, boundary))
    return found


def _boundary(path: Paths, field: str, boundary: Any) -> Boundary:
    """What ``("FIXED", n)`` or ``("VARIABLE", name)`` means for ``field`` of ``path``."""
    if boundary is None:
        return Fixed(1)
    if not isinstance(boundary, (tuple, list)) or len(boundary) != 2:
        raise ValueError(f"{boundary!r} is no boundary; there are ('FIXED', bytes) and ('VARIABLE', name)")
    mode, value = boundary
    if mode == "VARIABLE":
        return Ragged(offsets=value)
    if mode != "FIXED":
        raise ValueError(f"{mode!r} is no boundary; there are ('FIXED', bytes) and ('VARIABLE', name)")
    facts = _dataset.open(path, [field], tiers=[]).describe()["fields"][field]
    row_len = facts["numpy"].itemsize * math.prod(facts["shape"])
    sample_len = operator.index(value)
    if sample_len < 1 or row_len == 0 or sample_len % row_len:
        raise ValueError(
            f"{path}: variable {field!r}: samples of {sample_len} bytes; a row has {row_len}, a sample is whole rows"
        )
    return Fixed(sample_len // row_len)
