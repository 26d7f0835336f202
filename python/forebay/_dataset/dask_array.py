"""A field of a set as a lazy array of dask, cut along chunks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from .._sizes import whole
from .portable_set import PortableSet, file_set_of
from .row_blocks import chunk_bounds, rows_at_most

if TYPE_CHECKING:
    from .dataset import Dataset
    from .sample_set import SampleSet
    from .subset import Subset


def field_array(samples: SampleSet, field: str, chunks: Any) -> Any:
    """The array that :meth:`forebay.Dataset.to_dask` gives."""
    da, config, tokenize = _dask()
    base = file_set_of(samples)
    whole_set = base._with_field(field)
    alone = whole_set if samples._part is None else whole_set._within(samples._part)
    rows = FieldRows(alone, field)
    row_chunks = _row_chunks(alone, rows, chunks, config)
    return da.from_array(
        rows,
        chunks=(row_chunks, *rows.shape[1:]),
        # Blocks of arrays that are computed together are known by it: it stands for the samples and how they are cut.
        name=f"forebay-{field}-{tokenize(rows, row_chunks)}",
        # Once in the graph, not once in each task: it says what is in all files.
        inline_array=False,
        asarray=False,
        fancy=False,
        meta=np.empty((0,) * len(rows.shape), rows.dtype),
    )


def _row_chunks(samples: Dataset | Subset, rows: FieldRows, chunks: Any, config: Any) -> tuple[int, ...]:
    """How many rows each block has."""
    if isinstance(chunks, (tuple, list)):
        given = tuple(whole("chunks", one) for one in chunks)
        if sum(given) != len(samples):
            raise ValueError(f"chunks of {sum(given)} rows in all, and there are {len(samples)} samples")
        return given
    if chunks == "auto":
        limit = config.get("array.chunk-size", "128MiB")
        bytes_of_block = limit if isinstance(limit, int) else _size(limit)
        most = bytes_of_block // max(rows.row_bytes, 1)
    elif chunks == "stored":
        most = 1
    elif isinstance(chunks, str):
        raise ValueError(f"chunks={chunks!r}; give 'auto', 'stored', a number of rows, or the rows of each block")
    else:
        most = whole("chunks", chunks)
        if most < 1:
            raise ValueError(f"chunks={chunks}; at least 1 row is needed")
    bounds = chunk_bounds(samples, None if isinstance(chunks, str) else most)
    return tuple(np.diff(rows_at_most(bounds, most)).tolist()) or (0,)


def _size(text: str) -> int:
    from dask.utils import parse_bytes

    return int(parse_bytes(text))


class FieldRows:
    """A field of all samples as one array, read when it is sliced; it can be pickled for workers of other nodes."""

    def __init__(self, samples: Dataset | Subset, field: str) -> None:
        shape, kind = next((shape, stored) for name, _, shape, stored in file_set_of(samples)._field_rows() if name == field)
        if None in shape:
            raise ValueError(
                f"field {field!r}: samples of different lengths are no array; make them equal by a loader (batch.padded), or read the "
                "joined variable by xarray"
            )
        none = samples.batch([])[field]
        if isinstance(none, list) and kind == "texts":
            raise ValueError(f"field {field!r}: samples of several texts each are no array")
        self._source = PortableSet(samples)
        self.key = self._source.key
        """Which samples these are."""
        self._field = field
        self.dtype: np.dtype[Any] = np.dtype(object) if isinstance(none, list) else none.dtype
        self.shape: tuple[int, ...] = (len(samples), *(int(length or 0) for length in shape))
        self.ndim = len(self.shape)
        self.row_bytes = int(np.prod(self.shape[1:], dtype=np.int64)) * self.dtype.itemsize
        """Bytes of one sample, of texts on average."""
        if self.dtype.hasobject:
            base = file_set_of(samples)
            self.row_bytes = base.nbytes // max(len(base), 1)

    def __getitem__(self, key: Any) -> Any:
        key = key if isinstance(key, tuple) else (key,)
        if key and key[0] is Ellipsis:
            key = (slice(None),) * (self.ndim - len(key) + 1) + key[1:]
        chosen = range(self.shape[0])[key[0] if key else slice(None)]
        numbers = [chosen] if isinstance(chosen, int) else chosen
        values = self._source.samples().batch(numbers)[self._field]
        if isinstance(values, list):
            table = np.empty(len(values), object)
            table[:] = values
            values = table
        return values[(0 if isinstance(chosen, int) else slice(None), *key[1:])]

    def __dask_tokenize__(self) -> Any:
        return "forebay.FieldRows", self.key, self._field


def _dask() -> tuple[Any, Any, Any]:
    try:
        import dask.array
        import dask.base
        import dask.config
    except ModuleNotFoundError as error:
        if error.name != "dask":
            raise
        raise ModuleNotFoundError("to_dask needs dask: pip install 'dask[array]'", name="dask") from None
    return dask.array, dask.config, dask.base.tokenize
