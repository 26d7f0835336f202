"""The call of the Stimulus paper for each format, inside ``Dataset.interleave`` too, where a source is known by tensors alone."""

from __future__ import annotations

import math
import os
import typing
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypedDict

import numpy as np

from ._batch import Batch
from ._compat import file_formats as _file_formats
from ._compat.file_formats import FileFormat
from ._sizes import size_of
from ._tensorflow.fields import TensorField, as_written, fields_of, tf

if TYPE_CHECKING:
    from typing_extensions import Unpack

MODULE = "forebay.tensorflow"
TRANSFER_SIZE = "1MiB"
"""Bytes of the rows that cross by one call, unless the user says otherwise."""


class SourceOptions(TypedDict, total=False):
    """What :func:`HDF5` and its like take besides the source, for tools that check types."""

    transfer_size: int | str
    read_threads: int | None
    like: Any
    element_spec: Any
    memory: int | str | None
    cf: Any
    tiers: Any
    policy: Any
    config: str | os.PathLike[str] | None


class Source(tf.experimental.BatchableExtensionType):  # type: ignore[misc]
    """A file, a field, a label and a boundary as tensors: an element of :func:`from_slices`.

    ``like`` is the first file of all, which is known when a graph is made: its path, field, label, mode and size or offsets.
    """

    __name__ = "forebay.tensorflow.Source"

    path: tf.Tensor
    field: tf.Tensor
    label: tf.Tensor
    mode: tf.Tensor
    size: tf.Tensor
    offsets: tf.Tensor
    like: typing.Tuple[str, str, str, str, int, str]


def from_slices(files: Sequence[Any]) -> Any:
    """A ``tf.data.Dataset`` of sources, each ``(path, field, label, ("FIXED", n))``, for ``interleave``.

    >>> files = [("a.h5", "image", "label", ("FIXED", 4096)), ("b.h5", "image", "label", ("FIXED", 4096))]
    >>> ds = from_slices(files).interleave(lambda x: HDF5(x, transfer_size=1048576, read_threads=4), cycle_length=4, block_length=16)
    """
    sources = [_flat(*source) for source in _file_formats.sources_of((list(files),))]
    if len({(label == "", mode) for _, _, label, mode, _, _ in sources}) > 1:
        raise ValueError("all sources have a label or none has, and all have boundaries of one mode")
    columns = [tf.constant(list(column)) for column in zip(*sources)]
    columns[4] = tf.cast(columns[4], tf.int64)
    return tf.data.Dataset.from_tensor_slices(Source(*columns, like=sources[0]))


_Flat = tuple[str, str, str, str, int, str]
"""Path, field, label, mode, bytes of a sample and name of the offsets; what there is not is empty."""


def _flat(path: Any, field: Any, label: Any = None, boundary: Any = None) -> _Flat:
    mode, value = _mode(boundary)
    is_fixed = mode != "VARIABLE"
    return os.fspath(path), field, label or "", mode, int(value) if is_fixed else 0, "" if is_fixed else value


def _mode(boundary: Any) -> tuple[Any, Any]:
    return ("", 0) if boundary is None else (boundary[0], boundary[1])


def _source(flat: Sequence[Any]) -> _file_formats.Source:
    """The source that ``flat`` is, of tensors' values or of Python's own."""
    path, field, label, mode, size, offsets = (one.decode() if isinstance(one, bytes) else one for one in flat)
    boundary = None if not mode else (mode, offsets if mode == "VARIABLE" else int(size))
    return path, field, label or None, boundary


def _pairs(
    wanted: FileFormat,
    x: Any,
    transfer_size: int | str = TRANSFER_SIZE,
    read_threads: int | None = None,
    like: Any = None,
    element_spec: Any = None,
    **through: Any,
) -> Any:
    given, known = _given(x)
    if read_threads is not None and read_threads < 1:
        raise ValueError(f"read_threads={read_threads}; at least 1 is needed")
    if (block_bytes := size_of(transfer_size, "transfer_size")) == 0:
        raise ValueError("transfer_size=0; at least 1 byte is needed")
    spec = element_spec if element_spec is not None else _spec_like(wanted, _liked(like, given, known), through)
    parts = spec if isinstance(spec, tuple) else (spec,)
    rows = _Rows(wanted, parts, block_bytes or 1 << 20, read_threads, through)
    blocks = tf.data.Dataset.from_generator(rows.blocks, args=given, output_signature=rows.signature)
    return blocks.flat_map(as_written(rows.samples))


