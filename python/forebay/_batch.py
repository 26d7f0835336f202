"""Samples side by side."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from . import _html
from ._forebay import InvalidError, Memory, RawArray, RawBatch

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


def field_of(memory: Memory) -> Any:
    """The field that lies in ``memory``: a list where its samples are texts of any length, or else an array."""
    texts = memory.texts
    return array_of(memory) if texts is None else texts


def untensored(memory: Memory) -> Any:
    """The field that lies in ``memory``, of which a framework makes no tensor: lists of ``str``, or else an array."""
    field = field_of(memory)
    return _decoded(field.tolist()) if isinstance(field, np.ndarray) and field.dtype.kind == "S" else field


def _decoded(values: Any) -> Any:
    """``values``, lists of any depth, with texts in place of their bytes."""
    return [_decoded(one) for one in values] if isinstance(values, list) else values.decode(errors="surrogateescape")


def _own_array(values: bytes, dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    """An array of ``values``, in memory that may be written to: frameworks warn of any other."""
    return np.frombuffer(bytearray(values), dtype)


def objects_of(values: list[Any]) -> npt.NDArray[Any]:
    """``values``, texts or lists of them, as an array of objects, which can be compared."""
    table = np.empty(len(values), object)
    for number, value in enumerate(values):
        table[number] = value
    return table


class Batch(dict[str, Any]):
    """Samples side by side: a dict of arrays by field name; texts of any length are a ``list[str]``.

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
    wait_seconds: float
    """How long the consumer waited for it."""
    make_seconds: float
    """How long a thread took to make it."""
    skipped: list[tuple[int, str]]
    """Samples that could not be read, and why: of this batch, and of those right before it that were left out whole."""
    origins: dict[str | int, npt.NDArray[np.int64]]
    """Where samples were cut out: by axis they are cut along (its name, or its position), the first index of each sample; -1
    where padding stands. ``"file"`` is the number of its file, where there are several that do not follow each other."""
    _raw: RawBatch
    _axes: dict[str, int]

    __slots__ = (
        "indices",
        "seeds",
        "offsets",
        "epoch",
        "step",
        "wait_seconds",
        "make_seconds",
        "skipped",
        "origins",
        "_raw",
        "_axes",
    )

    def __init__(self, fields: Mapping[str, Any] | Iterable[tuple[str, Any]] = ()) -> None:
        super().__init__(fields)
        self.indices = np.empty(0, np.int64)
        self.seeds = np.empty(0, np.uint64)
        self.offsets = {}
        self.epoch = self.step = 0
        self.wait_seconds = self.make_seconds = 0.0
        self.skipped = []

    @classmethod
    def _of(cls, raw: RawBatch, field_of: Callable[[Memory], Any] = field_of) -> Self:
        # Without __init__: attributes that are not set are made when they are first asked for.
        batch = cls.__new__(cls)
        offsets: dict[str, Any] = {}
        for memory in raw.take_fields():
            name, bounds = memory.name, memory.offset_bytes
            batch[name] = field_of(memory)
            if bounds is not None:
                offsets[name] = _own_array(bounds, np.int64)
        batch.offsets = offsets
        batch._raw = raw
        return batch

    def __getattr__(self, name: str) -> Any:
        if name not in Batch.__slots__ or name.startswith("_"):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}", name=name, obj=self)
        if name == "origins" and not hasattr(self, "_raw"):
            return {}
        value = self._late(self._raw, name)
        setattr(self, name, value)
        return value

    def _late(self, raw: RawBatch, name: str) -> Any:
        """The attribute ``name``, which few ask for in every batch."""
        if name == "indices":
            return _own_array(raw.index_bytes(), np.int64)
        if name == "seeds":
            return _own_array(raw.seed_bytes(), np.uint64)
        if name == "origins":
            return {axis: _own_array(starts, np.int64) for axis, starts in raw.origins()}
        return raw.troubles() if name == "skipped" else getattr(raw, name)

    @property
    def size(self) -> int:
        """How many samples, padding included."""
        return len(self.indices)

    def parts(self, name: str) -> list[Any]:
        """The field ``name`` of each sample, as views."""
        array = self[name]
        if name not in self.offsets:
            return list(array)
        return np.split(array, self._bounds(name)[1:-1], axis=self._ragged_axis(name))

    def padded(self, name: str, value: Any = 0, multiple_of: int = 1) -> Any:
        """The field ``name``, whose samples differ in length, side by side: each is filled up with ``value`` to the longest, and
        that to a multiple of ``multiple_of``."""
        axis, lens = self._ragged_axis(name), self._lens(name)
        longest = _rounded(max(lens, default=0), multiple_of)
        array = self[name]
        shape = [len(lens), *array.shape]
        shape[axis + 1] = longest
        padded = self._full(array, shape, value)
        before = (slice(None),) * axis
        for row, part in zip(padded, self.parts(name)):
            row[(*before, slice(0, part.shape[axis]))] = part
        return padded

    def mask(self, name: str, multiple_of: int = 1) -> Any:
        """True where :meth:`padded` has elements of the samples, false where it was filled up: one row a sample."""
        lens = np.array(self._lens(name), np.int64)
        longest = _rounded(int(lens.max(initial=0)), multiple_of)
        return np.arange(longest) < lens[:, None]

    def nested(self, name: str) -> Any:
        """The field ``name`` as a jagged nested tensor of PyTorch: of batches of :mod:`forebay.torch`."""
        raise TypeError("nested tensors are PyTorch's: use forebay.torch.Loader")

    @staticmethod
    def _full(like: Any, shape: list[int], value: Any) -> Any:
        return np.full(shape, value, like.dtype)

    def _bounds(self, name: str) -> npt.NDArray[np.int64]:
        if name not in self.offsets:
            known = f"; of those that do there are: {', '.join(self.offsets)}" if self.offsets else ""
            raise ValueError(f"samples of {name!r} do not differ in length{known}" if name in self else f"no field {name!r}")
        return np.asarray(self.offsets[name])

    def _lens(self, name: str) -> list[int]:
        lens: list[int] = np.diff(self._bounds(name)).tolist()
        return lens

    def _ragged_axis(self, name: str) -> int:
        """The axis that samples of different lengths are joined along."""
        total = int(self._bounds(name)[-1])
        known: dict[str, int] = getattr(self, "_axes", {})
        # A batch that the user made does not say: it is the first axis that is as long as all samples.
        return known[name] if name in known else list(self[name].shape).index(total)

    def _with(self, fields: Mapping[str, Any]) -> Self:
        """A batch of the same samples with other fields, each of one shape."""
        batch = type(self)(fields)
        for name in ("indices", "seeds", "epoch", "step", "skipped", "wait_seconds", "make_seconds"):
            setattr(batch, name, getattr(self, name))
        if hasattr(self, "_raw"):
            # By which it knows where its samples were cut out, if it is asked.
            batch._raw = self._raw
        return batch

    def __repr__(self) -> str:
        # A program may put anything into it.
        fields = ", ".join(
            f"{name}: {value.dtype}{list(value.shape)}" if hasattr(value, "dtype") else f"{name}: {type(value).__name__}"
            for name, value in self.items()
        )
        return f"<{type(self).__module__}.{type(self).__name__} of {self.size}: {fields}>"

    def _repr_html_(self) -> str:
        rows = [
            (name, getattr(value, "dtype", type(value).__name__), list(getattr(value, "shape", ())))
            for name, value in self.items()
        ]
        title = f"{type(self).__module__}.{type(self).__name__} of {self.size}, epoch {self.epoch}, step {self.step}"
        return _html.table(title, ("field", "type", "shape"), rows)

    def __reduce__(self) -> Any:
        state = [self._kept(name) for name in _PUBLIC]
        return _rebuild, (type(self), dict(self), state, getattr(self, "_axes", None))

    def _kept(self, name: str) -> Any:
        """The attribute ``name`` as it is pickled: origins that nobody asked for go with the data set."""
        try:
            return getattr(self, name)
        except InvalidError:
            return {}


