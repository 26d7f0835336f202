"""Stores that xarray wrote, unpacked as xarray opens them: Zarr of both versions and NetCDF-4."""

from __future__ import annotations

import pickle
import warnings
from pathlib import Path
from typing import Any

import netCDF4
import numpy as np
import pytest
import xarray
import zarr
from cf_files import same_bits, write

import forebay
from forebay import Along, Field

warnings.filterwarnings("ignore", module="zarr")
warnings.filterwarnings("ignore", module="xarray")


def opened(path: Path) -> xarray.Dataset:
    """What xarray makes of the store or file at ``path``."""
    if path.suffix == ".zarr":
        return xarray.open_zarr(path, consolidated=False, chunks=None)
    return xarray.open_dataset(path, engine="netcdf4")


def same_as_xarray(path: Path, names: list[str]) -> None:
    batch = forebay.open(path, names, cf=True)[:]
    with opened(path) as expected, np.errstate(all="ignore"):
        for name in names:
            values = expected[name].values
            kind = {"M": "M8[ns]", "m": "m8[ns]"}.get(values.dtype.kind, values.dtype)
            same_bits(batch[name], values.astype(kind), (path.name, name))


def variables() -> dict[str, tuple[np.ndarray[Any, Any], dict[str, Any]]]:
    """Values, and how xarray is to encode them."""
    gaps = np.array([280.0, np.nan, 281.25, 282.5, np.nan, 279.75])
    plain = np.arange(6.0)
    packed = {"scale_factor": 0.25, "add_offset": 280.0}
    return {
        "packed": (gaps, {"dtype": "i2", "_FillValue": -32768, **packed}),
        "packed_byte": (gaps, {"dtype": "u1", "_FillValue": 255, **packed}),
        "packed_long": (gaps, {"dtype": "i4", "_FillValue": -1, **packed}),
        "scale_alone": (gaps, {"dtype": "i2", "_FillValue": -9, "scale_factor": 0.25}),
        "offset_alone": (gaps, {"dtype": "i2", "_FillValue": -9, "add_offset": 270.0}),
        "packed_floats": (gaps, {"dtype": "f4", "_FillValue": np.float32(-9), **packed}),
        "single": (gaps.astype("f4"), {}),
        "double": (gaps, {}),
        "half": (gaps.astype("f2"), {}),
        "half_filled": (gaps.astype("f2"), {"_FillValue": np.float16(-9)}),
        "huge": (gaps.astype("f4"), {"_FillValue": np.float32(1e20)}),
        "no_fill": (plain, {"_FillValue": None}),
        "both": (gaps, {"_FillValue": 1e20, "missing_value": 1e20}),
        "missing": (gaps, {"_FillValue": None, "missing_value": -99.0}),
        "integers": (np.arange(6), {}),
        "filled_integers": (np.arange(6, dtype="i4"), {"_FillValue": np.int32(3)}),
        "booleans": (np.array([True, False, True, True, False, False]), {}),
        "dates": (np.arange("2000-01-01", "2000-01-07", dtype="M8[D]").astype("M8[ns]"), {}),
        "dates_with_gaps": (np.array(["2000-01-01", "NaT"] * 3, "M8[ns]"), {}),
        "durations": (np.array([1, 2, 3, 4, 5, 6], "m8[h]").astype("m8[ns]"), {}),
        "durations_with_gaps": (np.array([1, "NaT", 3, 4, "NaT", 6], "m8[s]").astype("m8[ns]"), {}),
        "unsigned": (np.array([0, 200, 255, 1, 128, 3], "u1"), {"dtype": "i1", "_Unsigned": "true", "_FillValue": -1}),
        "signed": (np.array([0, -1, -128, 1, 127, 3], "i1"), {"dtype": "u1", "_Unsigned": "false", "_FillValue": 100}),
    }


@pytest.mark.parametrize("name", ["two.zarr", "three.zarr", "four.nc"])
def test_what_xarray_wrote_is_read_as_xarray_reads_it(tmp_path: Path, name: str) -> None:
    path, made = tmp_path / name, variables()
    if name == "four.nc":
        # NetCDF has no half-precision floats.
        made = {key: one for key, one in made.items() if "half" not in key}
    dataset = xarray.Dataset({key: (("x",), values) for key, (values, _) in made.items()})
    encoding = {key: encoding for key, (_, encoding) in made.items()}
    if name == "four.nc":
        dataset.to_netcdf(path, encoding=encoding, engine="netcdf4")
    else:
        dataset.to_zarr(path, encoding=encoding, zarr_format=2 if name == "two.zarr" else 3, consolidated=False)
    same_as_xarray(path, list(made))


