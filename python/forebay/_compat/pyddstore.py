"""DDStore's store of rows."""

from __future__ import annotations

import operator
import time
import warnings
from typing import Any

import numpy as np
import numpy.typing as npt

from .._batch import Batch
from .._forebay import ForebayWarning, InvalidError
from .._sizes import whole
from .._store.exchange import told_by_all
from .._store.store import Store

_METHODS = {1: "libfabric", 2: "a handshake by files"}


class PyDDStore:
    """Rows of named variables, spread over the ranks of ``comm``.

    Takes what today's ``PyDDStore(comm_or_none=None, method=0, handshake_dir="", n_core=0, nic_map=None)`` takes, and
    ``PyDDStore(comm, method, ddstore_width)`` of the paper's time: a third positional argument that is a number is the width.
    Transports that ``method`` names are replaced by ours, with a warning.
    """

    __module__ = "forebay.pyddstore"

    def __init__(
        self,
        comm_or_none: Any = None,
        method: int = 0,
        handshake_dir: Any = "",
        n_core: int = 0,
        nic_map: Any = None,
        *,
        comm: Any = None,
        ddstore_width: int | None = None,
    ) -> None:
        if isinstance(handshake_dir, (int, np.integer)) and not isinstance(handshake_dir, bool):
            ddstore_width, handshake_dir = int(handshake_dir), ""
        ranks = comm if comm_or_none is None else comm_or_none
        if method == 2 and ranks is None:
            raise InvalidError(_OF_ANOTHER_JOB)
        if method in _METHODS:
            what = f"method={method} ({_METHODS[method]}) is replaced by forebay's own transport"
            warnings.warn(what, ForebayWarning, stacklevel=2)
        elif method != 0:
            raise ValueError(f"method={method}; there are 0, 1 and 2")
        unused = [name for name, value in (("nic_map", nic_map), ("n_core", n_core)) if value]
        if unused:
            warnings.warn(f"{', '.join(unused)} of PyDDStore have no effect here", ForebayWarning, stacklevel=2)
        self._store = Store(ranks, ddstore_width)
        # Rows of all ranks, elements of a row and bytes of an element.
        self._rows: dict[str, tuple[int, int, int]] = {}
        self._reads: dict[str, _Reads] = {}
        self._is_sealed = False

    @property
    def store(self) -> Store:
        """The store itself."""
        return self._store

    def add(self, name: str, arr: Any) -> None:
        """Adds the rows of this rank, none or more; those of all ranks follow each other. Collective."""
        rows: npt.NDArray[Any] | None = None
        error: Exception | None = None
        try:
            rows = _source(name, arr)
        except Exception as raised:  # told to the other ranks, then raised again
            error = raised
        self._add(name, rows, _row(rows) if rows is not None else (0, 0), error)

    def init(self, name: str, nrows: int, disp: int, itemsize: int = 1) -> None:
        """Makes room for rows of this rank, all zero, for :meth:`update`. Collective."""
        row = whole("disp", disp), whole("itemsize", itemsize)
        self._add(name, np.zeros((whole("nrows", nrows), row[0] * row[1]), np.uint8), row, None)

    def _add(self, name: str, rows: npt.NDArray[Any] | None, row: tuple[int, int], error: Exception | None) -> None:
        told = told_by_all(self._store._comm, error, {"count": 0 if rows is None else len(rows), "row": row})
        assert rows is not None
        # A rank without rows has any type: it takes that of the others.
        having = [one for one in enumerate(told) if one[1]["count"]] or list(enumerate(told))
        first, (disp, itemsize) = having[0][0], having[0][1]["row"]
        for rank, one in having:
            if one["row"] != [disp, itemsize]:
                mine, theirs = f"{disp} elements of {itemsize} bytes", "{} elements of {} bytes".format(*one["row"])
                raise InvalidError(f"ranks add different rows of {name!r}: rank {first} {mine}, rank {rank} {theirs}")
        self._store.add(name, rows.reshape(-1).view(np.uint8).reshape(len(rows), disp * itemsize))
        self._rows[name] = self._store._counted([name])[1], disp, itemsize

    def update(self, name: str, arr: Any, offset: int = 0) -> None:
        """Writes rows of this rank anew, from its row ``offset`` on; an error after the first ``epoch_begin``."""
        rows = _source(name, arr)
        self._check(name, rows)
        first, _ = self._store._raw.samples_of(name, self._store.rank)
        self._store._raw.update(name, first + whole("offset", offset), rows.tobytes())

    def get(self, name: str, arr: Any, start: int = 0) -> None:
        """Reads consecutive rows from ``start`` on into ``arr``, as many as it has: an array or a tensor of the host, whose rows
        follow each other in memory."""
        began = time.perf_counter()
        into = _destination(arr)
        total = self._check(name, into)
        first, count = operator.index(start), len(into)
        if not 0 <= first <= total - count:
            raise IndexError(f"rows {first} to {first + count} of {total} of {name!r}")
        self._store._raw.get_range(name, first, count, (into.__array_interface__["data"][0], into.nbytes))
        self._note(name, count, began)

    def get_batch(self, name: str, arr: Any, indices: Any) -> None:
        """Reads the rows ``indices`` into ``arr``: any order, any ranks, repeats allowed. Not collective."""
        began = time.perf_counter()
        into = _destination(arr)
        total = self._check(name, into)
        numbers = np.asarray(indices)
        if numbers.ndim != 1 or (numbers.size and numbers.dtype.kind not in "iu"):
            raise TypeError("rows are chosen by a list of numbers")
        if len(into) != len(numbers):
            raise ValueError(f"{len(numbers)} rows for an array of {len(into)}")
        for number in (numbers.min(), numbers.max()) if numbers.size else ():
            if not 0 <= int(number) < total:
                raise IndexError(f"row {number} of {total} of {name!r}")
        if numbers.size:
            rows = Batch._of(self._store._raw.get([name], numbers.tolist()))[name]
            into.reshape(-1).view(np.uint8)[:] = rows.reshape(-1).view(np.uint8)
        self._note(name, len(numbers), began)

    def _check(self, name: str, rows: npt.NDArray[Any]) -> int:
        """How many rows there are, where those of the array are alike."""
        total, *row = self.info(name)
        if (own := _row(rows)) != tuple(row):
            each = "{} elements of {} bytes"
            raise ValueError(f"rows of {name!r} are {each.format(*row)}, those of the array {each.format(*own)}")
        return total

    def info(self, name: str) -> tuple[int, int, int]:
        """Rows of all ranks, elements of a row, and bytes of an element."""
        if name not in self._rows:
            self._rows[name] = self._described(name)
        return self._rows[name]

    def _described(self, name: str) -> tuple[int, int, int]:
        """The rows of a variable that was added to the store itself, as those of a data set are."""
        fields = {field: (code, shape) for field, code, shape, _ in self._store._raw.fields()}
        if name not in fields:
            raise KeyError(f"no variable {name!r}; there are {', '.join(fields) or 'none yet'}")
        code, shape = fields[name]
        if None in shape:
            raise InvalidError(f"rows of {name!r} differ in length: read them from the store")
        sizes = [size for size in shape if size is not None]
        return self._store._counted([name])[1], int(np.prod(sizes, dtype=np.int64)), np.dtype(code).itemsize

    def register_recv(self, name: str, arr: Any) -> None:
        """Nothing: any memory can be read into."""

    def unregister_recv(self, name: str, arr: Any) -> None:
        """Nothing: any memory can be read into."""

    def join(self, name: str) -> None:
        """An error: a store belongs to one job."""
        raise InvalidError(_OF_ANOTHER_JOB)

    def _note(self, name: str, rows: int, began: float) -> None:
        reads = self._reads.setdefault(name, _Reads())
        reads.calls += 1
        reads.rows += rows
        reads.seconds += time.perf_counter() - began

    def get_profile(self, name: str | None = None) -> dict[str, Any]:
        """What was read of ``name``, or of all variables: ``calls``, ``rows`` and the seconds they took (``read``); ``py_gets`` and
        ``py_get`` are calls and seconds over all variables. Locks, registered memory and queues there are none, so that what
        DDStore says of these is 0. The rest is what :meth:`forebay.Store.stats` says."""
        if name is not None:
            self.info(name)
        chosen = [reads for of, reads in self._reads.items() if name in (None, of)]
        return {
            "calls": sum(one.calls for one in chosen),
            "rows": sum(one.rows for one in chosen),
            "read": sum(one.seconds for one in chosen),
            "py_gets": sum(one.calls for one in self._reads.values()),
            "py_get": sum(one.seconds for one in self._reads.values()),
            **dict.fromkeys(("lock_wait", "mr", "cq", "py_sync"), 0.0),
            "mr_miss": 0,
            **self._store.stats(),
        }

    def epoch_begin(self) -> None:
        """Seals the store the first time; otherwise nothing. Collective the first time."""
        if not self._is_sealed:
            self._store.seal()
            self._is_sealed = True

    def epoch_end(self) -> None:
        """Nothing: gets need no fence."""

    def free(self) -> None:
        """Gives all memory back. Collective; may be called more than once."""
        self._store.close()


