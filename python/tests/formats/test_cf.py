"""Values unpacked by the CF conventions, held against xarray; samples along any axis, held against NumPy."""

from __future__ import annotations

import itertools
import json
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import h5py
import netCDF4
import numpy as np
import pytest
import xarray
from cf_files import same_bits, write

import forebay
from forebay import Along, Field, Windows

INTEGERS = ["i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8"]
FLOATS = ["f4", "f8"]
HUGE = 2.0**66
"""A missing value that floats of 32 bits hold."""


def stored(dtype: str) -> np.ndarray[Any, Any]:
    """Values at the ends of a type and between, 24 of them."""
    kind = np.dtype(dtype)
    if kind.kind == "f":
        return np.array([0.0, -0.0, 1.5, -2.25, HUGE, -9999, np.nan, np.inf, 1 / 3, 7, 255, 3] * 2, kind)
    info = np.iinfo(kind)
    # Not so large that 64-bit floats round them: xarray compares missing values only after that.
    ends = [info.min, info.max] if kind.itemsize < 4 else [-(2**30) if info.min else 0, 2**30]
    return np.array([*ends, 0, 1, 2, 3, 100, 7, 9, 50, 99, 127] * 2, kind)


def factors() -> Iterator[dict[str, Any]]:
    yield {}
    for scale, offset in itertools.product([None, "f4", "f8"], repeat=2):
        attributes: dict[str, Any] = {}
        if scale:
            attributes["scale_factor"] = np.dtype(scale).type(0.01)
        if offset:
            attributes["add_offset"] = np.dtype(offset).type(273.15)
        if attributes:
            yield attributes


def gaps(dtype: str) -> Iterator[dict[str, Any]]:
    one = np.dtype(dtype).type
    yield {}
    yield {"_FillValue": one(7)}
    yield {"missing_value": one(9)}
    yield {"_FillValue": one(7), "missing_value": np.array([9, 100], dtype)}
    if np.dtype(dtype).kind == "f":
        yield {"_FillValue": one(np.nan)}
        yield {"_FillValue": one(HUGE), "missing_value": one(-9999)}
    else:
        yield {"missing_value": np.float64(3.0)}
        yield {"valid_range": np.array([1, 100], dtype)}


def cases() -> Iterator[tuple[str, np.ndarray[Any, Any], dict[str, Any]]]:
    for dtype in INTEGERS + FLOATS:
        for attributes, missing in itertools.product(factors(), gaps(dtype)):
            yield dtype, stored(dtype), {**attributes, **missing}
    for dtype, unsigned in [("i1", "true"), ("i2", "true"), ("i4", "true"), ("u1", "false"), ("u2", "false")]:
        fill = np.dtype(dtype).type(-1 if dtype[0] == "i" else 7)
        for attributes in factors():
            for missing in [{}, {"_FillValue": fill}]:
                yield dtype, stored(dtype), {**attributes, **missing, "_Unsigned": unsigned}


def decoded(values: np.ndarray[Any, Any], attributes: dict[str, Any]) -> np.ndarray[Any, Any]:
    variable = xarray.Variable([f"axis{axis}" for axis in range(values.ndim)], values, dict(attributes))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return xarray.conventions.decode_cf_variable("x", variable, decode_timedelta=False).values


def test_every_packing_unpacks_as_xarray_decodes_it(tmp_path: Path) -> None:
    all_cases = {f"x{number}": (values, attributes) for number, (_, values, attributes) in enumerate(cases())}
    path = write(tmp_path / "a.h5", all_cases)
    with np.errstate(all="ignore"):
        batch = forebay.open(path, list(all_cases), cf=True)[:]
        for name, (values, attributes) in all_cases.items():
            same_bits(batch[name], decoded(values, attributes), (values.dtype, attributes))
    assert len(all_cases) > 400


