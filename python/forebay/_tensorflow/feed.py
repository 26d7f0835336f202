"""Epochs of a loader as ``tf.data`` takes them: one call of Python for each batch, whose memory TensorFlow takes over."""

from __future__ import annotations

import itertools
import threading
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from .._forebay import EpochRun, InvalidError, RawBatch
from .._loader.delivery import Pair
from .._loader.loader import Loader
from .._loader.words import tail_of
from .fields import TensorField, fields_of, tf
from .state import State

ENDLESS = 1 << 62
"""Batches of an iteration that goes on for as many epochs as are taken."""


class TensorFeed(Loader):
    """A loader of which each iterator of a ``tf.data.Dataset`` takes an epoch, or as many as ``epochs`` says.

    An iterator that is left before its end leaves its epoch: the next one begins the epoch after, or, with a ``State``, goes on after
    the last batch that was committed.
    """

    # TensorFlow lets go of memory when Python is called next, and tf.data reads one batch ahead by itself.
    _held = 4

    def __init__(
        self, dataset: Any, state: State | None, carries_position: bool, carries_indices: bool = False, **options: Any
    ) -> None:
        if state is not None and not isinstance(state, State):
            raise TypeError(f"state={state!r} is no forebay.tensorflow.State: State(saved) makes one of what was saved")
        for name in ("map", "sample_map", "collate"):
            if options.get(name) is not None:
                raise ValueError(f"{name}= is of Python: use Dataset.map of tf.data, or transforms=")
        if options.get("refresh"):
            raise ValueError("refresh=True: a tf.data.Dataset has one length; make another for files that have grown")
        super().__init__(dataset, **options)
        self._on_error: str = options.get("on_error", "raise")
        self._tail_kind = tail_of(options.get("tail"), options.get("drop_last", False))
        self._carries_position, self._carries_indices = carries_position, carries_indices
        self._guard = threading.Lock()
        self._keys = itertools.count(1)
        self._taken_by: tuple[int, Iterator[RawBatch]] | None = None
        # Batches that the iterator under way still takes: one that was left has some.
        self._left = 0
        self.state = state
        saved = None if state is None else state._attach(self._opened.state())
        if saved is not None:
            self.load_state_dict(saved)
        self.fields: list[TensorField] = fields_of(self._opened)
        self.length = self._length()

    @property
    def may_be_shorter(self) -> bool:
        """Whether there may be fewer batches than were said: some of which nothing can be read are left out."""
        return self._on_error == "skip"

    @property
    def static_batch(self) -> int | None:
        """Samples of every batch; None where the last may be shorter, or any that cannot be read."""
        if self._on_error == "skip":
            return None
        if self._tail_kind in ("drop", "pad", "wrap"):
            return int(self.batch_size)
        samples = self._opened.state()["samples"] if self._drawn is None else None
        is_whole = samples is not None and samples % (self.world * self.batch_size) == 0 and self._opened.upcoming()[1] == 0
        return int(self.batch_size) if is_whole else None

    def _length(self) -> int | None:
        """Batches of every iteration; None where they are not known, as in the middle of an epoch."""
        if self.may_be_shorter or self._opened.upcoming()[1] > 0:
            return None
        return ENDLESS if self.epochs is None else len(self) * self.epochs

    def calls(self) -> tuple[Callable[[], list[Any]], Callable[[Any], list[Any]]]:
        """:meth:`begin` and :meth:`take` for TensorFlow, which never lets go of a function that it was given once: these do not hold
        on to the feed."""
        held = weakref.ref(self)

        def begin() -> list[Any]:
            return _alive(held).begin()

        def take(key: Any) -> list[Any]:
            return _alive(held).take(key)

        return begin, take

    def begin(self) -> list[Any]:
        """Begins an iteration: its key, and how many batches it has at most."""
        with self._guard:
            if self.state is not None:
                self._settle(self.state)
            loader = self._loader
            rest = loader.remaining() if loader.upcoming()[1] > 0 else len(self)
            count = ENDLESS if self.epochs is None else rest + (self.epochs - 1) * len(self)
            key, self._left = next(self._keys), count
            self._taken_by = key, iter(self)
            return [np.int64(key), np.int64(count)]

    def _settle(self, state: State) -> None:
        """Sees to what the last iteration left: what was handed out and not trained on is made again."""
        if self._left == 0:
            if state.is_behind:
                # Whether they will still be trained on, nobody can tell: another iteration may have begun, or the same be repeated.
                raise InvalidError(
                    "an iteration is begun while batches of the one before are not committed: commit each once it was trained on, by a "
                    "StateCallback or by state.commit(); for several epochs under prefetch give "
                    "epochs= to dataset() in place of repeat(); where filter() dropped some, state.commit(through=True) at the end of "
                    "an iteration counts them; to go on after a stop, make another dataset with State(state.state_dict())"
                )
            return
        state._forget_ahead()
        self._end_epoch()
        self._opened.load_state(state.state_dict(), True)
        if self.length is not None and self._opened.upcoming()[1] > 0:
            raise InvalidError(
                "the last iteration was left in the middle of an epoch, and this dataset has the length of whole ones: make another "
                "with State(state.state_dict()), which goes on from there"
            )

    def take(self, key: Any) -> list[Any]:
        """The arrays of the next batch of the iteration ``key``: whether there is one, its position and the numbers of its samples
        where those are carried, and what crosses for each field."""
        with self._guard:
            taken = self._taken_by
        if taken is None or taken[0] != int(key):
            raise _ended_by_another()
        raw = next(taken[1], None)
        if raw is None:
            return self._ended()
        position = raw.position or (raw.epoch, 0)
        with self._guard:
            if self._taken_by is not taken:
                # Begun by another thread meanwhile: what this one has taken does not count.
                raise _ended_by_another()
            self._left -= 1
            if self.state is not None:
                self.state._handed(position)
        arrays: list[Any] = [np.True_] if self.may_be_shorter else []
        if self._carries_position:
            arrays.append(np.array(position, np.int64))
        if self._carries_indices:
            arrays.append(np.frombuffer(raw.index_bytes(), np.int64))
        memories = {memory.name: memory for memory in raw.take_fields()}
        for field in self.fields:
            arrays += field.arrays(memories.pop(field.name))
        return arrays

    def _ended(self) -> list[Any]:
        with self._guard:
            self._left = 0
        if not self.may_be_shorter:
            raise InvalidError("the epoch has fewer batches than were planned")
        if self.state is not None:
            now = self._opened.state()
            self.state._finished((now["epoch"], now["position"]))
        nothing = [one for field in self.fields for one in field.nothing()]
        position = [np.zeros(2, np.int64)] if self._carries_position else []
        indices = [np.zeros(0, np.int64)] if self._carries_indices else []
        return [np.False_, *position, *indices, *nothing]

    @property
    def types(self) -> list[Any]:
        """The types of what :meth:`take` gives."""
        ahead = [tf.bool] if self.may_be_shorter else []
        numbers = [tf.int64] * (self._carries_position + self._carries_indices)
        return [*ahead, *numbers, *(one for field in self.fields for one in field.types)]

    def _batches(self, run: EpochRun) -> Iterator[Pair]:
        # Each counts as used when it is handed out; what was trained on is known by its position.
        while (raw := run.next()) is not None:
            yield raw, raw


def _ended_by_another() -> InvalidError:
    return InvalidError("this epoch was ended by another that was begun of the same dataset: make a dataset for each")


def _alive(held: weakref.ref[TensorFeed]) -> TensorFeed:
    feed = held()
    if feed is None:
        raise InvalidError("the dataset that forebay.tensorflow.dataset() made is gone: keep it as long as what was made of it is used")
    return feed
