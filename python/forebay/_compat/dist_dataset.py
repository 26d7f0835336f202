"""DDStore's data set: samples of any map-style source in the memory of all ranks."""

from __future__ import annotations

import importlib
import operator
import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from .._forebay import ForebayWarning, InvalidError
from .._store.exchange import told_by_all
from .pyddstore import PyDDStore


class DistDataset:
    """The samples of ``source`` in the memory of all ranks: each reads its share once.

    Samples are mappings (also ``torch_geometric.data.Data``), tuples or lists of arrays, tensors, numbers and strings, or one of
    these alone. They come back as what they were, mappings as dicts; all have to be alike, but arrays may differ in the length
    of one axis. The field ``k`` is the variable ``name/k`` of ``ddstore``.

    Args:
        source: what has ``len(source)`` and ``source[number]``, the same on every rank.
        name: of the set.
        comm: the ranks, as :class:`forebay.Store` takes them.
        ddstore_width: ranks that hold the set between them; all by default.
        device: where tensors of samples that are read shall go.
        method, handshake_dir: as :class:`PyDDStore` takes them; the method is by default ``DDSTORE_METHOD`` or 0.
        encode: is called with every sample of the source, and gives what is kept of it.
        decode: is called with what was kept of a sample and its number, and gives the sample.
        fields: the keys or positions that are kept; all by default.
        local: ``source`` is this rank's own part: the parts of all ranks follow each other.
        add_device, chunk_size: have no effect: samples are kept in memory of the host.
    """

    __module__ = "forebay.pyddstore"

    def __init__(
        self,
        source: Any,
        name: str = "",
        comm: Any = None,
        ddstore_width: int | None = None,
        device: Any = None,
        add_device: Any = None,
        method: int | None = None,
        handshake_dir: str | None = None,
        chunk_size: int | None = None,
        encode: Callable[[Any], Any] | None = None,
        decode: Callable[[Any, int], Any] | None = None,
        fields: Sequence[Any] | None = None,
        *,
        local: bool = False,
    ) -> None:
        if encode is not None and fields is not None:
            raise ValueError("encode= and fields= exclude each other: have encode give the fields")
        if unused := [what for what, value in (("add_device", add_device), ("chunk_size", chunk_size)) if value is not None]:
            warnings.warn(f"{', '.join(unused)} of DistDataset have no effect here", ForebayWarning, stacklevel=2)
        method = int(os.environ.get("DDSTORE_METHOD", "0")) if method is None else method
        self.name = self.label = name
        self.comm, self.device = comm, device
        self.ddstore = PyDDStore(comm, method, handshake_dir or "", ddstore_width=ddstore_width)
        self._store = self.ddstore.store
        self.rank, self.comm_size, self.ddstore_width = self._store.rank, self._store.world, self._store.width
        self._prefix = f"{name}/" if name else ""
        self._decode = decode
        self._layout: SampleLayout | None = None
        self.total_ns = self._count(len(source), local)

        def read(number: int) -> dict[str, Any]:
            sample = _only(source[number], fields) if encode is None else encode(source[number])
            layout = SampleLayout.of(sample)
            if self._layout is None:
                self._layout = layout
            elif layout != self._layout:
                raise TypeError(f"sample {number} is {layout}, and others are {self._layout}")
            return {self._prefix + key: value for key, value in layout.arrays(sample).items()}

        if local:
            self._store._filling.fill_own(read, range(len(source)), None)
        else:
            self._store._filling.fill_by(read, len(source), None)
        self._agree()
        self.ddstore.epoch_begin()

    def _count(self, mine: int, local: bool) -> int:
        """How many samples all ranks bring. Collective."""
        if local and self._store.width != self._store.world:
            raise InvalidError("local=True needs all ranks in one group: each of several would hold another part")
        counts = [one["samples"] for one in told_by_all(self._store._comm, None, {"samples": mine})]
        if not local and min(counts) != max(counts):
            what = f"ranks have sources of different lengths: {counts}"
            raise InvalidError(f"{what}\n  hint: local=True, if each has a part of its own")
        return sum(counts) if local else mine

    def _agree(self) -> None:
        """Has all ranks make samples of one layout; those that have read none learn it from the others. Collective."""
        told = None if self._layout is None else self._layout.told()
        known = [one["layout"] for one in told_by_all(self._store._comm, None, {"layout": told})]
        having = [(rank, one) for rank, one in enumerate(known) if one is not None]
        for rank, one in having:
            if one != having[0][1]:
                raise InvalidError(f"samples of rank {having[0][0]} are {having[0][1]}, and those of rank {rank} {one}")
        if self._layout is None and having:
            self._layout = SampleLayout.told_as(having[0][1])

    def __len__(self) -> int:
        return self.total_ns

    def len(self) -> int:
        """How many samples there are."""
        return len(self)

    def get(self, index: int) -> Any:
        """One sample."""
        return self[index]

    def __getitem__(self, index: int) -> Any:
        number = operator.index(index)
        return self._sample(self._store.get(number), number)

    def __getitems__(self, indices: Sequence[int]) -> list[Any]:
        """Samples, fetched together."""
        return [self._sample(sample, int(number)) for sample, number in zip(self._store.__getitems__(indices), indices)]

    def _sample(self, values: dict[str, Any], number: int) -> Any:
        assert self._layout is not None
        values = {name[len(self._prefix) :]: value for name, value in values.items()}
        sample = self._layout.sample(values, self.device)
        return sample if self._decode is None else self._decode(sample, number % len(self))


