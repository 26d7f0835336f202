"""Fields of batches as TensorFlow has them: what is said of them before, and tensors of them inside a graph."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Literal, TypeVar, cast

import numpy as np

try:
    import tensorflow as tf  # type: ignore[import-untyped, import-not-found, unused-ignore]
except ModuleNotFoundError as error:
    if error.name != "tensorflow":
        raise
    raise ModuleNotFoundError("forebay.tensorflow needs TensorFlow: pip install tensorflow", name="tensorflow") from None

from .._batch import array_of
from .._samples import NO_TYPE_REMEDY
from .._forebay import BatchLoader, Memory

__all__ = ["TensorField", "as_written", "fields_of", "tf"]

_Function = TypeVar("_Function", bound=Callable[..., Any])
Kind = Literal["dense", "ragged", "text", "texts"]


def as_written(function: _Function) -> _Function:
    """``function``, which AutoGraph leaves as it stands when ``tf.data`` is given it."""
    made: _Function = tf.autograph.experimental.do_not_convert(function)
    return made


@dataclass(frozen=True)
class TensorField:
    """A field of batches.

    Samples of different lengths are a ``RaggedTensor`` whose ragged axis follows that of the batch, wherever it stood in the
    samples. Texts are ``tf.string``: one for each sample, or a ragged row of them.
    """

    name: str
    kind: Kind
    dtype: Any
    shape: tuple[int | None, ...] = ()
    """Of one sample; None along the axis whose length differs."""

    @property
    def axis(self) -> int:
        """The axis of a sample whose length differs."""
        return self.shape.index(None)

    @property
    def types(self) -> list[Any]:
        """The types of the tensors that cross for it: the values, and row splits where samples differ in length."""
        return [self.dtype, tf.int64] if self.kind in ("ragged", "texts") else [self.dtype]

    def spec(self, batch: int | None) -> Any:
        """What a batch of ``batch`` samples has, or of any number of them."""
        if self.kind == "texts":
            return tf.RaggedTensorSpec((batch, None), tf.string, 1, tf.int64)
        if self.kind == "ragged":
            return tf.RaggedTensorSpec((batch, *self._ragged_shape()), self.dtype, 1, tf.int64)
        return tf.TensorSpec((batch, *self.shape), self.dtype)

    def arrays(self, memory: Memory) -> list[Any]:
        """What crosses for it: arrays over forebay's memory, which TensorFlow takes over as they are where they are numbers."""
        if self.kind == "text":
            return [_texts(cast("list[str]", memory.texts or []))]
        if self.kind == "texts":
            rows = cast("list[list[str]]", memory.texts or [])
            return [_texts(text for row in rows for text in row), _splits(map(len, rows))]
        if self.kind == "ragged":
            return [array_of(memory), np.frombuffer(memory.offset_bytes or b"", np.int64)]
        return [array_of(memory)]

    def nothing(self) -> list[Any]:
        """What crosses for a batch that there is not."""
        shape = [0 if one is None else one for one in self.shape]
        values = np.empty(shape if self.kind == "ragged" else [0, *shape], self.dtype.as_numpy_dtype)
        return [values, np.zeros(1, np.int64)] if len(self.types) == 2 else [values]

    def tensor(self, flat: Iterator[Any], batch: int | None) -> Any:
        """The tensor of what crossed, inside a graph; what it needs is taken from ``flat``."""
        values = next(flat)
        if len(self.types) == 1:
            values.set_shape((batch, *self.shape))
            return values
        splits = next(flat)
        splits.set_shape((None if batch is None else batch + 1,))
        values.set_shape(self.shape if self.kind == "ragged" else (None,))
        if self.kind == "ragged" and self.axis > 0:
            # The only copy there is: a RaggedTensor has its ragged axis before those of the values.
            values = tf.transpose(values, [self.axis, *(one for one in range(len(self.shape)) if one != self.axis)])
        return tf.RaggedTensor.from_row_splits(values, splits, validate=False)

    def _ragged_shape(self) -> tuple[int | None, ...]:
        return (None, *(one for number, one in enumerate(self.shape) if number != self.axis))


def fields_of(loader: BatchLoader) -> list[TensorField]:
    """The fields of the batches of ``loader``; one that TensorFlow has no type for is an error."""
    return [_field(name, code, tuple(shape), stored) for name, code, shape, stored in loader.fields()]


def _field(name: str, code: Any, shape: tuple[int | None, ...], stored: str) -> TensorField:
    if stored in ("text", "texts"):
        return TensorField(name, "text" if stored == "text" else "texts", tf.string)
    kind: Kind = "ragged" if None in shape else "dense"
    return TensorField(name, kind, _dtype(name, np.dtype(code), stored), shape)


def _dtype(name: str, dtype: np.dtype[Any], stored: str) -> Any:
    if stored.endswith("bf2"):
        return tf.bfloat16
    if dtype.kind == "S":
        return tf.string
    if dtype.kind in "biufc":
        try:
            return tf.as_dtype(dtype)
        except TypeError:
            pass
    raise ValueError(f"field {name!r}: TensorFlow has no type for {stored}; {NO_TYPE_REMEDY}")


def _texts(texts: Iterable[str]) -> Any:
    encoded = [text.encode(errors="surrogateescape") for text in texts]
    table = np.empty(len(encoded), object)
    table[:] = encoded
    return table


def _splits(lens: Iterable[int]) -> Any:
    return np.cumsum([0, *lens], dtype=np.int64)
