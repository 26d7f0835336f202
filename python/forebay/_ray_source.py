"""A set of samples as a datasource of Ray Data: blocks planned by chunk, read through the tiers of the node that a task runs on."""

from __future__ import annotations

import functools
import inspect
import os
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

try:
    import ray  # type: ignore[import-not-found, unused-ignore]
    import ray.data  # type: ignore[import-not-found, unused-ignore]
    from ray.data.block import BlockAccessor, BlockMetadata  # type: ignore[import-not-found, unused-ignore]
except ModuleNotFoundError as error:
    if error.name not in ("ray", "pyarrow", "pandas"):
        raise
    raise ModuleNotFoundError("forebay.ray needs Ray Data: pip install 'ray[data]'", name=error.name) from None

from ._dataset.portable_set import PortableSet, file_set_of
from ._dataset.row_blocks import blocks_of_number, chunk_bounds, stored_facts
from ._ray_blocks import FieldRow, check_fields, columns_of, example_rows
from ._tiers.tiers import TierOptions

if TYPE_CHECKING:
    from ._dataset.dataset import Dataset
    from ._dataset.subset import Subset

__all__ = ["SampleDatasource", "ray"]

BLOCK_BYTES = 32 << 20
"""Bytes of a block that a task gives, unless Ray allows less: a task that reads on while this is stored has two of them."""

TASK_BYTES = 32 << 20
"""Bytes that a task gives at least, unless there would be fewer than four for each processor. By itself Ray would have 200 tasks of a small set, or cut
what fewer tasks give into 200 blocks, and each costs it some 20 ms."""

PARTS = 32
"""A task reads at least so many blocks of a tier, and as many requests: what two tasks meet in is read by both, 3 %."""

REQUEST_BYTES = range(64 << 10, 4 << 20)
"""Requests that are made smaller for that; longer ones are those of the file system."""


