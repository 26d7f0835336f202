"""Several stores as one, the samples of one after those of another."""

from __future__ import annotations

from typing import Any

from .._forebay import BatchLoader, InvalidError, LoaderMemory, RawDraws, RawStatistics, RawStoreConcat, RawSubset
from .store import Store


class StoreConcat(Store):
    """Several stores as one, made by :func:`forebay.concat`: it is indexed and loaded as a store is, and nothing is added to it."""

    __module__ = "forebay"

    def __init__(self, stores: list[Store]) -> None:
        # Of stores that were put together before, those they are made of.
        self.stores: list[Store] = [one for store in stores for one in (store.stores if isinstance(store, StoreConcat) else [store])]
        self._joined = RawStoreConcat([store._raw for store in self.stores])
        self._comm = stores[0]._comm
        self.label = stores[0].label
        self._files = None

    @property
    def _raw(self) -> Any:
        return self._joined

    def add(self, name: str, samples: Any) -> None:
        """Refused: add to one of the stores."""
        raise _refusal()

    def fill(self, *_: Any, **__: Any) -> None:
        """Refused: fill one of the stores."""
        raise _refusal()

    def update(self, name: str, samples: Any, first: int) -> None:
        """Refused: write to one of the stores."""
        raise _refusal()

    def restripe(self, balance: str = "bytes") -> None:
        """Refused: divide the stores by themselves."""
        raise _refusal()

    def seal(self) -> None:
        """Seals all of its stores. Collective."""
        for store in self.stores:
            store.seal()

    @property
    def width(self) -> int:
        """Ranks of this rank's replica group; of stores that differ, the most."""
        return super().width

    def stats(self) -> dict[str, Any]:
        """What was read from where, how long it took, and which ranks are gone: as :meth:`Store.stats`, of all stores together."""
        return super().stats()

    def _part_lens(self) -> list[int]:
        return [count for store in self.stores for count in store._part_lens()]

    def _raw_statistics(self, spec: dict[str, Any], options: dict[str, Any], save: bool, part: RawSubset | None) -> RawStatistics:
        return RawStatistics.of_stores(self._joined, spec, options, part)

    def _batch_loader(
        self,
        options: dict[str, Any],
        on_lost: str,
        subset: RawSubset | None = None,
        draws: RawDraws | None = None,
        memory: LoaderMemory | None = None,
        transforms: dict[str, Any] | None = None,
    ) -> BatchLoader:
        if on_lost != "raise":
            raise ValueError(f"on_lost={on_lost!r} is for one store: several have no files in common")
        return BatchLoader.of_stores(self._joined, self.fields, options, subset, draws, memory, transforms)

    def close(self) -> None:
        """Closes all of its stores. Collective."""
        for store in self.stores:
            store.close()

    def __repr__(self) -> str:
        return f"<forebay.StoreConcat of {len(self.stores)} stores, {len(self)} samples>"


def _refusal() -> InvalidError:
    return InvalidError("stores that were put together are read alone\n  hint: add to one of them")