def test_a_missing_value_is_compared_as_it_is_stored(tmp_path: Path) -> None:
    """xarray rounds to the new type first, and finds none of these any more."""
    variables: dict[str, Any] = {
        "float": (np.array([1e20, 1.0]), {"_FillValue": 1e20, "scale_factor": np.float32(0.5)}),
        "long": (np.array([2**31 - 1, 2], "i4"), {"_FillValue": np.int32(2**31 - 1), "scale_factor": np.float32(0.5)}),
        "longest": (np.array([2**63 - 1, 2**63 - 2]), {"_FillValue": np.int64(2**63 - 1)}),
    }
    batch = forebay.open(write(tmp_path / "a.h5", variables), list(variables), cf=True)[:]
    assert [np.isnan(values).tolist() for values in batch.values()] == [[True, False]] * 3


def test_by_default_values_are_as_they_are_stored(tmp_path: Path) -> None:
    values = stored("i2")
    path = write(tmp_path / "a.h5", {"x": (values, {"scale_factor": 0.1, "_FillValue": np.int16(7)})})
    same_bits(forebay.open(path, ["x"])[:]["x"], values, "raw")
    same_bits(forebay.open(path, [Field("x", cf=False)], cf=True)[:]["x"], values, "a field that says so")


def test_a_mask_stands_beside_values_and_integers_stay_integers(tmp_path: Path) -> None:
    values, floats = stored("i2"), stored("f4")
    variables = {
        "packed": (values, {"scale_factor": np.float32(0.5), "_FillValue": np.int16(7)}),
        "plain": (values, {"missing_value": np.array([7, 9], "i2")}),
        "full": (values, {"scale_factor": np.float32(0.5)}),
        "float": (floats, {"_FillValue": np.float32(HUGE)}),
    }
    batch = forebay.open(write(tmp_path / "a.h5", variables), list(variables), cf="mask")[:]
    assert list(batch) == ["packed", "packed_mask", "plain", "plain_mask", "full", "float", "float_mask"]
    seven = values == 7
    same_bits(batch["packed_mask"], seven, "mask")
    same_bits(batch["packed"], np.where(seven, np.float32(0), values.astype("f4") * np.float32(0.5)), "values")
    either = seven | (values == 9)
    same_bits(batch["plain_mask"], either, "mask of integers")
    same_bits(batch["plain"], np.where(either, 0, values).astype("i2"), "integers")
    gone = (floats == np.float32(HUGE)) | np.isnan(floats)
    same_bits(batch["float_mask"], gone, "mask of floats")
    same_bits(batch["float"], np.where(gone, np.float32(0), floats), "floats")
    described = forebay.open(tmp_path / "a.h5", ["plain"], cf="mask").describe()["fields"]
    assert described["plain_mask"]["numpy"] == bool and described["plain"]["numpy"] == np.int16


def test_a_valid_range_is_heeded_when_asked_as_netcdf4_heeds_it(tmp_path: Path) -> None:
    path = tmp_path / "a.nc"
    ranges = {
        "both": {"valid_range": np.array([1, 100], "i2")},
        "least": {"valid_min": np.int16(3)},
        "greatest": {"valid_max": np.int16(50)},
    }
    with netCDF4.Dataset(path, "w") as file:
        file.createDimension("x", 24)
        for name, attributes in ranges.items():
            variable = file.createVariable(name, "i2", ("x",), fill_value=np.int16(7))
            variable.set_auto_maskandscale(False)
            variable.setncatts({**attributes, "scale_factor": np.float32(0.5)})
            variable[:] = stored("i2")
    masked = forebay.open(path, list(ranges), cf="mask", mask_valid=True)[:]
    plain = forebay.open(path, list(ranges), cf=True)[:]
    with netCDF4.Dataset(path) as file:
        for name in ranges:
            expected = file[name][:]
            same_bits(masked[f"{name}_mask"], np.ma.getmaskarray(expected), name)
            assert np.isnan(plain[name]).sum() == 2


