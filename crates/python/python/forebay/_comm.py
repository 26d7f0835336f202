"""Which ranks form a store: those of an MPI communicator, of a launcher, or this process alone."""

from __future__ import annotations

from typing import Any

from ._forebay import RawComm


def of(comm: Any) -> RawComm:
    """The ranks of ``comm``, as :class:`forebay.Store` takes it."""
    if isinstance(comm, RawComm):
        return comm
    if comm is None:
        return RawComm.alone()
    raise TypeError(f"comm={comm!r}; give an mpi4py communicator, or None")
