"""How samples get into a store: arrays, data sets, and readers of the program."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from .._dataset.dataset import Dataset
from .._dataset.subset import Subset
from .._forebay import InvalidError, RawFilling, RawStore
from .._progress import share_progress
from .._sizes import size_of, whole
from .added_arrays import AddedArrays, is_text
from .exchange import told_by_all
from .maker import StoreMaker

FieldDescription = tuple[Any, Any]
"""The shape of a sample, and ``text`` or ``texts`` where it is one or several."""

_READ_BYTES = 8 << 20
"""Samples of a subset are read in batches of about this many bytes."""


class StoreFilling:
    """Fills the store of ``maker``, which it has made when the width is known. All of it is collective."""

    def __init__(self, maker: StoreMaker) -> None:
        self._maker, self._comm = maker, maker.comm

    def add(self, name: str, samples: Any, described: FieldDescription | None = None) -> None:
        """Adds a variable of which this rank brings ``samples``; ``described`` is what is known of them."""
        arrays: AddedArrays | None = None
        error: Exception | None = None
        try:
            arrays = AddedArrays.of(name, samples) if described is None else AddedArrays.described(name, samples, *described)
        except Exception as raised:  # told to the other ranks, then raised again
            error = raised
        known = told_by_all(self._comm, error, {} if arrays is None else arrays.told())
        assert arrays is not None
        arrays.learn(name, known)
        filling = self._maker.make_for_all().begin(name, arrays.dtype, arrays.shape, arrays.count, arrays.lens, arrays.kind)
        _finish(filling, lambda: arrays.write(filling))

    def fill_with_files(self, dataset: Dataset, options: dict[str, Any], by_count: bool, progress: Any) -> None:
        """Adds the samples of ``dataset``, each rank those of its share, read as ``options`` say."""
        with share_progress(progress, self._comm.rank) as report:

            def fill(made: RawStore) -> None:
                made.fill(dataset._reader, options, by_count, report)

            if self._maker.made is not None:
                fill(self._maker.made)
                return
            made = self._maker.make_for(self._size_of(dataset))
            try:
                fill(made)
            except Exception as error:
                if made.member()[1] == self._comm.size:
                    raise
                # Ranks may fail in different ways: all of them try again, or none.
                told = {"is_full": getattr(error, "kind", None) == "full"}
                known = told_by_all(self._comm, None, told, is_patient=True)
                if not all(one["is_full"] for one in known):
                    raise
                # Texts were longer than a guess, where only reading them shows how long they are.
                self._maker.unmake()
                fill(self._maker.make(None))

    def _size_of(self, dataset: Dataset) -> int:
        """Bytes that ``dataset`` takes at the most, as far as that is known before it is read. Collective."""
        size = 0
        error: Exception | None = None
        try:
            size = dataset._reader.most_nbytes()
        except Exception as raised:  # told to the other ranks, then raised again
            error = raised
        sizes: list[int] = [one["size"] for one in told_by_all(self._comm, error, {"size": size}, is_patient=True)]
        return max(sizes)

    def fill_with_part(self, part: Subset, progress: Any) -> None:
        """Adds the samples of ``part``, read many at a time, with each field as its set describes it. Collective."""
        error: Exception | None = None
        taken: dict[str, Any] = {}
        described: dict[str, FieldDescription] = {}
        count, numbers = len(part), self._share_of(len(part))
        try:
            with share_progress(progress, self._comm.rank) as report:
                described = {
                    name: (shape, stored if code == "O" else None) for name, code, shape, stored in part.base._field_rows()
                }
                taken = _read_share(part, numbers, report)
        except Exception as raised:  # told to the other ranks, then raised again
            error = raised
        self._add_taken(taken, count, error, described)

    def fill_by(self, reader: Callable[[int], Mapping[str, npt.ArrayLike]], count: int, progress: Any) -> None:
        """Adds ``count`` samples, of which ``reader`` gives each rank those of its share."""
        self.fill_own(reader, self._share_of(count), progress, count)

    def _share_of(self, count: int) -> range:
        """Those of ``count`` samples that this rank reads. Collective the first time."""
        # Their bytes are not known before they were read: all ranks hold them between them.
        member, members = self._maker.make_for_all().member()
        return range(count * member // members, count * (member + 1) // members)

    def fill_own(
        self, reader: Callable[[int], Mapping[str, npt.ArrayLike]], numbers: range, progress: Any, count: int | None = None
    ) -> None:
        """Adds the samples ``numbers`` of this rank, as ``reader`` gives them; ``count`` is the same on all. Collective."""
        error: Exception | None = None
        taken: dict[str, list[Any]] = {}
        try:
            with share_progress(progress, self._comm.rank) as report:
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
        known = told_by_all(self._comm, error, {"fields": list(taken), "count": count}, is_patient=True)
        if any(one["count"] != count for one in known):
            raise InvalidError(f"ranks fill the store with {sorted({one['count'] for one in known})} samples: give all the same count=")
        having = [(rank, one["fields"]) for rank, one in enumerate(known) if one["fields"]]
        for rank, fields in having:
            if set(fields) != set(having[0][1]):
                first, expected = having[0]
                raise InvalidError(f"samples of rank {rank} have the fields {fields}, and those of rank {first} {expected}")
        for name in having[0][1] if having else ():
            self.add(name, taken.pop(name, []), described[name] if described else None)


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


def _finish(filling: RawFilling, write: Callable[[], None]) -> None:
    """Writes, and tells all ranks whether it could be done."""
    try:
        write()
    except Exception as error:
        filling.finish(f"{type(error).__name__}: {error}")
        raise
    filling.finish()


def fill_options(options: dict[str, Any]) -> dict[str, Any]:
    """The options of ``Store.fill`` that say how files are read; others are an error."""
    known = {"read_threads", "transfer_size", "memory"}
    if unknown := options.keys() - known:
        raise TypeError(f"fill() got an unexpected keyword argument {sorted(unknown)[0]!r}")
    threads = options.get("read_threads")
    return {
        "read_threads": None if threads is None else whole("read_threads", threads),
        "transfer_size": size_of(options.get("transfer_size"), "transfer_size"),
        "memory": size_of(options.get("memory"), "memory"),
    }
