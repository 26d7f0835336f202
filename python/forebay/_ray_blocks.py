"""Batches as blocks of Ray Data: Arrow tables whose columns are tensors."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from ._batch import Batch, _decoded, objects_of
from ._samples import NO_TYPE_REMEDY

FieldRow = tuple[str, Any, "list[int | None]", str]
"""Name, type for NumPy, shape of a sample and stored type of a field."""


def check_fields(rows: Iterable[FieldRow]) -> None:
    """Refuses fields that Arrow has no type for."""
    for name, code, shape, stored in rows:
        dtype = np.dtype(code)
        is_number = dtype.kind in "biuf" and stored != "bfloat16"
        is_flat = dtype.kind in "SUMmO" and not shape
        if not (is_number or is_flat or stored in ("text", "texts", "string")):
            raise ValueError(
                f"field {name!r}: Arrow has no tensors of {stored}; {NO_TYPE_REMEDY}, or make numbers of it by transforms="
            )


def columns_of(batch: Batch, axes: Mapping[str, int]) -> dict[str, Any]:
    """The fields of ``batch`` as Ray Data takes a batch: samples of different lengths are arrays of their own, texts are ``str``. ``axes``
    says by field along which axis those of different lengths are joined."""
    columns: dict[str, Any] = {}
    for name, values in batch.items():
        if name in batch.offsets:
            columns[name] = objects_of(np.split(values, batch.offsets[name][1:-1], axis=axes[name]))
        elif isinstance(values, list):
            columns[name] = objects_of(values)
        elif values.dtype.kind == "S":
            columns[name] = objects_of(_decoded(values.tolist()))
        else:
            columns[name] = values
    return columns


def example_rows(rows: Iterable[FieldRow]) -> dict[str, Any]:
    """A batch of two rows with the types and shapes of ``rows``, of which a schema is made: samples whose lengths differ are of variable
    shape only where two of them differ."""
    columns: dict[str, Any] = {}
    for name, code, shape, stored in rows:
        dtype = np.dtype(code)
        if stored == "texts":
            columns[name] = objects_of([[""], [""]])
        elif stored in ("text", "string") or dtype.kind in "SUO":
            columns[name] = objects_of(["", ""])
        elif None in shape:
            columns[name] = objects_of([np.zeros([open_len if length is None else length for length in shape], dtype) for open_len in (1, 2)])
        else:
            columns[name] = np.zeros([2, *(length or 0 for length in shape)], dtype)
    return columns
