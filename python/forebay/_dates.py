"""Dates of the calendars of the CF conventions."""

from __future__ import annotations

import importlib
from datetime import timedelta
from typing import Any

import numpy as np
import numpy.typing as npt

DAYS = "days since 1970-01-01"
"""What numbers of days count, in the calendar they are of."""


def cftime_dates(days: npt.ArrayLike, calendar: str) -> Any:
    """Days since 1970-01-01 of ``calendar``, as ``cf="days"`` and ``cf=True`` give them, as ``cftime.datetime`` objects.

    >>> forebay.cftime_dates(batch["time"], ds.describe()["fields"]["time"]["calendar"])

    An array of objects of the same shape, ``None`` where there is no time. The package ``cftime`` must be installed.
    Dates are rounded to what a 64-bit number of days can tell: microseconds near 1970, 10 of them near the year 1.
    """
    try:
        cftime: Any = importlib.import_module("cftime")
    except ImportError:
        raise ImportError("dates of this calendar are made by the package cftime: pip install cftime") from None
    numbers = np.asarray(days, np.float64)
    dates = np.full(numbers.shape, None, dtype=object)
    known = np.isfinite(numbers)
    # Whole days and microseconds apart: cftime rounds what is added to a date less than one number for both.
    whole = np.floor(numbers[known])
    microseconds = (numbers[known] - whole) * 86_400e6
    precision = np.maximum(np.spacing(np.abs(numbers[known])) * 86_400e6, 1e-9)
    step = 10 ** np.maximum(np.ceil(np.log10(precision)), 0)
    microseconds = np.round(microseconds / step) * step
    first = cftime.num2date(0, DAYS, calendar)
    dates[known] = [
        first + timedelta(days=int(day), microseconds=int(rest)) for day, rest in zip(whole.tolist(), microseconds.tolist())
    ]
    return dates