_OF_ANOTHER_JOB = (
    "this would join the store of another job\n  hint: a forebay.Store belongs to one job; run its readers as ranks of it"
)


class _Reads:
    """What was read of a variable."""

    def __init__(self) -> None:
        self.calls = self.rows = 0
        self.seconds = 0.0


def _row(rows: npt.NDArray[Any]) -> tuple[int, int]:
    """Elements of a row, and bytes of an element."""
    return int(np.prod(rows.shape[1:], dtype=np.int64)), rows.itemsize


def _source(name: str, arr: Any) -> npt.NDArray[Any]:
    """The rows of ``arr``, one after the other and in native byte order."""
    array = arr.detach().cpu().numpy() if hasattr(arr, "detach") else np.asarray(arr)
    if array.ndim == 0:
        raise ValueError(f"{name!r} is one number: give an array whose first axis counts rows")
    if array.dtype.hasobject:
        raise TypeError(f"{name!r} is an array of Python objects: give numbers")
    return np.ascontiguousarray(array, array.dtype.newbyteorder("="))


def _destination(arr: Any) -> npt.NDArray[Any]:
    """The array whose memory is that of ``arr``: what is written to it is in ``arr``."""
    array = arr
    if hasattr(arr, "detach"):
        if arr.device.type != "cpu":
            raise TypeError(f"rows are read into memory of the host: read into a CPU tensor, and copy it to {arr.device}")
        array = arr.detach().numpy()
    if not isinstance(array, np.ndarray):
        raise TypeError(f"rows are read into a NumPy array or a CPU tensor, not into {type(arr).__name__}")
    if array.ndim == 0 or array.dtype.hasobject or not array.dtype.isnative:
        raise TypeError(f"rows are read into an array of rows of native numbers, not into {array.dtype} of {array.shape}")
    if not (array.flags.c_contiguous and array.flags.writeable):
        raise TypeError("the array is read-only, or not C-contiguous: read into one that is neither, and copy from it")
    return array
