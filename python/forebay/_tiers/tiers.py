"""Tiers as arguments give them, policies written in Python, and closing tiers when the program ends."""

from __future__ import annotations

import atexit
import functools
import json
import math
import os
import pickle
import threading
import warnings
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ParamSpec, Protocol, TypeAlias, TypeVar

import numpy as np

from .. import _comm
from .._events import ForebayRuntimeWarning
from .._forebay import BlockFacts, tier_config
from .._sizes import size_of, whole

Tier: TypeAlias = "str | os.PathLike[str] | Mapping[str, Any]"
"""A word such as ``"memory:4GiB"``, a folder, or a table as in ``forebay.toml``."""

Tiers: TypeAlias = "Tier | Sequence[Tier]"


class Ranks(Protocol):
    """An object that ranks copies: the least leaves first."""

    def rank(self, block: BlockFacts, /) -> float:
        """How much ``block`` is worth."""


Policy: TypeAlias = "str | Callable[[BlockFacts], float] | Ranks"
"""A policy's name, or whatever ranks blocks."""


class TierOptions:
    """What a call says of tiers, ready for the compiled part; it can be pickled."""

    def __init__(
        self,
        tiers: Tiers | None = None,
        policy: Policy | None = None,
        config: str | os.PathLike[str] | None = None,
        placement_threads: int | None = None,
        tier_block: int | str | None = None,
        whole_file: bool | None = None,
        tier_ahead: int | str | None = None,
        *,
        base: TierOptions | None = None,
    ) -> None:
        given = {
            "config": None if config is None else os.fspath(config),
            "tiers": None if tiers is None else _tables(tiers),
            "policy": policy if isinstance(policy, str) else None,
            "placement_threads": _text(
                None if placement_threads is None else whole("placement_threads", placement_threads)
            ),
            "block": _text(size_of(tier_block, "tier_block")),
            "whole_file": None if whole_file is None else _flag("whole_file", whole_file),
            "ahead": _text(size_of(tier_ahead, "tier_ahead")),
        }
        self.config: dict[str, Any] = tier_config(given, None if base is None else base.config)
        if any(tier["kind"] == "peers" for tier in self.tiers):
            _comm.join_for_tiers()
        self.policy: Policy | None = base.policy if policy is None and base is not None else policy
        rank = _rank(self.policy)
        self.rank = None if rank is None else Ranking(rank)
        self.newcomers_compete = bool(getattr(self.policy, "newcomers_compete", False))

    @property
    def tiers(self) -> list[dict[str, Any]]:
        """The tiers, as in ``forebay.toml``."""
        tiers = [{key: value for key, value in tier.items() if value is not None} for tier in self.config["tier"]]
        for tier in tiers:
            if "path" in tier:
                # Variables are replaced by now: a dollar that is left is one.
                tier["path"] = tier["path"].replace("$", "$$")
        return tiers

    @property
    def key(self) -> str:
        """Text that is equal for equal configurations, by which users of the same tiers find each other."""
        return json.dumps(self.config, sort_keys=True)

    def __getstate__(self) -> dict[str, Any]:
        if self.rank is not None:
            try:
                pickle.dumps(self.policy)
            except Exception as error:
                raise pickle.PicklingError(
                    f"the policy {self.policy!r} cannot be pickled, nor can what uses it: define it at the top level "
                    f"of a module, or use a policy that has a name ({error})"
                ) from error
        return self.__dict__


# Their old names said nothing of tiers, beside shuffle="block" and prefetch=.
_RENAMED = {"block": "tier_block", "ahead": "tier_ahead"}

_Given = ParamSpec("_Given")
_Returned = TypeVar("_Returned")


def naming_renamed(function: Callable[_Given, _Returned]) -> Callable[_Given, _Returned]:
    """``function``, whose error for an argument by its old name says the new one."""

    @functools.wraps(function)
    def checked(*args: _Given.args, **options: _Given.kwargs) -> _Returned:
        for name in options:
            if name in _RENAMED:
                raise TypeError(f"{name}= is called {_RENAMED[name]}= now; it is about tiers, see docs/tiers.md")
        return function(*args, **options)

    return checked


class Ranking:
    """Asks a policy written by the user; its first error is warned about, and what it cannot rank is worth nothing."""

    def __init__(self, rank: Callable[[BlockFacts], float]) -> None:
        self._rank = rank
        self._has_warned = False

    def __call__(self, block: BlockFacts) -> float:
        try:
            return float(self._rank(block))
        except Exception as error:
            if not self._has_warned:
                self._has_warned = True
                warnings.warn(
                    f"the policy {self._rank!r} raised {type(error).__name__}: {error}; blocks that it cannot rank "
                    "leave first, and no further error of it is reported",
                    ForebayRuntimeWarning,
                    stacklevel=2,
                )
            return -math.inf


def _rank(policy: Any) -> Callable[[BlockFacts], float] | None:
    if policy is None or isinstance(policy, str):
        return None
    rank = getattr(policy, "rank", policy)
    if not callable(rank):
        raise TypeError(f"policy={policy!r}; give the name of a policy, a callable, or an object that has rank(block)")
    found: Callable[[BlockFacts], float] = rank
    return found


def _flag(name: str, value: Any) -> str:
    if not isinstance(value, (bool, np.bool_)):
        raise TypeError(f"{name}={value!r}: give True or False")
    return str(bool(value)).lower()


def _text(number: int | None) -> str | None:
    return None if number is None else str(number)


def _tables(tiers: Any) -> list[Any]:
    """Words and tables, each of one tier."""
    if isinstance(tiers, (str, os.PathLike, Mapping)):
        tiers = [tiers]
    found = [_table(tier) for tier in tiers]
    return [] if found == ["none"] else found


def _table(tier: Any) -> Any:
    if isinstance(tier, str):
        return tier
    if isinstance(tier, os.PathLike):
        # A folder that is there: a dollar in its name is none of ours.
        return {"path": os.path.abspath(os.fspath(tier)).replace("$", "$$")}
    if not isinstance(tier, Mapping):
        raise TypeError(f"{tier!r} is no tier: give a word such as 'memory:4GiB', a folder, or a dict with 'kind'")
    return {key: os.fspath(value) if isinstance(value, os.PathLike) else value for key, value in tier.items()}


class Leaves(Protocol):
    """What leaves its tiers when the program ends."""

    def _leave(self) -> None: ...


_alive: weakref.WeakSet[Any] = weakref.WeakSet()
_lock = threading.Lock()


def leave_at_exit(user: Leaves) -> None:
    """Has ``user`` leave its tiers when the interpreter ends, though something may still hold it."""
    with _lock:
        _alive.add(user)


@atexit.register
def _leave_all() -> None:
    with _lock:
        users = list(_alive)
    for user in users:
        user._leave()


def _after_fork() -> None:
    """What is alive belongs to the parent; the lock may have been held."""
    global _alive, _lock
    _alive, _lock = weakref.WeakSet(), threading.Lock()


os.register_at_fork(after_in_child=_after_fork)
