"""A data set in the memory of all ranks of a job: every rank holds a shard, and any rank reads any sample."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from . import _comm
from ._batch import Batch, sample_of, split_samples
from ._forebay import BatchLoader, InvalidError, RawBatch, RawFilling, RawStore, memory_report
from ._loader import Loader
from ._progress import share_progress
from ._sizes import size_of, whole

if TYPE_CHECKING:
    from ._dataset import Dataset

_WRITE_BYTES = 8 << 20
"""Samples are handed over in pieces of this many bytes."""


class Store:
    """A data set in the memory of all ranks: ``width`` ranks hold it between them, and any rank reads any sample by a
    one-sided get, without asking the rank that holds it.

    Making one, :meth:`add`, :meth:`fill`, :meth:`seal` and :meth:`close` are collective: every rank calls them, in the same
    order. :meth:`get`, :meth:`get_batch` and loaders are not.

    Args:
        comm: the ranks: an ``mpi4py`` communicator, or ``None`` for those of the launcher (``torchrun``, ``mpirun``, ``srun``);
            without one, this process alone.
        width: ranks that hold the whole set between them; each further group of as many ranks holds it once more. ``None``
            for all ranks, ``"auto"`` for as few whole hosts as their memory allows, or all ranks where other hosts are nearly as
            near as memory; it is chosen by the size of what is added first.
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
        self._comm = _comm.of(comm, data)
        place = None if folder is None else os.path.abspath(os.fspath(folder))
        share = json.loads(memory_report())["share_bytes"]
        most = size_of(limit, "limit")
        if most is None and place is None:
            most = share
        work = size_of(memory, "memory")
        self._made: RawStore | None = None
        self._place, self._limit, self._memory = place, most, share // 4 if work is None else work
        if width != "auto":
            self._make(None if width is None else whole("width", width))
        self.label: str | None = None
        self._files: Dataset | None = None

    def _make(self, width: int | None) -> RawStore:
        self._made = RawStore(self._comm, width, self._place, self._limit, self._memory)
        return self._made

    def _make_for(self, size: int) -> RawStore:
        """The store, whose width is chosen for a set of ``size`` bytes if it was not given. Collective the first time."""
        if self._made is not None:
            return self._made
        most = (1 << 62) if self._limit is None else self._limit
        return self._make(self._comm.auto_width(size, most))

    @property
    def _raw(self) -> RawStore:
        if self._made is None:
            raise InvalidError("the store is empty: its width is chosen when it is filled")
        return self._made

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

    def add(self, name: str, samples: npt.ArrayLike | Sequence[npt.ArrayLike]) -> None:
        """Adds a variable of which each rank brings samples of its own: they follow those of the ranks before it in its group.

        ``samples`` is an array whose first axis counts samples, or a list of arrays that differ in the length of one axis.
        Collective.
        """
        arrays = _Arrays.of(name, samples)
        # A rank without samples cannot know their type and shape: it takes those of one that has some.
        known = [json.loads(told) for told in self._comm.all_gather(arrays.told().encode())]
        arrays.learn(known)
        filling = self._make_for(sum(one["bytes"] for one in known)).begin(name, arrays.dtype, arrays.shape, arrays.count, arrays.lens)
        _finish(filling, lambda: arrays.write(filling))

    def open(self, files: Any, *fields: Any, **options: Any) -> Dataset:
        """Opens a data set on all ranks, as :func:`forebay.open` does on one: rank 0 looks patterns up and reads what the files
        say of themselves, and the others hear it from rank 0. Collective.

        With many files, or many chunks, on a file system that all ranks share, that is where the time of opening goes.
        """
        from ._dataset import heard
        from ._dataset import open as open_set

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

    def fill(
        self,
        dataset: Dataset | None = None,
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
        their ``"count"``. ``progress`` shows a bar on rank 0 (by default on a terminal), or is called with a dict now and
        then. Other options are those of a loader that say how files are read: ``read_threads``, ``transfer_size``.
        Collective.
        """
        if (dataset is None) == (reader is None):
            raise ValueError("give either a data set or reader=")
        by_count = _by_count(balance)
        if reader is not None:
            if count is None:
                raise ValueError("reader= needs count=, the number of samples of the whole set")
            self._fill_by(reader, whole("count", count), progress)
            return
        assert dataset is not None
        with share_progress(progress, self.rank) as report:
            self._make_for(dataset.nbytes).fill(dataset._reader, _fill_options(options), by_count, report)
        self.label = dataset.label
        self._files = dataset

    def _fill_by(self, reader: Callable[[int], Mapping[str, npt.ArrayLike]], count: int, progress: Any) -> None:
        # Its bytes are not known before it was read: all ranks hold it between them.
        member, members = (self._made or self._make(None)).member()
        first, end = count * member // members, count * (member + 1) // members
        error: BaseException | None = None
        taken: dict[str, list[npt.NDArray[Any]]] = {}
        try:
            with share_progress(progress, self.rank) as report:
                size = 0
                for number in range(first, end):
                    sample = {name: np.asarray(value) for name, value in reader(number).items()}
                    if taken and sample.keys() != taken.keys():
                        raise ValueError(f"sample {number} has the fields {list(sample)}, and others have {list(taken)}")
                    for name, array in sample.items():
                        taken.setdefault(name, []).append(array)
                        size += array.nbytes
                    if report is not None:
                        report(number + 1 - first, end - first, size)
        except BaseException as raised:  # told to the other ranks, then raised again
            error = raised
        told = {"error": None if error is None else f"{type(error).__name__}: {error}", "names": list(taken)}
        known = [json.loads(one) for one in self._comm.all_gather(json.dumps(told).encode())]
        if error is not None:
            raise error
        failed = [(rank, one["error"]) for rank, one in enumerate(known) if one["error"] is not None]
        if failed:
            raise InvalidError(f"rank {failed[0][0]} could not read its share: {failed[0][1]}")
        names = next((one["names"] for one in known if one["names"]), [])
        for name in names:
            self.add(name, taken.pop(name, []))

    def update(self, name: str, samples: npt.ArrayLike, first: int) -> None:
        """Writes samples of this rank anew, from number ``first`` on, until the store is sealed."""
        described = {field: (code, shape) for field, code, shape, _ in self._raw.fields()}
        if name not in described:
            raise KeyError(f"the store has no variable {name!r}; it has {', '.join(described) or 'none yet'}")
        array = np.ascontiguousarray(samples, np.dtype(described[name][0]).newbyteorder("="))
        self._raw.update(name, whole("first", first), array.tobytes())

    def restripe(self, balance: str = "bytes") -> None:
        """Divides the samples anew among the ranks of each group, evenly by ``"bytes"`` or by ``"count"``. Collective.

        For arrays that ranks added in unequal parts. Until the store is sealed; meanwhile each rank holds both the old
        part and the new one of the variables that were added together.
        """
        self._raw.restripe(_by_count(balance))

    def seal(self) -> None:
        """Lets nothing be added or written from now on. Collective."""
        self._raw.seal()

    def get(self, sample: int, field: str | None = None) -> Any:
        """One sample: a dict of arrays, or the array of one ``field``."""
        names = self.fields if field is None else [field]
        got = sample_of(self._raw.get(names, [self._checked(sample)]))
        return got if field is None else got[field]

    def get_batch(self, samples: Any, fields: Iterable[str] | None = None) -> Batch:
        """Many samples side by side, in the order asked, each as often as it is asked for."""
        numbers = np.asarray(samples if hasattr(samples, "__array__") or isinstance(samples, range) else list(samples))
        if numbers.ndim != 1 or (numbers.size and numbers.dtype.kind not in "iu"):
            raise IndexError("samples are chosen by a list of numbers")
        count = len(self)
        for number in (numbers.min(), numbers.max()) if numbers.size else ():
            if not -count <= int(number) < count:
                raise IndexError(f"sample {number} of {count}")
        names = self.fields if fields is None else list(fields)
        return Batch._of(self._raw.get(names, (numbers.astype(np.int64) % max(count, 1)).tolist()))

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

    def _raw_batch(self, numbers: list[int]) -> RawBatch:
        return self._raw.get(self.fields, numbers)

    def _checked(self, sample: int) -> int:
        count = len(self)
        if not -count <= sample < count:
            raise IndexError(f"sample {sample} of {count}")
        return int(sample) % count

    def _read_through(self, **options: Any) -> Store:
        given = [name for name, value in options.items() if value is not None]
        if given:
            raise ValueError(f"{given[0]}= is of no use: a store is read from memory; give it to the data set that fills it")
        return self

    def loader(self, **options: Any) -> Loader:
        """A loader of these samples on this rank; see :class:`Loader` for what it takes, but for tiers and ``refresh``.

        ``on_lost`` says what is done about samples of a rank that is gone: ``"raise"``, or ``"origin"`` to read them from the
        files the store was filled from.
        """
        return Loader(self, **{"rank": self.rank, "world": self.world, **options})

    def _batch_loader(self, options: str, on_lost: str) -> BatchLoader:
        if on_lost not in ("raise", "origin"):
            raise ValueError(f"on_lost={on_lost!r}; there are 'raise' and 'origin'")
        if on_lost == "origin" and self._files is None:
            raise ValueError("on_lost='origin' needs a store that was filled from a data set of files")
        files = self._files._reader if on_lost == "origin" and self._files is not None else None
        return BatchLoader.of_store(self._raw, self.fields, options, files)

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
        stats: dict[str, Any] = json.loads(self._raw.stats())
        return stats

    def close(self) -> None:
        """Gives all memory back. Collective; may be called more than once."""
        if self._made is not None:
            self._made.close()

    def __enter__(self) -> Store:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        # After an error other ranks may not come: nothing is waited for, and the memory goes with the process.
        if kind is None:
            self.close()

    def __repr__(self) -> str:
        try:
            return f"<forebay.Store of {len(self)} samples, rank {self.rank} of {self.world}: {', '.join(self.fields)}>"
        except InvalidError:
            return "<forebay.Store, closed>"

    def __reduce__(self) -> Any:
        raise TypeError("a forebay.Store belongs to its process: workers of a DataLoader get it by fork, not by pickling")


class _Arrays:
    """Samples that a rank adds: one array, or arrays that differ along one axis."""

    def __init__(self, dtype: Any, shape: Any, count: int, lens: list[int] | None, values: Any) -> None:
        self.dtype, self.shape, self.count, self.lens, self._values = dtype, shape, count, lens, values
        self._nbytes = sum(one.nbytes for one in values) if isinstance(values, list) else values.nbytes

    @classmethod
    def of(cls, name: str, samples: Any) -> _Arrays:
        if isinstance(samples, (list, tuple)):
            return cls._of_list(name, [np.asarray(one) for one in samples])
        array = np.asarray(samples)
        if array.ndim == 0:
            raise ValueError(f"{name!r} is one number: give an array whose first axis counts samples")
        return cls(array.dtype, list(array.shape[1:]), len(array), None, array)

    @classmethod
    def _of_list(cls, name: str, parts: list[npt.NDArray[Any]]) -> _Arrays:
        if not parts:
            return cls(None, None, 0, None, [])
        dtypes, ndims = {part.dtype for part in parts}, {part.ndim for part in parts}
        if len(dtypes) > 1 or len(ndims) > 1:
            raise ValueError(f"samples of {name!r} have different types or numbers of axes: {dtypes}, {ndims}")
        shapes = np.array([part.shape for part in parts], np.int64).reshape(len(parts), -1)
        differing = np.flatnonzero((shapes != shapes[0]).any(axis=0)).tolist()
        if len(differing) > 1:
            raise ValueError(f"samples of {name!r} differ along the axes {differing}: one alone may differ")
        shape: list[int | None] = shapes[0].tolist()
        lens = None
        if differing:
            shape[differing[0]] = None
            lens = shapes[:, differing[0]].tolist()
        return cls(parts[0].dtype, shape, len(parts), lens, parts)

    def told(self) -> str:
        """What other ranks need to know."""
        return json.dumps({"dtype": None if self.dtype is None else _code(self.dtype), "shape": self.shape, "bytes": self._nbytes})

    def learn(self, known: list[dict[str, Any]]) -> None:
        """Takes the type and shape that all ranks agree on: an axis that differs on one rank, or between ranks, differs."""
        known = [one for one in known if one["dtype"] is not None]
        if not known:
            raise ValueError("no rank brings a sample, so that its type is not known")
        if self.dtype is None:
            self.dtype = np.dtype(_from_code(known[0]["dtype"]))
        shapes = [one["shape"] for one in known]
        joined = list(shapes[0])
        for shape in shapes:
            if len(shape) == len(joined):
                joined = [a if a == b else None for a, b in zip(joined, shape)]
        if self.shape is None:
            self.shape, self.lens = joined, None if None not in joined else []
        elif joined.count(None) == 1 and None not in self.shape:
            # All samples of this rank are alike, and those of another are not.
            axis = joined.index(None)
            self.lens = [self.shape[axis]] * self.count
            self.shape = joined

    def write(self, filling: RawFilling) -> None:
        first, _ = filling.share()
        native = np.dtype(self.dtype).newbyteorder("=")
        if isinstance(self._values, list):
            for number, sample in enumerate(self._values, first):
                filling.write(number, np.ascontiguousarray(sample, native).tobytes())
            return
        step = max(1, _WRITE_BYTES // max(1, self._values[:1].nbytes))
        for at in range(0, len(self._values), step):
            piece = np.ascontiguousarray(self._values[at : at + step], native)
            filling.write(first + at, piece.tobytes())


def _by_count(balance: str) -> bool:
    """Whether samples are divided by their count and not by their bytes."""
    if balance not in ("bytes", "count"):
        raise ValueError(f"balance={balance!r}; there are 'bytes' and 'count'")
    return balance == "count"


def _code(dtype: Any) -> Any:
    return np.lib.format.dtype_to_descr(np.dtype(dtype))


def _from_code(code: Any) -> Any:
    if isinstance(code, list):
        return [tuple(tuple(item) if isinstance(item, list) else item for item in field) for field in code]
    return code


def _finish(filling: RawFilling, write: Callable[[], None]) -> None:
    """Writes, and tells all ranks whether it could be done."""
    try:
        write()
    except BaseException as error:
        filling.finish(f"{type(error).__name__}: {error}")
        raise
    filling.finish()


def _fill_options(options: dict[str, Any]) -> str:
    known = {"read_threads", "transfer_size", "memory"}
    if unknown := options.keys() - known:
        raise TypeError(f"fill() got an unexpected keyword argument {sorted(unknown)[0]!r}")
    threads = options.get("read_threads")
    return json.dumps(
        {
            "read_threads": None if threads is None else whole("read_threads", threads),
            "transfer_size": size_of(options.get("transfer_size"), "transfer_size"),
            "memory": size_of(options.get("memory"), "memory"),
        }
    )