class SampleDatasource(ray.data.Datasource):  # type: ignore[misc, name-defined, unused-ignore]
    """The samples of a data set, or of a part of it, as rows of Ray Data, in order and each once.

    Args:
        samples: the data set; files are read where tasks run, and must be there under the same names.
        tiers: what tasks read through; a dict has arguments of :func:`forebay.open`, which are looked at on the node of each task.
            By default the tiers are those of ``samples``.
        options: what loaders in the tasks take.
        block_size: bytes of a block.
    """

    def __init__(
        self,
        samples: Dataset | Subset,
        *,
        tiers: TierOptions | Mapping[str, Any] | None = None,
        options: Mapping[str, Any] | None = None,
        block_size: int | None = None,
    ) -> None:
        super().__init__()
        base = file_set_of(samples)
        self._rows: list[FieldRow] = base._field_rows()
        self._options = dict(options or {})
        if not self._options.get("transforms") and not self._options.get("normalize"):
            check_fields(self._rows)
        self._source = PortableSet(samples, tiers)
        self._bounds = chunk_bounds(samples)
        self._nbytes = round(base.nbytes * len(samples) / max(len(base), 1))
        self._block_size = block_size
        self._least_task_bytes = PARTS * tier_block_of(base._through if tiers is None else tiers)
        self._stored_bytes = self._nbytes
        if (facts := stored_facts(base)).get("logical_bytes"):
            self._stored_bytes = round(self._nbytes * min(facts["stored_bytes"] / facts["logical_bytes"], 1))
        self._files = _Files(base.files, base._part_lens()) if samples is base else _Files(base.files, [])

    def get_name(self) -> str:
        """What Ray calls the read: ``"Forebay"``."""
        return "Forebay"

    def estimate_inmemory_data_size(self) -> int | None:
        """Bytes of all samples."""
        return self._nbytes

    def get_read_tasks(
        self, parallelism: int, per_task_row_limit: int | None = None, data_context: Any = None, **_: Any
    ) -> list[Any]:
        """Tasks that read the samples, about ``parallelism`` of them, each from the start of a chunk to the end of another."""
        count = int(self._bounds[-1])
        row_bytes = max(self._nbytes // max(count, 1), 1)
        cuts = blocks_of_number(self._bounds, self._tasks_at_most(parallelism))
        context = data_context or ray.data.DataContext.get_current()
        most = min(self._block_size or BLOCK_BYTES, getattr(context, "target_max_block_size", None) or BLOCK_BYTES)
        # Once in the store of the cluster, not once in each task: it says what is in all files.
        source, schema = ray.put(self._source), self._schema()
        options = {**self._request_size(len(cuts) - 1), **self._options}
        # How many rows a task gives is known only where it gives all of them.
        has_all = options.get("on_error", "raise") == "raise"
        found = []
        for start, stop in zip(cuts, cuts[1:]):
            read = functools.partial(read_rows, source, start, stop, max(most // row_bytes, 1), options)
            rows = stop - start
            facts = {"num_rows": rows if has_all else None, "size_bytes": rows * row_bytes, "input_files": self._files.of(start, stop)}
            found.append(_read_task(read, facts, schema, per_task_row_limit))
        return found

    def task_count(self) -> int:
        """How many tasks are worth their while on this cluster."""
        processors = int(ray.cluster_resources().get("CPU", 1))
        return self._tasks_at_most(max(self._nbytes // TASK_BYTES, 4 * processors))

    def _tasks_at_most(self, tasks: int) -> int:
        """``tasks``, or as many as have enough blocks of a tier each."""
        least = self._least_task_bytes
        return max(min(tasks, self._stored_bytes // least) if least else tasks, 1)

    def _request_size(self, tasks: int) -> dict[str, Any]:
        """How long requests of ``tasks`` tasks are, where those of the file system are too long for them."""
        part = max(self._stored_bytes // max(tasks, 1) // PARTS, REQUEST_BYTES.start)
        return {"transfer_size": part} if part in REQUEST_BYTES else {}

    def _schema(self) -> Any:
        """The schema of the blocks; nothing where it is known only from values."""
        if self._options.get("transforms") or self._options.get("normalize"):
            return None
        return BlockAccessor.for_block(BlockAccessor.batch_to_block(example_rows(self._rows))).schema()


def read_rows(source: Any, start: int, stop: int, block_rows: int, options: dict[str, Any]) -> Iterator[Any]:
    """The blocks of the samples ``start`` to ``stop``, in a task."""
    samples = ray.get(source).samples()
    # As many threads as the task has processors; those that wait for storage come on top.
    threads = options.get("read_threads") or max(1, int(ray.get_runtime_context().get_assigned_resources().get("CPU", 1)))
    taken = samples.take(slice(start, stop))
    how = {"prefetch": 1, "check_ranks": False, **options, "read_threads": threads}
    with taken.loader(batch_size=min(block_rows, stop - start), **how) as loader:
        for batch in loader:
            yield BlockAccessor.batch_to_block(columns_of(batch, loader._axes))


def tier_block_of(tiers: TierOptions | Mapping[str, Any]) -> int:
    """Bytes that are fetched at a time where there are tiers; 0 without them."""
    if isinstance(tiers, TierOptions):
        named: Any = tiers.tiers
        options = tiers
    else:
        # Their paths may have variables that only other nodes have.
        named = tiers.get("tiers")
        options = TierOptions(**{**tiers, "tiers": None if named is None else []})
        named = options.tiers if named is None else [named] if isinstance(named, (str, os.PathLike, Mapping)) else named
    if any(_is_peers(tier) for tier in named):
        raise ValueError("tiers of peers are for ranks of a job, and tasks of Ray are none: name tiers of memory or disk")
    return int(options.config["placement"]["block"]) if [tier for tier in named if tier != "none"] else 0


def _is_peers(tier: Any) -> bool:
    return tier.get("kind") == "peers" if isinstance(tier, Mapping) else str(tier).split(":")[0] == "peers"


class _Files:
    """Which files samples lie in, where that is known."""

    def __init__(self, files: list[str], part_lens: list[int]) -> None:
        self._files = files
        self._ends = np.cumsum(part_lens) if len(part_lens) == len(files) else None

    def of(self, start: int, stop: int) -> list[str]:
        """Those of the samples ``start`` to ``stop``."""
        if self._ends is None:
            return self._files
        first, last = np.searchsorted(self._ends, [start, stop - 1], side="right")
        return self._files[int(first) : int(last) + 1]


def _read_task(read: Any, facts: dict[str, Any], schema: Any, row_limit: int | None) -> Any:
    """A ``ReadTask``, as this version of Ray makes it: of some the schema belongs to the metadata, of others to the task."""
    of_metadata = inspect.signature(BlockMetadata).parameters
    given = {name: value for name, value in {**facts, "schema": schema}.items() if name in of_metadata}
    missing = {name: None for name, one in of_metadata.items() if name not in given and one.default is inspect.Parameter.empty}
    of_task = inspect.signature(ray.data.ReadTask).parameters
    more = {name: value for name, value in (("schema", schema), ("per_task_row_limit", row_limit)) if name in of_task}
    return ray.data.ReadTask(read, BlockMetadata(**given, **missing), **more)
