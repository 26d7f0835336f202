"""Conditions that samples are chosen by: comparisons, and functions of the user."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from .._batch import Batch, objects_of, split_samples

_COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    ">": operator.gt,
    ">=": operator.ge,
    "<": operator.lt,
    "<=": operator.le,
    "==": operator.eq,
    "!=": operator.ne,
    "in": np.isin,
    "not in": lambda values, among: ~np.isin(values, among),
}


class Condition:
    """A condition on the values of one field: a comparison, or a function that gives a mask."""

    def __init__(self, field: str, predicate: Callable[[Any], Any] | tuple[str, Any]) -> None:
        if isinstance(predicate, tuple) and len(predicate) == 2 and predicate[0] in ("in", "not in"):
            predicate = predicate[0], _listed(predicate[1])
        self._field = field
        self._test = _predicate(predicate)
        self._is_of_texts = isinstance(predicate, tuple) and _is_text(predicate[-1])

    def mask(self, batch: Batch, axes: dict[str, int]) -> npt.NDArray[np.bool_]:
        """One bool for each sample of ``batch``; samples of fields in ``axes`` differ in length."""
        field, values = self._field, batch[self._field]
        if field in batch.offsets:
            values = [sample[field] for sample in split_samples(_alone(batch, field), axes)]
        elif isinstance(values, list):
            values = objects_of(values)
        elif values.dtype.kind == "S" and self._is_of_texts:
            values = np.char.decode(values, "utf-8", "surrogateescape")
        mask = np.asarray(self._test(values))
        if mask.shape != (batch.size,) or mask.dtype != bool:
            raise ValueError(
                f"the predicate gives {mask.dtype} of shape {mask.shape} for {batch.size} samples of {field!r}: it has to "
                "give one bool for each sample"
            )
        return mask


def _is_text(value: Any) -> bool:
    """True of a text, and of several."""
    return isinstance(value, str) or (isinstance(value, (list, tuple)) and any(isinstance(one, str) for one in value))


def _listed(among: Any) -> Any:
    """``among`` as NumPy takes it: a set, the keys of a dict or an iterator, each of which would be one object to it, as a list. Texts in
    an array too, by which they are known as such."""
    if isinstance(among, (str, bytes)) or not isinstance(among, Iterable):
        return among
    kind = getattr(getattr(among, "dtype", None), "kind", "O")
    return list(among) if kind in "OUT" else among


def _predicate(predicate: Any) -> Callable[[Any], Any]:
    if callable(predicate):
        test: Callable[[Any], Any] = predicate
        return test
    if isinstance(predicate, tuple) and len(predicate) == 2 and predicate[0] in _COMPARISONS:
        compare, value = _COMPARISONS[predicate[0]], predicate[1]
        return lambda values: compare(values, value)
    known = ", ".join(repr(name) for name in _COMPARISONS)
    raise TypeError(f"predicate={predicate!r}: give a function of an array, or a pair such as ('>', 0.5) with one of {known}")


def _alone(batch: Batch, field: str) -> Batch:
    """The batch with that field alone."""
    one = Batch({field: batch[field]})
    one.indices, one.offsets = batch.indices, {field: batch.offsets[field]}
    return one
