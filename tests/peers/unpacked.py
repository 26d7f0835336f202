"""Values unpacked by the CF conventions, compared with what xarray decodes by default."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

import forebay

from . import design
from .compare import difference, same_but_for_nan
from .reference import LARGEST_BYTES
from .tally import Tally, grouped


def check_unpacked(tally: Tally, path: str, shown: str, kind: str) -> None:
    """Compares every variable of every group of a file or store."""
    with forebay.File(path, cf=True) as file:
        names = set(file)
        for group in file.groups:
            opened = _open(path, kind, group)
            if isinstance(opened, Exception):
                tally.count("cf not compared", f"xarray: {grouped(str(opened), path)}")
                continue
            with opened as dataset:
                for name, variable in dataset.variables.items():
                    full = f"{group}/{name}" if group else str(name)
                    if full in names and variable.size * 8 <= LARGEST_BYTES:
                        _check_variable(tally, (path, shown, kind), file, full, variable)


def _open(path: str, kind: str, group: str) -> Any:
    import xarray

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            engine = "zarr" if kind == "zarr" else "netcdf4"
            return xarray.open_dataset(
                path, engine=engine, group=group or None, chunks=None, cache=False, create_default_indexes=False
            )
        except Exception as error:
            return error


def _check_variable(tally: Tally, place: tuple[str, str, str], file: forebay.File, name: str, variable: Any) -> None:
    path, shown, kind = place
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            theirs = np.asarray(variable.values)
    except Exception as error:
        tally.count("cf not compared", f"xarray: {type(error).__name__}: {grouped(str(error), path)}")
        return
    try:
        ours = file[name][...]
    except forebay.ForebayError as error:
        tally.count("cf refused", grouped(str(error), path))
        return
    if theirs.shape != variable.shape:
        # One sequence, which xarray takes for an array.
        theirs, sequence = np.empty((), object), theirs
        theirs[()] = sequence
    theirs = design.as_stored(theirs, ours, kind) if theirs.dtype.names or theirs.dtype.kind == "U" else theirs
    found = difference(ours, theirs)
    if found is None or same_but_for_nan(ours, theirs):
        tally.count("cf matched")
        return
    if kind == "netcdf4" and design.is_unset_memory(path, name, forebay.read(path, name)):
        tally.count("cf by design", design.UNSET_MEMORY)
        return
    reason = design.unpacked_reason(ours, theirs, _facts(path, name, variable, file[name].attrs))
    if reason:
        tally.count("cf by design", reason)
    else:
        tally.add_wrong(path, f"{name} (cf)", found, shown)


def _facts(path: str, name: str, variable: Any, attributes: dict[str, Any]) -> design.Facts:
    named = [attributes[name] for name in ("_FillValue", "missing_value") if name in attributes]
    named += [variable.encoding[name] for name in ("_FillValue", "missing_value") if name in variable.encoding]
    missing = [text for value in named for text in np.atleast_1d(np.asarray(value, object)).tolist()]
    encoding, calendar = attributes.get("_Encoding", "utf-8"), variable.encoding.get("calendar")
    return design.Facts(missing, encoding, calendar, lambda: _with_plain_unsigned(path, name, variable, attributes))


def _with_plain_unsigned(path: str, name: str, variable: Any, attributes: dict[str, Any]) -> Any:
    import xarray

    word = str(np.asarray(attributes.get("_Unsigned", "true")).ravel()[0])
    if word in ("true", "false") or word.lower() not in ("true", "1"):
        return None
    single = {key: value[0] if np.shape(value) == (1,) else value for key, value in attributes.items()}
    stored = xarray.Variable(variable.dims, forebay.read(path, name), {**single, "_Unsigned": "true"})
    return xarray.conventions.decode_cf_variable(name, stored).values