def test_the_fill_value_of_zarr_2_stands_for_what_is_missing(tmp_path: Path) -> None:
    path = tmp_path / "a.zarr"
    group = zarr.open_group(path, mode="w", zarr_format=2)
    stored: dict[str, Any] = {"i2": -7, "u1": 3, "f4": 2.5, "f8": "NaN", "i8": 4, ">i4": 5, ">f8": 1.0}
    for number, (dtype, fill) in enumerate(stored.items()):
        values = np.arange(6, dtype=dtype)
        fill = np.dtype(dtype).type(float(fill))
        values[2] = fill
        array = group.create_array(f"x{number}", shape=(6,), dtype=dtype, fill_value=fill, chunks=(3,))
        array[:] = values
        array.attrs["_ARRAY_DIMENSIONS"] = ["x"]
    zeros = group.create_array("zeros", shape=(6,), dtype="i4", chunks=(3,), fill_value=0)
    zeros[:] = np.arange(6)
    zeros.attrs["_ARRAY_DIMENSIONS"] = ["x"]
    same_as_xarray(path, [*(f"x{number}" for number in range(len(stored))), "zeros"])
    masked = forebay.open(path, ["x0"], cf="mask")[:]
    assert masked["x0"].dtype == np.int16 and masked["x0_mask"].tolist() == [False, False, True, False, False, False]


def test_raw_values_of_zarr_2_stay_as_they_are_stored(tmp_path: Path) -> None:
    path = tmp_path / "a.zarr"
    xarray.Dataset({"t": (("x",), np.array([1.0, np.nan]))}).to_zarr(
        path, zarr_format=2, encoding={"t": {"dtype": "i2", "_FillValue": -5, "scale_factor": 0.5}}
    )
    assert forebay.open(path, ["t"])[:]["t"].tolist() == [2, -5]
    assert forebay.inspect(path)["variables"]["t"]["attributes"]["_FillValue"] == -5


def test_numbers_without_a_word_in_json_are_missing_values_too(tmp_path: Path) -> None:
    path = tmp_path / "a.zarr"
    group = zarr.open_group(path, mode="w", zarr_format=2)
    array = group.create_array("x", shape=(3,), dtype="f4", fill_value=None)
    array[:] = [1, np.nan, np.inf]
    array.attrs.update({"_ARRAY_DIMENSIONS": ["x"], "missing_value": float("inf")})
    same_as_xarray(path, ["x"])


@pytest.mark.parametrize("spelling", ["true", "True", "TRUE", 1, np.int8(1), True])
def test_unsigned_is_known_in_all_its_spellings(tmp_path: Path, spelling: Any) -> None:
    values = np.array([0, 1, -1, -128, 127, 5], "i1")
    attributes = {"_Unsigned": spelling, "_FillValue": np.int8(-1)}
    path = write(tmp_path / "a.h5", {"x": (values, attributes), "y": (values, {"_Unsigned": spelling})})
    batch = forebay.open(path, ["x", "y"], cf=True)[:]
    same_bits(batch["y"], values.view("u1"), spelling)
    same_bits(batch["x"], np.where(values == -1, np.nan, values.view("u1")).astype("f4"), spelling)


@pytest.mark.parametrize("spelling", ["false", "False", 0, False])
def test_signed_is_known_in_all_its_spellings(tmp_path: Path, spelling: Any) -> None:
    values = np.array([0, 1, 255, 128, 127, 5], "u1")
    path = write(tmp_path / "a.h5", {"x": (values, {"_Unsigned": spelling, "_FillValue": np.uint8(255)})})
    ours = forebay.open(path, ["x"], cf=True)[:]["x"]
    same_bits(ours, np.where(values == 255, np.nan, values.view("i1")).astype("f4"), spelling)


def test_an_enumeration_has_missing_values(tmp_path: Path) -> None:
    path = tmp_path / "a.nc"
    with netCDF4.Dataset(path, "w") as file:
        file.createDimension("x", 4)
        clouds = file.createEnumType(np.uint8, "clouds", {"clear": 0, "cumulus": 1, "stratus": 2, "missing": 255})
        filled = file.createVariable("filled", clouds, ("x",), fill_value=255)
        filled[:] = np.array([0, 2, 255, 1], "u1")
        file.createVariable("plain", clouds, ("x",))[:] = np.array([0, 2, 1, 1], "u1")
    same_as_xarray(path, ["filled"])
    assert forebay.open(path, ["plain"], cf=True)[:]["plain"].tolist() == [0, 2, 1, 1]
    masked = forebay.open(path, ["filled"], cf="mask")[:]
    assert masked["filled"].tolist() == [0, 2, 0, 1] and masked["filled_mask"].tolist() == [False, False, True, False]


def test_units_alone_make_no_durations(tmp_path: Path) -> None:
    variables = {
        "days": (np.arange(4), {"units": "days"}),
        "spans": (np.arange(4), {"units": "days", "dtype": "timedelta64[ns]"}),
        "halves": (np.arange(4.0) / 2, {"units": "hours", "dtype": "timedelta64[s]"}),
    }
    batch = forebay.open(write(tmp_path / "a.h5", variables), list(variables), cf=True)[:]
    same_bits(batch["days"], np.arange(4), "days")
    same_bits(batch["spans"], np.arange(4).astype("m8[D]").astype("m8[ns]"), "spans")
    same_bits(batch["halves"], (np.arange(4) * 1800).astype("m8[s]").astype("m8[ns]"), "halves")
    raw = forebay.open(tmp_path / "a.h5", ["spans"], cf="values")[:]["spans"]
    same_bits(raw, np.arange(4), "numbers on request")


