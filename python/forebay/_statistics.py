"""Statistics of the fields of a set."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ._forebay import RawSubset
from ._progress import share_progress
from ._sizes import size_of, whole
from .transforms import Normalize

if TYPE_CHECKING:
    from ._dataset.dataset import Dataset
    from ._store.store import Store

QUANTILES = (0.01, 0.25, 0.5, 0.75, 0.99)
"""Quantiles that are computed where none are named."""


@dataclass(frozen=True)
class FieldStatistics:
    """Statistics of one field: numbers, or arrays with one for each index of ``axis``."""

    count: Any
    """Values that are not NaN. Where there are none, mean, deviation, bounds and quantiles are NaN."""
    missing: Any
    """Values that are."""
    mean: Any
    """Their mean."""
    std: Any
    """Their standard deviation, as ``numpy.std`` gives it."""
    min: Any
    """The least."""
    max: Any
    """The greatest."""
    quantiles: dict[float, Any]
    """By part of 1, the least value that so many do not exceed: exact for whole numbers below 4096, and rounded towards zero by at
    most 1/2048 of the value otherwise."""
    axis: int | None = None
    """The axis of a sample whose indexes are measured one by one."""

    def normalize(self) -> Normalize:
        """The transform that gives these values a mean of 0 and a standard deviation of 1."""
        return Normalize(self.mean, self.std, self.axis)


class Statistics(dict[str, FieldStatistics]):
    """By field, its :class:`FieldStatistics`; ``loader(normalize=statistics)`` normalises all of these fields."""

    __module__ = "forebay"

    def normalizations(self) -> dict[str, Normalize]:
        """By field, the transform that normalises it."""
        return {name: field.normalize() for name, field in self.items()}


def compute(
    dataset: Dataset | Store,
    fields: Sequence[str] | str | None,
    axis: int | Mapping[str, int] | None,
    quantiles: Sequence[float],
    save: bool,
    progress: Any,
    read_threads: int | None,
    memory: int | str | None,
    part: RawSubset | None = None,
) -> Statistics:
    """What :meth:`Dataset.statistics` gives, of the samples ``part`` alone where it is given."""
    names = _names(dataset, fields)
    axes = axis if isinstance(axis, Mapping) else {name: axis for name in names}
    unknown = [name for name in axes if name not in names]
    if unknown:
        raise ValueError(f"axis of {unknown[0]!r}, which is not among the fields {names}")
    parts = [float(part) for part in quantiles]
    spec = {"fields": [(name, axes.get(name)) for name in names], "quantiles": parts}
    options = {
        "read_threads": None if read_threads is None else whole("read_threads", read_threads),
        "memory": size_of(memory, "memory"),
    }
    raw = dataset._raw_statistics(spec, options, save, part)
    count = len(dataset) if part is None else len(part)
    sample_bytes = getattr(dataset, "nbytes", 0) / max(len(dataset), 1)
    try:
        with share_progress(progress, 0, "measuring") as report:
            while (done := raw.advance()) is not None:
                if report is not None:
                    report(*done, int(done[0] * sample_bytes))
            if report is not None:
                report(count, count, int(count * sample_bytes))
    finally:
        raw.close()
    return Statistics({name: _field(channels, axis, parts) for name, axis, channels in raw.result()})


def _names(dataset: Dataset | Store, fields: Sequence[str] | str | None) -> list[str]:
    if isinstance(fields, str):
        return [fields]
    if fields is not None:
        return list(fields)
    # Texts, times and records have none.
    rows = dataset._field_rows()
    return [name for name, code, _, _ in rows if np.dtype(code).kind in "iufb" or str(code) == "bfloat16"]


def _field(channels: list[tuple[int, int, list[float]]], axis: int | None, parts: list[float]) -> FieldStatistics:
    counts = np.array([count for count, _, _ in channels], np.int64)
    missing = np.array([count for _, count, _ in channels], np.int64)
    values = np.array([values for _, _, values in channels], np.float64).reshape(len(channels), 4 + len(parts))
    # Of no values there is none of these.
    values[counts == 0] = np.nan

    def one(column: npt.NDArray[Any], of_none: float = math.nan) -> Any:
        return column if axis is not None else column[0].item() if len(column) else of_none

    mean, std, least, most = (one(values[:, at]) for at in range(4))
    quantiles = {part: one(values[:, 4 + at]) for at, part in enumerate(parts)}
    return FieldStatistics(one(counts, 0), one(missing, 0), mean, std, least, most, quantiles, axis)
