"""The compiled store of some ranks, made once it is known how many of them hold the set between them."""

from __future__ import annotations

from typing import Literal

from .._forebay import InvalidError, RawComm, RawStore


class StoreMaker:
    """Makes the compiled store of the ranks of ``comm``. All of it is collective but ``made`` and ``raw``.

    Args:
        comm: the ranks.
        width: ranks that hold the whole set between them, ``None`` for all, or ``"auto"`` to choose them by the set's size.
        folder: a folder for files of shards, or ``None`` for memory.
        limit: the most bytes that this rank's shards may take, or ``None``.
        memory: bytes for samples and batches on their way to the program.
    """

    def __init__(
        self, comm: RawComm, width: int | Literal["auto"] | None, folder: str | None, limit: int | None, memory: int
    ) -> None:
        self.comm = comm
        self.is_auto = width == "auto"
        self._folder, self._limit, self._memory = folder, limit, memory
        self.made: RawStore | None = None
        """The store, once it is made."""
        if width != "auto":
            self.make(width)

    @property
    def raw(self) -> RawStore:
        """The store; an error before it is made."""
        if self.made is None:
            raise InvalidError("the store is empty: its width is chosen when it is filled")
        return self.made

    def make(self, width: int | None) -> RawStore:
        """The store, made for ``width`` ranks, or all."""
        self.made = RawStore(self.comm, width, self._folder, self._limit, self._memory)
        return self.made

    def make_for_all(self) -> RawStore:
        """The store; of all ranks, where its width was not chosen yet."""
        return self.made or self.make(None)

    def make_for(self, size: int) -> RawStore:
        """The store, whose width is chosen for a set of ``size`` bytes if it was not given. Collective the first time."""
        if self.made is not None:
            return self.made
        most = (1 << 62) if self._limit is None else self._limit
        return self.make(self.comm.auto_width(size, most))

    def unmake(self) -> None:
        """Gives up a store that holds nothing."""
        if self.made is not None:
            self.made.close()
        self.made = None
