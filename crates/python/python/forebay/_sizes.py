"""Numbers as people write them."""

from __future__ import annotations

import operator
from typing import SupportsIndex

from ._forebay import parse_size


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
    return parse_size(size)
