"""Numbers as people write them."""

from __future__ import annotations

import operator
import re
from typing import SupportsIndex

_UNITS = {"": 1, "b": 1}
for _power, _letter in enumerate("kmgt", start=1):
    _UNITS[_letter] = _UNITS[_letter + "ib"] = 1024**_power
    _UNITS[_letter + "b"] = 1000**_power


def whole(what: str, number: SupportsIndex) -> int:
    """The whole number from 0 up that ``number`` is, NumPy's kinds too.

    >>> whole("rank", 3)
    3
    """
    try:
        plain = operator.index(number)
    except TypeError:
        raise TypeError(f"{what}={number!r} is no whole number") from None
    if plain < 0:
        raise ValueError(f"{what}={plain} is below 0")
    return plain


def size_of(size: SupportsIndex | str | None) -> int | None:
    """The bytes of ``"64MiB"``, ``"2 GB"`` or a plain number.

    >>> size_of("1MiB"), size_of("2kB"), size_of(512)
    (1048576, 2000, 512)
    """
    if size is None:
        return None
    if not isinstance(size, str):
        return whole("size", size)
    parts = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([a-zA-Z]*)\s*", size)
    unit = _UNITS.get(parts[2].lower()) if parts else None
    if parts is None or unit is None:
        raise ValueError(f"{size!r} is no size; sizes look like '64MiB', '2GB' or 1048576")
    return int(float(parts[1]) * unit)