TIMES = {
    "days since 2000-01-01": [0, 1, -1, 400],
    "hours since 1900-01-01 00:00:0.0": [0, 1000000, 876576],
    "seconds since 1970-01-01T00:00:00Z": [0, 1700000000, -5],
    "minutes since 2001-2-3 4:05:06": [5, 7],
    "milliseconds since 1999-12-31 23:59:59": [1, 999],
    "microseconds since 2020-01-01 00:00:00 +01:30": [1, 2],
    "nanoseconds since 1970-01-01": [1, 2],
    "day since 1850-01-01": [55000, 60000],
    "days since 0001-01-01 00:00:00": [730120, 735000],
    "hours since 0001-01-01": [17522904, 17522905],
}


def test_a_valid_range_without_sense_is_an_error_only_where_it_is_asked_for(tmp_path: Path) -> None:
    path = write(tmp_path / "a.h5", {"x": (np.arange(3, dtype="i2"), {"valid_range": np.array([1, 2, 3], "i2")})})
    same_bits(forebay.read(path, "x", cf=True), np.arange(3, dtype="i2"), "x")
    with pytest.raises(forebay.InvalidError, match="attribute 'valid_range'"):
        forebay.read(path, "x", cf=True, mask_valid=True)


@pytest.mark.parametrize("dtype", ["i4", "i8", "u4", "f4", "f8"])
def test_times_become_what_xarray_makes_of_them(tmp_path: Path, dtype: str) -> None:
    variables = {}
    for number, (units, counts) in enumerate(TIMES.items()):
        values = np.resize(np.array(counts, "i8"), 8)
        if dtype[0] == "u":
            values = abs(values)
        values = values.astype(dtype)
        if dtype == "f8" and number < 8:
            values[1::2] += 0.37
        for calendar in ["standard", "proleptic_gregorian"]:
            attributes = {"units": units, "calendar": calendar}
            variables[f"{number}{calendar}"] = (values, attributes)
        if "0001" not in units:
            # From there xarray decodes no missing times.
            variables[f"{number}filled"] = (values, {"units": units, "_FillValue": values[2]})
    path = write(tmp_path / "a.h5", variables)
    batch = forebay.open(path, list(variables), cf=True)[:]
    for name, (values, attributes) in variables.items():
        expected = decoded(values, attributes)
        if expected.dtype.kind == "M":
            same_bits(batch[name], expected.astype("M8[ns]"), attributes)


def test_times_that_no_datetime64_can_be_are_refused_by_name(tmp_path: Path) -> None:
    one = np.arange(3.0)
    variables = {
        "months": (one, {"units": "months since 2000-01-01"}),
        "lunar": (one, {"units": "days since 2000-01-01", "calendar": "lunar"}),
        "date": (one, {"units": "days since yesterday"}),
        "far": (one * 1e9, {"units": "days since 2000-01-01"}),
        "none": (one, {"units": "K"}),
    }
    path = write(tmp_path / "a.h5", variables)
    for name in ["months", "lunar"]:
        with pytest.raises(forebay.UnsupportedError, match=f"a.h5: variable '{name}'.*cf='values'"):
            forebay.open(path, [name], cf=True)
        same_bits(forebay.open(path, [name], cf="values")[:][name], one, "numbers")
    with pytest.raises(forebay.UnsupportedError, match="'yesterday' is no date"):
        forebay.open(path, ["date"], cf=True)
    with pytest.raises(forebay.UnsupportedError, match="variable 'far'.*the time 1000000000.*cftime"):
        forebay.open(path, ["far"], cf=True)[:]
    with pytest.raises(forebay.InvalidError, match="no units of time"):
        forebay.open(path, ["none"], cf="time")
    assert forebay.open(path, ["none"], cf=True)[:]["none"].dtype == np.float64


