"""What loaders are told in words: the shuffle, the last batch, errors of samples, the spill."""

from __future__ import annotations

import os
from typing import Any

from .._sizes import size_of, whole
from .draws import DrawSpec


def shuffle_of(shuffle: str | bool, lanes: int | None, window: int, drawn: DrawSpec | None = None) -> Any:
    if drawn is not None and shuffle == "block":
        raise ValueError("shuffle='block' with samples that are drawn: their order is that of the draws; leave shuffle= out")
    if drawn is not None and shuffle in (True, False, "full", "none"):
        return "full"
    if shuffle is True:
        return "full"
    if shuffle is False:
        return "none"
    if shuffle == "block":
        block = {"window": whole("window", window)}
        if lanes is not None:
            if whole("lanes", lanes) < 1:
                raise ValueError(f"lanes={lanes}; give a multiple of the number of ranks, or None for the default")
            block["lanes"] = lanes
        return {"block": block}
    if shuffle in ("full", "none"):
        return shuffle
    raise ValueError(f"shuffle={shuffle!r}; there are 'full', 'block' and 'none'")


def on_error_of(on_error: str) -> str:
    if on_error not in ("raise", "skip", "substitute"):
        raise ValueError(f"on_error={on_error!r}; there are 'raise', 'skip' and 'substitute'")
    return on_error


def tail_of(tail: str | None, drop_last: bool) -> str | None:
    if tail not in (None, "short", "drop", "pad", "wrap"):
        raise ValueError(f"tail={tail!r}; there are 'short', 'drop', 'pad' and 'wrap'")
    if drop_last and tail not in (None, "drop"):
        raise ValueError(f"drop_last=True and tail={tail!r}")
    return "drop" if drop_last else tail


def spill_options(folder: str | os.PathLike[str] | None, quota: int | str | None, shared: bool | None = None) -> Any:
    """What the compiled part takes about the spill."""
    return {"folder": None if folder is None else os.fspath(folder), "quota": size_of(quota, "spill_quota"), "shared": shared}
