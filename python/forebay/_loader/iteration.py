"""Epochs of a loader: how they are begun, follow each other, and reach the consumer."""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Callable, Generator, Iterator
from typing import TYPE_CHECKING, Any

from .._batch import Batch
from .._forebay import BatchLoader, EpochRun, RawBatch
from .._sizes import whole
from . import ranks as _ranks
from .batch_iterator import ActiveIteration, BatchIterator
from .collate import stacked
from .delivery import Delivery, Pair
from .map import MapDelivery

if TYPE_CHECKING:
    from .._dataset.dataset import Dataset
    from .._dataset.subset import Subset
    from .._store.store import Store


class Iteration:
    """What a :class:`Loader` does from its first batch to its last."""

    dataset: Dataset | Store | Subset
    epochs: int | None
    _opened: BatchLoader
    _options: str
    # The iteration under way: at most one.
    _active: ActiveIteration | None
    _process: int
    _axes: dict[str, int]
    _map: Callable[[Any], Any] | None
    _map_threads: int
    _as_tuple: bool
    _refreshes: bool
    _check_ranks: bool
    _is_compared: bool
    _rank_key: Any

    @property
    def _loader(self) -> BatchLoader:
        raise NotImplementedError

    def _set_up(self, options: str, state: str | None = None) -> None:
        raise NotImplementedError

    def __len__(self) -> int:
        raise NotImplementedError

    def __iter__(self) -> BatchIterator:
        """Begins an epoch, and those that follow it where there are more. An iteration that was under way is over: asking it for another
        batch is an error."""
        active = ActiveIteration()
        return BatchIterator(active, self._pairs(active, self.epochs))

    def steps(self, count: int) -> BatchIterator:
        """The next ``count`` batches, from where the consumer is, over as many epochs as it takes. Each epoch is begun while the
        last batches of the one before are taken."""
        active = ActiveIteration()
        return BatchIterator(active, self._pairs(active, None, goes_on=True), whole("count", count))

    def _pairs(self, active: ActiveIteration, epochs: int | None, goes_on: bool = False) -> Generator[Pair, None, None]:
        """Yields each batch of ``epochs`` epochs with its :class:`RawBatch`, which is not committed yet. ``goes_on`` continues an epoch that
        was left; otherwise the next one is begun."""
        # First of all: in a forked child it leaves the parent's epoch alone.
        loader = self._loader
        self._end_epoch(is_replaced=True)
        if goes_on:
            # Without this, an epoch that was left is not gone on with.
            loader.load_state(loader.state(), True)
        self._active = active
        delivery = active.delivery = self._delivery()
        try:
            for number in itertools.count(1):
                is_followed = number != epochs and not self._refreshes
                following = None if active.run is None else active.run.follow(is_followed)
                run = active.run = following or self._start(is_followed)
                yield from delivery.batches(run, following is not None)
                if active.is_ended or number == epochs or len(self) == 0:
                    return
        finally:
            active.close()
            # In a forked child the parent's epoch stays what is under way: the child has yet to open the loader for itself.
            if self._active is active and self._process == os.getpid():
                self._active = None

    def _start(self, is_followed: bool) -> EpochRun:
        loader = self._loader
        if self._refreshes:
            loader = self._refresh(loader)
        self._compare_ranks()
        return loader.start(is_followed)

    def _delivery(self) -> Delivery:
        """What hands out the batches of an iteration."""
        function = self._map
        if function is None:
            return Delivery(self._batches)
        made_of = lambda raw: self._handed(self._placed(function(self._host_batch(raw))))
        return MapDelivery(made_of, self._map_threads, lambda: self._opened)

    def _batches(self, run: EpochRun) -> Iterator[Pair]:
        """The batches of ``run`` as the consumer gets them. Nothing here holds on to one: its memory goes back as soon as the
        consumer lets go of it."""
        take, made_of = run.next, self._batch
        while (raw := take()) is not None:
            yield raw, made_of(raw)

    def _refresh(self, loader: BatchLoader) -> BatchLoader:
        """The loader of the files as they are now; ``loader`` itself where an epoch goes on from a state."""
        epoch, position = loader.upcoming()
        if position > 0:
            return loader
        self.dataset = self.dataset._opened_anew()  # type: ignore[union-attr]
        loader.close()
        self._set_up(self._options)
        self._opened.set_epoch(epoch)
        return self._opened

    def _batch(self, raw: RawBatch) -> Any:
        return self._handed(self._placed(self._host_batch(raw)))

    def _handed(self, batch: Any) -> Any:
        return tuple(batch.values()) if self._as_tuple and isinstance(batch, dict) else batch

    def _host_batch(self, raw: RawBatch) -> Any:
        batch = Batch._of(raw)
        if batch.offsets:
            batch._axes = self._axes
        return batch

    def _placed(self, batch: Any) -> Any:
        """What the consumer gets, where it is to be."""
        return batch

    @staticmethod
    def _stacked(samples: list[Any]) -> Any:
        """Samples that went through ``sample_map``, side by side."""
        return stacked(samples)

    def _compare_ranks(self) -> None:
        """Refuses an order that is not that of the other ranks, once."""
        shard = json.loads(self._options)["shard"]
        if self._check_ranks and not self._is_compared and shard["world"] > 1:
            _ranks.check(self._rank_key, self._opened.order(), shard["rank"], shard["world"])
        self._is_compared = True

    @property
    def _is_under_way(self) -> bool:
        """True while an epoch that was begun is not over."""
        return self._active is not None and self._active.run is not None

    def _end_epoch(self, is_replaced: bool = False) -> None:
        """Ends the iteration under way; one that ``is_replaced`` by another raises when it is asked for more."""
        active = self._active
        if active is None or self._process != os.getpid():
            return
        active.end(is_replaced)
        # Closed before it is forgotten: one that a signal interrupts can be closed again.
        active.close()
        self._active = None