class SampleLayout:
    """What samples consist of: their type, and by field what its values are. Of it and arrays, samples are made again."""

    def __init__(self, container: type | None, kinds: dict[str, str]) -> None:
        self._container, self._kinds = container, kinds

    @classmethod
    def of(cls, sample: Any) -> SampleLayout:
        """That of ``sample``; an error where it cannot be kept."""
        container, parts = _parts(sample)
        return cls(container, {name: _kind(name, value) for name, value in parts.items()})

    def told(self) -> dict[str, Any]:
        """What other ranks need to know."""
        container = self._container
        return {"type": None if container is None else [container.__module__, container.__qualname__], "kinds": self._kinds}

    @classmethod
    def told_as(cls, told: dict[str, Any]) -> SampleLayout:
        """That of another rank, whose types are importable here."""
        if told["type"] is None:
            return cls(None, told["kinds"])
        module, name = told["type"]
        return cls(operator.attrgetter(name)(importlib.import_module(module)), told["kinds"])

    def arrays(self, sample: Any) -> dict[str, Any]:
        """The values of ``sample`` as arrays."""
        return {name: _packed(self._kinds[name], value) for name, value in _parts(sample)[1].items()}

    def sample(self, arrays: Mapping[str, Any], device: Any) -> Any:
        """The sample of which these are the arrays."""
        values = {name: _unpacked(kind, arrays[name], device) for name, kind in self._kinds.items()}
        if self._container is None:
            return values[_ALONE]
        if issubclass(self._container, (tuple, list)):
            # Named tuples are made otherwise.
            make: Any = getattr(self._container, "_make", self._container)
            return make(values[str(at)] for at in range(len(values)))
        return values if self._container is dict else self._container.from_dict(values)  # type: ignore[attr-defined]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SampleLayout) and self.told() == other.told()

    def __hash__(self) -> int:
        return hash(self._container)

    def __repr__(self) -> str:
        kinds = ", ".join(f"{name}: {kind}" for name, kind in self._kinds.items())
        return f"{'a value' if self._container is None else self._container.__name__} of {kinds}"


_ALONE = "0"
"""The field of samples that are one value."""

_NUMBERS: dict[str, Any] = {"bool": np.bool_, "int": np.int64, "float": np.float64, "complex": np.complex128}


def _parts(sample: Any) -> tuple[type | None, dict[str, Any]]:
    """The type of a sample that has fields, and its values by name."""
    if hasattr(sample, "to_dict") and hasattr(type(sample), "from_dict"):
        return type(sample), {str(name): value for name, value in sample.to_dict().items()}
    if isinstance(sample, Mapping):
        return dict, {str(name): value for name, value in sample.items()}
    if isinstance(sample, (tuple, list)):
        return type(sample), {str(at): value for at, value in enumerate(sample)}
    return None, {_ALONE: sample}


def _kind(name: str, value: Any) -> str:
    if hasattr(value, "detach"):
        return "tensor"
    for kind in (str, bytes):
        if isinstance(value, kind):
            return kind.__name__
    if isinstance(value, (np.ndarray, np.generic)):
        return "array" if isinstance(value, np.ndarray) else "scalar"
    for number in (bool, int, float, complex):
        if isinstance(value, number):
            return number.__name__
    raise TypeError(
        f"the field {name!r} of a sample is of type {type(value).__name__}: arrays, tensors, numbers and strings can be kept; "
        "encode= makes them of others"
    )


def _packed(kind: str, value: Any) -> Any:
    if kind == "tensor":
        return value.detach().cpu().numpy()
    if kind in ("str", "bytes"):
        return np.frombuffer(value.encode() if kind == "str" else value, np.uint8)
    return np.asarray(value, _NUMBERS.get(kind))


def _unpacked(kind: str, value: Any, device: Any) -> Any:
    if kind == "tensor":
        import torch

        tensor = torch.from_numpy(np.asarray(value))
        return tensor if device is None else tensor.to(device)
    if kind in ("str", "bytes"):
        return value.tobytes().decode() if kind == "str" else value.tobytes()
    if kind in _NUMBERS:
        return value.item()
    return np.asarray(value) if kind == "array" else value[()]


def _only(sample: Any, fields: Sequence[Any] | None) -> Any:
    """The sample with these fields alone."""
    if fields is None:
        return sample
    if isinstance(sample, (tuple, list)):
        return type(sample)([sample[at] for at in fields])
    return {name: sample[name] for name in fields}