def _rounded(length: int, multiple_of: int) -> int:
    if multiple_of < 1:
        raise ValueError(f"multiple_of={multiple_of}; at least 1 is needed")
    return -(-length // multiple_of) * multiple_of


_PUBLIC = [name for name in Batch.__slots__ if not name.startswith("_")]


def _rebuild(
    kind: type[Batch], fields: dict[str, Any], state: list[Any], axes: dict[str, int] | None = None
) -> Batch:
    batch = kind(fields)
    for name, value in zip(_PUBLIC, state):
        setattr(batch, name, value)
    if axes is not None:
        batch._axes = axes
    return batch


def sample_of(raw: RawBatch, field_of: Callable[[Memory], Any] = field_of) -> dict[str, Any]:
    """The one sample of ``raw``."""
    sample = {}
    for memory in raw.take_fields():
        field = field_of(memory)
        # Samples of different lengths are joined along an axis they have; all others stand along one of their own.
        sample[memory.name] = field if memory.offset_bytes is not None else field[0]
    return sample


def split_samples(batch: Batch, axes: Mapping[str, int]) -> list[dict[str, Any]]:
    """The samples of ``batch``, each a dict of views; ``axes`` says by field along which axis those of different lengths are
    joined."""
    samples: list[dict[str, Any]] = [{} for _ in range(batch.size)]
    for name, array in batch.items():
        offsets = batch.offsets.get(name)
        values = array if offsets is None else np.split(array, offsets[1:-1], axis=axes[name])
        for sample, value in zip(samples, values):
            sample[name] = value
    return samples