def test_axes_of_coordinates_have_their_own_names(tmp_path: Path) -> None:
    path = tmp_path / "a.nc"
    values = np.arange(12, dtype="f4").reshape(4, 3)
    coordinates = {"time": np.arange(4.0), "x": np.arange(3.0)}
    xarray.Dataset({"v0": (("time", "x"), values)}, coords=coordinates).to_netcdf(path)
    found = forebay.inspect(path)["variables"]
    assert {name: one["dimensions"] for name, one in found.items()} == {
        "v0": ("time", "x"), "time": ("time",), "x": ("x",),
    }  # fmt: skip
    batch = forebay.open(path, ["v0", "time"], samples=Along("time"))[:]
    same_bits(batch["v0"], values, "v0")


def test_what_is_masked_stays_zero_when_the_user_scales(tmp_path: Path) -> None:
    values = np.array([[280.0, -999.0, 285.0], [np.nan, 280.0, 290.0]], "f4")
    path = write(tmp_path / "a.h5", {"t": (values, {"_FillValue": np.float32(-999)})})
    field = Field("t", cf="mask", scale=0.1, offset=-28.0)
    batch = forebay.open(path, [field])[:]
    gone = (values == -999) | np.isnan(values)
    expected = np.where(gone, 0, values.astype("f8") * 0.1 - 28.0).astype("f4")
    same_bits(batch["t"], expected, "scaled")
    same_bits(batch["t_mask"], gone, "mask")
    narrow = forebay.open(path, [Field("t", cf="mask", scale=0.1, offset=-28.0, dtype="float16", axes=(0,))])[:]
    assert not narrow["t"][gone].any() and narrow["t"][~gone].tolist() == expected[~gone].astype("f2").tolist()


def test_read_unpacks_as_open_does(tmp_path: Path) -> None:
    values = np.arange(24, dtype="i2").reshape(6, 4)
    variables = {
        "x": (values, {"scale_factor": np.float32(0.5), "_FillValue": np.int16(9), "valid_max": np.int16(20)}),
        "time": (np.arange(6), {"units": "hours since 2000-01-01"}),
        "scalar": (np.array(4, "i2"), {"scale_factor": 0.5}),
        "text": (np.array([b"a", b"b"]), {}),
    }
    path = write(tmp_path / "a.h5", variables)
    whole = forebay.open(path, ["x", "time"], cf=True)[:]
    same_bits(forebay.read(path, "x", cf=True), whole["x"], "x")
    same_bits(forebay.read(path, "x", np.s_[2, ::2], cf=True), whole["x"][2, ::2], "part")
    same_bits(forebay.read(path, "time", cf=True), whole["time"], "time")
    same_bits(forebay.read(path, "time", cf="values"), np.arange(6), "numbers")
    assert forebay.read(path, "scalar", cf=True) == 2.0
    masked = forebay.read(path, "x", cf="mask", mask_valid=True)
    assert isinstance(masked, np.ma.MaskedArray)
    same_bits(np.ma.getmaskarray(masked), (values == 9) | (values > 20), "mask")
    same_bits(forebay.read(path, "x"), values, "as stored")
    assert forebay.read(path, "text", cf=True).tolist() == [b"a", b"b"]
    with pytest.raises(forebay.InvalidError, match="a.h5: variable 'x'.*no units of time"):
        forebay.read(path, "x", cf="time")
    with pytest.raises(ValueError, match="cf='yes'"):
        forebay.read(path, "x", cf="yes")  # type: ignore[arg-type]


def test_an_open_file_unpacks_as_read_does(tmp_path: Path) -> None:
    values = np.arange(24, dtype="i2").reshape(6, 4)
    variables = {
        "x": (values, {"scale_factor": np.float32(0.5), "_FillValue": np.int16(9)}),
        "time": (np.arange(6), {"units": "hours since 2000-01-01"}),
    }
    path = write(tmp_path / "a.h5", variables)
    with forebay.File(path, cf=True) as file:
        for name in variables:
            same_bits(file[name][...], forebay.read(path, name, cf=True), name)
        same_bits(file["x"][2, ::2], forebay.read(path, "x", np.s_[2, ::2], cf=True), "part")
        again = pickle.loads(pickle.dumps(file))
        same_bits(again["x"][...], file["x"][...], "pickled")
    with forebay.File(path, cf="mask") as file:
        masked = file["x"][...]
        assert isinstance(masked, np.ma.MaskedArray)
        same_bits(np.ma.getmaskarray(masked), values == 9, "mask")
    with forebay.File(path) as file:
        same_bits(file["x"][...], values, "as stored")
