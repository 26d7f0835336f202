"""What ``forebay convert`` makes of NetCDF and HDF5, as xarray, zarr-python and tensorstore open it."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import h5py
import netCDF4
import numpy as np
import pytest
import tensorstore
import xarray
import zarr
from cf_files import same_bits

import forebay

warnings.filterwarnings("ignore", module="zarr")
warnings.filterwarnings("ignore", module="xarray")

INTERNAL = {
    "CLASS", "NAME", "DIMENSION_LIST", "REFERENCE_LIST", "DIMENSION_LABELS",
    "_Netcdf4Dimid", "_Netcdf4Coordinates", "_NCProperties", "_nc3_strict",
}  # fmt: skip


def write_weather(path: Path, kind: Any) -> Path:
    with netCDF4.Dataset(path, "w", format=kind) as file:
        file.title = "weather"
        for name, length in [("time", None), ("lat", 3), ("lon", 4), ("bare", 2)]:
            file.createDimension(name, length)
        time = file.createVariable("time", "f8", ("time",))
        time.setncatts({"units": "hours since 2000-01-01", "calendar": "standard"})
        time[:] = [0, 6, 12, 18, 24]
        file.createVariable("lat", "f4", ("lat",))[:] = [10, 20, 30]
        lon = file.createVariable("lon", "f4", ("lon",))
        lon[:] = [0, 90, 180, 270]
        area = file.createVariable("area", "f4", ("lat", "lon"))
        area[:] = np.arange(12).reshape(3, 4)
        for name, dtype, attributes in [
            ("packed", "i2", {"scale_factor": 0.25, "add_offset": 250.0}),
            ("bytes", "i1", {"scale_factor": 0.5}),
            ("single", "f4", {}),
            ("double", "f8", {"missing_value": np.float64(-99)}),
            ("plain", "i4", {}),
        ]:
            fill: Any = {"i2": -32768, "i1": -1, "f4": np.float32(1e20), "f8": np.nan, "i4": 7}[dtype]
            variable = file.createVariable(name, dtype, ("time", "lat", "lon"), fill_value=fill)
            variable.set_auto_maskandscale(False)
            variable.setncatts({**attributes, "coordinates": "area", "units": "K", "valid_range": np.array([1, 100], dtype)})
            values = np.arange(60).reshape(5, 3, 4).astype(dtype)
            values[1, 2, 3] = values[4] = fill
            variable[:] = values
        singles = file.createVariable("singles", "i2", ("bare", "lat"), fill_value=np.int16(5))
        singles.set_auto_maskandscale(False)
        singles.setncatts({"scale_factor": np.float32(0.01), "add_offset": np.float32(3.3)})
        singles[:] = np.arange(6).reshape(2, 3)
    return path


@pytest.mark.parametrize("kind", ["NETCDF4", "NETCDF3_64BIT_OFFSET", "NETCDF4_CLASSIC"])
def test_xarray_opens_a_converted_file_as_it_opens_the_file(forebay_command: Any, tmp_path: Path, kind: str) -> None:
    path, out = write_weather(tmp_path / "a.nc", kind), tmp_path / "a.zarr"
    forebay_command("convert", path, out)
    with xarray.open_dataset(path, engine="netcdf4") as expected, warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        ours = xarray.open_zarr(out, chunks=None)
        assert set(ours.variables) == set(expected.variables) and ours.sizes == expected.sizes
        assert set(ours.coords) == set(expected.coords) and ours.attrs == expected.attrs
        for name in expected.variables:
            assert ours[name].dims == expected[name].dims, name
            if name == "singles":
                # JSON has no floats of 32 bits: factors are as exact, values as they are before they are rounded.
                np.testing.assert_allclose(ours[name], expected[name], rtol=1e-6)
            else:
                same_bits(ours[name].values, expected[name].values, name)
            theirs = {key for key in expected[name].attrs}
            assert set(ours[name].attrs) == theirs, name
    batch = forebay.open(out, ["packed", "single"], cf=True)[:]
    same_bits(batch["packed"], expected["packed"].values, "read again")
    same_bits(batch["single"], expected["single"].values, "read again")


def test_no_internals_of_hdf5_go_into_a_store(forebay_command: Any, tmp_path: Path) -> None:
    path, out = write_weather(tmp_path / "a.nc", "NETCDF4"), tmp_path / "a.zarr"
    said = json.loads(forebay_command("convert", path, out, "--json").stdout)
    assert "bare" not in {one["name"] for one in said["variables"]} and not said["left_out"]
    for document in out.rglob("zarr.json"):
        assert not INTERNAL & set(json.loads(document.read_text()).get("attributes", {})), document
    store = zarr.open_group(out, mode="r")
    assert not (out / "bare").exists() and store["packed"].metadata.dimension_names == ("time", "lat", "lon")
    assert store["packed"].attrs["scale_factor"] == 0.25 and store["packed"].attrs["valid_range"] == [1, 100]
    assert store["singles"].attrs["scale_factor"] == float(np.float32(0.01))


def test_tensorstore_opens_every_number(forebay_command: Any, tmp_path: Path) -> None:
    path, out = write_weather(tmp_path / "a.nc", "NETCDF4"), tmp_path / "a.zarr"
    forebay_command("convert", path, out)
    with netCDF4.Dataset(path) as file:
        file.set_auto_maskandscale(False)
        for name, variable in file.variables.items():
            spec = {"driver": "zarr3", "kvstore": {"driver": "file", "path": f"{out / name}/"}}
            theirs = tensorstore.open(spec, read=True).result()
            assert theirs.domain.labels == variable.dimensions, name
            same_bits(theirs.read().result(), np.asarray(variable[...]), name)


def test_what_has_no_names_of_axes_opens_in_xarray_too(forebay_command: Any, tmp_path: Path) -> None:
    path, out = tmp_path / "a.h5", tmp_path / "a.zarr"
    with h5py.File(path, "w") as file:
        file["a"] = np.arange(12, dtype="f4").reshape(4, 3)
        file["b"] = np.arange(4)
        file["square"] = np.eye(3)
        file["scalar"] = 2.5
        file["list"] = np.array([1, 2])
        file["list"].attrs["one"] = np.array([5])
        file["list"].attrs["_FillValue"] = np.array([2])
    forebay_command("convert", path, out)
    ours = xarray.open_zarr(out, chunks=None, consolidated=False)
    with h5py.File(path) as file:
        for name in ["a", "b", "square", "scalar"]:
            same_bits(ours[name].values, np.asarray(file[name][()]), name)
    assert ours["a"].dims[0] == ours["b"].dims[0] and len(set(ours["square"].dims)) == 2
    assert ours["list"].values[0] == 1 and np.isnan(ours["list"].values[1])
    assert zarr.open_group(out, mode="r")["list"].attrs["one"] == [5]


def test_a_variable_beside_its_dimension_keeps_its_name(forebay_command: Any, tmp_path: Path) -> None:
    path, out = tmp_path / "a.nc", tmp_path / "a.zarr"
    with netCDF4.Dataset(path, "w") as file:
        file.createDimension("x", 3)
        file.createDimension("y", 2)
        file.createVariable("x", "f4", ("y",))[:] = [1, 2]
        file.createVariable("v", "f4", ("y", "x"))[:] = np.ones((2, 3))
    said = json.loads(forebay_command("convert", path, out, "--json").stdout)
    assert {one["name"] for one in said["variables"]} == {"x", "v"}
    assert zarr.open_group(out, mode="r")["x"][:].tolist() == [1, 2]


def test_what_is_missing_is_so_after_a_way_through_zarr_2(forebay_command: Any, tmp_path: Path) -> None:
    first, second = tmp_path / "a.zarr", tmp_path / "b.zarr"
    values = np.array([[280.0, np.nan], [281.0, 282.0]])
    encoding = {"t": {"dtype": "int16", "scale_factor": 0.5, "_FillValue": -32768}}
    dataset = xarray.Dataset({"t": (("time", "x"), values), "u": (("time",), np.array([np.nan, 1], "f4"))})
    dataset.to_zarr(first, zarr_format=2, encoding=encoding, consolidated=False)
    forebay_command("convert", first, second)
    ours = xarray.open_zarr(second, chunks=None, consolidated=False)
    for name in dataset:
        same_bits(ours[name].values, dataset[name].values, name)


def test_an_enumeration_keeps_its_missing_value(forebay_command: Any, tmp_path: Path) -> None:
    path, out = tmp_path / "a.nc", tmp_path / "a.zarr"
    with netCDF4.Dataset(path, "w") as file:
        file.createDimension("x", 3)
        clouds = file.createEnumType(np.uint8, "clouds", {"clear": 0, "cumulus": 1, "missing": 255})
        file.createVariable("c", clouds, ("x",), fill_value=255)[:] = np.array([0, 255, 1], "u1")
    forebay_command("convert", path, out)
    with xarray.open_dataset(path, engine="netcdf4") as expected:
        same_bits(xarray.open_zarr(out, chunks=None, consolidated=False)["c"].values, expected["c"].values, "c")


def test_inspect_hides_what_keeps_dimensions(forebay_command: Any, tmp_path: Path) -> None:
    path = write_weather(tmp_path / "a.nc", "NETCDF4")
    said = forebay_command("inspect", path, "--attrs").stdout.decode()
    assert not any(f"@{name} " in said for name in INTERNAL) and "@scale_factor" in said
    kept = {one["name"] for one in forebay_command.inspect(path)["variables"]["packed"]["attributes"]}
    assert "DIMENSION_LIST" in kept


def test_the_bytes_of_a_store_are_those_of_all_its_files(forebay_command: Any, tmp_path: Path) -> None:
    path = tmp_path / "a.zarr"
    values = np.random.default_rng(1).normal(size=(40, 1000))
    zarr.open_group(path, mode="w").create_array("x", data=values, chunks=(4, 1000), compressors=None)
    assert values.nbytes <= forebay_command.inspect(path)["bytes"] < values.nbytes + 10_000
    assert values.nbytes <= forebay.inspect(path)["bytes"] < values.nbytes + 10_000
    assert "312.6 KiB" in forebay_command("inspect", path).stdout.decode().splitlines()[0]


def test_no_factor_stands_beside_a_variable_that_is_kept(forebay_command: Any, tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        file.create_dataset("time", data=np.arange(50_000.0), chunks=(50_000,), compression="gzip")
        file.create_dataset("large", data=np.zeros((1000, 1000)), chunks=(500, 1000), compression="gzip")
    said = forebay_command("inspect", path).stdout.decode()
    good = next(line for line in said.splitlines() if "random access good" in line)
    assert "x)" not in good and "decoded once and kept" in good
    rows = {name: one["row"] for name, one in forebay_command.inspect(path)["variables"].items()}
    assert rows["time"]["kept"] and rows["time"]["verdict"] == "good" and not rows["large"]["kept"]


def test_doctor_and_inspect_call_a_file_the_same(forebay_command: Any, tmp_path: Path) -> None:
    four = write_weather(tmp_path / "four.nc", "NETCDF4")
    three = write_weather(tmp_path / "three.nc", "NETCDF3_CLASSIC")
    plain = tmp_path / "plain.h5"
    with h5py.File(plain, "w") as file:
        file["x"] = np.arange(3)
    said = json.loads(forebay_command("doctor", four, three, plain, "--json", check=False).stdout)
    named = [one["format"] for one in said["paths"]]
    assert named == [forebay_command.inspect(path)["format"] for path in (four, three, plain)]
    assert named == ["netcdf4", "netcdf3", "hdf5"]
    other = tmp_path / "other.bin"
    other.write_bytes(b"nothing" * 10)
    refused = forebay_command("inspect", other, check=False).stderr.decode()
    assert "hdf5, netcdf4," in refused
