"""Facts that ranks exchange while they fill a store together."""

from __future__ import annotations

import json
from typing import Any

from .._forebay import InvalidError, RawComm


def told_by_all(comm: RawComm, error: Exception | None, told: dict[str, Any], is_patient: bool = False) -> list[dict[str, Any]]:
    """Gathers ``told`` of all ranks, unless one of them has an ``error``: then that is raised on all. Collective.

    After work that takes some ranks longer than others, ``is_patient`` waits as long as they live.
    """
    mine = {**told, "error": None if error is None else f"{type(error).__name__}: {error}"}
    told_by = comm.all_gather(json.dumps(mine).encode(), is_patient)
    try:
        known: list[dict[str, Any]] = [json.loads(one) for one in told_by]
    except ValueError:
        raise InvalidError("ranks made different calls\n  hint: every rank calls the same, in the same order") from None
    if error is not None:
        raise error
    for rank, one in enumerate(known):
        if one["error"] is not None:
            raise InvalidError(f"rank {rank}: {one['error']}")
    return known
