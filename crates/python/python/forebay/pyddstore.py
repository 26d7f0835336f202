"""The interface of DDStore's ``pyddstore`` over :class:`forebay.Store`, so that programs written for it run unchanged.

    PYTHONPATH=$(python -m forebay.pyddstore) mpirun -n 4 python train.py

``python -m forebay.pyddstore`` prints a folder in which a module ``pyddstore`` stands that is this one. Or, in the program::

    from forebay import pyddstore as dds

Rows are read by one-sided gets at any time: ``epoch_begin`` and ``epoch_end`` are not needed around them, and ``get_batch`` is
not collective. The first ``epoch_begin`` seals the store: ``update`` afterwards is an error instead of a race.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ._forebay import ForebayWarning, InvalidError
from ._store import Store

__all__ = ["DistDataset", "PyDDStore"]

_METHODS = {1: "libfabric", 2: "a handshake by files"}


class PyDDStore:
    """Rows of named variables, spread over the ranks of ``comm``.

    Takes what today's ``PyDDStore(comm_or_none=None, method=0, handshake_dir="", n_core=0, nic_map=None)`` takes, and
    ``PyDDStore(comm, method, ddstore_width)`` of the paper's time: a third positional argument that is a number is the width.
    Transports that ``method`` names are replaced by ours, with a warning.
    """

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
        **others: Any,
    ) -> None:
        if isinstance(handshake_dir, (int, np.integer)) and not isinstance(handshake_dir, bool):
            ddstore_width, handshake_dir = int(handshake_dir), ""
        ranks = comm if comm_or_none is None else comm_or_none
        if method == 2 and ranks is None:
            raise InvalidError(
                "method=2 without a communicator joins the store of another job\n  hint: a forebay.Store belongs to one job; "
                "run readers as ranks of it"
            )
        if method in _METHODS:
            what = f"method={method} ({_METHODS[method]}) is replaced by forebay's own transport"
            warnings.warn(what, ForebayWarning, stacklevel=2)
        elif method != 0:
            raise ValueError(f"method={method}; there are 0, 1 and 2")
        unused = [name for name, value in (("nic_map", nic_map), ("n_core", n_core), *others.items()) if value]
        if unused:
            warnings.warn(f"{', '.join(unused)} of PyDDStore have no effect here", ForebayWarning, stacklevel=2)
        self._store = Store(ranks, ddstore_width)
        self._rows: dict[str, tuple[int, int]] = {}

    @property
    def store(self) -> Store:
        """The store itself."""
        return self._store

    def add(self, name: str, arr: Any) -> None:
        """Adds the rows of this rank; those of all ranks follow each other. Collective."""
        array = _as_array(arr)
        if array.ndim == 0:
            raise ValueError(f"{name!r} is one number: give an array whose first axis counts rows")
        disp = int(np.prod(array.shape[1:], dtype=np.int64))
        self._add(name, np.ascontiguousarray(array).view(np.uint8).reshape(len(array), -1), disp, array.itemsize)

    def init(self, name: str, nrows: int, disp: int, itemsize: int = 1) -> None:
        """Makes room for rows of this rank, all zero, for :meth:`update`. Collective."""
        self._add(name, np.zeros((nrows, disp * itemsize), np.uint8), disp, itemsize)

    def _add(self, name: str, rows: Any, disp: int, itemsize: int) -> None:
        self._store.add(name, rows)
        self._rows[name] = disp, itemsize

    def update(self, name: str, arr: Any, offset: int = 0) -> None:
        """Writes rows of this rank anew, from its row ``offset`` on; an error after the first ``epoch_begin``."""
        first, _ = self._store._raw.samples_of(name, self._store.rank)
        rows = np.ascontiguousarray(_as_array(arr))
        self._store._raw.update(name, first + int(offset), rows.tobytes())

    def get(self, name: str, arr: Any, start: int = 0) -> None:
        """Reads consecutive rows from ``start`` on into ``arr``, as many as it has."""
        self.get_batch(name, arr, range(int(start), int(start) + len(_as_array(arr))))

    def get_batch(self, name: str, arr: Any, indices: Any) -> None:
        """Reads the rows ``indices`` into ``arr``: any order, any ranks, repeats allowed. Not collective."""
        into = _as_array(arr)
        numbers = list(indices) if isinstance(indices, range) else np.asarray(indices).tolist()
        total, disp, itemsize = self.info(name)
        if len(into) != len(numbers):
            raise ValueError(f"{len(numbers)} rows for an array of {len(into)}")
        if wrong := [number for number in numbers if not 0 <= number < total]:
            raise IndexError(f"row {wrong[0]} of {total} of {name!r}")
        if into.nbytes != len(numbers) * disp * itemsize:
            raise ValueError(f"rows of {name!r} have {disp * itemsize} bytes, those of the array {into.nbytes // max(1, len(into))}")
        if not into.flags.c_contiguous:
            raise ValueError("the array is not C-contiguous")
        if numbers:
            rows = self._store.get_batch(numbers, [name])[name]
            into.reshape(-1).view(np.uint8)[:] = rows.reshape(-1)

    def info(self, name: str) -> tuple[int, int, int]:
        """Rows of all ranks, elements of a row, and bytes of an element."""
        if name not in self._rows:
            raise KeyError(f"no variable {name!r}; there are {', '.join(self._rows) or 'none yet'}")
        count = dict(self._store._raw.variables())[name]
        return (count, *self._rows[name])

    def register_recv(self, *_: Any) -> None:
        """Nothing: any memory can be read into."""

    def get_profile(self, name: str | None = None) -> dict[str, Any]:
        """What was read and how long it took, over all variables."""
        return self._store.stats()

    def epoch_begin(self) -> None:
        """Seals the store the first time; otherwise nothing. Collective the first time."""
        if not getattr(self, "_is_sealed", False):
            self._store.seal()
            self._is_sealed = True

    def epoch_end(self) -> None:
        """Nothing: gets need no fence."""

    def free(self) -> None:
        """Gives all memory back. Collective; may be called more than once."""
        self._store.close()


class DistDataset:
    """The samples of ``source``, which every rank can index, in the memory of all ranks: each reads its share once.

    Samples are mappings of arrays (also ``torch_geometric.data.Data``), tuples of arrays, or arrays; they come back as what they
    were, with tensors where there were tensors.
    """

    def __init__(
        self, source: Any, name: str = "", comm: Any = None, ddstore_width: int | None = None, **_: Any
    ) -> None:
        self.name = name
        self.ddstore = self._store = Store(comm, ddstore_width)
        self._kind: _Kind | None = None
        if len(source) > 0:
            self._kind = _Kind(source[0])
            self._store.fill(reader=lambda number: _taken_apart(source[number]), count=len(source))
            self._store.seal()

    def __len__(self) -> int:
        return len(self._store)

    def len(self) -> int:
        """How many samples there are."""
        return len(self)

    def get(self, index: int) -> Any:
        """One sample."""
        return self[index]

    def __getitem__(self, index: int) -> Any:
        assert self._kind is not None or len(self) == 0
        return self._rebuilt(self._store[index])

    def __getitems__(self, indices: Sequence[int]) -> list[Any]:
        """Samples, fetched together."""
        return [self._rebuilt(sample) for sample in self._store.__getitems__(indices)]

    def _rebuilt(self, sample: dict[str, Any]) -> Any:
        assert self._kind is not None
        return self._kind.rebuild(sample)


class _Kind:
    """What a sample is, to make others like it."""

    def __init__(self, sample: Any) -> None:
        self._type = type(sample)
        parts = _parts(sample)
        self._tensors = {name for name, value in parts.items() if hasattr(value, "detach")}
        self._is_mapping = not isinstance(sample, (tuple, list)) and len(parts) > 0 and "" not in parts

    def rebuild(self, sample: dict[str, Any]) -> Any:
        values = {name: self._tensor(value) if name in self._tensors else value for name, value in sample.items()}
        if "" in values:
            return values[""]
        if issubclass(self._type, (tuple, list)):
            return self._type(values[str(at)] for at in range(len(values)))
        from_dict = getattr(self._type, "from_dict", None)
        return values if self._type is dict or from_dict is None else from_dict(values)

    @staticmethod
    def _tensor(value: Any) -> Any:
        import torch

        return torch.as_tensor(value)


def _parts(sample: Any) -> dict[str, Any]:
    if hasattr(sample, "to_dict"):
        sample = sample.to_dict()
    if isinstance(sample, Mapping):
        return {str(name): value for name, value in sample.items()}
    if isinstance(sample, (tuple, list)):
        return {str(at): value for at, value in enumerate(sample)}
    return {"": sample}


def _taken_apart(sample: Any) -> dict[str, Any]:
    return {name: _as_array(value) for name, value in _parts(sample).items()}


def _as_array(value: Any) -> Any:
    return value.detach().cpu().numpy() if hasattr(value, "detach") else np.asarray(value)


def _main() -> None:
    print(os.path.join(os.path.dirname(os.path.abspath(__file__)), "_pyddstore_path"))


if __name__ == "__main__":
    _main()
    sys.exit(0)
