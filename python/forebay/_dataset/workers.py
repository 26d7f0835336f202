"""Whether this process is a worker of PyTorch's ``DataLoader``: its siblings share memory and cores with it."""

from __future__ import annotations

import os
import sys

from .._forebay import set_workers

_noted: int | None = None
"""The process for which it was looked at."""


def note_workers() -> None:
    """Lets the compiled part know how many workers there are, once in each process."""
    global _noted
    if _noted == (process := os.getpid()):
        return
    _noted = process
    # Where PyTorch was not imported, nobody is its worker.
    data = sys.modules.get("torch.utils.data")
    info = None if data is None else data.get_worker_info()
    if info is not None:
        # The seeds of the workers of one loader follow each other.
        set_workers(info.num_workers, (info.seed - info.id) % 2**64)
