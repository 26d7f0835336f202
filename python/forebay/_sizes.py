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
        if isinstance(number, bool):
            raise TypeError
        plain = operator.index(number)
    except TypeError:
        raise TypeError(f"{what}={number!r} is no whole number") from None
    if plain < 0:
        raise ValueError(f"{what}={plain} is below 0")
    if plain >= 2**64:
        raise ValueError(f"{what}={plain}; it must be below 2**64")
    return plain


def size_of(size: SupportsIndex | float | str | None, what: str = "size") -> int | None:
    """The bytes of ``"64MiB"``, ``"2 GB"`` or a plain number, such as ``1e9``.

    >>> size_of("1MiB"), size_of("2kB"), size_of(512), size_of(1e6)
    (1048576, 2000, 512, 1000000)
    """
    if size is None:
        return None
    if isinstance(size, str):
        return parse_size(size)
    if isinstance(size, float) and size.is_integer():
        size = int(size)
    try:
        return whole(what, size)  # type: ignore[arg-type]
    except TypeError:
        raise TypeError(f"{what}={size!r} is no number of bytes: give a whole number, or text such as '4GiB'") from None
