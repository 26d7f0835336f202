"""Batches for JAX by forebay, next to those for NumPy, and to arrays of JAX that a program makes of these by itself."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import forebay
import forebay.jax
import jax

OURS = "forebay.jax.Loader"
NUMPY = "forebay.Loader, NumPy"
BY_HAND = "forebay.Loader, NumPy, then from_dlpack"
NARROW = {"int64": "int32", "uint64": "uint32", "float64": "float32"}


class Feed:
    """Epochs of a loader; the first element of each field is looked at in neither, as JAX would copy it."""

    def __init__(self, loader: Any) -> None:
        self.loader = loader

    def epoch(self, number: int) -> Iterator[int]:
        """Samples of each batch."""
        for batch in self.loader:
            yield int(batch["x"].shape[0])


class JaxFeed(Feed):
    """Epochs of JAX's loader, which counts how arrays came to JAX."""

    def hand_over(self) -> dict[str, Any]:
        """Arrays that were shared, copied, copied because DLPack was refused, made 32 bits, or placed on devices."""
        counts: dict[str, Any] = self.loader.stats()["hand_over"]
        return counts


def options(workload: Any) -> Any:
    names = [*workload.fields] + ([workload.label] if workload.label else [])
    ds = forebay.open([str(path) for path in workload.paths], fields=names)
    return ds, {"batch_size": workload.batch, "shuffle": "full", "seed": 7}


def by_jax(workload: Any) -> JaxFeed:
    ds, how = options(workload)
    return JaxFeed(forebay.jax.Loader(ds, **how))


def by_numpy(workload: Any) -> Feed:
    ds, how = options(workload)
    return Feed(ds.loader(**how))


class ByHand(Feed):
    """What a program does that has the loader of NumPy: each array is taken over by JAX's own function, numbers of 64 bits made shorter
    before."""

    def epoch(self, number: int) -> Iterator[int]:
        """Samples of each batch."""
        for batch in self.loader:
            arrays = {}
            for name, values in batch.items():
                narrow = NARROW.get(values.dtype.name)
                arrays[name] = jax.dlpack.from_dlpack(values) if narrow is None else jax.device_put(values.astype(narrow))
            yield int(arrays["x"].shape[0])


def by_hand(workload: Any) -> ByHand:
    ds, how = options(workload)
    return ByHand(ds.loader(**how))


def prepare(workload: Any) -> None:
    """There is nothing to do."""


CONTESTANTS = {OURS: by_jax, NUMPY: by_numpy, BY_HAND: by_hand}
GOALS = [(OURS, NUMPY, 0.9), (OURS, BY_HAND, 1.0)]
