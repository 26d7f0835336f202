"""Samples side by side."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from ._forebay import Memory, RawBatch

try:
    from ml_dtypes import bfloat16 as _bfloat16
except ImportError:
    _bfloat16 = None


def array_of(memory: Memory) -> npt.NDArray[Any]:
    """The array that lies in ``memory``, which it keeps alive."""
    array = np.asarray(memory)
    if array.dtype.kind == "V":
        described = memory.dtype
        return array if isinstance(described, str) else array.view(np.dtype(described))
    if memory.is_bfloat16 and _bfloat16 is not None:
        return array.view(_bfloat16)
    return array


class Batch(dict[str, Any]):
    """Samples side by side: a dict of arrays by field name.

    Arrays lie in forebay's own memory, C order, aligned to 64 bytes; it is used again once nobody holds them. They
    have ``__dlpack__``, so any framework takes them without a copy.
    """

    indices: npt.NDArray[np.int64]
    """Which samples these are; -1 where padding stands."""
    seeds: npt.NDArray[np.uint64]
    """A seed for each sample that depends on the loader's seed, the epoch and the sample alone."""
    offsets: dict[str, npt.NDArray[np.int64]]
    """By field, where samples of different lengths begin and end."""
    epoch: int
    """The epoch it belongs to."""
    step: int
    """Its number within the epoch, from where the run began."""
    skipped: list[tuple[int, str]]
    """Samples that could not be read, and why."""

    __slots__ = ("indices", "seeds", "offsets", "epoch", "step", "skipped")

    def __init__(self, raw: RawBatch) -> None:
        memories = raw.fields
        super().__init__((memory.name, array_of(memory)) for memory in memories)
        self.indices = np.frombuffer(raw.index_bytes(), np.int64)
        self.seeds = np.frombuffer(raw.seed_bytes(), np.uint64)
        ragged = ((memory.name, memory.offsets) for memory in memories)
        self.offsets = {name: np.asarray(offsets, np.int64) for name, offsets in ragged if offsets is not None}
        self.epoch = raw.epoch
        self.step = raw.step
        self.skipped = raw.troubles()

    def __len__(self) -> int:
        return super().__len__()

    @property
    def size(self) -> int:
        """How many samples, padding included."""
        return len(self.indices)

    def __repr__(self) -> str:
        fields = ", ".join(f"{name}: {array.dtype}{list(array.shape)}" for name, array in self.items())
        return f"<forebay.Batch of {self.size}: {fields}>"

    def __reduce__(self) -> Any:
        state = (dict(self), self.indices, self.seeds, self.offsets, self.epoch, self.step, self.skipped)
        return _rebuild, state


def _rebuild(fields: dict[str, Any], *state: Any) -> Batch:
    batch = Batch.__new__(Batch)
    batch.update(fields)
    for name, value in zip(Batch.__slots__, state):
        setattr(batch, name, value)
    return batch


def sample_of(raw: RawBatch) -> dict[str, Any]:
    """The one sample of ``raw``."""
    sample = {}
    for memory in raw.fields:
        array = array_of(memory)
        # Samples of different lengths are joined along an axis they have; all others stand along one of their own.
        sample[memory.name] = array if memory.offsets is not None else array[0]
    return sample
