"""Where training is, while ``tf.data`` reads ahead of it."""

from __future__ import annotations

import threading
import warnings
from collections import deque
from typing import Any

import numpy as np

from .._forebay import ForebayWarning

Position = tuple[int, int]


class State:
    """Where training is: after the last batch that was trained on, not the last that ``tf.data`` has taken.

    It is given to :func:`forebay.tensorflow.dataset`, and told what was trained on: by a
    :class:`~forebay.tensorflow.StateCallback` in Keras, or by :meth:`commit` in a loop of one's own. What :meth:`state_dict` gives can
    be written as JSON; a state that was made of it goes on from there: each sample comes once, however far ``prefetch`` was ahead.

    >>> state = State(saved)  # of an earlier run, or nothing
    >>> ds = forebay.tensorflow.dataset(files, fields=["image"], batch_size=64, shuffle="full", state=state)
    >>> for batch in ds.prefetch(8):
    ...     train(batch)
    ...     state.commit()
    """

    __module__ = "forebay.tensorflow"

    def __init__(self, state: dict[str, Any] | None = None) -> None:
        self._lock = threading.Lock()
        self._saved: dict[str, Any] | None = None if not state else _checked(state)
        self._is_used = False
        # What was handed to tf.data and not trained on yet, in order; and which of it was, out of order.
        self._ahead: deque[Position] = deque()
        self._done: set[Position] = set()
        # Where training is once the last of them was used, where more could not be read after it.
        self._rest: Position | None = None
        self._warned = False

    def state_dict(self) -> dict[str, Any]:
        """Where training is, as :meth:`forebay.Loader.state_dict` says it."""
        with self._lock:
            if self._saved is None:
                raise ValueError("this State belongs to no dataset yet: give it to forebay.tensorflow.dataset(state=)")
            return dict(self._saved)

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Makes ``state`` the place to go on from, for a dataset that is made afterwards."""
        with self._lock:
            if self._is_used:
                raise ValueError("a dataset was made with this State already: load it before, or make another State and dataset")
            self._saved = _checked(state)

    @property
    def epoch(self) -> int:
        """The epoch that training is in; after its last batch, the next."""
        epoch: int = self.state_dict()["epoch"]
        return epoch

    @property
    def is_behind(self) -> bool:
        """Whether batches were handed out that were not trained on yet."""
        with self._lock:
            return bool(self._ahead)

    def commit(self, position: Any = None, *, count: int = 1, through: bool = False) -> None:
        """Notes that a batch was trained on: the one that carries ``position`` (see ``position=True`` of
        :func:`forebay.tensorflow.dataset`), or the next ``count`` that were handed out.

        Batches may be committed in another order than they came in, as after ``shuffle``: the state is then before the first that is
        missing. After ``filter`` some never come: ``through=True`` counts all that were handed out before this one, too, and, without a
        ``position``, all that were handed out, as at the end of an iteration.
        """
        with self._lock:
            if through:
                found = self._through(position)
            else:
                found = self._next(count) if position is None else self._named(position)
            self._done.update(found)
            while self._ahead and self._ahead[0] in self._done:
                self._reach(self._ahead.popleft())
            self._reach_rest()

    def _next(self, count: int) -> list[Position]:
        waiting = [one for one in self._ahead if one not in self._done][:count]
        if len(waiting) < count:
            self._warn()
        return waiting

    def _through(self, position: Any) -> list[Position]:
        handed = list(self._ahead)
        if position is None:
            return handed
        found = self._named(position)
        return handed[: max(map(handed.index, found), default=-1) + 1]

    def _named(self, position: Any) -> list[Position]:
        table = np.asarray(position).reshape(-1, 2)
        known = [(int(epoch), int(place)) for epoch, place in table]
        found = [one for one in known if one in self._ahead]
        if len(found) < len(known):
            self._warn()
        return found

    def _warn(self) -> None:
        if not self._warned:
            self._warned = True
            warnings.warn(
                "a batch was committed that was not read for this State since its last epoch was begun, as after cache(), or twice: "
                "it does not count",
                ForebayWarning,
                stacklevel=4,
            )

    def _reach(self, position: Position) -> None:
        self._done.discard(position)
        assert self._saved is not None
        self._saved["epoch"], self._saved["position"] = position

    # What follows is called by the feed and the callback.

    def _waiting(self) -> int:
        """How many batches were handed out and not trained on yet."""
        with self._lock:
            return len(self._ahead) - len(self._done)

    def _attach(self, state: dict[str, Any]) -> dict[str, Any] | None:
        """Takes part in a dataset whose loader is at ``state``; gives what that has to go on from, if there is anything."""
        with self._lock:
            if self._is_used:
                raise ValueError("a State belongs to one dataset: give each a State of its own")
            self._is_used = True
            saved, self._saved = self._saved, self._saved or state
            return saved

    def _handed(self, position: Position) -> None:
        with self._lock:
            self._ahead.append(position)
            self._rest = None

    def _finished(self, position: Position) -> None:
        """All that was left after the last batch could not be read: training is where ``position`` says once that was used."""
        with self._lock:
            self._rest = position
            self._reach_rest()

    def _reach_rest(self) -> None:
        if not self._ahead and self._rest is not None:
            self._reach(self._rest)
            self._rest = None

    def _forget_ahead(self) -> None:
        """Forgets what was handed out and not trained on."""
        with self._lock:
            self._ahead.clear()
            self._done.clear()
            self._rest = None

    def __repr__(self) -> str:
        with self._lock:
            where = "of no dataset" if self._saved is None else f"epoch {self._saved['epoch']}, position {self._saved['position']}"
            return f"<forebay.tensorflow.State {where}, {len(self._ahead)} batches ahead>"


def _checked(state: dict[str, Any]) -> dict[str, Any]:
    if not {"epoch", "position"} <= state.keys():
        raise ValueError("this is no state of a dataset: give what state_dict() returned")
    return dict(state)
