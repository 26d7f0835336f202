"""Batches of a set of samples, epoch after epoch."""

from __future__ import annotations

import itertools
import json
import os
import warnings
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import _html
from .._batch import Batch
from .._forebay import BatchLoader, EpochRun, ForebayWarning, InvalidError, LoaderMemory, RawBatch, memory_report
from .._sizes import size_of, whole
from .._tiers.tiers import Policy, Tiers, leave_at_exit, naming_renamed
from ..transforms import transform_spec
from .collate import Sample, mapping_of, stacked
from .delivery import Delivery, Pair
from .draws import draws_of
from .iteration import ActiveIteration, BatchIterator
from .map import MapDelivery
from .ranks import OrderCheck
from .words import on_error_of, shuffle_of, spill_options, tail_of

if TYPE_CHECKING:
    from .._dataset.dataset import Dataset
    from .._dataset.subset import Subset
    from .._store.store import Store

_NOT_PICKLED = ("_opened", "_active", "_process")


class Loader:
    """Batches of a set of samples: made ahead by threads, in an order that can be resumed.

    Args:
        dataset: the samples, in files or in a :class:`Store`, or a :class:`Subset` of these.
        batch_size: samples of a batch, on each rank.
        shuffle: ``"full"`` (any sample anywhere; also ``True``), ``"block"`` (within windows: each chunk is decoded
            once, in little memory) or ``"none"`` (also ``False``). The order is new in every epoch.
        seed: where the order starts from.
        rank, world: which of how many processes this is; by default those of a store, or else the only one.
        tail: what becomes of samples that do not fill a batch on every rank: ``"short"`` (a shorter batch; one rank
            only, the default there), ``"drop"``, ``"pad"`` (empty slots, index -1) or ``"wrap"`` (samples from the
            epoch's start). Every rank has the same number of batches. ``drop_last=True`` is ``tail="drop"``.
        transfer_size: bytes a request ought to bring where requests are slow, such as ``"1MiB"``; by default what the
            file system prefers.
        read_threads: threads that decode, as far as memory has room for them; by default one per core of this rank and
            worker, at most 16. While they wait for data there are more, as many as it takes to keep these busy.
        memory: bytes for everything, such as ``"2GiB"``. By default the loaders and sets of a process have equal parts of
            what it may take, and one more part stays free: one alone has half. :meth:`describe` says how much it is.
        prefetch: batches made ahead, besides one of each thread; 0 for none: each is made when it is asked for.
        on_error: what is done about a sample that cannot be read, or is longer than ``memory``: ``"raise"``, ``"skip"`` or
            ``"substitute"``. A batch of which none can be read is left out by ``"skip"``, or all padding (index -1) where
            ``world`` > 1, and an error otherwise. An epoch of which none can be read is an error, but a warning where ``world`` > 1.
        spill: a folder on a local disk for decoded values that memory cannot hold; one that cannot be used is an error.
            ``spill_quota`` is the most it takes (0 for none); ``share`` whether the processes of a node share it
            (by default when ``world`` > 1).
        lanes, window: of the block shuffle; part of the order. Ranks own whole lanes, so ``world`` must divide them. By
            default there are 48, or 24 or 12 where the files have fewer groups; what a group is depends on the files alone.
        check_ranks: where ``torch.distributed`` is initialised with these ranks, each compares files, order, seed,
            batches, epoch and position with those of rank 0 before its first batch. A difference is an error; rank 0 never waits, and the others
            wait at most 60 s for it.
        epochs: how many epochs one iteration goes through; ``None`` for as many as are taken. Each is begun while the last batches
            of the one before are taken, so that none waits for its first batch. ``len`` is that of one epoch.
        refresh: open the files anew at the start of each epoch, so that what was added to them (by a SWMR writer, or as
            new files of a pattern) is in it. An epoch that goes on from a state keeps the files as they are. One rank only:
            others could find another number of samples.
        on_lost: of a store: what is done about samples of a rank that is gone: ``"raise"``, or ``"origin"`` to read them from
            the files that the store was filled from.
        weights: draws samples by these weights, one number for each; with ``replacement`` (the default) a sample may come again
            in an epoch, and without it each that has a weight comes once, the heavier sooner.
        balance: draws so that each class comes equally often: the name of a field, such as the label, or an array with a class for
            each sample. A round has one sample of each class; the samples of a class all come before one comes again.
        epoch_samples: samples of an epoch that is drawn by ``weights`` or ``balance``; by default as many as the set has, or, without
            replacement, as have a weight.
        bucket_by: makes batches of samples of similar length, each sample once, in an order that is shuffled: the name of a field whose
            samples differ in length (texts by their bytes in UTF-8), of one that holds lengths, or an array of lengths. ``batch_size`` is part of this order.
        transforms: by field, what is done to it on forebay's own threads: a list of :mod:`forebay.transforms`, such as
            ``[RandomCrop(32, 32), Normalize(mean, std), Cast("float16")]``.
        normalize: by field, ``(mean, std)`` or ``(mean, std, axis)``, before the cast of ``transforms``; or what
            :meth:`Dataset.statistics` gave.
        fields: which fields batches have, in this order: names, or a dict of names of which a list of fields is stacked along a new
            axis, ``{"x": ["t2m", "u10", "v10"]}``: axis 1 of the batch.
        map: a callable that is given each :class:`Batch` and returns what the consumer gets instead. ``map_threads`` threads call
            it ahead of the consumer; results are delivered in order. What it raises is raised in its batch's place.
        sample_map: a callable that is given each sample, a dict with ``index`` and ``seed``; what it returns is stacked again.
        collate: a callable that is given the list of samples and returns the batch.
        as_tuple: batches are tuples of their fields, in order, instead of dicts.
        tiers, policy, config, placement_threads, tier_block, whole_file, tier_ahead: as :func:`open` takes them. When any is given,
            the set is opened anew through those tiers; the samples and their order are the same.
    """

    __module__ = "forebay._loader"

    _held = 2
    """Batches that the consumer holds at a time."""

    @naming_renamed
    def __init__(
        self,
        dataset: Dataset | Store | Subset,
        *,
        batch_size: int = 1,
        shuffle: str | bool = "none",
        seed: int = 0,
        rank: int | None = None,
        world: int | None = None,
        tail: str | None = None,
        drop_last: bool = False,
        transfer_size: int | str | None = None,
        read_threads: int | None = None,
        memory: int | str | None = None,
        prefetch: int = 4,
        on_error: str = "raise",
        spill: str | os.PathLike[str] | None = None,
        spill_quota: int | str | None = None,
        share: bool | None = None,
        lanes: int | None = None,
        window: int = 1,
        check_ranks: bool = True,
        epochs: int | None = 1,
        refresh: bool = False,
        on_lost: str = "raise",
        weights: Any = None,
        replacement: bool = True,
        balance: Any = None,
        bucket_by: Any = None,
        epoch_samples: int | None = None,
        transforms: Mapping[str, Any] | None = None,
        normalize: Any = None,
        fields: Sequence[str] | Mapping[str, str | Sequence[str]] | str | None = None,
        map: Callable[[Any], Any] | None = None,
        map_threads: int = 1,
        sample_map: Callable[[Sample], Any] | None = None,
        collate: Callable[[list[Any]], Any] | None = None,
        as_tuple: bool = False,
        tiers: Tiers | None = None,
        policy: Policy | None = None,
        config: str | os.PathLike[str] | None = None,
        placement_threads: int | None = None,
        tier_block: int | str | None = None,
        whole_file: bool | None = None,
        tier_ahead: int | str | None = None,
    ) -> None:
        rank, world = shard_of(dataset, rank, world)
        rank, world = 0 if rank is None else rank, 1 if world is None else world
        self.dataset: Dataset | Store | Subset = dataset._read_through(
            tiers=tiers,
            policy=policy,
            config=config,
            placement_threads=placement_threads,
            tier_block=tier_block,
            whole_file=whole_file,
            tier_ahead=tier_ahead,
        )
        self.batch_size = batch_size
        self.epochs = None if epochs is None else whole("epochs", epochs)
        if self.epochs == 0:
            raise ValueError("epochs=0; give how many, or None for as many as are taken")
        self._refreshes = refresh
        self._on_lost = on_lost
        self._check_refresh(world)
        self._drawn = draws_of(dataset, batch_size, weights, replacement, balance, bucket_by, epoch_samples)
        options = {
            "batch_size": whole("batch_size", batch_size),
            "shuffle": shuffle_of(shuffle, lanes, window, self._drawn),
            "seed": whole("seed", seed),
            "shard": {"rank": whole("rank", rank), "world": whole("world", world)},
            "tail": tail_of(tail, drop_last),
            "transfer_size": size_of(transfer_size, "transfer_size"),
            "read_threads": None if read_threads is None else whole("read_threads", read_threads),
            "memory": size_of(memory, "memory"),
            "prefetch": whole("prefetch", prefetch),
            "held": self._held,
            "on_error": on_error_of(on_error),
            "spill": spill_options(spill, spill_quota, share),
        }
        self._order_check = OrderCheck(check_ranks)
        spec = transform_spec(transforms, normalize, fields)
        self._transforms = spec
        self._map = mapping_of(map, sample_map, collate, self._stacked)
        self._map_threads = whole("map_threads", map_threads)
        if self._map_threads < 1:
            raise ValueError("map_threads=0; at least 1 is needed")
        self._as_tuple = as_tuple
        self._set_up(options)

    def _set_up(self, options: dict[str, Any], state: dict[str, Any] | None = None) -> None:
        """Makes the compiled loader, at ``state`` or at the start."""
        draws = None if self._drawn is None else self._drawn.raw()
        opened = self.dataset._batch_loader(options, self._on_lost, None, draws, self._batch_memory(), self._transforms)
        shapes = ((name, shape) for name, _, shape, _ in opened.fields())
        self._axes = {name: shape.index(None) for name, shape in shapes if None in shape}
        if state is not None:
            opened.load_state(state, True)
        self._options, self._opened = options, opened
        # Before the first batch.
        self._order_check.again()
        self._process = os.getpid()
        # The iteration under way: at most one.
        self._active: ActiveIteration | None = None
        if self.dataset.tiers:
            leave_at_exit(self)

    def _batch_memory(self) -> LoaderMemory | None:
        """Where batches are to lie; None for memory of this process alone."""
        return None

    @property
    def _loader(self) -> BatchLoader:
        if self._process != os.getpid():
            # The parent's threads are not here, nor the batches they made: of an epoch that is under way there, all comes.
            state = self._opened.state_at_once()
            if self._is_under_way:
                state = state and {**state, "position": 0}
            if self._active is not None:
                self._active.close()
            self._set_up(self._options, state)
        return self._opened

    def _move_to(self, rank: int, world: int) -> None:
        """Goes on as another rank, from where it is."""
        self._check_refresh(world)
        self._set_up({**self._options, "shard": {"rank": rank, "world": world}}, self._opened.state())

    def _check_refresh(self, world: int) -> None:
        if self._refreshes and not self.dataset._may_grow:
            raise ValueError("refresh=True: a store does not change, nor do the numbers of a subset")
        if self._refreshes and world > 1:
            raise ValueError("refresh=True with world > 1: each rank could find another number of samples")

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
        shard = self._options["shard"]
        self._order_check.compare(self._opened.order, shard["rank"], shard["world"])
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
        self.dataset = self.dataset._opened_anew()
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

    def set_epoch(self, epoch: int) -> None:
        """Makes ``epoch`` the next one that is begun. A loop that is under way goes on, and its batches count."""
        self._loader.set_epoch(whole("epoch", epoch))

    def state_dict(self) -> dict[str, Any]:
        """Where the consumer is: what it has received, not what was made ahead. After the last batch of an epoch it is at
        the start of the next."""
        return self._loader.state()

    def load_state_dict(self, state: dict[str, Any], strict: bool = True) -> None:
        """Goes on from ``state``, with any number of ranks and threads; a changed set is refused. The order is the state's: its
        ``shuffle`` and ``seed`` hold from now on, whatever the loader was made with.

        The set may lie in another folder or on another node: fields, and names, lengths, types and counts of the files must
        be the same, and other times of modification are a warning. ``strict=False`` accepts any set that has as many samples,
        and as many in each file, numbered in the same order, where the shuffle is by blocks. A loop that is under way ends.
        """
        if not isinstance(state, dict) or "fingerprint" not in state:
            raise ValueError("this is no state of a loader: give what state_dict() returned")
        loader = self._loader
        self._end_epoch()
        if not loader.load_state(state, strict):
            is_other_set = state["fingerprint"] != loader.state()["fingerprint"]
            warnings.warn(
                "the state was taken of other files or fields: right where they hold the same samples in the same order"
                if is_other_set
                else "the state was taken of files with other times of modification: right for copies of them, wrong if their "
                "contents were changed",
                ForebayWarning,
                stacklevel=2,
            )

    def close(self) -> None:
        """Ends the epoch that is under way, and gives memory back that no batch lies in. May be called more than once. The loader can
        be used again: a loop begins the next epoch, and :meth:`steps` goes on from where the consumer is."""
        self._end_epoch()
        if self._process == os.getpid():
            self._opened.release_memory()

    def __enter__(self) -> Loader:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _leave(self) -> None:
        if self._process != os.getpid():
            return
        self.close()
        self._opened.close()

    def __len__(self) -> int:
        """Batches of a whole epoch, wherever in it the consumer is."""
        return len(self._loader)

    @property
    def rank(self) -> int:
        """Which of the ranks this is."""
        return self._shard_now()[0]

    @property
    def world(self) -> int:
        """How many ranks there are."""
        return self._shard_now()[1]

    @property
    def epoch(self) -> int:
        """The epoch that the consumer is in; after its last batch, the next."""
        epoch: int = self._loader.state()["epoch"]
        return epoch

    @property
    def step(self) -> int:
        """Batches of its epoch that the consumer has received, also before a state that was loaded."""
        return len(self) - self.remaining

    @property
    def threads(self) -> int:
        """Threads that make batches."""
        threads: int = self._loader.in_force()["threads"]
        return threads

    @property
    def memory(self) -> int:
        """Bytes that it may take."""
        memory: int = self._loader.in_force()["memory_bytes"]
        return memory

    def _shard_now(self) -> tuple[int, int]:
        # Where ranks are known late, this has them looked up.
        _ = self._loader
        shard = self._options["shard"]
        return shard["rank"], shard["world"]

    @property
    def remaining(self) -> int:
        """Batches that the consumer has yet to receive of its epoch; of the next one after the last batch."""
        return self._loader.remaining()

    def stats(self) -> dict[str, Any]:
        """What was read, decoded and waited for so far, and which stage limits (``verdict``).

        ``tiers`` is what was read from where, in all and in each epoch; ``None`` without tiers. ``in_force`` is what
        :meth:`describe` says of threads and memory. ``origin_latency`` is how long reads from behind a network took,
        for all loaders of the data set: ``count``, ``mean_ns``, ``p50_ns``, ``p90_ns``, ``p99_ns`` and ``max_ns``.
        """
        return self._loader.stats()

    def describe(self) -> dict[str, Any]:
        """What is in force: ``threads``, ``batches_ahead``, ``memory_bytes`` in all and ``cache_bytes`` of them for decoded
        chunks, the folder of the ``spill`` and ``spill_quota_bytes``. ``fields`` are those of the batches, after ``transforms`` and
        before ``map``.

        ``process`` is what this process may take, and who in it has taken how much.
        """
        loader = self._loader
        # All of it can be written as JSON.
        fields = {
            name: {"dtype": stored, "numpy": str(np.dtype(code)), "shape": shape} for name, code, shape, stored in loader.fields()
        }
        return {"batch_size": self.batch_size, "fields": fields, **loader.in_force(), "process": memory_report()}

    def __repr__(self) -> str:
        name = f"{type(self).__module__}.{type(self).__name__}"
        # One whose making ended by an error has neither.
        text = f"{name} of {getattr(self, 'dataset', None)!r}, batches of {getattr(self, 'batch_size', None)}"
        try:
            return f"<{text}, epoch {self.epoch}, step {self.step} of {len(self)}>"
        except (InvalidError, AttributeError):
            return f"<{text}>"

    def _repr_html_(self) -> str:
        facts = {"samples": repr(self.dataset), "batch_size": self.batch_size}
        try:
            options, in_force = self._options, self._loader.in_force()
            facts |= {
                "shuffle": json.dumps(options["shuffle"]),
                "seed": options["seed"],
                "rank": f"{self.rank} of {self.world}",
                "epoch": self.epoch,
                "step": f"{self.step} of {len(self)}",
                "threads": in_force["threads"],
                "memory": f"{in_force['memory_bytes'] / 2**20:.0f} MiB",
            }
        except InvalidError:
            facts["state"] = "closed"
        return _html.facts(f"{type(self).__module__}.{type(self).__name__}", facts)

    def __getstate__(self) -> dict[str, Any]:
        kept = {name: value for name, value in self.__dict__.items() if name not in _NOT_PICKLED}
        kept["_state"] = self._loader.state()
        return kept

    def __setstate__(self, kept: dict[str, Any]) -> None:
        state = kept.pop("_state")
        self.__dict__.update(kept)
        self._order_check.renew_key()
        self._set_up(self._options, state)


def shard_of(dataset: Any, rank: int | None, world: int | None) -> tuple[int | None, int | None]:
    """Rank and world as they are given, or else those of a store: its ranks are those of the job."""
    of_job: tuple[int, int] | None = getattr(dataset, "_job_shard", None)
    return of_job if rank is None and world is None and of_job is not None else (rank, world)
