"""A data set in the memory of all ranks of a job: every rank holds a shard, and any rank reads any sample."""

from __future__ import annotations

import json
import operator
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from .. import _comm
from .._batch import Batch, sample_of, split_samples
from .._dataset.dataset import Dataset
from .._dataset.opening import heard
from .._dataset.opening import open as open_set
from .._dataset.sample_set import FIELD_BATCH_BYTES, SampleSet
from .._dataset.subset import Subset
from .._forebay import (
    BatchLoader,
    InvalidError,
    LoaderMemory,
    RawBatch,
    RawDraws,
    RawStatistics,
    RawStore,
    RawSubset,
    memory_report,
)
from .._loader.draws import DrawSpec
from .._loader.loader import Loader
from .._sizes import size_of, whole
from .added_arrays import as_stored
from .filling import StoreFilling, fill_options
from .maker import StoreMaker

if TYPE_CHECKING:
    from typing_extensions import Self

_MOST_READ_AT_ONCE = 4096
"""Samples of a field that are read at a time at most, however small they are."""


class Store(SampleSet):
    """A data set in the memory of all ranks: ``width`` ranks hold it between them, and any rank reads any sample by a
    one-sided get, without asking the rank that holds it.

    Making one, :meth:`add`, :meth:`fill`, :meth:`seal` and :meth:`close` are collective: every rank calls them, in the same
    order. :meth:`get`, :meth:`get_batch` and loaders are not.

    Args:
        comm: the ranks: an ``mpi4py`` communicator, or ``None`` for those of the launcher (``torchrun``, ``mpirun``, ``srun``);
            without one, this process alone.
        width: ranks that hold the whole set between them; each further group of as many ranks holds it once more. ``None``
            for all ranks, ``"auto"`` for as few whole hosts as their memory allows, or all ranks where other hosts are nearly as
            near as memory; :meth:`fill` of a data set chooses it, by its size. What :meth:`add` and ``fill(reader=)`` bring first
            is held by all ranks.
        folder: a folder on a disk of the node's own, where shards are kept in files that are mapped: for sets that exceed the
            memory of all ranks. ``None`` for memory.
        limit: the most bytes that this rank's shards may take, such as ``"8GiB"``; by default what the process may take of
            the node's memory.
        memory: bytes for samples and batches on their way to the program.
        data: how bytes of other hosts travel: ``"mpi"``, ``"tcp"``, or ``"auto"`` for MPI where it serves ranks that compute,
            and TCP elsewhere; ``"shm"`` insists on one host. :meth:`stats` says what is in use (``transport``).
    """

    __module__ = "forebay"

    def __init__(
        self,
        comm: Any = None,
        width: int | Literal["auto"] | None = None,
        *,
        folder: str | os.PathLike[str] | None = None,
        limit: int | str | None = None,
        memory: int | str | None = None,
        data: str = "auto",
    ) -> None:
        ranks = _comm.of(comm, data)
        place = None if folder is None else os.path.abspath(os.fspath(folder))
        share = memory_report()["share_bytes"]
        most = size_of(limit, "limit")
        if most is None and place is None:
            most = share
        work = size_of(memory, "memory")
        wanted = width if width is None or width == "auto" else whole("width", width)
        self._comm = ranks
        self._maker = StoreMaker(ranks, wanted, place, most, share // 4 if work is None else work)
        self._filling = StoreFilling(self._maker)
        self.label: str | None = None
        self._files: Dataset | None = None

    @property
    def _raw(self) -> RawStore:
        return self._maker.raw

    @property
    def rank(self) -> int:
        """The number of this rank."""
        return self._comm.rank

    @property
    def world(self) -> int:
        """How many ranks there are."""
        return self._comm.size

    @property
    def width(self) -> int:
        """Ranks of this rank's replica group."""
        return self._raw.member()[1]

    @property
    def fields(self) -> list[str]:
        """The names of the variables."""
        return [name for name, _ in self._raw.variables()]

    @property
    def tiers(self) -> list[dict[str, Any]]:
        """No tiers: it is read from memory."""
        return []

    def __len__(self) -> int:
        """How many samples there are; those of the first variable."""
        return next((count for _, count in self._raw.variables()), 0)

    def open(self, files: Any, *fields: Any, **options: Any) -> Dataset:
        """Opens a data set on all ranks, as :func:`forebay.open` does on one: rank 0 looks patterns up and reads what the files
        say of themselves, and the others hear it from rank 0. Collective.

        With many files, or many chunks, on a file system that all ranks share, that is where the time of opening goes.
        """
        error: Exception | None = None
        opened, message = None, b""
        if self.rank == 0:
            try:
                opened = open_set(files, *fields, **options)
                head = json.dumps({"spec": opened._opened.spec}).encode()
                message = len(head).to_bytes(8, "little") + head + opened._opened.told()
            except Exception as raised:  # told to the other ranks, then raised again
                error = raised
                head = json.dumps({"error": f"{type(error).__name__}: {error}"}).encode()
                message = len(head).to_bytes(8, "little") + head
        message = self._comm.broadcast(0, message)
        if error is not None:
            raise error
        if opened is not None:
            return opened
        length = int.from_bytes(message[:8], "little")
        head = json.loads(message[8 : 8 + length])
        if "error" in head:
            raise InvalidError(f"rank 0 could not open the set: {head['error']}")
        token = heard.set(((head["spec"], ""), message[8 + length :]))
        try:
            return open_set(files, *fields, **options)
        finally:
            heard.reset(token)

    def add(self, name: str, samples: npt.ArrayLike | Sequence[npt.ArrayLike]) -> None:
        """Adds a variable of which each rank brings samples of its own: they follow those of the ranks before it in its group.

        ``samples`` is an array whose first axis counts samples, a list of arrays that differ in the length of one axis, a list of
        texts, or a list of lists of texts. Collective.

        With ``width="auto"`` all ranks hold it between them. Once :meth:`fill` has chosen fewer, this is an error: each of their
        groups would hold another part.
        """
        if self._maker.is_auto and self._maker.made is not None and self.width != self.world:
            raise InvalidError(
                f"{name!r} is added to a store whose width was chosen: groups of {self.width} of {self.world} ranks would hold "
                "different samples\n  hint: give width=, and add on each rank its part of what a group holds"
            )
        self._filling.add(name, samples)

    def fill(
        self,
        dataset: Dataset | Subset | None = None,
        *,
        reader: Callable[[int], Mapping[str, npt.ArrayLike]] | None = None,
        count: int | None = None,
        balance: str = "bytes",
        progress: bool | Callable[[dict[str, Any]], object] | None = None,
        **options: Any,
    ) -> None:
        """Fills the store with the samples of ``dataset``: each rank reads its share, and the file system is read once per
        replica group.

        ``reader`` is for what only your own code can open, such as a pickle per sample: it is called with the numbers of this
        rank's share of ``count`` samples, and gives a dict of arrays. ``balance`` divides samples by their ``"bytes"`` or
        their ``"count"``; samples of a :class:`Subset` are divided by their count. ``progress`` shows a bar on rank 0 (by default on a terminal), or is called with a dict now and
        then. Other options are those of a loader that say how files are read: ``read_threads``, ``transfer_size``.
        Collective.
        """
        if (dataset is None) == (reader is None):
            raise ValueError("give either a data set or reader=")
        is_by_count = by_count(balance)
        if reader is not None:
            if count is None:
                raise ValueError("reader= needs count=, the number of samples of the whole set")
            self._filling.fill_by(reader, whole("count", count), progress)
            return
        if isinstance(dataset, Subset):
            fill_options(options)
            self._filling.fill_with_part(dataset, progress)
            self.label = dataset.label
            return
        if not isinstance(dataset, Dataset):
            raise TypeError(f"{dataset!r} is no data set: give what forebay.open or Store.open made, or reader=")
        self._filling.fill_with_files(dataset, fill_options(options), is_by_count, progress)
        self.label = dataset.label
        self._files = dataset

    def update(self, name: str, samples: npt.ArrayLike | Sequence[npt.ArrayLike], first: int) -> None:
        """Writes samples of this rank anew, from number ``first`` on, until the store is sealed.

        They have the type and the shape of those that are there; of a variable whose samples differ in length, the lengths too.
        """
        described = {field: (code, shape) for field, code, shape, _ in self._raw.fields()}
        if name not in described:
            raise KeyError(f"the store has no variable {name!r}; it has {', '.join(described) or 'none yet'}")
        if described[name][0] == "O":
            raise InvalidError(f"{name!r} holds texts, which are not written anew\n  hint: add a variable of another name")
        arrays = as_stored(name, samples, *described[name])
        number = whole("first", first)
        axis = self._axes.get(name)
        if axis is not None and arrays:
            # What is there says how long samples are.
            end = min(number + len(arrays), self._counted([name])[1])
            lens = Batch._of(self._raw.get([name], list(range(number, end)))).offsets[name]
            given = [array.shape[axis] for array in arrays]
            if np.diff(lens).tolist() != given:
                raise ValueError(f"samples of {name!r} from {number} on have {np.diff(lens).tolist()} rows, and these {given}")
        self._raw.update(name, number, b"".join(array.tobytes() for array in arrays))

    def restripe(self, balance: str = "bytes") -> None:
        """Divides the samples anew among the ranks of each group, evenly by ``"bytes"`` or by ``"count"``. Collective.

        For arrays that ranks added in unequal parts. Until the store is sealed; meanwhile each rank holds both the old
        part and the new one of the variables that were added together.
        """
        self._raw.restripe(by_count(balance))

    def seal(self) -> None:
        """Lets nothing be added or written from now on. Collective."""
        self._raw.seal()

    def get(self, sample: int, field: str | None = None) -> Any:
        """One sample: a dict of arrays, or the array of one ``field``."""
        names, count = self._counted(None if field is None else [field])
        number = operator.index(sample)
        if not -count <= number < count:
            raise IndexError(f"sample {number} of {count}")
        got = sample_of(self._raw.get(names, [number % count]))
        return got if field is None else got[field]

    def get_batch(self, samples: Any, fields: Iterable[str] | None = None) -> Batch:
        """Many samples side by side, in the order asked, each as often as it is asked for.

        ``fields`` names variables, all of them by default, which have to have as many samples as each other.
        """
        return Batch._of(self._raw_batch(samples, fields))

    def _raw_batch(self, samples: Any, fields: Iterable[str] | None = None) -> RawBatch:
        names, count = self._counted(fields)
        numbers = np.asarray(samples if hasattr(samples, "__array__") or isinstance(samples, range) else list(samples))
        if numbers.ndim != 1 or (numbers.size and numbers.dtype.kind not in "iu"):
            raise IndexError("samples are chosen by a list of numbers")
        for number in (numbers.min(), numbers.max()) if numbers.size else ():
            if not -count <= int(number) < count:
                raise IndexError(f"sample {number} of {count}")
        return self._raw.get(names, (numbers.astype(np.int64) % max(count, 1)).tolist())

    def _counted(self, fields: Iterable[str] | None) -> tuple[list[str], int]:
        """The variables ``fields``, or all, and how many samples each of them has."""
        counts = dict(self._raw.variables())
        names = list(counts) if fields is None else list(fields)
        for name in names:
            if name not in counts:
                # An error that says which there are.
                self._raw.samples_of(name, self.rank)
            if counts[name] != counts[names[0]]:
                each = ", ".join(f"{name!r} {counts[name]}" for name in names)
                what = f"these variables have different numbers of samples: {each}"
                raise InvalidError(f"{what}\n  hint: name those that are wanted together")
        return names, counts[names[0]] if names else 0

    def __getitem__(self, sample: int) -> dict[str, Any]:
        got: dict[str, Any] = self.get(sample)
        return got

    def __getitems__(self, samples: Sequence[int]) -> list[dict[str, Any]]:
        """The samples as a list of dicts, fetched together."""
        return split_samples(self.get_batch(samples), self._axes)

    @property
    def _axes(self) -> dict[str, int]:
        """By variable whose samples differ in length, along which axis."""
        return {name: shape.index(None) for name, _, shape, _ in self._raw.fields() if None in shape}

    def _read_through(self, **options: Any) -> Self:
        given = [name for name, value in options.items() if value is not None]
        if given:
            raise ValueError(f"{given[0]}= is of no use: a store is read from memory; give it to the data set that fills it")
        return self

    def loader(self, **options: Any) -> Loader:
        """A loader of these samples on this rank; see :class:`Loader` for what it takes, but for tiers and ``refresh``.

        ``on_lost`` says what is done about samples of a rank that is gone: ``"raise"``, or ``"origin"`` to read them from the
        files the store was filled from.
        """
        return Loader(self, **options)

    @property
    def _base(self) -> Store:
        return self

    @property
    def _file_set(self) -> None:
        return None

    @property
    def _job_shard(self) -> tuple[int, int]:  # type: ignore[override]
        return self.rank, self.world

    def _part_lens(self) -> list[int]:
        if self._files is None:
            raise InvalidError("by='file' needs a store that was filled from a data set of files")
        return self._files._part_lens()

    def _raw_statistics(self, spec: dict[str, Any], options: dict[str, Any], save: bool, part: RawSubset | None) -> RawStatistics:
        # Nothing says whether what was saved is of what it holds: it is measured anew.
        return RawStatistics.of_store(self._raw, spec, options, part)

    def _field_rows(self) -> list[tuple[str, Any, list[int | None], str]]:
        """Name, type for NumPy, shape of a sample and stored type of each variable."""
        return self._raw.fields()

    def _within(self, part: RawSubset, drawn: DrawSpec | None = None) -> Subset:
        return Subset(self, part, drawn)

    def _field_batches(self, field: str, part: RawSubset | None = None) -> Iterator[Batch]:
        count = self._counted([field])[1]
        chosen = np.arange(count) if part is None else np.frombuffer(part.samples(), np.int64)
        start = 0
        while start < len(chosen):
            numbers = chosen[start : start + _MOST_READ_AT_ONCE]
            numbers = numbers[: self._raw.count_within(field, numbers.tolist(), FIELD_BATCH_BYTES)]
            start += len(numbers)
            yield self.get_batch(numbers, [field])

    def _batch_loader(
        self,
        options: dict[str, Any],
        on_lost: str,
        subset: RawSubset | None = None,
        draws: RawDraws | None = None,
        memory: LoaderMemory | None = None,
        transforms: dict[str, Any] | None = None,
    ) -> BatchLoader:
        if on_lost not in ("raise", "origin"):
            raise ValueError(f"on_lost={on_lost!r}; there are 'raise' and 'origin'")
        if on_lost == "origin" and self._files is None:
            raise ValueError("on_lost='origin' needs a store that was filled from a data set of files")
        files = self._files._reader if on_lost == "origin" and self._files is not None else None
        return BatchLoader.of_store(self._raw, self.fields, options, files, subset, draws, memory, transforms)

    def describe(self) -> dict[str, Any]:
        """What there is: the number of samples, type and shape of each variable, ranks and width."""
        fields = {
            name: {"dtype": stored, "numpy": np.dtype(code), "shape": tuple(shape)}
            for name, code, shape, stored in self._raw.fields()
        }
        return {"samples": len(self), "fields": fields, "label": self.label, "rank": self.rank, "world": self.world,
                "width": self.width}  # fmt: skip

    def stats(self) -> dict[str, Any]:
        """What was read from where (``own``, ``same_host``, ``remote``), how long gets and batches took (percentiles in
        nanoseconds), how bytes travel (``transport``) and which ranks are ``gone``."""
        return self._raw.stats()

    def close(self) -> None:
        """Gives all memory back. Collective; may be called more than once."""
        if self._maker.made is not None:
            self._maker.made.close()

    def __enter__(self) -> Store:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        # After an error other ranks may not come: nothing is waited for, and the memory goes with the process.
        if kind is None:
            self.close()

    def __repr__(self) -> str:
        if self._maker.made is None:
            return f"<forebay.Store of nothing yet, rank {self.rank} of {self.world}>"
        try:
            return f"<forebay.Store of {len(self)} samples, rank {self.rank} of {self.world}: {', '.join(self.fields)}>"
        except InvalidError:
            return "<forebay.Store, closed>"

    def __reduce__(self) -> Any:
        raise TypeError(
            "a forebay.Store belongs to its process and cannot be pickled: workers of a DataLoader have to be forked, "
            'multiprocessing_context="fork"'
        )


def by_count(balance: str) -> bool:
    """Whether samples are divided by their count and not by their bytes."""
    if balance not in ("bytes", "count"):
        raise ValueError(f"balance={balance!r}; there are 'bytes' and 'count'")
    return balance == "count"
