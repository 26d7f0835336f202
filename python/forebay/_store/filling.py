"""How samples get into a store: arrays, data sets, and readers of the program."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from .._batch import Batch
from .._dataset.dataset import Dataset
from .._dataset.subset import Subset
from .._forebay import InvalidError, RawComm, RawFilling, RawStore
from .._progress import share_progress
from .._sizes import size_of, whole
from .added_arrays import AddedArrays, as_stored, is_text

FieldDescription = tuple[Any, Any]
"""The shape of a sample, and ``text`` or ``texts`` where it is one or several."""

_READ_BYTES = 8 << 20
"""Samples of a subset are read in batches of about this many bytes."""


class StoreFilling:
    """What a :class:`Store` does until it holds its samples. All of it is collective but :meth:`update`."""

    label: str | None
    _comm: RawComm
    _made: RawStore | None
    _is_auto: bool
    _files: Dataset | None

    def _make(self, width: int | None) -> RawStore:
        raise NotImplementedError

    def _make_for(self, size: int) -> RawStore:
        raise NotImplementedError

    def _unmake(self) -> None:
        raise NotImplementedError

    @property
    def _raw(self) -> RawStore:
        raise NotImplementedError

    @property
    def _axes(self) -> dict[str, int]:
        raise NotImplementedError

    def _counted(self, fields: Iterable[str] | None) -> tuple[list[str], int]:
        raise NotImplementedError

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

    def add(self, name: str, samples: npt.ArrayLike | Sequence[npt.ArrayLike]) -> None:
        """Adds a variable of which each rank brings samples of its own: they follow those of the ranks before it in its group.

        ``samples`` is an array whose first axis counts samples, a list of arrays that differ in the length of one axis, a list of
        texts, or a list of lists of texts. Collective.

        With ``width="auto"`` all ranks hold it between them. Once :meth:`fill` has chosen fewer, this is an error: each of their
        groups would hold another part.
        """
        if self._is_auto and self._made is not None and self.width != self.world:
            raise InvalidError(
                f"{name!r} is added to a store whose width was chosen: groups of {self.width} of {self.world} ranks would hold "
                "different samples\n  hint: give width=, and add on each rank its part of what a group holds"
            )
        self._add(name, samples)

    def _add(self, name: str, samples: Any, described: FieldDescription | None = None) -> None:
        arrays: AddedArrays | None = None
        error: Exception | None = None
        try:
            arrays = AddedArrays.of(name, samples) if described is None else AddedArrays.described(name, samples, *described)
        except Exception as raised:  # told to the other ranks, then raised again
            error = raised
        known = self._told_by_all(error, {} if arrays is None else arrays.told())
        assert arrays is not None
        arrays.learn(name, known)
        made = self._made or self._make(None)
        filling = made.begin(name, arrays.dtype, arrays.shape, arrays.count, arrays.lens, arrays.kind)
        _finish(filling, lambda: arrays.write(filling))

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
        by_count = _by_count(balance)
        if reader is not None:
            if count is None:
                raise ValueError("reader= needs count=, the number of samples of the whole set")
            self._fill_by(reader, whole("count", count), progress)
            return
        if isinstance(dataset, Subset):
            _fill_options(options)
            self._fill_with_part(dataset, progress)
            self.label = dataset.label
            return
        if not isinstance(dataset, Dataset):
            raise TypeError(f"{dataset!r} is no data set: give what forebay.open or Store.open made, or reader=")
        with share_progress(progress, self.rank) as report:
            self._fill_with_files(dataset, (_fill_options(options), by_count, report))
        self.label = dataset.label
        self._files = dataset

    def _fill_with_files(self, dataset: Dataset, options: tuple[str, bool, Any]) -> None:
        if self._made is not None:
            self._made.fill(dataset._reader, *options)
            return
        made = self._make_for(self._size_of(dataset))
        try:
            made.fill(dataset._reader, *options)
        except Exception as error:
            if self.width == self.world:
                raise
            # Ranks may fail in different ways: all of them try again, or none.
            known = self._told_by_all(None, {"is_full": getattr(error, "kind", None) == "full"}, is_patient=True)
            if not all(one["is_full"] for one in known):
                raise
            # Texts were longer than a guess, where only reading them shows how long they are.
            self._unmake()
            self._make(None).fill(dataset._reader, *options)

    def _size_of(self, dataset: Dataset) -> int:
        """Bytes that ``dataset`` takes at the most, as far as that is known before it is read. Collective."""
        size = 0
        error: Exception | None = None
        try:
            size = dataset._reader.most_nbytes()
        except Exception as raised:  # told to the other ranks, then raised again
            error = raised
        sizes: list[int] = [one["size"] for one in self._told_by_all(error, {"size": size}, is_patient=True)]
        return max(sizes)

    def _fill_with_part(self, part: Subset, progress: Any) -> None:
        """Adds the samples of ``part``, read many at a time, with each field as its set describes it. Collective."""
        error: Exception | None = None
        taken: dict[str, Any] = {}
        described: dict[str, FieldDescription] = {}
        count, numbers = len(part), self._share_of(len(part))
        try:
            with share_progress(progress, self.rank) as report:
                described = {
                    name: (shape, stored if code == "O" else None) for name, code, shape, stored in part.base._field_rows()
                }
                taken = _read_share(part, numbers, report)
        except Exception as raised:  # told to the other ranks, then raised again
            error = raised
        self._add_taken(taken, count, error, described)

    def _fill_by(self, reader: Callable[[int], Mapping[str, npt.ArrayLike]], count: int, progress: Any) -> None:
        self._fill_own(reader, self._share_of(count), progress, count)

    def _share_of(self, count: int) -> range:
        """Those of ``count`` samples that this rank reads. Collective the first time."""
        # Their bytes are not known before they were read: all ranks hold them between them.
        member, members = (self._made or self._make(None)).member()
        return range(count * member // members, count * (member + 1) // members)

    def _fill_own(
        self, reader: Callable[[int], Mapping[str, npt.ArrayLike]], numbers: range, progress: Any, count: int | None = None
    ) -> None:
        """Adds the samples ``numbers`` of this rank, as ``reader`` gives them; ``count`` is the same on all. Collective."""
        error: Exception | None = None
        taken: dict[str, list[Any]] = {}
        try:
            with share_progress(progress, self.rank) as report:
                size = 0
                for done, number in enumerate(numbers, 1):
                    read = reader(number)
                    if not isinstance(read, Mapping):
                        raise TypeError(f"reader({number}) gives {type(read).__name__}, and not a dict of arrays")
                    sample: dict[str, Any] = {name: value if is_text(value) else np.asarray(value) for name, value in read.items()}
                    if not sample:
                        raise ValueError(f"sample {number} has no fields")
                    if taken and sample.keys() != taken.keys():
                        raise ValueError(f"sample {number} has the fields {list(sample)}, and others have {list(taken)}")
                    for name, value in sample.items():
                        taken.setdefault(name, []).append(value)
                        size += len("".join(value)) if is_text(value) else value.nbytes
                    if report is not None:
                        report(done, len(numbers), size)
        except Exception as raised:  # told to the other ranks, then raised again
            error = raised
        self._add_taken(taken, count, error)

    def _add_taken(
        self,
        taken: dict[str, Any],
        count: int | None,
        error: Exception | None,
        described: Mapping[str, FieldDescription] | None = None,
    ) -> None:
        """Adds what this rank has read, by field, unless it has an ``error``. Collective."""
        known = self._told_by_all(error, {"fields": list(taken), "count": count}, is_patient=True)
        if any(one["count"] != count for one in known):
            raise InvalidError(f"ranks fill the store with {sorted({one['count'] for one in known})} samples: give all the same count=")
        having = [(rank, one["fields"]) for rank, one in enumerate(known) if one["fields"]]
        for rank, fields in having:
            if set(fields) != set(having[0][1]):
                first, expected = having[0]
                raise InvalidError(f"samples of rank {rank} have the fields {fields}, and those of rank {first} {expected}")
        for name in having[0][1] if having else ():
            self._add(name, taken.pop(name, []), described[name] if described else None)

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
        self._raw.restripe(_by_count(balance))

    def _told_by_all(self, error: Exception | None, told: dict[str, Any], is_patient: bool = False) -> list[dict[str, Any]]:
        """What every rank tells the others, unless one of them has an ``error``: then that is raised on all. Collective.

        After work that takes some ranks longer than others, ``is_patient`` waits as long as they live.
        """
        mine = {**told, "error": None if error is None else f"{type(error).__name__}: {error}"}
        told_by = self._comm.all_gather(json.dumps(mine).encode(), is_patient)
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


def _read_share(part: Subset, numbers: range, report: Callable[[int, int, int], object] | None) -> dict[str, Any]:
    """The samples ``numbers`` of ``part`` by field: an array, or a list where they differ in length."""
    taken: dict[str, Any] = {}
    done = size = 0
    step = 16
    while done < len(numbers):
        chosen = numbers[done : done + step]
        batch = part.batch(slice(chosen.start, chosen.stop))
        for name, value in batch.items():
            if isinstance(value, list):
                taken.setdefault(name, []).extend(value)
                size += sum(len("".join(one)) for one in value)
            elif name in batch.offsets:
                # The memory of the batch is used again.
                taken.setdefault(name, []).extend(one.copy() for one in batch.parts(name))
                size += value.nbytes
            else:
                if name not in taken:
                    taken[name] = np.empty((len(numbers), *value.shape[1:]), value.dtype)
                taken[name][done : done + len(value)] = value
                size += value.nbytes
        done += len(chosen)
        # As many as the samples so far let expect to be of this length.
        step = min(max(_READ_BYTES * done // max(size, 1), 1), 4096)
        if report is not None:
            report(done, len(numbers), size)
    return taken


def _by_count(balance: str) -> bool:
    """Whether samples are divided by their count and not by their bytes."""
    if balance not in ("bytes", "count"):
        raise ValueError(f"balance={balance!r}; there are 'bytes' and 'count'")
    return balance == "count"


def _finish(filling: RawFilling, write: Callable[[], None]) -> None:
    """Writes, and tells all ranks whether it could be done."""
    try:
        write()
    except Exception as error:
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
