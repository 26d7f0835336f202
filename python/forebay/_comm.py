"""Which ranks form a store: those of an MPI communicator, of a launcher, or this process alone."""

from __future__ import annotations

import ctypes
import os
from typing import Any

from ._forebay import InvalidError, RawComm


def of(comm: Any, data: str = "auto") -> RawComm:
    """The ranks of ``comm``, as :class:`forebay.Store` takes it."""
    if isinstance(comm, RawComm):
        return comm
    if comm is not None:
        return RawComm.of_mpi(_handle(comm), data)
    launcher = RawComm.launcher()
    if launcher == "torch-nodes" or (launcher == "torch" and data == "tcp"):
        return RawComm.of_torch(_torch_store(), data)
    return RawComm.of_job(data)


# The process of the rank, in the environment of the workers that it starts: they are no ranks.
_RANK_PROCESS = "FOREBAY_RANK_PROCESS"


def join_for_tiers() -> None:
    """Has tiers of peers lie in the memory of the ranks of this job. Collective, the first time; workers of a rank go without."""
    if _RANK_PROCESS in os.environ:
        return
    of(None).join_job()
    os.environ[_RANK_PROCESS] = str(os.getpid())


def _handle(comm: Any) -> int:
    """The C handle of an mpi4py communicator."""
    handle = getattr(comm, "handle", None)
    if isinstance(handle, int):
        return handle
    try:
        from mpi4py import MPI  # type: ignore[import-not-found,unused-ignore]
    except ImportError:
        MPI = None
    if MPI is None or not isinstance(comm, MPI.Comm):
        raise TypeError(f"comm={comm!r}; give an mpi4py communicator, or None")
    # mpi4py before 4: the handle lies where it says, an int of MPICH or a pointer of Open MPI.
    kind = {4: ctypes.c_uint32, 8: ctypes.c_uint64}[MPI._sizeof(comm)]
    return int(kind.from_address(MPI._addressof(comm)).value)


def _torch_store() -> Any:
    """The key-value store of torch: that of the process group if there is one, else the launcher's."""
    try:
        import torch.distributed as distributed
    except ImportError:
        raise InvalidError("ranks of several nodes find each other through torch's store\n  hint: pip install torch, or start "
                           "the job by mpirun and give comm=MPI.COMM_WORLD") from None  # fmt: skip
    if distributed.is_initialized():
        return distributed.distributed_c10d._get_default_store()
    # Without an agent of torchrun rank 0 keeps the values, as the process group would have it; both may in one process.
    is_kept_by_agent = os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True"
    return distributed.TCPStore(  # type: ignore[attr-defined]
        os.environ["MASTER_ADDR"],
        int(os.environ["MASTER_PORT"]),
        is_master=not is_kept_by_agent and os.environ["RANK"] == "0",
        wait_for_workers=False,
        multi_tenant=True,
    )
