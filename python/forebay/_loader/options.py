"""What a loader may be given, for tools that check types: :class:`forebay.Loader` tells what each means."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypedDict

from .collate import Sample


class IterationOptions(TypedDict, total=False):
    """What :class:`forebay.Loader` takes besides the samples and the ranks."""

    batch_size: int
    shuffle: str | bool
    seed: int
    tail: str | None
    drop_last: bool
    transfer_size: int | str | None
    read_threads: int | None
    memory: int | str | None
    prefetch: int
    on_error: str
    spill: str | os.PathLike[str] | None
    spill_quota: int | str | None
    share: bool | None
    lanes: int | None
    window: int
    check_ranks: bool
    epochs: int | None
    refresh: bool
    on_lost: str
    weights: Any
    replacement: bool
    balance: Any
    bucket_by: Any
    epoch_samples: int | None
    transforms: Mapping[str, Any] | None
    normalize: Any
    fields: Sequence[str] | Mapping[str, str | Sequence[str]] | str | None
    map: Callable[[Any], Any] | None
    map_threads: int
    sample_map: Callable[[Sample], Any] | None
    collate: Callable[[list[Any]], Any] | None
    as_tuple: bool
    tiers: Any
    policy: Any
    config: str | os.PathLike[str] | None
    placement_threads: int | None
    tier_block: int | str | None
    whole_file: bool | None
    tier_ahead: int | str | None
