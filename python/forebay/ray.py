"""forebay for Ray: a set of samples as a ``ray.data.Dataset``.

>>> ds = forebay.ray.read("train/*.h5", fields=["image"], label="label")
>>> for batch in ds.iter_batches(batch_size=64):
...     batch["image"], batch["label"]  # NumPy arrays

Tasks are planned by chunk: each reads whole chunks of some files, through the tiers of the node it runs on.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ._dataset.dataset import Dataset
from ._dataset.opening import open as open_set
from ._dataset.portable_set import file_set_of
from ._sizes import size_of, whole
from ._dataset.subset import Subset
from ._tiers.tiers import TierOptions

# Before what else needs Ray: where that is not installed, it says what to do.
from ._ray_source import SampleDatasource, ray

if TYPE_CHECKING:
    from ._samples import Field, Paths

__all__ = ["SampleDatasource", "read"]

_TIERS = ("tiers", "policy", "config", "placement_threads", "tier_block", "whole_file", "tier_ahead")
_LOADER = ("memory", "on_error", "normalize", "read_threads", "transfer_size", "transforms")


def read(
    source: Paths | Dataset | Subset,
    fields: Sequence[str | Field] | Mapping[str, str | Field] | str | None = None,
    label: str | Field | None = None,
    *,
    override_num_blocks: int | None = None,
    concurrency: int | None = None,
    ray_remote_args: Mapping[str, Any] | None = None,
    block_size: int | str | None = None,
    **options: Any,
) -> Any:
    """The samples as a ``ray.data.Dataset``: rows in order, each once, a column for each field.

    Fields are columns of Arrow tensors, samples of different lengths such of variable shape, texts strings. This process reads what the
    files say of themselves, and nobody else does; values are read by tasks, each from the start of a chunk to the end of another.

    Args:
        source: what :func:`forebay.open` takes: a path, a pattern, a list; or a data set that is open, or a part of one. All nodes must
            have the files under the same names.
        fields, label: as for :func:`forebay.open`.
        override_num_blocks: how many tasks read, at most; by default tasks of 32 MiB, or four for each processor where that is more. With
            tiers a task reads 32 of their blocks or more.
        concurrency, ray_remote_args: as ``ray.data.read_datasource`` takes them.
        block_size: bytes of the blocks that tasks give, such as ``"32MiB"``, the default; at most what Ray's ``DataContext`` allows.
        options: of paths, whatever says what samples are goes to :func:`forebay.open`. ``tiers``, ``policy``, ``config`` and the
            like are looked at on the node of each task, variables such as ``$NVME`` and ``forebay.toml`` too; with ``whole_file=True``
            every node copies every file that one of its tasks reads of. ``read_threads`` (by default the processors
            of a task), ``memory``, ``transfer_size``, ``on_error``, ``transforms`` and ``normalize`` go to the loaders in the tasks.
    """
    if override_num_blocks is not None and whole("override_num_blocks", override_num_blocks) == 0:
        raise ValueError("override_num_blocks=0; at least 1 task is needed")
    tiers, how = _taken(options, _TIERS), _taken(options, _LOADER)
    samples = _opened(source, fields, label, options)
    # A node copies what its own tasks read: each would copy every file otherwise.
    through: Any = {"whole_file": False, **tiers}
    if samples is source:
        through = TierOptions(**through, base=file_set_of(samples)._through)
    made = SampleDatasource(samples, tiers=through, options=how, block_size=size_of(block_size, "block_size"))
    if not ray.is_initialized():
        ray.init()
    given: dict[str, Any] = {"ray_remote_args": dict(ray_remote_args or {})}
    if concurrency is not None:
        given["concurrency"] = whole("concurrency", concurrency)
    blocks = made.task_count() if override_num_blocks is None else override_num_blocks
    known = inspect.signature(ray.data.read_datasource).parameters
    given["override_num_blocks" if "override_num_blocks" in known else "parallelism"] = blocks
    return ray.data.read_datasource(made, **given)


def _taken(options: dict[str, Any], names: Sequence[str]) -> dict[str, Any]:
    """Those of ``options`` with one of ``names``, which are taken out; of them ``None`` is the default."""
    found = {name: options.pop(name, None) for name in names}
    return {name: value for name, value in found.items() if value is not None}


def _opened(source: Any, fields: Any, label: Any, options: dict[str, Any]) -> Any:
    """The set that ``source`` is or names, as this process plans it: it copies nothing to tiers."""
    if isinstance(source, (Dataset, Subset)):
        if fields is not None or label is not None or options:
            named = [name for name, given in (("fields", fields), ("label", label)) if given is not None]
            raise ValueError(f"{', '.join([*named, *options])} with a set that is open already: say it where the set is opened")
        return source
    if not isinstance(source, (str, os.PathLike, list, tuple)):
        raise TypeError(f"a forebay.Dataset is needed, as forebay.open gives it, or paths, not {type(source).__name__}")
    return open_set(source, fields, label, tiers=[], **options)
