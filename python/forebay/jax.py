"""forebay for JAX: batches of ``jax.Array`` over forebay's own memory, on a device, or sharded over devices and processes.

>>> loader = forebay.jax.Loader(ds, batch_size=64, shuffle="full", seed=7)
>>> for batch in loader:
...     params = step(params, batch)  # a dict of arrays, and a pytree
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

# Before what else needs JAX: where that is not installed, it says what to do.
from ._jax.batch import Batch, jax

from . import _batch  # isort: skip
from ._dataset import dataset as _dataset  # isort: skip
from ._loader import loader as _loader  # isort: skip
from ._tiers import tiers as _tiers  # isort: skip
from ._loader.delivery import Pair  # isort: skip
from ._loader.words import tail_of  # isort: skip
from ._forebay import EpochRun, ForebayError, LoaderMemory, RawBatch  # isort: skip
from ._jax.placement import HandOver, Placement, narrow_types, placement_of, with_casts  # isort: skip
from ._jax.source import RandomAccessDataSource  # isort: skip
from ._samples import NO_TYPE_REMEDY  # isort: skip
from ._sizes import whole  # isort: skip
from ._store.store import Store  # isort: skip
from ._dataset.subset import Subset  # isort: skip

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ._loader.options import IterationOptions

__all__ = ["Batch", "Loader", "RandomAccessDataSource"]


class Loader(_loader.Loader):
    """Batches of JAX arrays: made ahead by threads, in an order that can be resumed.

    Takes what :class:`forebay.Loader` takes, and where batches shall lie. ``rank`` and ``world`` are by default those of a store, or
    else of ``jax.distributed``: ``jax.process_index()`` and ``jax.process_count()``. ``batch_size`` is that of each process.

    On the processor batches are the very memory that forebay's threads filled, taken over by DLPack. Numbers of 64 bits become
    such of 32, as everywhere in JAX, unless ``jax_enable_x64`` is set. ``stats()["hand_over"]`` counts what was shared and what was copied.

    Args:
        device: the device that batches go to; by default the one that JAX takes.
        sharding: a ``jax.sharding.Sharding`` of all fields, or a dict of them by field, over devices of this process or of several: the
            batch of each process is its part of the global arrays.
            CUDA devices copy from memory that is registered with the CUDA runtime, as of ``forebay.torch.Loader(device="cuda")``.
        device_prefetch: batches that are sent to a device, or sharded, ahead of the one that the consumer has.
    """

    __module__ = "forebay.jax"

    def __init__(
        self,
        dataset: _dataset.Dataset | Store | Subset,
        *,
        rank: int | None = None,
        world: int | None = None,
        device: Any = None,
        sharding: Any = None,
        device_prefetch: int = 2,
        **options: Unpack[IterationOptions],
    ) -> None:
        rank, world = _loader.shard_of(dataset, rank, world)
        if (rank is None) != (world is None):
            raise ValueError("rank and world are given together or not at all")
        if rank is None or world is None:
            rank, world = jax.process_index(), jax.process_count()
        self._hand_over = HandOver()
        self._place = placement_of(self._hand_over, device, sharding)
        device_prefetch = whole("device_prefetch", device_prefetch)
        self._ahead = device_prefetch if self._place.is_ahead else 0
        is_mapped = any(options.get(name) is not None for name in ("map", "sample_map", "collate"))
        self._held = self._ahead + (Placement.held if is_mapped else self._place.held)
        super().__init__(dataset, rank=rank, world=world, **options)
        tail = tail_of(options.get("tail"), options.get("drop_last", False))
        count = len(dataset) if self._drawn is None else self._drawn.epoch_samples
        self._may_be_short = tail in (None, "short") and count % (world * self.batch_size) > 0
        self._check_fields(sharding is not None)
        if self._map is None:
            self._place.check({name: (self.batch_size, *shape) for name, _, shape, _ in self._opened.fields()}, world)
        self._narrow_fields()

    def _check_fields(self, is_sharded: bool) -> None:
        """Refuses what JAX has no arrays of."""
        if self._map is not None:
            return
        for name, code, shape, stored in self._opened.fields():
            if np.dtype(code).kind not in "biufc":
                raise ValueError(f"field {name!r}: JAX has no type for {stored}; {NO_TYPE_REMEDY}")
            if is_sharded and None in shape:
                raise ValueError(
                    f"field {name!r}: samples of different lengths cannot be sharded; make them equal by map=lambda batch: "
                    f"{{'{name}': batch.padded('{name}')}}, or leave it out by fields=[...]"
                )
        if is_sharded and self._may_be_short:
            raise ValueError("a shorter last batch cannot be sharded: choose tail='drop', 'pad' or 'wrap'")

    def _narrow_fields(self) -> None:
        """Has forebay's threads make 32 bits of numbers of 64, where that can be a transform; else they are copied here."""
        types = narrow_types((name, np.dtype(code)) for name, code, _, _ in self._opened.fields())
        if not types or self._map is not None:
            return
        before = self._transforms
        try:
            self._transforms = with_casts(before, types)
            self._set_up(self._options)
        except (ForebayError, ValueError):
            self._transforms = before
            self._set_up(self._options)
            self._place.narrow(types, is_done=False)
        else:
            self._place.narrow(types, is_done=True)

    def _batch_memory(self) -> LoaderMemory | None:
        self._memory = None if self._map is not None else self._place.batch_memory()
        if self._memory is not None:
            # What is pinned has to be let go while there is a device.
            _tiers.leave_at_exit(self)
        return self._memory

    def _batches(self, run: EpochRun) -> Iterator[Pair]:
        if self._ahead == 0:
            return super()._batches(run)
        return placed_ahead(run, self._batch, self._ahead, self._place.keep_pace)

    def _batch(self, raw: RawBatch) -> Any:
        batch = Batch.__new__(Batch)
        offsets: dict[str, Any] = {}
        if not self._axes and self._place.fill(raw, batch):
            batch.offsets, batch._raw = offsets, raw
            return self._handed(batch)
        for memory in raw.take_fields():
            batch[memory.name] = self._place.of_memory(memory)
            bounds = memory.offset_bytes
            if bounds is not None:
                offsets[memory.name] = self._place.of_value(np.frombuffer(bounds, np.int64).astype(_offset_type()))
        batch.offsets, batch._raw = offsets, raw
        if offsets:
            batch._axes = self._axes
        return self._handed(batch)

    def _placed(self, batch: Any) -> Any:
        """What a callable of the user made of a batch: its arrays go where those of other batches go."""
        if isinstance(batch, _batch.Batch):
            placed = Batch({name: self._place.of_value(value, name) for name, value in batch.items()})
            for name in ("indices", "seeds", "epoch", "step", "skipped"):
                setattr(placed, name, getattr(batch, name))
            return placed
        if isinstance(batch, Mapping):
            return {name: self._place.of_value(value, name) for name, value in batch.items()}
        return jax.tree_util.tree_map(self._place.of_value, batch)

    def stats(self) -> dict[str, Any]:
        """As :meth:`forebay.Loader.stats`, and ``hand_over``: arrays that JAX shares with forebay (``shared``), that it copied
        (``copied``), copied because it refused DLPack (``refused``, ``why_refused``), made numbers of 32 bits (``narrowed``), or that
        were sent to devices (``placed``). Where batches go to CUDA devices also ``pinned``, as in :meth:`forebay.torch.Loader.stats`."""
        stats = {**super().stats(), "hand_over": self._hand_over.counts()}
        if self._memory is not None:
            stats["pinned"] = self._memory.stats()
        return stats

    def __getstate__(self) -> dict[str, Any]:
        raise TypeError("a forebay.jax.Loader is not pickled: devices belong to their process; pickle its data set")


def placed_ahead(
    run: EpochRun,
    make: Callable[[RawBatch], Any],
    ahead: int,
    keep_pace: Callable[[Any], None],
) -> Iterator[Pair]:
    """The batches of ``run``, each as ``make`` places it, ``ahead`` of the consumer, after ``keep_pace`` had it; an error comes where
    its batch would have come."""
    coming: deque[tuple[RawBatch, Any]] = deque()
    failed: BaseException | None = None
    while True:
        if not coming:
            if failed is not None:
                raise failed
            raw = run.next()
            if raw is None:
                return
            coming.append((raw, make(raw)))
        try:
            while failed is None and len(coming) <= ahead and (polled := run.poll()) is not None:
                coming.append((polled, make(polled)))
        except Exception as error:
            failed = error
        raw, batch = coming.popleft()
        keep_pace(batch)
        yield raw, batch
        # Nothing here holds on to it.
        del raw, batch


def _offset_type() -> type[np.signedinteger[Any]]:
    return np.int64 if jax.config.jax_enable_x64 else np.int32