def _given(x: Any) -> tuple[tuple[Any, ...], _Flat | None]:
    """The six tensors of a source, and the same as Python's own values where they are."""
    if isinstance(x, Source):
        return (x.path, x.field, x.label, x.mode, x.size, x.offsets), None
    if not isinstance(x, (tuple, list)) or not 2 <= len(x) <= 4:
        raise ValueError(f"{x!r} is no source; one is (path, field, label, ('FIXED', n))")
    path, field, label, boundary = (*x, None, None)[:4]
    if not any(tf.is_tensor(one) for one in (path, field, label, *(boundary or ()))):
        flat = _flat(path, field, label, boundary)
        return flat, flat
    mode, value = _mode(boundary)
    is_text = tf.is_tensor(value) and value.dtype == tf.string or isinstance(value, (str, bytes))
    text = lambda one: tf.convert_to_tensor("" if one is None else one, tf.string)
    size, offsets = (tf.constant(0, tf.int64), text(value)) if is_text else (tf.cast(value, tf.int64), text(""))
    return (text(path), text(field), text(label), text(mode), size, offsets), None


def _liked(like: Any, given: tuple[Any, ...], known: _Flat | None) -> _Flat:
    """The source that says what the elements are."""
    if isinstance(like, (tuple, list)):
        return _flat(*like)
    if like is not None:
        values = [os.fspath(like), *(_value(one) for one in given[1:])]
        if all(value is not None for value in values):
            return _flat(*_source(values))
        raise ValueError("like= is a path, and the field is a tensor: give like=(path, field, label, boundary), or element_spec=")
    if known is not None:
        return known
    raise ValueError(
        "a source of tensors does not say what its samples are: make the sources by forebay.tensorflow.from_slices(files), or give "
        "like=(path, field, label, boundary) of a file, or element_spec="
    )


def _value(one: Any) -> Any:
    """What a tensor is known to be while a graph is made, or nothing."""
    known = tf.get_static_value(one) if tf.is_tensor(one) else one
    return None if known is None else np.asarray(known).item()


def _spec_like(wanted: FileFormat, like: _Flat, through: dict[str, Any]) -> Any:
    """What the samples of ``like`` are: a spec, or those of data and label."""
    opened = _file_formats.open_pairs(wanted, [_source(like)], MODULE, **through)
    specs = [_sample_spec(field) for field in fields_of(opened.loader()._opened)]
    return tuple(specs) if len(specs) > 1 else specs[0]


def _sample_spec(field: TensorField) -> Any:
    if field.kind == "texts":
        return tf.TensorSpec((None,), tf.string)
    return tf.TensorSpec(field.shape, field.dtype)


