"""Differences that are meant, each narrow and by name: forms of values that the documents describe."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from .compare import difference, same_but_for_nan

UNSET_MEMORY = "netCDF leaves memory unset where a variable is shorter than one of several unlimited dimensions"
NON_COORDINATE = "_nc4_non_coord_"


@dataclass
class Facts:
    """What xarray found out about a variable when it unpacked it."""

    missing: list[Any]
    encoding: str
    calendar: str | None
    with_plain_unsigned: Callable[[], Any]
    """Decodes once more with ``_Unsigned`` as xarray knows it; nothing where it is so already, or not there."""


def our_name(name: str, file: Any) -> str:
    """What forebay calls the variable that its own library calls ``name``: a prefix of netCDF's is left as it is."""
    group, _, last = name.rpartition("/")
    hidden = f"{group}/{NON_COORDINATE}{last}" if group else NON_COORDINATE + last
    return hidden if name not in file and hidden in file else name


def is_known_extra(name: str, kind: str) -> bool:
    """Whether forebay alone lists ``name``, and why that is meant."""
    return kind == "netcdf4" and name.rpartition("/")[2].startswith(NON_COORDINATE)


def as_stored(theirs: Any, ours: Any, kind: str) -> Any:
    """Their values in the form that the documents promise for ours; the bits stay."""
    theirs, ours = np.asarray(theirs), np.asarray(ours)
    if theirs.dtype.hasobject:
        return theirs
    # docs/hdf5.md: compounds of `r` and `i` are complex numbers, whatever netCDF calls them.
    if theirs.dtype.names == ("r", "i") and ours.dtype.kind == "c":
        return np.ascontiguousarray(theirs).view(ours.dtype) if theirs.dtype[0] == theirs.dtype[1] else theirs
    form = _stored_form(theirs.dtype, kind)
    return theirs if form == theirs.dtype else _viewed(theirs, form)


def _viewed(array: Any, form: Any) -> Any:
    if form.subdtype is None:
        return np.ascontiguousarray(array).view(form)
    base, shape = form.subdtype
    return np.ascontiguousarray(array).view(base).reshape(*array.shape, *shape)


def _stored_form(dtype: np.dtype[Any], kind: str) -> np.dtype[Any]:
    """docs/zarr.md: times are 64-bit integers, UTF-32 texts are numbers of letters. HDF5 has times as opaque bytes."""
    if dtype.kind in "mM":
        return np.dtype(dtype.str[0] + "i8") if kind == "zarr" else np.dtype("V8")
    if dtype.kind == "U" and kind == "zarr" and dtype.itemsize:
        return np.dtype((dtype.str[0] + "u4", (dtype.itemsize // 4,)))
    if dtype.subdtype is not None:
        return np.dtype((_stored_form(dtype.subdtype[0], kind), dtype.subdtype[1]))
    if dtype.names is None:
        return dtype
    members = [_stored_form(dtype[name], kind) for name in dtype.names]
    offsets = [dtype.fields[name][1] for name in dtype.names]  # type: ignore[index]
    return np.dtype({"names": dtype.names, "formats": members, "offsets": offsets, "itemsize": dtype.itemsize})


def is_unset_memory(path: str, name: str, ours: Any) -> bool:
    """Whether ours is what HDF5 stores, and the variable's fill value from there to the end of its dimensions."""
    import h5py

    with h5py.File(path, "r", locking=False) as file:
        stored = file[name]
        if stored.maxshape.count(None) < 2 or stored.dtype.hasobject:
            return False
        if stored.ndim != ours.ndim or stored.shape == ours.shape:
            return False
        filled = np.full(ours.shape, stored.fillvalue, stored.dtype)
        filled[tuple(slice(length) for length in stored.shape)] = stored[()]
    return difference(ours, filled) is None


def unpacked_reason(ours: Any, theirs: Any, facts: Facts) -> str | None:
    """Which design a difference of unpacked values follows: each is verified, not believed."""
    for reason, holds in UNPACKED.items():
        if holds(np.asarray(ours), np.asarray(theirs), facts):
            return reason
    return None


def _in_nanoseconds(ours: Any, theirs: Any, facts: Facts) -> bool:
    return theirs.dtype.kind in "mM" and difference(ours, theirs.astype(f"{theirs.dtype.kind}8[ns]")) is None


def _not_joined(ours: Any, theirs: Any, facts: Facts) -> bool:
    if ours.dtype != "S1" or ours.ndim != theirs.ndim + 1:
        return False
    if ours.size:
        joined = np.ascontiguousarray(ours).view(f"S{ours.shape[-1]}")[..., 0]
    else:
        joined = np.zeros(ours.shape[:-1], "S1")
    return joined.shape == theirs.shape and _same_texts(joined, theirs, facts)


def _never_missing(ours: Any, theirs: Any, facts: Facts) -> bool:
    are_texts = ours.dtype.kind in "OS" and theirs.dtype.kind in "OSU"
    return are_texts and ours.shape == theirs.shape and _same_texts(ours, theirs, facts)


def _same_texts(ours: Any, theirs: Any, facts: Facts) -> bool:
    """Texts are the same, but for those that xarray takes for missing because they are the fill value."""
    missing = {_encoded(value, facts) for value in facts.missing}
    for mine, other in zip(ours.ravel().tolist(), theirs.ravel().tolist()):
        if isinstance(other, float) and np.isnan(other):
            if _encoded(mine, facts) not in missing:
                return False
        elif _encoded(mine, facts) != _encoded(other, facts):
            return False
    return True


def _encoded(text: Any, facts: Facts) -> Any:
    return text.encode(facts.encoding, "surrogateescape") if isinstance(text, str) else text


def _days(ours: Any, theirs: Any, facts: Facts) -> bool:
    """Dates of calendars that ``datetime64`` does not have: to the microsecond, which is what the dates resolve."""
    if theirs.dtype != object or ours.dtype != np.float64 or ours.shape != theirs.shape or facts.calendar is None:
        return False
    import forebay

    dates = np.asarray(forebay.cftime_dates(ours, facts.calendar), object)
    return all(map(_same_date, dates.ravel().tolist(), theirs.ravel().tolist()))


def _same_date(ours: Any, theirs: Any) -> bool:
    if not hasattr(ours, "calendar") or not hasattr(theirs, "calendar"):
        return not hasattr(ours, "calendar") and not hasattr(theirs, "calendar")
    return ours.calendar == theirs.calendar and abs((ours - theirs).total_seconds()) <= 1e-6


def _unsigned_by_other_words(ours: Any, theirs: Any, facts: Facts) -> bool:
    """docs/cf.md: ``_Unsigned`` may be ``True`` or 1 too; xarray's own tests call that bad, and read it as signed."""
    decoded = facts.with_plain_unsigned()
    return decoded is not None and (difference(ours, decoded) is None or same_but_for_nan(ours, decoded))


UNPACKED: dict[str, Callable[[Any, Any, Facts], bool]] = {
    "times are in nanoseconds": _in_nanoseconds,
    "characters are not joined to texts": _not_joined,
    "texts have no missing values": _never_missing,
    "dates of other calendars are days since 1970-01-01": _days,
    "_Unsigned in other words than xarray's": _unsigned_by_other_words,
}
