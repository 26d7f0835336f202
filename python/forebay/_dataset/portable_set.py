"""A set of samples on its way to processes of other nodes, each of which opens it once."""

from __future__ import annotations

import hashlib
import json
import os
import threading
from collections import OrderedDict
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from .._forebay import InvalidError
from .._tiers.tiers import TierOptions
from .parts import indices_of, packed, unpacked

if TYPE_CHECKING:
    from .dataset import Dataset
    from .subset import Subset

KEPT = 16
"""Sets without tiers that a process keeps open for the next task, those used last: a field of a graph of dask is one."""

KEPT_WITH_TIERS = 4
"""Sets with tiers that it keeps open: each may have memory of its own."""

_open_sets: OrderedDict[str, Dataset | Subset] = OrderedDict()
_lock = threading.Lock()


def _after_fork() -> None:
    global _lock
    _lock = threading.Lock()


os.register_at_fork(after_in_child=_after_fork)


def _drop_oldest() -> None:
    """Leaves sets beyond those that are kept; who reads one of them goes on with it."""
    with_tiers: list[str] = []
    without: list[str] = []
    for key, samples in _open_sets.items():
        (with_tiers if file_set_of(samples).tiers else without).append(key)
    for key in with_tiers[:-KEPT_WITH_TIERS] + without[:-KEPT]:
        del _open_sets[key]


class PortableSet:
    """A set of samples that can be pickled for processes of other nodes: with it goes what its files say of themselves, so that nobody
    reads that again. A process opens it when it first needs it, and refuses files that were changed.

    Args:
        samples: a data set, or a part of one.
        tiers: what it is read through; a dict has the arguments of :class:`TierOptions`, which are looked at where the set is opened: variables
            in paths, and ``forebay.toml``, are those of that node. By default the tiers are those of ``samples``.
    """

    def __init__(self, samples: Dataset | Subset, tiers: TierOptions | Mapping[str, Any] | None = None) -> None:
        base = file_set_of(samples)
        self._live: Dataset | Subset | None = samples if tiers is None else None
        # Another process imports the class by its name.
        self._kind = type(base)
        self._set = (*base._had, base._options, base.label)
        self._told = base._opened.told()
        self._tiers = base._through if tiers is None else tiers
        self._part = None
        if samples._part is not None:
            self._part = (*packed(indices_of(samples._part), len(base)), samples._drawn)
        # Two sets of the same samples may be read through different tiers.
        through = self._tiers.key if isinstance(self._tiers, TierOptions) else repr(sorted(self._tiers.items(), key=str))
        words = [samples.fingerprint, base._options, str(base.label), through]
        self.key = hashlib.sha256(json.dumps(words, sort_keys=True).encode()).hexdigest()[:32]
        """Which set this is, and through which tiers it is read."""

    def samples(self) -> Dataset | Subset:
        """The set, open in this process."""
        if self._live is not None:
            return self._live
        with _lock:
            found = _open_sets.get(self.key)
            if found is None:
                found = _open_sets[self.key] = self._open()
            _open_sets.move_to_end(self.key)
            _drop_oldest()
        return found

    def _open(self) -> Dataset | Subset:
        spec, fingerprint, options, label = self._set
        through = self._tiers if isinstance(self._tiers, TierOptions) else TierOptions(**self._tiers)
        base = self._kind(spec, options, label, through, (spec, fingerprint), self._told)
        if base.fingerprint != fingerprint:
            raise InvalidError(
                "files of this data set are others here than where it was opened, so that its samples may be others\n  hint: open the "
                "set again, and give all nodes the same files"
            )
        if self._part is None:
            return base
        kind, numbers, drawn = self._part
        return base._within(unpacked(kind, numbers, len(base)), drawn)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_live": None}


def file_set_of(samples: Any) -> Dataset:
    """The data set that ``samples`` are, or are a part of; an error for what lies in the memory of ranks."""
    base: Dataset | None = getattr(samples, "_file_set", None)
    if base is None:
        what = "a store belongs to the ranks of one job" if hasattr(samples, "_file_set") else f"not {type(samples).__name__}"
        raise TypeError(f"a forebay.Dataset is needed, as forebay.open gives it, or a part of one: {what}")
    return base
