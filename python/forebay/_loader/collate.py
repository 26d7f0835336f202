"""One sample at a time: batches taken apart, and put together again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from .._batch import Batch


class Sample(dict[str, Any]):
    """One sample, as ``sample_map`` and ``collate`` are given it: a dict of views by field name."""

    __module__ = "forebay"
    __slots__ = ("index", "seed")

    index: int
    """Which sample it is; -1 where padding stands."""
    seed: int
    """Its seed, one of ``batch.seeds``."""

    def __reduce__(self) -> Any:
        return _rebuild, (type(self), dict(self), self.index, self.seed)


def _rebuild(kind: type[Sample], fields: dict[str, Any], index: int, seed: int) -> Sample:
    sample = kind(fields)
    sample.index, sample.seed = index, seed
    return sample


def samples_of(batch: Batch) -> list[Sample]:
    """The samples of ``batch``, as views."""
    seeds = batch.seeds.tolist()
    samples = []
    for slot, index in enumerate(batch.indices.tolist()):
        sample = Sample()
        sample.index, sample.seed = index, seeds[slot]
        samples.append(sample)
    for name in batch:
        for sample, part in zip(samples, batch.parts(name)):
            sample[name] = part
    return samples


def stacked(values: Sequence[Any]) -> Any:
    """Samples side by side, as PyTorch's ``default_collate`` puts them: dicts by key, tuples by place, arrays by a new first axis;
    anything else, and arrays of different shapes, as a list."""
    first = values[0]
    if isinstance(first, dict):
        return {name: stacked([value[name] for value in values]) for name in first}
    if isinstance(first, tuple):
        return columns_of(values, stacked)
    if all(type(value) is int for value in values):
        return integers_of(values)
    if isinstance(first, (np.ndarray, np.generic, int, float, bool)):
        arrays = [np.asarray(value) for value in values]
        return np.stack(arrays) if len({array.shape for array in arrays}) == 1 else list(values)
    return list(values)


def integers_of(values: Sequence[int]) -> npt.NDArray[Any] | list[int]:
    """Whole numbers as an array that has each of them exactly: of int64, or of uint64 where one is above; a list where neither has all.
    NumPy would make floats of numbers below and above 2**63."""
    for dtype in (np.int64, np.uint64):
        bounds = np.iinfo(dtype)
        if bounds.min <= min(values) and max(values) <= bounds.max:
            return np.array(values, dtype)
    return list(values)


def columns_of(values: Sequence[Any], stack: Callable[[list[Any]], Any]) -> Any:
    """Tuples as one tuple of the same kind, each place of which ``stack`` puts together."""
    columns = [stack(list(column)) for column in zip(*values)]
    kind = type(values[0])
    return kind(*columns) if hasattr(kind, "_fields") else tuple(columns)


class SampleMap:
    """A callable over batches, made of one over samples and one that puts them together."""

    def __init__(
        self,
        sample_map: Callable[[Sample], Any] | None,
        collate: Callable[[list[Any]], Any] | None,
        default: Callable[[list[Any]], Any],
    ) -> None:
        self._sample_map = sample_map
        self._collate = collate
        self._default = default

    def __call__(self, batch: Batch) -> Any:
        """The samples of ``batch``, each mapped, put together."""
        samples: list[Any] = list(samples_of(batch))
        if self._sample_map is not None:
            samples = [self._sample_map(sample) for sample in samples]
        if self._collate is not None:
            return self._collate(samples)
        if not samples:
            return batch
        made = self._default(samples)
        return batch._with(made) if isinstance(made, dict) else made


def mapping_of(
    map: Callable[[Any], Any] | None,
    sample_map: Callable[[Sample], Any] | None,
    collate: Callable[[list[Any]], Any] | None,
    default: Callable[[list[Any]], Any],
) -> Callable[[Any], Any] | None:
    """What is called with each batch; ``None`` where nothing is."""
    for name, given in (("map", map), ("sample_map", sample_map), ("collate", collate)):
        if given is not None and not callable(given):
            raise TypeError(f"{name}={given!r} cannot be called")
    if sample_map is None and collate is None:
        return map
    by_sample = SampleMap(sample_map, collate, default)
    return by_sample if map is None else _Chain(by_sample, map)


class _Chain:
    """One callable after another."""

    def __init__(self, first: Callable[[Any], Any], then: Callable[[Any], Any]) -> None:
        self._first, self._then = first, then

    def __call__(self, batch: Any) -> Any:
        return self._then(self._first(batch))
