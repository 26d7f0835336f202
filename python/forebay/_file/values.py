"""Values of one variable or attribute, as NumPy and Python have them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .._batch import array_of
from .._forebay import RawArray


def values_of(raw: RawArray) -> Any:
    """The array of ``raw``: of objects where elements differ in length."""
    if raw.offsets is None:
        return array_of(raw)
    packed, layout, offsets = raw.packed(), raw.layout, raw.offsets
    array = np.empty(math.prod(raw.shape), dtype=object)
    for index, (begin, end) in enumerate(zip(offsets, offsets[1:])):
        array[index] = _element(layout, packed[begin:end])
    return array.reshape(raw.shape)


def attribute_of(raw: RawArray | str) -> Any:
    """An attribute as Python has it: a number, a text, a list of texts, or an array; an error as its text says."""
    if isinstance(raw, str):
        return ValueError(raw)
    array = values_of(raw)
    if raw.is_text:
        texts = np.array([_text(one) for one in array.ravel().tolist()], dtype=object)
        return texts.reshape(array.shape).tolist()
    # A compound stays one: `item` would take the names off its members.
    if array.ndim == 0 and array.dtype.names is None:
        return array.item()
    return array


def typed_attribute_of(raw: RawArray | str, *, as_json: bool = False) -> Any:
    """An attribute with its type, as the NetCDF libraries give it: one number is one of NumPy's, several are an array, texts are
    ``str`` or a list of them; of what stands in JSON, numbers and lists are Python's own. An error is its text."""
    if isinstance(raw, str):
        return f"forebay cannot read this: {raw}"
    found = attribute_of(raw)
    if as_json:
        return found.tolist() if isinstance(found, np.ndarray) else found
    if raw.is_text:
        return found[0] if isinstance(found, list) and len(found) == 1 else found
    array = values_of(raw)
    return array.reshape(())[()] if array.size == 1 else array


def _text(value: str | bytes) -> str:
    return value if isinstance(value, str) else value.decode(errors="surrogateescape")


def _element(layout: Any, packed: bytes) -> Any:
    """One element by itself: a text or a sequence goes to the end of its bytes."""
    if layout[0] == "text":
        return _text(packed)
    if layout[0] == "sequence":
        return _sequence(layout[1], packed)
    return _take(layout, packed, 0)[0]


def _sequence(item: Any, packed: bytes) -> Any:
    """All items of a sequence: an array where they are of one length, else a list."""
    if item[0] == "fixed":
        return np.frombuffer(bytearray(packed), np.dtype((item[1], tuple(item[2]))))
    found, at = [], 0
    while at < len(packed):
        value, at = _take(item, packed, at)
        found.append(value)
    return found


def _take(layout: Any, packed: bytes, at: int) -> tuple[Any, int]:
    """A value inside another, and where it ends: what has no fixed length is led by its count."""
    kind = layout[0]
    if kind == "fixed":
        _, code, shape, length = layout
        found = np.frombuffer(packed, np.dtype((code, tuple(shape))), 1, at)[0]
        return (found if shape else found.item() if isinstance(found, np.generic) else found), at + length
    if kind == "compound":
        members = {}
        for name, member in layout[1]:
            members[name], at = _take(member, packed, at)
        return members, at
    if kind == "array":
        count, item = math.prod(layout[1]), layout[2]
    else:
        count, item = int.from_bytes(packed[at : at + 8], "little"), layout[1] if kind == "sequence" else None
        at += 8
    if item is None:
        return _text(packed[at : at + count]), at + count
    found = []
    for _ in range(count):
        value, at = _take(item, packed, at)
        found.append(value)
    return found, at
