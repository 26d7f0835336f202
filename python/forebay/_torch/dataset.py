"""Tensors over forebay's own memory, and samples by number for PyTorch's ``DataLoader``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

try:
    import torch
    import torch.utils.data
    from torch.utils.dlpack import from_dlpack
except ModuleNotFoundError as error:
    if error.name != "torch":
        raise
    raise ModuleNotFoundError("forebay.torch needs PyTorch: pip install torch", name="torch") from None

from .. import _batch
from .._dataset import dataset as _dataset
from .._dataset.subset import Subset
from .._forebay import Memory, RawBatch
from .._loader import collate as _collate
from .._store.store import Store


def _tensor_of(memory: Memory) -> Any:
    """The tensor that lies in ``memory``; an array where PyTorch has no such type, and lists of ``str`` for texts."""
    if memory.is_bfloat16:
        return from_dlpack(memory)
    field = _batch.untensored(memory)
    try:
        return torch.from_numpy(field)
    except TypeError:
        return field


class Batch(_batch.Batch):
    """Samples side by side: a dict of tensors by field name; a ``list[str]`` for texts, arrays where PyTorch has no such type.

    ``indices`` and ``offsets`` are tensors too.
    """

    __module__ = "forebay.torch"
    _device: torch.device | None

    __slots__ = ("_device",)

    @classmethod
    def _joint(cls, raw: RawBatch, values: dict[str, Any], offsets: dict[str, Any]) -> Batch:
        """A batch whose tensors are there already."""
        batch = cls.__new__(cls)
        batch.update(values)
        batch.offsets, batch._raw = offsets, raw
        return batch

    @classmethod
    def _on_device(cls, raw: RawBatch, layout: Any, pieces: list[torch.Tensor]) -> Batch:
        batch = cls._joint(raw, *layout.tensors(pieces))
        # What is asked for later goes where the fields are.
        batch._device = pieces[0].device if pieces else None
        return batch

    @classmethod
    def _tensors(cls, raw: RawBatch) -> Batch:
        batch = cls.__new__(cls)
        batch.offsets = raw.fill(batch, from_dlpack, _tensor_of)
        batch._raw = raw
        return batch

    def _late(self, raw: RawBatch, name: str) -> Any:
        value = super()._late(raw, name)
        if name != "indices":
            return value
        device = getattr(self, "_device", None)
        indices = torch.from_numpy(value)
        return indices if device is None else indices.to(device)

    def parts(self, name: str) -> list[Any]:
        """The field ``name`` of each sample, as views."""
        values = self[name]
        if not isinstance(values, torch.Tensor):
            return super().parts(name)
        if name not in self.offsets:
            return list(values.unbind())
        return list(torch.split(values, self._lens(name), dim=self._ragged_axis(name)))

    def mask(self, name: str, multiple_of: int = 1) -> Any:
        """True where :meth:`padded` has elements of the samples, false where it was filled up: one row a sample."""
        values, mask = self[name], torch.from_numpy(super().mask(name, multiple_of))
        return mask.to(values.device) if isinstance(values, torch.Tensor) else mask

    def nested(self, name: str) -> torch.Tensor:
        """The field ``name``, whose samples differ in length, as a jagged nested tensor that shares its memory."""
        self._bounds(name)
        made: torch.Tensor = torch.nested.nested_tensor_from_jagged(
            self[name], offsets=self.offsets[name], jagged_dim=self._ragged_axis(name) + 1
        )
        return made

    @staticmethod
    def _full(like: Any, shape: list[int], value: Any) -> Any:
        if not isinstance(like, torch.Tensor):
            return _batch.Batch._full(like, shape, value)
        return torch.full(shape, value, dtype=like.dtype, device=like.device)

    def _bounds(self, name: str) -> Any:
        bounds = super()._bounds(name) if name not in self.offsets else self.offsets[name]
        return bounds.cpu().numpy() if isinstance(bounds, torch.Tensor) else bounds

    def to(self, device: torch.device | str | int, non_blocking: bool = False) -> Batch:
        """The same batch on ``device``."""

        def move(value: Any) -> Any:
            return value.to(device, non_blocking=non_blocking) if isinstance(value, torch.Tensor) else value

        moved = type(self)((name, move(value)) for name, value in self.items())
        moved.indices = move(self.indices)
        moved.offsets = {name: move(offsets) for name, offsets in self.offsets.items()}
        for name in ("seeds", "epoch", "step", "skipped", "wait_seconds", "make_seconds"):
            setattr(moved, name, getattr(self, name))
        if hasattr(self, "_axes"):
            moved._axes = self._axes
        if hasattr(self, "_raw"):
            # By which it knows where its samples were cut out, if it is asked.
            moved._raw = self._raw
        return moved


def _opened(dataset: Any) -> Any:
    """The plain data set or store of ``dataset``."""
    if isinstance(dataset, Dataset):
        dataset = dataset.dataset
    if not isinstance(dataset, (_dataset.Dataset, Store, Subset)):
        raise TypeError(f"a forebay.Dataset is needed, as forebay.open gives it, or a Store, not {type(dataset).__name__}")
    return dataset


class _Samples(list[Any]):
    """Samples that know the batch they are views of: ``batch`` gives it."""

    def __init__(self, samples: list[Any], batch: Callable[[], Any]) -> None:
        super().__init__(samples)
        self.batch = batch


class Dataset(torch.utils.data.Dataset[Any]):
    """Samples by number, for PyTorch's ``DataLoader``: each a dict of tensors.

    The samples of a batch are read in one call, so a chunk they share is decoded once. ``DataLoader`` stacks them
    again by default; ``collate_fn=forebay.torch.collate`` hands the batch over as it was read. Workers may be forked or
    spawned: each opens the files for itself.
    """

    __module__ = "forebay.torch"

    def __init__(self, dataset: _dataset.Dataset | Store | Subset) -> None:
        self.dataset = _opened(dataset)

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, index: int) -> Any:
        return self._item(self._read([index])[0])

    def __getitems__(self, indices: Sequence[int]) -> list[Any]:
        """The samples ``indices`` as a list, each chunk read once."""
        batch = self._batch(indices)
        return _Samples([self._item(sample) for sample in self._split(batch)], lambda: self._item(batch))

    def _item(self, sample: Any) -> Any:
        return sample

    def _read(self, indices: Sequence[int]) -> list[dict[str, Any]]:
        return self._split(self._batch(indices))

    def _batch(self, indices: Sequence[int]) -> Batch:
        batch = Batch._tensors(self.dataset._raw_batch(indices))
        if batch.offsets:
            batch._axes = self.dataset._axes
        return batch

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


class StoreDataset(Dataset):
    """Samples of a :class:`forebay.Store` by number, for PyTorch's ``DataLoader``: each a dict of tensors.

    The samples of a batch are fetched together. Workers have to be forked, to read the memory of this host's ranks: give
    ``DataLoader(..., multiprocessing_context="fork")``, which is the default on Linux up to Python 3.13 alone. Where ranks of other
    hosts hold samples, workers can read them over TCP but not by MPI: use ``num_workers=0``, or :class:`Loader`.
    """

    __module__ = "forebay.torch"

    def __init__(self, store: Store) -> None:
        if not isinstance(store, Store):
            raise TypeError(f"a forebay.Store is needed, not {type(store).__name__}")
        super().__init__(store)


def collate(samples: Sequence[Any]) -> Any:
    """The batch that ``samples`` of a :class:`Dataset` are views of: for ``DataLoader(collate_fn=...)``.

    Fields whose samples differ in length arrive joined, with ``batch.offsets``. Samples of other kinds are collated as
    PyTorch does.
    """
    if isinstance(samples, _Samples):
        return samples.batch()
    return torch.utils.data.default_collate(list(samples))


def stacked_tensors(values: list[Any]) -> Any:
    """Samples side by side, as PyTorch's ``default_collate`` puts them, with four differences: lists of texts, tensors of different
    shapes, and values of no type that PyTorch has stay a list, or an array; whole numbers from 2**63 up are uint64."""
    first = values[0]
    if isinstance(first, dict):
        return {name: stacked_tensors([value[name] for value in values]) for name in first}
    if isinstance(first, tuple):
        return _collate.columns_of(values, stacked_tensors)
    if isinstance(first, list) and all(isinstance(one, list) and _are_texts(one) for one in values):
        return list(values)
    if isinstance(first, (torch.Tensor, np.ndarray)) and len({one.shape for one in values}) > 1:
        return list(values)
    if all(type(one) is int for one in values):
        numbers = _collate.integers_of(values)
        return torch.from_numpy(numbers) if isinstance(numbers, np.ndarray) else numbers
    try:
        return torch.utils.data.default_collate(values)
    except TypeError:
        return _collate.stacked(values)


def _are_texts(values: list[Any]) -> bool:
    """True of texts, and of lists of these."""
    return all(isinstance(one, str) or (isinstance(one, list) and _are_texts(one)) for one in values)
