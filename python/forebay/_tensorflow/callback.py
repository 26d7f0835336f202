"""What tells a State what Keras has trained on."""

from __future__ import annotations

import json
import os
from typing import Any

import tensorflow as tf  # type: ignore[import-untyped, import-not-found, unused-ignore]

from .._sizes import whole
from .state import State


class StateCallback(tf.keras.callbacks.Callback):  # type: ignore[misc]
    """A Keras callback that commits each batch to ``state`` once it was trained on.

    >>> model.fit(ds.prefetch(8), epochs=10, callbacks=[StateCallback(state, "state.json")])

    It counts batches, so every element that Keras gets must be one batch of the dataset that has ``state``: ``map`` and ``prefetch``
    keep that; ``batch``, ``unbatch``, ``filter`` and ``shuffle`` do not.

    Args:
        state: the State that was given to :func:`forebay.tensorflow.dataset`.
        path: where the state is written as JSON at the end of each epoch and of the training.
        every: how many batches after which it is written besides.
    """

    __module__ = "forebay.tensorflow"

    def __init__(self, state: State, path: str | os.PathLike[str] | None = None, every: int | None = None) -> None:
        super().__init__()
        if not isinstance(state, State):
            raise TypeError(f"state={state!r} is no forebay.tensorflow.State")
        if every is not None and whole("every", every) == 0:
            raise ValueError("every=0; at least 1 batch is needed, or None")
        self.state = state
        self._path, self._every = path, every
        self._seen = self._unsaved = 0

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        """Keras counts batches from 0 again."""
        self._seen = 0

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        """Commits the batches that were trained on since the last call: with ``steps_per_execution`` several."""
        count = batch + 1 - self._seen
        self._seen = batch + 1
        # With steps_per_execution Keras counts whole executions, and the last of an epoch may have had fewer batches.
        self.state.commit(count=min(count, max(self.state._waiting(), 1)))
        self._unsaved += count
        if self._every is not None and self._unsaved >= self._every:
            self.save()

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """Writes the state."""
        self.save()

    def on_train_end(self, logs: Any = None) -> None:
        """Writes the state."""
        self.save()

    def save(self) -> None:
        """Writes the state, if there is a path for it; a reader sees the old one or the new one."""
        self._unsaved = 0
        if self._path is None:
            return
        path = os.fspath(self._path)
        beside = f"{path}.{os.getpid()}.part"
        with open(beside, "w") as file:
            json.dump(self.state.state_dict(), file)
        os.replace(beside, path)
