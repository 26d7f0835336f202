"""Where engines that read a set in blocks, such as Ray and Dask, cut it: between chunks, so that each is read and decoded once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from .._forebay import FileReader, ForebayError
from .parts import indices_of
from .portable_set import file_set_of

if TYPE_CHECKING:
    from .dataset import Dataset
    from .sample_set import SampleSet

Bounds = npt.NDArray[np.int64]


def chunk_bounds(samples: SampleSet, rows: int | None = None) -> Bounds:
    """The samples that a chunk, a group of small chunks, or a file begins with; their number comes last. In a part whose samples do
    not lie in order, every sample is one. Groups are as long as is worth a request, or of as many whole chunks as have ``rows``."""
    base = file_set_of(samples)
    group_len = _group_len(base) if rows is None else _whole_chunks(_chunk_len(base), rows)
    starts, first = [np.zeros(0, np.int64)], 0
    for length in base._part_lens():
        starts.append(np.arange(first, first + length, group_len, dtype=np.int64))
        first += length
    bounds = np.append(np.concatenate(starts), first)
    if samples._part is None:
        return bounds
    numbers = indices_of(samples._part)
    if (np.diff(numbers) < 0).any():
        return np.arange(len(numbers) + 1, dtype=np.int64)
    return np.unique(np.append(np.searchsorted(numbers, bounds), len(numbers)))


def _group_len(base: Dataset) -> int:
    """Samples of a chunk of the field with the most bytes, or of as many chunks as are worth a request."""
    with base.loader(batch_size=1, prefetch=0, read_threads=1, check_ranks=False) as loader:
        order = loader._opened.order()
    group_len, chunk_len = max(int(order["group_len"]), 1), _chunk_len(base)
    if group_len >= max(base._part_lens(), default=0):
        # Each file is one.
        return group_len
    return _whole_chunks(chunk_len, group_len)


def _whole_chunks(chunk_len: int, rows: int) -> int:
    """Samples of as many chunks as have ``rows`` of them at most, or of one."""
    return max(rows // chunk_len, 1) * chunk_len


def _chunk_len(base: Dataset) -> int:
    """Samples of a chunk of that field, in the first file; 1 where samples are not rows of the first axis, or there are no chunks."""
    _, field = _largest_field(base)
    rows = field["samples"].get("fixed", {}).get("rows") if isinstance(field["samples"], dict) else None
    chunks = stored_facts(base).get("chunks") if rows else None
    if not rows or not chunks or not chunks["shape"]:
        return 1
    chunk = int(chunks["shape"][0])
    return chunk // int(rows) if chunk % int(rows) == 0 else 1


def stored_facts(base: Dataset) -> dict[str, Any]:
    """What the first file says of the field with the most bytes, as ``forebay inspect`` has it; nothing where it cannot be asked by name."""
    kept: dict[str, Any] | None = base.__dict__.get("_stored_facts")
    if kept is None:
        spec, field = _largest_field(base)
        try:
            facts, _ = FileReader(spec["files"][field.get("files", 0)][0]).facts(field["variable"])
        except ForebayError:
            facts = {}
        kept = base.__dict__["_stored_facts"] = facts
    return kept


def _largest_field(base: Dataset) -> tuple[dict[str, Any], dict[str, Any]]:
    """The spec of the set, and what it says of the field with the most bytes."""
    spec = base._opened.spec_dict
    named = {one["name"]: one for one in spec["fields"]["fields"]}
    size = {name: np.prod([length or 1 for length in shape]) * np.dtype(code).itemsize for name, code, shape, _ in base._field_rows()}
    return spec, max(named.values(), key=lambda one: size.get(one["name"], 0))


def rows_at_most(bounds: Bounds, rows: int) -> list[int]:
    """Cuts at ``bounds`` into blocks of at most ``rows``, or of one chunk where that has more; 0 and the end are among them."""
    if rows <= 1:
        every: list[int] = bounds.tolist()
        return every
    cuts, end = [0], int(bounds[-1])
    while cuts[-1] < end:
        last = int(np.searchsorted(bounds, cuts[-1] + rows, side="right")) - 1
        following = int(np.searchsorted(bounds, cuts[-1], side="right"))
        cuts.append(int(bounds[max(last, following)]))
    return cuts


def blocks_of_number(bounds: Bounds, count: int) -> list[int]:
    """Cuts at ``bounds`` into about ``count`` blocks of about as many rows each, never more; 0 and the end are among them."""
    end = int(bounds[-1])
    wanted = np.linspace(0, end, max(count, 1) + 1)
    after = np.clip(np.searchsorted(bounds, wanted), 1, max(len(bounds) - 1, 1))
    if len(bounds) < 2:
        return [0, end] if end else [0]
    before = after - 1
    nearest = np.where(wanted - bounds[before] < bounds[after] - wanted, before, after)
    cuts: list[int] = np.unique(np.concatenate([[0], bounds[nearest], [end]])).tolist()
    return cuts
