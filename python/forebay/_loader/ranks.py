"""Whether all ranks of a job read the same samples in the same order, by the key-value store of ``torch.distributed``.

Rank 0 publishes what its order is made of and goes on at once; the others compare theirs with it. No collective is called,
so a rank that has no such loader keeps nobody waiting, and what is read from the store is text, never unpickled.
"""

from __future__ import annotations

import collections
import hashlib
import json
import os
import sys
import time
import warnings
from collections.abc import Callable
from types import FrameType
from typing import Any

from .._forebay import ForebayWarning, InvalidError

DEADLINE_SECONDS = 60.0
"""How long a rank waits for rank 0 to begin the same loader."""

_LONGEST_PAUSE_SECONDS = 0.1

_NAMES = {
    "fingerprint": "files or fields",
    "samples": "number of samples",
    "parts": "samples of each file",
    "group_len": "samples of a group",
    "position": "position in the epoch",
    "batch_size": "batch_size",
}
"""How people call what an order is made of, where it is not by its own name."""

_made: collections.Counter[str] = collections.Counter()
"""How many loaders each line of the program made so far."""

_inherited: Any = None
"""The process group of the parent, in a child that was forked: its connection is the parent's."""


def _note_fork() -> None:
    global _inherited
    group = _group()
    _inherited = None if group is None else group.WORLD


os.register_at_fork(after_in_child=_note_fork)


def _group() -> Any:
    """``torch.distributed.group``, where PyTorch is imported and a process group is initialised."""
    distributed = sys.modules.get("torch.distributed")
    if distributed is None or not distributed.is_available() or not distributed.is_initialized():
        return None
    return distributed.group


def key_of_new_loader() -> str:
    """The key of a loader that is being made: the same on every rank that makes it at the same point of the program.

    Counted by where in the program it is made, so that a loader which rank 0 alone has does not stand for another.
    """
    where = hashlib.sha256()
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if not str(frame.f_globals.get("__name__", "")).startswith("forebay."):
            where.update(f"{frame.f_code.co_name}:{frame.f_lineno}\n".encode())
        frame = frame.f_back
    place = where.hexdigest()[:32]
    _made[place] += 1
    return f"forebay/order/{place}/{_made[place]}"


class OrderCheck:
    """Compares the order of one loader with that of rank 0, where ``is_wanted``."""

    def __init__(self, is_wanted: bool) -> None:
        self._is_wanted = is_wanted
        self.renew_key()

    def renew_key(self) -> None:
        """Makes this the check of another loader, such as a copy of it."""
        self._key = key_of_new_loader()
        self.again()

    def again(self) -> None:
        """Has the next call of :meth:`compare` compare."""
        self._is_done = False

    def compare(self, order: Callable[[], dict[str, Any]], rank: int, world: int) -> None:
        """Refuses an ``order`` that is not that of the other ranks; after the first call nothing is compared."""
        if self._is_wanted and not self._is_done and world > 1:
            check(self._key, order(), rank, world)
        self._is_done = True


def check(key: str, order: dict[str, Any], rank: int, world: int) -> None:
    """Refuses an ``order`` that is not that of rank 0; without a process group of these ranks there is nothing to
    compare with."""
    group = _group()
    if group is None or group.WORLD is _inherited:
        return
    distributed = sys.modules["torch.distributed"]
    if (distributed.get_rank(), distributed.get_world_size()) != (rank, world):
        return
    try:
        store = distributed.distributed_c10d._get_default_store()
        if store is None:
            return
        if rank == 0:
            store.set(key, json.dumps(order))
            return
        found = _wait_for(store, key)
    except (RuntimeError, ValueError, AttributeError) as error:
        text = f"the order of this loader was not compared with that of rank 0: {error}"
        warnings.warn(text, ForebayWarning, stacklevel=4)
        return
    if found is None:
        warnings.warn(
            f"rank 0 did not begin this loader within {DEADLINE_SECONDS:.0f} s: its order was not compared with that of rank "
            f"{rank}. Make loaders at the same point of the program on every rank, or give check_ranks=False",
            ForebayWarning,
            stacklevel=4,
        )
        return
    _compare(json.loads(found), order, rank)


def _wait_for(store: Any, key: str) -> bytes | None:
    """What ``store`` has under ``key`` once it is there; nothing when it does not come in time."""
    until = time.monotonic() + DEADLINE_SECONDS
    pause = 0.001
    # Asked again and again: a wait inside the store could not be interrupted.
    while not store.check([key]):
        if time.monotonic() >= until:
            return None
        time.sleep(pause)
        pause = min(pause * 2, _LONGEST_PAUSE_SECONDS)
    found: bytes = store.get(key)
    return found


def _compare(theirs: dict[str, Any], mine: dict[str, Any], rank: int) -> None:
    differing = [name for name in {**theirs, **mine} if theirs.get(name) != mine.get(name)]
    if not differing:
        return
    differences = ", ".join(
        _NAMES.get(name, name)
        if name in ("fingerprint", "parts")
        else f"{_NAMES.get(name, name)} {mine.get(name)} (rank 0: {theirs.get(name)})"
        for name in differing
    )
    if not {"epoch", "position"}.issuperset(differing):
        remedy = "give every rank the same files and options, or check_ranks=False"
    else:
        remedy = "load the same state on every rank, and set the same epoch"
    raise InvalidError(
        f"rank {rank} and rank 0 would not read the same samples in the same order, so that some would be lost and others "
        f"repeated; they differ in: {differences}\n  hint: {remedy}"
    )