class _Rows:
    """Rows of a file on their way to ``tf.data``: in blocks of about ``transfer_size`` bytes, each cut into samples there."""

    def __init__(
        self, wanted: FileFormat, specs: tuple[Any, ...], transfer_size: int, threads: int | None, through: dict[str, Any]
    ) -> None:
        self._wanted, self._specs, self._through = wanted, specs, through
        self._transfer_size, self._threads = transfer_size, threads
        # Samples of any length cross end to end, with where each ends.
        self._is_cut = bool(specs[0].shape.rank) and specs[0].shape[0] is None

    @property
    def signature(self) -> tuple[Any, ...]:
        """What a block is: data, the splits of samples of any length, and the label."""
        data = self._specs[0]
        values: tuple[Any, ...] = (tf.TensorSpec((None, *data.shape), data.dtype),)
        if self._is_cut:
            values = (tf.TensorSpec(data.shape, data.dtype), tf.TensorSpec((None,), tf.int64))
        return (*values, *(tf.TensorSpec((None, *one.shape), one.dtype) for one in self._specs[1:]))

    def blocks(self, *flat: Any) -> Iterator[tuple[Any, ...]]:
        """The blocks of the source ``flat``, as arrays."""
        source = _source([one.item() if isinstance(one, np.generic) else one for one in flat])
        opened = _file_formats.open_pairs(
            self._wanted, [source], MODULE, **{"transfer_size": self._transfer_size, **self._through}
        )
        sample_len = sum(_field_len(one) for one in opened.describe()["fields"].values())
        rows = max(1, self._transfer_size // max(1, sample_len))
        loader = opened.loader(batch_size=rows, read_threads=self._threads, transfer_size=self._transfer_size)
        fields = fields_of(loader._opened)
        with loader:
            for batch in loader:
                yield self._block(source[0], batch, fields)

    def _block(self, path: str, batch: Batch, fields: list[TensorField]) -> tuple[Any, ...]:
        arrays = [_array(field, batch[field.name]) for field in fields]
        if len(arrays) != len(self._specs):
            raise ValueError(f"{path}: {len(arrays)} fields, and element_spec has {len(self._specs)}")
        data = arrays[0]
        block: tuple[Any, ...] = (data, *arrays[1:])
        if self._is_cut:
            splits = batch.offsets.get("data")
            if splits is None:
                splits = np.arange(len(data) + 1, dtype=np.int64) * data.shape[1]
                data = data.reshape(-1, *data.shape[2:])
            block = (data, np.asarray(splits, np.int64), *arrays[1:])
        for array, spec in zip(block, self.signature):
            if spec.dtype != tf.string and spec.dtype.as_numpy_dtype != array.dtype or not spec.shape.is_compatible_with(array.shape):
                raise ValueError(
                    f"{path}: {array.dtype}{list(array.shape[1:])}, where samples of the file that was looked at are "
                    f"{spec.dtype.name}{spec.shape[1:].as_list()}: give like= of a file of this kind, or element_spec= with None for "
                    "the axis that differs"
                )
        return block

    def samples(self, *block: Any) -> Any:
        """The samples of a block, as a dataset."""
        if not self._is_cut:
            return tf.data.Dataset.from_tensor_slices(block if len(block) > 1 else block[0])
        values, splits, *labels = block

        @as_written
        def sample(number: Any) -> Any:
            data = values[splits[number] : splits[number + 1]]
            data.set_shape(self._specs[0].shape)
            return (data, *(label[number] for label in labels)) if labels else data

        return tf.data.Dataset.range(tf.size(splits, tf.int64) - 1).map(sample)


def _field_len(described: dict[str, Any]) -> int:
    """Bytes of a sample of a field; of one whose length differs, those of a row."""
    length: int = np.dtype(described["numpy"]).itemsize * math.prod(one or 1 for one in described["shape"])
    return length


def _array(field: TensorField, value: Any) -> Any:
    if field.kind == "text":
        return np.array([text.encode(errors="surrogateescape") for text in value], object)
    if field.kind == "texts":
        raise ValueError(f"field {field.name!r}: several texts are one sample; use forebay.tensorflow.dataset")
    return value


@as_written
def HDF5(x: Any, **how: Unpack[SourceOptions]) -> Any:
    """Samples of an HDF5 file as a ``tf.data.Dataset`` of pairs ``(data, label)``, for ``interleave`` too.

    >>> ds = from_slices(files).interleave(lambda x: HDF5(x, transfer_size=1048576, read_threads=4), cycle_length=4, block_length=16)

    Rows are read and cross in blocks of ``transfer_size`` bytes, and are cut into samples by ``tf.data``.

    Args:
        x: a source, ``(path, field, label, boundary)``, of Python's own values or of tensors, or an element of :func:`from_slices`. The
            boundary is ``("FIXED", n)``, where n bytes, whole rows, are one sample, or ``("VARIABLE", name)``, where the variable
            ``name`` has the offsets of the samples. Without a label elements are the data alone.
        transfer_size: bytes of a block.
        read_threads: threads that read and decode it; by default one per core.
        like: a source that says what samples are, or its path; by default the first of :func:`from_slices`, or ``x`` itself.
        element_spec: what samples are, instead: a ``tf.TensorSpec``, or those of data and label; None along the first axis where files
            differ in it.
        through: what :func:`forebay.open` takes besides, such as ``tiers`` or ``memory``.
    """
    return _front(_file_formats.HDF5, x, how)


@as_written
def NetCDF(x: Any, **how: Unpack[SourceOptions]) -> Any:
    """Samples of a NetCDF file, classic or NetCDF-4; called as :func:`HDF5` is.

    Values are scaled, and missing ones not numbers, as the CF conventions say.
    """
    return _front(_file_formats.NETCDF, x, how)


NC = NetCDF


@as_written
def GNCF(x: Any, **how: Unpack[SourceOptions]) -> Any:
    """Samples of gridded NetCDF with CF conventions, which is what we take the paper's GNCF to be; called as :func:`HDF5` is."""
    return _front(_file_formats.GNCF, x, how)


@as_written
def ADIOS2(x: Any, **how: Unpack[SourceOptions]) -> Any:
    """Samples of an ADIOS2 file; called as :func:`HDF5` is. Of a variable that was written in steps all are stacked: axis 0."""
    return _front(_file_formats.ADIOS2, x, how)


@as_written
def Silo(x: Any, **how: Unpack[SourceOptions]) -> Any:
    """Samples of a Silo file; called as :func:`HDF5` is."""
    return _front(_file_formats.SILO, x, how)


@as_written
def Zarr(x: Any, **how: Unpack[SourceOptions]) -> Any:
    """Samples of a Zarr store; called as :func:`HDF5` is."""
    return _front(_file_formats.ZARR, x, how)


def _front(wanted: FileFormat, x: Any, how: Any) -> Any:
    return _pairs(wanted, x, **{**how, "like": _like(x, how.get("like"), how.get("element_spec"))})


def _like(x: Any, like: Any, element_spec: Any) -> Any:
    """What says what samples are, if nothing else does: the first of the sources that ``x`` is one of."""
    if like is None and element_spec is None and isinstance(x, Source):
        return _source(x.like)
    return like