def test_each_file_has_factors_of_its_own(tmp_path: Path) -> None:
    values = np.arange(40, dtype="i2").reshape(10, 4)
    packings: list[dict[str, Any]] = [
        {"scale_factor": np.float32(0.5), "add_offset": np.float32(1)},
        {"scale_factor": np.float64(0.25), "_FillValue": np.int16(3)},
        {},
    ]
    files = [write(tmp_path / f"{number}.h5", {"x": (values, packing)}) for number, packing in enumerate(packings)]
    expected = np.concatenate([decoded(values, packing).astype("f8") for packing in packings])
    ds = forebay.open(files, ["x"], cf=True)
    same_bits(ds[:]["x"], expected, "all files")
    for batch in ds.loader(batch_size=7, shuffle="full", seed=3):
        same_bits(batch["x"], expected[batch.indices], "shuffled")


def test_what_the_user_asks_comes_after_what_the_file_says(tmp_path: Path) -> None:
    values = np.arange(-600, 600, dtype="i2").reshape(2, 30, 20)
    attributes = {"scale_factor": np.float32(0.1), "add_offset": np.float32(20), "_FillValue": np.int16(5)}
    path = write(tmp_path / "a.h5", {"x": (values, attributes)})
    field = Field("x", cf=True, dtype="float64", scale=2, offset=-1, axes=(1, 0))
    expected = decoded(values, attributes).astype("f8") * 2 - 1
    same_bits(forebay.open(path, [field])[:]["x"], np.ascontiguousarray(expected.transpose(0, 2, 1)), "turned")
    masked = forebay.open(path, [Field("x", cf="mask", dtype="float16", axes=(1, 0))])[:]
    same_bits(masked["x_mask"], np.ascontiguousarray((values == 5).transpose(0, 2, 1)), "mask")
    assert masked["x"].dtype == np.float16


def test_ragged_samples_are_unpacked_too(tmp_path: Path) -> None:
    values, pointers = stored("i2"), np.array([0, 5, 5, 17, 24])
    attributes = {"scale_factor": np.float32(0.5), "_FillValue": np.int16(7)}
    path = write(tmp_path / "a.h5", {"x": (values, attributes), "ptr": (pointers, {})})
    batch = forebay.open(path, ["x"], samples=forebay.Ragged(offsets="ptr"), cf="mask")[[2, 0]]
    order = np.r_[5:17, 0:5]
    same_bits(batch["x_mask"], values[order] == 7, "mask")
    assert batch.offsets["x_mask"].tolist() == [0, 12, 17]


def test_names_without_sense_are_refused(tmp_path: Path) -> None:
    path = write(
        tmp_path / "a.h5",
        {
            "x": (stored("i2"), {"_FillValue": np.int16(7)}),
            "x_mask": (stored("i2"), {}),
            "two": (stored("i2"), {"scale_factor": np.array([1.0, 2.0])}),
            "text": (stored("i2"), {"add_offset": "5"}),
        },
    )
    with pytest.raises(forebay.InvalidError, match="mask of field 'x'"):
        forebay.open(path, ["x", "x_mask"], cf="mask")
    for name in ["two", "text"]:
        with pytest.raises(forebay.InvalidError, match=f"a.h5: variable '{name}': attribute"):
            forebay.open(path, [name], cf=True)
    with pytest.raises(ValueError, match="cf='yes'"):
        forebay.open(path, ["x"], cf="yes")  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def weather(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, np.ndarray[Any, Any]]:
    """A variable of four named axes, once in one piece and once in chunks that cut all of them."""
    values = np.arange(6 * 4 * 10 * 12, dtype="f4").reshape(6, 4, 10, 12)
    path = tmp_path_factory.mktemp("along") / "weather.h5"
    with h5py.File(path, "w") as file:
        for name, options in [("plain", {}), ("cut", {"chunks": (2, 3, 4, 5), "compression": "gzip"})]:
            dataset = file.create_dataset(name, data=values, **options)
            for axis, label in enumerate(["time", "level", "lat", "lon"]):
                dataset.dims[axis].label = label
    return path, values


