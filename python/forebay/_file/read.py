"""One variable of one file, and what is in a file."""

from __future__ import annotations

import contextlib
import operator
import os
from types import EllipsisType
from typing import Any, Union

import numpy as np

from .._forebay import RawArray, absolute_path, inspect_file, read_variable
from .._samples import CF, unpack_spec
from .values import attribute_of, values_of

Index = Union[int, slice, "EllipsisType"]
Selected = Union[str, Index, tuple[Index, ...], None]


def read(
    path: str | os.PathLike[str],
    variable: str,
    selection: Selected = None,
    *,
    cf: CF = False,
    mask_valid: bool = False,
) -> Any:
    """The values of ``variable`` of the file at ``path``, or of a part of it, as a NumPy array.

    >>> forebay.read("era5.h5", "t2m", np.s_[0, :10, ::2])
    >>> forebay.read("era5.h5", "t2m", "0, :10, ::2")

    ``selection`` is what NumPy takes in square brackets, as a tuple or as text: numbers, which drop their axis, slices
    with steps from 1 up, and ``...``. What is not named is whole. Elements that differ in length make an array of
    objects: texts are ``str``, sequences are arrays, compounds are dicts. The path may be a URL.

    ``cf`` unpacks values as the CF conventions say, and ``mask_valid`` takes the valid range into account, as
    :class:`Field` describes; ``cf="mask"`` gives a masked array.
    """
    items = _items(selection)
    how = unpack_spec(cf, mask_valid)
    return _selected(read_variable(absolute_path(os.fspath(path)), variable, ",".join(map(_word, items)), how), items)


def inspect(path: str | os.PathLike[str]) -> dict[str, Any]:
    """What is in the file at ``path``: the facts of ``forebay inspect --json``.

    ``groups``, ``variables``, ``aliases`` and ``refused`` are dicts by name. A variable has ``dtype``, ``numpy`` (its
    type for NumPy; ``None`` where elements differ in length or cannot be read), ``shape``, ``dimensions``, ``chunks``,
    ``filters``, ``attributes`` and more. Attributes are numbers, texts, lists of texts and arrays; one that cannot be
    read is a :class:`ValueError` that says why. ``swmr`` is true where a SWMR writer has the file open: then these are
    the facts of this moment.
    """
    found, types, attributes = inspect_file(absolute_path(os.fspath(path)))
    found["groups"] = {name: {"attributes": {}} for name in found["groups"]}
    variables = {variable["name"]: variable for variable in found["variables"]}
    for variable, code in zip(variables.values(), types):
        variable["numpy"] = _numpy(code)
        for key in ("shape", "max_shape", "dimensions"):
            variable[key] = tuple(variable[key])
        variable["attributes"] = {}
    found["variables"] = variables
    found["aliases"], found["refused"] = dict(found["aliases"]), dict(found["refused"])
    for is_group, owner, name, value in attributes:
        found["groups" if is_group else "variables"][owner]["attributes"][name] = attribute_of(value)
    return found


def _numpy(code: Any) -> np.dtype[Any] | None:
    """The type that the compiled part describes by ``code``: elements of an array type have a shape of their own."""
    return None if code is None else np.dtype((code[0], tuple(code[1])) if type(code) is tuple else code)


def _selected(raw: RawArray, items: tuple[Index, ...]) -> Any:
    """The values of ``raw``, which ``items`` chose: a number chose one, and its axis is there still."""
    values, mask = values_of(raw), raw.mask
    if mask is not None:
        values = np.ma.masked_array(values, np.frombuffer(bytearray(mask), bool).reshape(values.shape))
    return values[tuple(0 if isinstance(item, int) else _kept(item) for item in items)]


def _items(selection: Selected) -> tuple[Index, ...]:
    if selection is None:
        return ()
    if isinstance(selection, str):
        return tuple(_parsed(item.strip()) for item in selection.split(",")) if selection.strip() else ()
    if not isinstance(selection, tuple):
        selection = (selection,)
    return tuple(item if isinstance(item, (slice, EllipsisType)) else _number(item) for item in selection)


def _number(item: Any) -> int:
    # True is a number to Python, and to NumPy a mask.
    if not isinstance(item, (bool, np.bool_)):
        with contextlib.suppress(TypeError):
            return operator.index(item)
    raise TypeError(f"{item!r} in a selection; numbers, slices and ... choose a part of a variable")


def _parsed(item: str) -> Index:
    if item == "...":
        return ...
    try:
        numbers = [int(part) if part.strip() else None for part in item.split(":")]
    except ValueError:
        raise ValueError(f"{item!r} in a selection; it is written as NumPy writes it: '0:10, 5, ::2'") from None
    if len(numbers) > 3 or numbers == [None]:
        raise ValueError(f"{item!r} in a selection; it is written as NumPy writes it: '0:10, 5, ::2'")
    return slice(*numbers) if len(numbers) > 1 else operator.index(numbers[0] or 0)


def _word(item: Index) -> str:
    """The item as the compiled part reads it."""
    if isinstance(item, slice):
        parts = (item.start, item.stop, item.step)
        return ":".join("" if part is None else str(operator.index(part)) for part in parts)
    return "..." if isinstance(item, EllipsisType) else str(item)


def _kept(item: slice | EllipsisType) -> Any:
    return ... if isinstance(item, EllipsisType) else slice(None)
