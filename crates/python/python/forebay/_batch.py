"""Samples side by side."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ._forebay import Memory, RawArray, RawBatch

if TYPE_CHECKING:
    from typing_extensions import Self

try:
    from ml_dtypes import bfloat16 as _bfloat16
except ImportError:
    _bfloat16 = None


def array_of(memory: Memory | RawArray) -> npt.NDArray[Any]:
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

    __module__ = "forebay"

    indices: Any
    """Which samples these are; -1 where padding stands."""
    seeds: npt.NDArray[np.uint64]
    """A seed for each sample that depends on the loader's seed, the epoch and the sample alone."""
    offsets: dict[str, Any]
    """By field, where samples of different lengths begin and end."""
    epoch: int
    """The epoch it belongs to."""
    step: int
    """Its number within the epoch, from where the run began."""
    skipped: list[tuple[int, str]]
    """Samples that could not be read, and why."""

    __slots__ = ("indices", "seeds", "offsets", "epoch", "step", "skipped")

    def __init__(self, fields: Mapping[str, Any] | Iterable[tuple[str, Any]] = ()) -> None:
        super().__init__(fields)
        self.indices = np.empty(0, np.int64)
        self.seeds = np.empty(0, np.uint64)
        self.offsets = {}
        self.epoch = self.step = 0
        self.skipped = []

    @classmethod
    def _of(cls, raw: RawBatch, array_of: Callable[[Memory], Any] = array_of) -> Self:
        memories = raw.fields
        batch = cls((memory.name, array_of(memory)) for memory in memories)
        # In memory that may be written to: bytes would make arrays that frameworks warn of.
        batch.indices = np.frombuffer(bytearray(raw.index_bytes()), np.int64)
        batch.seeds = np.frombuffer(bytearray(raw.seed_bytes()), np.uint64)
        ragged = ((memory.name, memory.offsets) for memory in memories)
        batch.offsets = {name: np.asarray(offsets, np.int64) for name, offsets in ragged if offsets is not None}
        batch.epoch = raw.epoch
        batch.step = raw.step
        batch.skipped = raw.troubles()
        return batch

    @property
    def size(self) -> int:
        """How many samples, padding included."""
        return len(self.indices)

    def __repr__(self) -> str:
        fields = ", ".join(f"{name}: {array.dtype}{list(array.shape)}" for name, array in self.items())
        return f"<{type(self).__module__}.{type(self).__name__} of {self.size}: {fields}>"

    def __reduce__(self) -> Any:
        return _rebuild, (type(self), dict(self), [getattr(self, name) for name in Batch.__slots__])


def _rebuild(kind: type[Batch], fields: dict[str, Any], state: list[Any]) -> Batch:
    batch = kind(fields)
    for name, value in zip(Batch.__slots__, state):
        setattr(batch, name, value)
    return batch


def sample_of(raw: RawBatch, array_of: Callable[[Memory], Any] = array_of) -> dict[str, Any]:
    """The one sample of ``raw``."""
    sample = {}
    for memory in raw.fields:
        array = array_of(memory)
        # Samples of different lengths are joined along an axis they have; all others stand along one of their own.
        sample[memory.name] = array if memory.offsets is not None else array[0]
    return sample