@pytest.mark.parametrize("variable", ["plain", "cut"])
@pytest.mark.parametrize(("position", "axis"), list(enumerate(["time", "level", "lat", "lon"])))
def test_samples_lie_along_any_axis(weather: Any, variable: str, position: int, axis: str) -> None:
    path, values = weather
    moved = np.moveaxis(values, position, 0)
    for name in (axis, position):
        ds = forebay.open(path, [variable], samples=Along(name))
        same_bits(ds[:][variable], np.ascontiguousarray(moved), axis)
        same_bits(ds[len(ds) - 1][variable], np.ascontiguousarray(moved[-1]), axis)
    pairs = np.stack(np.split(values, values.shape[position] // 2, axis=position))
    ds = forebay.open(path, [variable], samples=Along(axis, rows=2))
    same_bits(ds[:][variable], pairs, "two together")
    for batch in ds.loader(batch_size=2, shuffle="full", seed=1):
        same_bits(batch[variable], np.ascontiguousarray(pairs[batch.indices]), "shuffled")


def test_an_axis_there_is_not_and_a_rest_are_refused(weather: Any) -> None:
    path, _ = weather
    with pytest.raises(forebay.InvalidError, match="no axis called 'tide'.*time, level, lat, lon"):
        forebay.open(path, ["plain"], samples=Along("tide"))
    with pytest.raises(forebay.InvalidError, match="no axis 4"):
        forebay.open(path, ["plain"], samples=Along(4))
    with pytest.raises(forebay.InvalidError, match="no whole number of samples"):
        forebay.open(path, ["plain"], samples=Along("lat", rows=3))


def test_windows_over_named_axes_of_a_packed_variable(weather: Any, tmp_path: Path) -> None:
    values = np.arange(6 * 8 * 8, dtype="i2").reshape(6, 8, 8)
    attributes = {"scale_factor": np.float32(0.5), "add_offset": np.float32(-3), "_FillValue": np.int16(9)}
    path = write(tmp_path / "a.h5", {"x": (values, attributes)})
    with h5py.File(path, "a") as file:
        for axis, label in enumerate(["time", "lat", "lon"]):
            file["x"].dims[axis].label = label
    windows = Windows({"time": 2, "lat": 4, "lon": 3}, stride={"time": 1, "lon": 5})
    ours = forebay.open(path, ["x"], samples=windows, cf=True)[:]["x"]
    whole = decoded(values, attributes)
    places = itertools.product(range(5), (0, 4), (0, 5))
    same_bits(ours, np.stack([whole[t : t + 2, y : y + 4, x : x + 3] for t, y, x in places]), "windows")


@pytest.mark.parametrize("kind", ["NETCDF3_CLASSIC", "NETCDF3_64BIT_OFFSET", "NETCDF4"])
def test_netcdf_names_its_axes_and_packs_its_values(tmp_path: Path, kind: Any) -> None:
    path, values = tmp_path / "a.nc", np.arange(8 * 6 * 10, dtype="i2").reshape(8, 6, 10)
    with netCDF4.Dataset(path, "w", format=kind) as file:
        for name, length in [("time", None), ("lat", 6), ("lon", 10)]:
            file.createDimension(name, length)
        t2m = file.createVariable("t2m", "i2", ("time", "lat", "lon"), fill_value=np.int16(5))
        t2m.set_auto_maskandscale(False)
        t2m.setncatts({"scale_factor": 0.25, "add_offset": 250.0})
        t2m[:] = values
        time = file.createVariable("time", "f8", ("time",))
        time.units = "hours since 1900-01-01 00:00:00.0"
        time[:] = np.arange(8) * 6 + 876576
    with xarray.open_dataset(path, engine="netcdf4") as decoded_file:
        whole, times = decoded_file["t2m"].values, decoded_file["time"].values
    both = forebay.open(path, ["t2m", "time"], samples=Along("time"), cf=True)[:]
    same_bits(both["t2m"], whole, kind)
    same_bits(both["time"], times.astype("M8[ns]"), kind)
    by_place = forebay.open(path, ["t2m"], samples=Along("lon"), cf=True)[:]["t2m"]
    same_bits(by_place, np.ascontiguousarray(np.moveaxis(whole, 2, 0)), kind)
    windows = Windows({"time": 4, "lat": 3, "lon": 5}, stride={"time": 2})
    ours = forebay.open(path, ["t2m"], samples=windows, cf=True)[:]["t2m"]
    places = itertools.product((0, 2, 4), (0, 3), (0, 5))
    same_bits(ours, np.stack([whole[t : t + 4, y : y + 3, x : x + 5] for t, y, x in places]), kind)


def test_the_command_unpacks_too(forebay_command: Any, weather: Any, tmp_path: Path) -> None:
    values = np.arange(24, dtype="i2").reshape(6, 4)
    variables = {
        "x": (values, {"scale_factor": np.float32(0.5), "_FillValue": np.int16(9)}),
        "time": (np.arange(6), {"units": "hours since 2000-01-01"}),
    }
    path = write(tmp_path / "a.h5", variables)

    def types(*options: str) -> dict[str, str]:
        said = json.loads(forebay_command("load", path, "--field=x", "--field=time", *options, "--json").stdout)
        return {field["name"]: field["dtype"] for field in said["fields"]}

    raw, unpacked, masked = types(), types("--cf"), types("--cf=mask")
    assert raw["x"] != unpacked["x"] and unpacked["time"] == "datetime64[ns]"
    assert list(masked) == ["x", "x_mask", "time"]
    assert "cut" in forebay_command("plan", weather[0], "--field=cut", "--samples=along:lat").stdout.decode()


def test_files_that_store_other_types_are_one_field_once_they_are_unpacked(tmp_path: Path) -> None:
    begins = ["hours since 1900-01-01", "days since 1970-01-01", "seconds since 2002-01-01"]
    packed = [{"dtype": "i2", "scale_factor": 0.5, "_FillValue": -1}, {"dtype": "f4"}, {"dtype": "i4", "scale_factor": 0.25}]
    sets = []
    for number, (units, how, kind) in enumerate(zip(begins, packed, ["i4", "f8", "i8"])):
        times = np.datetime64("2001-01-01", "ns") + np.arange(5) * np.timedelta64(1, "D") + number * np.timedelta64(400, "D")
        whole = xarray.Dataset({"p": ("time", np.arange(5.0) / 4), "n": ("time", np.arange(5))}, {"time": times})
        path = tmp_path / f"{number}.nc"
        count = {"dtype": ["i2", "i8", "u4"][number]}
        whole.to_netcdf(path, encoding={"time": {"units": units, "dtype": kind}, "p": how, "n": count})
        sets.append(xarray.open_dataset(path))
    for order in ([0, 1, 2], [2, 1, 0], [1, 2, 0]):
        files = [tmp_path / f"{number}.nc" for number in order]
        batch = forebay.open(files, ["time", "p", "n"], cf=True)[:]
        for name in ("time", "p", "n"):
            expected = np.concatenate([sets[number][name].values for number in order])
            assert batch[name].dtype == expected.dtype and np.array_equal(batch[name], expected, equal_nan=name == "p"), name


@pytest.mark.parametrize("order", [[0, 1], [1, 0]])
def test_files_of_the_longest_signed_and_unsigned_integers_are_joined_as_numpy_joins_them(tmp_path: Path, order: list[int]) -> None:
    values = [np.array([-5, 7, 2**62 + 1]), np.array([1, 2**63 + 2**40], "u8")]
    files = [tmp_path / f"{number}.nc" for number in order]
    for number in order:
        xarray.Dataset({"n": ("row", values[number])}).to_netcdf(tmp_path / f"{number}.nc")
    batch = forebay.open(files, ["n"], cf=True)[:]["n"]
    expected = np.concatenate([values[number] for number in order])
    assert batch.dtype == expected.dtype == np.dtype("f8") and np.array_equal(batch, expected)
