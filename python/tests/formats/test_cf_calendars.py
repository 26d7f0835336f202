"""Times of every CF calendar, held against cftime."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import cftime
import numpy as np
import pytest
from cf_files import same_bits, write

import forebay

EPOCH = "days since 1970-01-01"
CALENDARS = [
    "noleap", "365_day", "all_leap", "366_day", "360_day", "julian", "standard", "gregorian", "proleptic_gregorian",
]  # fmt: skip
UNITS = [
    "days since 2000-01-01",
    "days since 1850-03-01 12:00:00",
    "hours since 1900-02-28 06:00",
    "minutes since 1999-12-30 23:59:59",
    "seconds since 2001-2-3 4:05:06",
    "days since 0001-01-01",
    "days since 1582-10-01",
    "days since 1582-10-16",
]


def days_of(counts: Any, units: str, calendar: str) -> np.ndarray[Any, Any]:
    """What cftime makes of the dates it reads, counted in days of their calendar."""
    return np.asarray(cftime.date2num(cftime.num2date(counts, units, calendar), EPOCH, calendar), "f8")


@pytest.mark.parametrize("calendar", CALENDARS)
@pytest.mark.parametrize("dtype", ["i4", "i8", "f8", "u2"])
def test_days_are_those_that_cftime_counts(tmp_path: Path, calendar: str, dtype: str) -> None:
    counts = np.array([0, 1, 59, 60, 365, 366, 1460, 36524, 20, 5000], dtype)
    if dtype == "f8":
        counts[1::2] += 0.25
    variables = {f"t{number}": (counts, {"units": units, "calendar": calendar}) for number, units in enumerate(UNITS)}
    ds = forebay.open(write(tmp_path / "a.h5", variables), list(variables), cf="days")
    batch = ds[:]
    for name, (_, attributes) in variables.items():
        expected = days_of(counts, attributes["units"], calendar)
        assert batch[name].dtype == np.float64
        np.testing.assert_allclose(batch[name], expected, rtol=0, atol=2e-9, err_msg=str(attributes))
        dates = forebay.cftime_dates(batch[name], calendar)
        assert dates.tolist() == cftime.num2date(counts, attributes["units"], calendar).tolist(), attributes
    described = ds.describe()["fields"]["t0"]
    assert described["units"] == EPOCH
    assert cftime.datetime(2000, 1, 1, calendar=described["calendar"]).calendar == described["calendar"]


@pytest.mark.parametrize("calendar", ["noleap", "all_leap", "360_day", "julian"])
def test_times_that_no_datetime64_can_be_become_days(tmp_path: Path, calendar: str) -> None:
    counts = np.array([0.0, 58.5, 59.0, -999.0], "f8")
    attributes = {"units": "days since 2000-01-01", "calendar": calendar, "_FillValue": -999.0}
    path = write(tmp_path / "a.h5", {"time": (counts, attributes)})
    for cf in (True, "time", "days"):
        ours = forebay.open(path, ["time"], cf=cf)[:]["time"]
        same_bits(ours[:3], days_of(counts[:3], "days since 2000-01-01", calendar), cf)
        assert np.isnan(ours[3])
    masked = forebay.open(path, ["time"], cf="mask")[:]
    assert masked["time"][3] == 0 and masked["time_mask"].tolist() == [False, False, False, True]
    same_bits(forebay.open(path, ["time"], cf="values")[:]["time"][:3], counts[:3], "numbers")


def files(folder: Path, calendars: list[str]) -> list[Path]:
    found = []
    for year, calendar in zip((2000, 2001, 2002), calendars):
        attributes = {"units": f"days since {year}-01-01", "calendar": calendar}
        found.append(write(folder / f"{year}.h5", {"time": (np.arange(3.0), attributes)}))
    return found


def test_files_with_other_reference_dates_count_from_one(tmp_path: Path) -> None:
    paths = files(tmp_path, ["noleap", "noleap", "365_day"])
    ours = forebay.open(paths, ["time"], cf=True)[:]["time"]
    assert np.diff(ours).tolist() == [1, 1, 363, 1, 1, 363, 1, 1]
    dates = forebay.cftime_dates(ours, "noleap")
    assert [date.year for date in dates] == [2000] * 3 + [2001] * 3 + [2002] * 3
    with pytest.raises(forebay.InvalidError, match="2001.h5: variable 'time'.*'days since 2001-01-01'.*'days since 2000-01-01'"):
        forebay.open(paths, ["time"], cf="values")
    assert forebay.open(paths, ["time"])[:]["time"].tolist() == [0, 1, 2] * 3


def test_numbers_of_one_reference_date_are_joined_however_it_is_written(tmp_path: Path) -> None:
    paths = []
    for number, units in enumerate(["days since 2000-01-01", "days since 2000-1-1 00:00:00"]):
        paths.append(write(tmp_path / f"{number}.h5", {"time": (np.arange(2), {"units": units})}))
    assert forebay.open(paths, ["time"], cf="values")[:]["time"].tolist() == [0, 1, 0, 1]


def test_files_of_different_calendars_are_not_joined(tmp_path: Path) -> None:
    with pytest.raises(forebay.InvalidError, match="2001.h5: variable 'time'.*'360_day'.*'noleap'"):
        forebay.open(files(tmp_path, ["noleap", "360_day"]), ["time"], cf=True)
    with pytest.raises(forebay.InvalidError, match="2001.h5: variable 'time'.*'noleap'.*'standard'"):
        forebay.open(files(tmp_path, ["standard", "noleap"]), ["time"], cf=True)


def test_units_and_dates_that_a_calendar_has_not_are_refused(tmp_path: Path) -> None:
    one = np.arange(3.0)
    bad = {
        "leap_day": {"units": "days since 2001-02-29", "calendar": "noleap"},
        "thirty_first": {"units": "days since 2001-01-31", "calendar": "360_day"},
        "gap": {"units": "days since 1582-10-10", "calendar": "standard"},
        "months": {"units": "months since 2000-01-01", "calendar": "noleap"},
        "moon": {"units": "days since 2000-01-01", "calendar": "lunar"},
    }
    good = {
        "february": {"units": "days since 2001-02-30", "calendar": "360_day"},
        "leap_day_of_all": {"units": "days since 2001-02-29", "calendar": "all_leap"},
        "julian": {"units": "days since 1900-02-29", "calendar": "julian"},
        "no_gap": {"units": "days since 1582-10-10", "calendar": "proleptic_gregorian"},
        "thirty_days": {"units": "months since 2000-01-01", "calendar": "360_day"},
        "common_years": {"units": "common_years since 2000-01-01", "calendar": "365_day"},
    }
    path = write(tmp_path / "a.h5", {name: (one, attributes) for name, attributes in {**bad, **good}.items()})
    for name in bad:
        with pytest.raises(forebay.UnsupportedError, match=f"a.h5: variable '{name}'"):
            forebay.open(path, [name], cf="days")
    for name, attributes in good.items():
        ours = forebay.open(path, [name], cf="days")[:][name]
        same_bits(ours, days_of(one, attributes["units"], attributes["calendar"]), name)


def test_dates_beyond_datetime64_are_days_on_request(tmp_path: Path) -> None:
    counts = np.array([0, 577736, 577737, 1000000])
    attributes = {"units": "days since 0001-01-01", "calendar": "standard"}
    path = write(tmp_path / "a.h5", {"time": (counts, attributes)})
    with pytest.raises(forebay.UnsupportedError, match="cf='days'"):
        forebay.open(path, ["time"], cf=True)[:]
    same_bits(
        forebay.open(path, ["time"], cf="days")[:]["time"], days_of(counts, attributes["units"], "standard"), "days"
    )


def test_read_gives_days_too(tmp_path: Path) -> None:
    attributes = {"units": "hours since 2000-02-28", "calendar": "noleap"}
    path = write(tmp_path / "a.h5", {"time": (np.arange(0, 96, 24), attributes)})
    ours = forebay.read(path, "time", cf=True)
    same_bits(ours, days_of(np.arange(0, 96, 24), attributes["units"], "noleap"), "read")
    assert [date.day for date in forebay.cftime_dates(ours, "noleap")] == [28, 1, 2, 3]
