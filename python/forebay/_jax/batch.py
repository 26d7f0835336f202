"""Batches of JAX arrays."""

from __future__ import annotations

from typing import Any

import numpy as np

try:
    import jax  # type: ignore[import-not-found]
    import jax.dlpack  # type: ignore[import-not-found]
except ModuleNotFoundError as error:
    if error.name != "jax":
        raise
    raise ModuleNotFoundError("forebay.jax needs JAX: pip install jax", name="jax") from None

from .. import _batch

__all__ = ["Batch", "jax"]


class Batch(_batch.Batch):
    """Samples side by side: a dict of ``jax.Array`` by field name, and a pytree, so that ``jax.jit`` takes it as it is.

    ``offsets`` are arrays of JAX too; ``indices`` and ``seeds`` are NumPy's. A batch that a function of JAX gives back has the fields
    alone.
    """

    __module__ = "forebay.jax"
    __slots__ = ()

    def parts(self, name: str) -> list[Any]:
        """The field ``name`` of each sample, as NumPy views of memory of the host."""
        return self._on_host(name).parts(name)

    def padded(self, name: str, value: Any = 0, multiple_of: int = 1) -> Any:
        """The field ``name``, whose samples differ in length, side by side: each is filled up with ``value`` to the longest, and
        that to a multiple of ``multiple_of``, so that few shapes are compiled."""
        return jax.numpy.asarray(self._on_host(name).padded(name, value, multiple_of))

    def mask(self, name: str, multiple_of: int = 1) -> Any:
        """True where :meth:`padded` has elements of the samples, false where it was filled up: one row a sample."""
        return jax.numpy.asarray(super().mask(name, multiple_of))

    def nested(self, name: str) -> Any:
        """Not of JAX: it has no arrays of different lengths."""
        raise TypeError("JAX has no nested arrays: use padded(name) and mask(name), or offsets with jax.ops.segment_sum")

    def _on_host(self, name: str) -> _batch.Batch:
        host = _batch.Batch({name: np.asarray(self[name])})
        host.offsets = {name: np.asarray(self.offsets[name])} if name in self.offsets else {}
        if hasattr(self, "_axes"):
            host._axes = self._axes
        return host


def _flatten(batch: Batch) -> tuple[list[tuple[Any, Any]], tuple[str, ...]]:
    names = tuple(sorted(batch))
    return [(jax.tree_util.DictKey(name), batch[name]) for name in names], names


def _unflatten(names: tuple[str, ...], values: Any) -> Batch:
    return Batch(zip(names, values))


def _values(batch: Batch) -> tuple[list[Any], tuple[str, ...]]:
    names = tuple(sorted(batch))
    return [batch[name] for name in names], names


jax.tree_util.register_pytree_with_keys(Batch, _flatten, _unflatten, _values)
