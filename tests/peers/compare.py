"""Compares two values bit for bit, whatever forms the two sides give them."""

from __future__ import annotations

from typing import Any

import numpy as np


def difference(ours: Any, theirs: Any) -> str | None:
    """Says how the values differ, or nothing where every bit is the same."""
    ours, theirs = _array(ours), _array(theirs)
    if ours.shape != theirs.shape:
        return f"shape {ours.shape}, expected {theirs.shape}"
    if ours.dtype.hasobject or theirs.dtype.hasobject:
        return _differing_objects(ours, theirs)
    if theirs.dtype.names is not None:
        return _differing_members(ours, theirs)
    ours, theirs = _native(ours), _native(theirs)
    if ours.dtype != theirs.dtype:
        return f"type {ours.dtype}, expected {theirs.dtype}"
    if ours.tobytes() == theirs.tobytes():
        return None
    return _first_difference(ours, theirs)


def same_but_for_nan(ours: Any, theirs: Any) -> bool:
    """Whether two arrays of floats have the same bits, where one NaN is as good as another."""
    if ours.dtype.kind not in "fc" or ours.dtype != theirs.dtype or ours.shape != theirs.shape:
        return False
    missing = np.isnan(theirs)
    return bool((np.isnan(ours) == missing).all()) and ours[~missing].tobytes() == theirs[~missing].tobytes()


def _array(value: Any) -> Any:
    return value if isinstance(value, np.ndarray) else np.asarray(value)


def _native(array: Any) -> Any:
    """The same numbers in this machine's byte order: swapped as bytes, so that no NaN changes."""
    if array.dtype.byteorder == ">" or (array.dtype.kind == "U" and not array.dtype.isnative):
        return array.byteswap().view(array.dtype.newbyteorder())
    return array


def _first_difference(ours: Any, theirs: Any) -> str:
    length = max(ours.dtype.itemsize, 1)
    mine, other = (np.frombuffer(array.tobytes(), np.uint8).reshape(-1, length) for array in (ours, theirs))
    places = np.flatnonzero((mine != other).any(axis=1))
    at = np.unravel_index(places[0], ours.shape)
    place = ", ".join(map(str, at))
    return f"{len(places)} of {ours.size} differ, first [{place}]: {ours[at]!r}, expected {theirs[at]!r}"


def _differing_members(ours: Any, theirs: Any) -> str | None:
    """Compares compounds member by member: the bytes between members mean nothing."""
    if ours.dtype.names != theirs.dtype.names:
        return f"members {ours.dtype.names}, expected {theirs.dtype.names}"
    for name in theirs.dtype.names:
        found = difference(ours[name], theirs[name])
        if found:
            return f"member {name!r}: {found}"
    return None


def _differing_objects(ours: Any, theirs: Any) -> str | None:
    for index in np.ndindex(theirs.shape):
        found = _differing_element(ours[index], theirs[index])
        if found:
            return f"element {list(index)}: {found}"
    return None


def _differing_element(ours: Any, theirs: Any) -> str | None:
    """Compares single elements: texts, sequences, compounds with such members, plain numbers."""
    if isinstance(ours, dict):
        return _differing_dict(ours, theirs)
    if isinstance(theirs, (str, bytes)) or isinstance(ours, (str, bytes)):
        mine, other = _bytes(ours), _bytes(theirs)
        return None if mine == other else f"{mine!r}, expected {other!r}"
    if isinstance(ours, list):
        return _differing_lists(ours, theirs)
    if isinstance(ours, (int, float, complex)) and isinstance(theirs, np.generic):
        return difference(np.array(ours, theirs.dtype), np.array(theirs))
    if not isinstance(theirs, (np.ndarray, np.generic)):
        return f"{ours!r}, expected {theirs!r}"
    return difference(ours, theirs)


def _differing_dict(ours: dict[str, Any], theirs: Any) -> str | None:
    if tuple(ours) != theirs.dtype.names:
        return f"members {tuple(ours)}, expected {theirs.dtype.names}"
    for name, value in ours.items():
        found = _differing_element(value, theirs[name])
        if found:
            return f"member {name!r}: {found}"
    return None


def _differing_lists(ours: list[Any], theirs: Any) -> str | None:
    if len(ours) != len(np.atleast_1d(theirs).ravel()):
        return f"{len(ours)} items, expected {len(theirs)}"
    for number, (mine, other) in enumerate(zip(ours, np.atleast_1d(theirs).ravel())):
        found = _differing_element(mine, other)
        if found:
            return f"item {number}: {found}"
    return None


def _bytes(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-8", "surrogateescape")
    if isinstance(value, np.ndarray) and value.dtype == np.uint8:
        return value.tobytes()
    return bytes(value) if isinstance(value, (bytes, np.bytes_)) else repr(value)
