"""The ``forebay`` command over several files: joined to one store, inspected, cut into windows; values unpacked by CF."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import h5py
import netCDF4
import numpy as np
import pytest
import xarray
import zarr

import forebay
from forebay import Centres, Groups, Ragged, Windows

RANDOM = np.random.default_rng(3)
LENS = [31, 29, 31]
STARTS = ["2020-01-01", "2020-02-01", "2020-03-01"]


def run(*arguments: object, code: int = 0) -> str:
    command = [sys.executable, "-m", "forebay", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stderr if code else done.stdout


def month(path: Path, days: int, start: str, time: str = "i4", scale: float = 0.01) -> Path:
    """A month of packed temperatures over a small grid, each month with its own date to count from."""
    with netCDF4.Dataset(path, "w") as file:
        for name, size in (("time", None), ("lat", 3), ("lon", 4), ("bounds", 2)):
            file.createDimension(name, size)
        hours = np.arange(days) * 24
        variable = file.createVariable("time", time, ("time",))
        variable.units, variable.bounds = f"hours since {start}", "time_bounds"
        variable[:] = hours
        file.createVariable("time_bounds", "f8", ("time", "bounds"))[:] = np.stack([hours, hours + 24.0], 1)
        file.createVariable("lat", "f4", ("lat",))[:] = [10, 20, 30]
        file.createVariable("height", "f8", ("lat", "lon"))[:] = np.arange(12.0).reshape(3, 4)
        packed = file.createVariable("t2m", "i2", ("time", "lat", "lon"), zlib=True, chunksizes=(8, 3, 4), fill_value=-9999)
        packed.scale_factor, packed.add_offset = scale, 273.15
        packed.set_auto_maskandscale(False)
        values = RANDOM.integers(-2000, 2000, (days, 3, 4)).astype("i2")
        values[values % 17 == 0] = -9999
        packed[:] = values
        names = file.createVariable("station", str, ("time",))
        for number in range(days):
            names[number] = f"{start}/{number}" * (number % 3)
    return path


@pytest.fixture(scope="module")
def months(tmp_path_factory: Any) -> list[Path]:
    folder = tmp_path_factory.mktemp("months")
    return [month(folder / f"era5_{number}.nc", *one) for number, one in enumerate(zip(LENS, STARTS))]


def test_months_become_one_store_as_xarray_joins_them(months: list[Path], tmp_path: Path) -> None:
    store = tmp_path / "all.zarr"
    answer = json.loads(run("--json", "convert", months[0].parent / "era5_*.nc", store))
    assert [Path(one).name for one in answer["inputs"]] == [path.name for path in months]
    ours = zarr.open_group(store)
    for name in ("t2m", "station", "time_bounds", "time", "lat", "height"):
        theirs = []
        for path in months:
            with netCDF4.Dataset(path) as file:
                file.set_auto_maskandscale(False)
                theirs.append(file[name][:])
        if name in ("t2m", "station"):
            expected = np.concatenate(theirs)
        elif name.startswith("time"):
            first = np.cumsum([0, *LENS[:-1]]) * 24
            expected = np.concatenate([one + begin for one, begin in zip(theirs, first)])
        else:
            expected = theirs[0]
        assert np.array_equal(np.asarray(ours[name][:]).astype(expected.dtype), expected), name
    assert ours["t2m"].chunks == (8, 3, 4) and ours["time"].dtype == np.int32
    joined = xarray.concat([xarray.load_dataset(path) for path in months], "time", data_vars="minimal")
    with xarray.open_zarr(store) as decoded:
        assert np.array_equal(decoded["time"].values, joined["time"].values)
        assert np.array_equal(decoded["t2m"].values, joined["t2m"].values.astype(decoded["t2m"].dtype), equal_nan=True)
        assert decoded["height"].dims == ("lat", "lon")


def test_files_are_joined_by_name_and_one_variable_goes_to_npy(months: list[Path], tmp_path: Path) -> None:
    out = tmp_path / "t2m.npy"
    run("convert", months[2], months[0], out, "--variable", "t2m", "--files-axis", "time")
    read = [forebay.read(path, "t2m") for path in (months[2], months[0])]
    assert np.array_equal(np.load(out), np.concatenate(read))


def test_plain_hdf5_files_are_joined_by_their_rows(tmp_path: Path) -> None:
    rows = [4, 0, 7]
    for number, count in enumerate(rows):
        with h5py.File(tmp_path / f"{number}.h5", "w") as file:
            file["x"] = np.full((count, 5), number, "f4")
            file["y"] = np.arange(count)
            file["names"] = np.array(["a", "b"], "S1")
    run("convert", tmp_path / "0.h5", tmp_path / "2.h5", tmp_path / "all.zarr")
    ours = zarr.open_group(tmp_path / "all.zarr")
    assert ours["x"][:].mean(1).tolist() == [0] * 4 + [2] * 7 and ours["names"].shape == (2,)
    assert ours["y"][:].tolist() == [0, 1, 2, 3, *range(7)]


def test_files_that_do_not_fit_together_are_refused_by_name(months: list[Path], tmp_path: Path) -> None:
    other = month(tmp_path / "other.nc", 30, "2020-04-01", scale=0.02)
    said = run("convert", months[0], other, tmp_path / "a.zarr", code=5)
    assert "other.nc" in said and "t2m" in said and "scale_factor" in said
    half = month(tmp_path / "half.nc", 30, "2020-04-01 00:30")
    said = run("convert", months[0], half, tmp_path / "a.zarr", code=5)
    assert "half.nc" in said and "'time'" in said and "whole units" in said
    with netCDF4.Dataset(half, "a") as file:
        file["time"].units = "hours since 2020-04-01"
        file["height"][:] = 7
    said = run("convert", months[0], half, tmp_path / "a.zarr", code=2)
    assert "height" in said and "differs from the first file" in said
    assert "no variable begins with the axis 'depth'" in run("convert", *months, tmp_path / "a.zarr", "--files-axis", "depth", code=3)
    assert not (tmp_path / "a.zarr").exists()
    run("convert", months[0], half, tmp_path / "a.zarr", "-v", "t2m", "-v", "time")


@pytest.mark.parametrize(
    ("units", "calendar"),
    [("hours since 2020-02-01 00:00:00", None), ("h since 2020-2-1T00:00Z", "gregorian"), ("hours since 2020-01-01 00:00", "standard")],
)
def test_dates_and_calendars_may_be_written_in_any_way(tmp_path: Path, units: str, calendar: str | None) -> None:
    pair = [month(tmp_path / f"{number}.nc", 5, start) for number, start in enumerate(STARTS[:2])]
    with netCDF4.Dataset(pair[1], "a") as file:
        file["time"].units = units
        # Of any length, where the other file has a text of one length.
        file["t2m"].setncattr_string("units", "K")
        if calendar is not None:
            file["time"].calendar = calendar
    with netCDF4.Dataset(pair[0], "a") as file:
        file["t2m"].units = "K"
    run("convert", *pair, tmp_path / "all.zarr")
    with xarray.open_zarr(tmp_path / "all.zarr") as ours:
        theirs = np.concatenate([xarray.load_dataset(path)["time"].values for path in pair])
        assert np.array_equal(ours["time"].values, theirs)


def test_another_calendar_is_refused(tmp_path: Path) -> None:
    pair = [month(tmp_path / f"{number}.nc", 5, start) for number, start in enumerate(STARTS[:2])]
    with netCDF4.Dataset(pair[1], "a") as file:
        file["time"].calendar = "noleap"
    said = run("convert", *pair, tmp_path / "a.zarr", code=5)
    assert "1.nc" in said and "'time'" in said and "calendar" in said


def test_bounds_without_their_times_are_counted_from_the_first_date_too(months: list[Path], tmp_path: Path) -> None:
    run("convert", *months, tmp_path / "b.npy", "-v", "time_bounds")
    hours = np.arange(sum(LENS)) * 24.0
    assert np.array_equal(np.load(tmp_path / "b.npy"), np.stack([hours, hours + 24], 1))


def test_a_date_that_all_files_have_is_the_same_date_and_not_the_same_number(tmp_path: Path) -> None:
    pair = [month(tmp_path / f"{number}.nc", 5, start) for number, start in enumerate(STARTS[:2])]
    for path, start, count in zip(pair, STARTS, (0, -31)):
        with netCDF4.Dataset(path, "a") as file:
            date = file.createVariable("reference", "i4")
            date.units, date[...] = f"days since {start}", count
    run("convert", *pair, tmp_path / "a.zarr")
    assert zarr.open_group(tmp_path / "a.zarr")["reference"][...] == 0
    with netCDF4.Dataset(pair[1], "a") as file:
        file["reference"][...] = 0
    assert "'reference'" in run("convert", *pair, tmp_path / "b.zarr", code=2)


def test_a_variable_that_only_a_later_file_has_is_an_error_or_said_to_be_left_out(tmp_path: Path) -> None:
    for number in range(2):
        with h5py.File(tmp_path / f"{number}.h5", "w") as file:
            file["x"] = np.arange(3.0)
    with h5py.File(tmp_path / "1.h5", "a") as file:
        file["pairs"] = np.zeros(3, [("a", "f4"), ("b", "i8")])
    files = [tmp_path / "0.h5", tmp_path / "1.h5"]
    answer = json.loads(run("--json", "convert", *files, tmp_path / "a.zarr"))
    assert answer["left_out"] == [{"name": "pairs", "why": "the first file has no such variable"}]
    with h5py.File(files[1], "a") as file:
        file["y"] = np.arange(3.0)
    said = run("convert", *files, tmp_path / "b.zarr", code=2)
    assert "1.h5" in said and "'y'" in said and "the first file has no such variable" in said and "name the variables" in said
    run("convert", *files, tmp_path / "b.zarr", "-v", "x")
    said = run("convert", *reversed(files), tmp_path / "c.zarr", code=3)
    assert "0.h5" in said and "'y'" in said


def test_what_is_not_converted_refuses_no_file(tmp_path: Path) -> None:
    # A compound that differs between the files, and an axis of its own that could grow as well.
    for number, kind in enumerate(("f4", "f8")):
        with netCDF4.Dataset(tmp_path / f"{number}.nc", "w") as file:
            file.createDimension("time", None)
            file.createDimension("station", None)
            file.createVariable("t2m", "f4", ("time",))[:] = np.arange(4) + 4 * number
            pair = file.createCompoundType(np.dtype([("a", kind)]), "pair")
            file.createVariable("pairs", pair, ("station",))[:] = np.zeros(3, [("a", kind)])
    files = [tmp_path / "0.nc", tmp_path / "1.nc"]
    answer = json.loads(run("--json", "convert", *files, tmp_path / "a.zarr"))
    assert [one["name"] for one in answer["left_out"]] == ["pairs"]
    assert zarr.open_group(tmp_path / "a.zarr")["t2m"][:].tolist() == list(range(8))


def test_inspect_shows_several_files_and_how_they_differ(months: list[Path], tmp_path: Path) -> None:
    text = run("inspect", months[0].parent / "*.nc", "t2m")
    assert text.count("t2m <i2") == 3 and "3 files of the same variables" in text and "height" not in text
    with h5py.File(tmp_path / "other.h5", "w") as file:
        file["t2m"] = np.zeros((3, 3, 9))
    answer = json.loads(run("--json", "inspect", months[0], months[1], tmp_path / "other.h5"))
    assert len(answer["files"]) == 3 and answer["files"][1]["file"].endswith("era5_1.nc")
    differing = {one["variable"]: one["what"] for one in answer["differences"]}
    assert differing["height"] == "is missing" and "[3, 3, 9]" in differing["t2m"]
    assert "no variable 't2n'" in run("inspect", months[0], "t2n", code=3)


def test_dumped_values_are_unpacked_as_xarray_unpacks_them(months: list[Path], tmp_path: Path) -> None:
    with xarray.open_dataset(months[1]) as decoded:
        answer = json.loads(run("--json", "dump", months[1], "t2m", "--cf", "--slice", "0:2"))
        values = np.array([float(one) for one in answer["values"]]).reshape(answer["shape"])
        assert answer["dtype"] == decoded["t2m"].dtype.str
        assert np.array_equal(values, decoded["t2m"].values[:2], equal_nan=True)
        run("dump", months[1], "t2m", "--cf", "--raw", tmp_path / "t2m.bin")
        raw = np.fromfile(tmp_path / "t2m.bin", decoded["t2m"].dtype)
        assert raw.tobytes() == decoded["t2m"].values.tobytes()
        times = json.loads(run("--json", "dump", months[1], "time", "--cf"))
        assert times["dtype"] == "datetime64[ns]"
        assert np.array_equal(np.array(times["values"], "M8[ns]"), decoded["time"].values)
    assert run("dump", months[1], "time", "--cf", "--slice", ":1") == '"2020-02-01T00:00:00"\n'
    assert float(run("dump", months[1], "time", "--cf=days", "--slice", ":1")) == 18293
    assert run("dump", months[1], "time", "--cf=values", "--slice", "1:2") == "24\n"
    assert run("dump", months[1], "station", "--cf", "--slice", "1") == '"2020-02-01/1"\n'


def fields(*arguments: object) -> tuple[int, dict[str, Any]]:
    """How many samples there are, and the shape of each field, by `load` and by `plan`."""
    loaded = json.loads(run("--json", "load", *arguments))
    planned = json.loads(run("--json", "plan", *arguments))
    assert planned["samples"] == loaded["samples"] and planned["fields"] == loaded["fields"]
    assert loaded["epochs"][0]["samples"] == loaded["samples"]
    return loaded["samples"], {one["name"]: one["sample_shape"] for one in loaded["fields"]}


def test_load_and_plan_take_windows_over_months_with_targets(months: list[Path]) -> None:
    words = ["--field", "t2m", "--field", "height", "--samples", "windows:time=4", "--stride", "time=1"]
    words += ["--targets", "time=1-2,5", "--files-axis", "time", "--cf"]
    count, shapes = fields(*months, *words)
    windows = Windows({"time": 4}, stride={"time": 1}, targets={"time": (1, 2, 5)})
    ds = forebay.open(months, ["t2m", "height"], samples=windows, files_axis="time", cf=True)
    assert count == len(ds) == sum(LENS) - 8
    assert shapes == {name: list(one["shape"]) for name, one in ds.describe()["fields"].items()}
    gone = [months[0], months[2]]
    crossed, _ = fields(*gone, *words, "--gaps", "cross", "--part", "t2m=target")
    assert crossed == 31 + 31 - 8 and fields(*gone, *words)[0] == 2 * (31 - 8)


def test_load_takes_centres_groups_lengths_and_axes_of_fields(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["map"] = RANDOM.random((40, 50, 3))
        file["sites"] = np.array([[10, 20], [30, 40], [8, 8]])
        file["atoms"], file["ptr"] = RANDOM.random((9, 3)), [0, 2, 9]
        file["edges"], file["edge_count"] = np.arange(16).reshape(2, 8), [3, 5]
        file["energy"] = [1.0, 2.0]
        for group in range(4):
            file[f"mol_{group}/xyz"] = np.zeros((group + 1, 3))
    path = tmp_path / "a.h5"
    words = ["--field", "map", "--samples", "centres:sites:8,6", "--axes", "map=2,0,1"]
    ds = forebay.open(path, [forebay.Field("map", axes=(2, 0, 1))], samples=Centres("sites", (8, 6)))
    assert fields(path, *words) == (len(ds), {"map": [3, 8, 6]})
    words = ["--field", "atoms", "--field", "edges", "--label", "energy", "--samples", "ragged:ptr"]
    words += ["--samples", "edges=lengths:edge_count:1"]
    graphs = forebay.open(path, ["atoms", forebay.Field("edges", samples=Ragged(lengths="edge_count", axis=1))], "energy", samples=Ragged("ptr"))
    count, shapes = fields(path, *words)
    assert count == len(graphs) == 2 and shapes == {"atoms": [None, 3], "edges": [2, None], "energy": []}
    assert fields(path, "--field", "xyz", "--samples", "groups:mol_*") == (4, {"xyz": [None, 3]})
    assert len(forebay.open(path, ["xyz"], samples=Groups("mol_*"))) == 4


def test_flags_that_say_nothing_are_refused(months: list[Path]) -> None:
    said = run("load", months[0], "--field", "t2m", "--stride", "time=1", code=2)
    assert "--stride is about windows" in said and "windows:SIZE" in said
    assert "'t2n', which is no field" in run("plan", months[0], "--field", "t2m", "--axes", "t2n=0,1", code=2)
    assert "give --targets" in run("load", *months, "--field", "t2m", "--samples", "windows:4", "--files-axis", "time", "--part", "t2m=target", code=2)
    assert "name them with --field" in run("load", months[0], "--samples", "groups:*", code=2)
    assert "no lead times" in run("load", months[0], "--targets", "6", code=2)
