"""xarray's engine "forebay" gives variables, attributes, dimensions and groups in the order of the file, and writes back what it read."""

from __future__ import annotations

import json
import os
import time
import warnings
from pathlib import Path
from typing import Any

import h5py
import netCDF4
import numpy as np
import pytest
import xarray as xr
import zarr
from conftest import FREE

import forebay

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*Zarr format 3 specification.*"),
    pytest.mark.filterwarnings("ignore:Consolidated metadata.*"),
]
# Neither by name nor by name backwards; more than eight of anything are kept otherwise by HDF5 than few.
FEW = ["wind", "temp", "humidity", "Zenith", "albedo"]
MANY = [f"v{number * 7 % 40}" for number in range(40)]
FORMATS = ["NETCDF3_64BIT_OFFSET", "NETCDF3_CLASSIC", "NETCDF4", "NETCDF4_CLASSIC"]


def write(path: Path, format: str, names: list[str]) -> Path:
    with netCDF4.Dataset(path, "w", format=format) as file:
        file.createDimension("y", 2)
        file.createDimension("x", 3)
        fill(file, names)
        if format == "NETCDF4":
            file.createDimension("time", None)
            for group in ("second", "first", "second/inner", "second/deep", "first/one"):
                fill(file.createGroup(group), [*names, "last"])
            file["second"].createDimension("record", None)
            file["second"].createVariable("grows", "f4", ("time", "record"))[:] = np.ones((2, 4))
    return path


def fill(group: Any, names: list[str]) -> None:
    made = [group.createVariable(name, "f4", ("x", "y") if number % 2 else ("y", "x")) for number, name in enumerate(names)]
    group.setncatts({f"of_{name}": number for number, name in enumerate(names)})
    for variable in made:
        variable.setncatts({f"of_{name}": "text" for name in names[:12]})
    for number, variable in enumerate(made):
        variable[:] = number


def same_order(ours: xr.Dataset, theirs: xr.Dataset) -> None:
    assert list(ours.variables) == list(theirs.variables) and list(ours.data_vars) == list(theirs.data_vars)
    assert list(ours.sizes.items()) == list(theirs.sizes.items())
    assert list(ours.attrs) == list(theirs.attrs) and list(ours.coords) == list(theirs.coords)
    for name, their in theirs.variables.items():
        assert list(ours.variables[name].attrs) == list(their.attrs), name
    assert ours.encoding.get("unlimited_dims", set()) == theirs.encoding.get("unlimited_dims", set())


@pytest.mark.parametrize("names", [FEW, MANY], ids=["few", "many"])
@pytest.mark.parametrize("format", FORMATS)
def test_a_dataset_has_the_order_of_the_file(tmp_path: Path, format: str, names: list[str]) -> None:
    path = write(tmp_path / "a.nc", format, names)
    with forebay.File(path) as file:
        assert [name for name in file if "/" not in name] == names
    for engine in ["netcdf4", "h5netcdf"] if format.startswith("NETCDF4") else ["netcdf4", "scipy"]:
        with xr.open_dataset(path, engine="forebay") as ours, xr.open_dataset(path, engine=engine) as theirs:
            assert list(theirs.variables) == names
            same_order(ours, theirs)
            np.testing.assert_array_equal(ours.to_array().values, theirs.to_array().values)
            assert list(ours.to_dataframe().columns) == list(theirs.to_dataframe().columns)


@pytest.mark.parametrize("names", [FEW, MANY], ids=["few", "many"])
def test_groups_have_the_order_of_the_file_and_their_own_dimensions(tmp_path: Path, names: list[str]) -> None:
    path = write(tmp_path / "a.nc", "NETCDF4", names)
    for engine in ("netcdf4", "h5netcdf"):
        ours, theirs = xr.open_groups(path, engine="forebay"), xr.open_groups(path, engine=engine)
        assert list(ours) == list(theirs)
        for name, their in theirs.items():
            same_order(ours[name], their)
        assert ours["/second"].encoding["unlimited_dims"] == {"record"} and ours["/"].encoding["unlimited_dims"] == {"time"}
        assert ours["/second/inner"].encoding["unlimited_dims"] == set()
        trees = [xr.open_datatree(path, engine=one) for one in ("forebay", engine)]
        assert [node.path for node in trees[0].subtree] == [node.path for node in trees[1].subtree]


def test_the_order_is_that_of_a_saved_index_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FOREBAY_CACHE", str(tmp_path / "cache"))
    names = [f"v{number * 7 % 200}" for number in range(200)]
    with h5py.File(tmp_path / "a.h5", "w", track_order=True) as file:
        for name in names:
            file[name] = 1
    os.utime(tmp_path / "a.h5", (1e9, 1e9))
    time.sleep(2.1)  # its status changed a moment ago, and what may still change is not saved
    with forebay.File(tmp_path / "a.h5") as opened:
        assert list(opened) == names
    (index,) = (tmp_path / "cache/index").iterdir()
    made = index.stat().st_ino
    with forebay.File(tmp_path / "a.h5") as opened:
        assert list(opened) == names
    # One that could not be used would have been made anew.
    assert index.stat().st_ino == made


@pytest.mark.parametrize("names", [FEW, MANY], ids=["few", "many"])
@pytest.mark.parametrize("libver", ["earliest", "latest"])
@pytest.mark.parametrize("tracked", [True, False], ids=["tracked", "untracked"])
def test_plain_hdf5_has_the_order_it_tracks_or_the_one_by_name(
    tmp_path: Path, names: list[str], libver: str, tracked: bool
) -> None:
    path = tmp_path / "a.h5"
    with h5py.File(path, "w", libver=libver, track_order=tracked) as file:
        for number, name in enumerate(names):
            made = file.create_dataset(name, data=np.arange(3) + number, track_order=tracked)
            made.attrs["z"], made.attrs["a"] = 1, 2
            file.attrs[name] = number
        for name in names:
            file.create_group(f"in_{name}")
        file["soft"] = h5py.SoftLink(f"/in_{names[0]}")
    with forebay.File(path) as file:
        assert list(file) == (names if tracked else sorted(names))
    with xr.open_dataset(path, engine="forebay") as ours, xr.open_dataset(path, engine="netcdf4") as theirs:
        assert list(ours.variables) == list(theirs.variables)
        if tracked or libver == "earliest" or names is FEW:
            same_order(ours, theirs)
        else:
            # The NetCDF library has them by their hashes then.
            assert list(ours.attrs) == sorted(theirs.attrs)


def test_what_a_link_to_another_file_leads_to_stands_in_the_place_of_the_link(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "other.h5", "w") as file:
        file["there"] = np.arange(3)
    with h5py.File(tmp_path / "a.h5", "w", track_order=True) as file:
        file["z"] = np.arange(3)
        file["middle"] = h5py.ExternalLink("other.h5", "/there")
        file["a"] = np.arange(3)
    with forebay.File(tmp_path / "a.h5") as file:
        assert list(file) == ["z", "middle", "a"]


def test_links_inside_a_linked_group_keep_their_order_among_what_is_beside_them(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "data.h5", "w") as file:
        for number in range(4):
            file[f"block{number}"] = np.full(3, number)
    with h5py.File(tmp_path / "entry.h5", "w", track_order=True) as file:
        entry = file.create_group("entry", track_order=True)
        for number in (2, 0):
            entry[f"data{number}"] = h5py.ExternalLink("data.h5", f"/block{number}")
        entry["own"] = np.arange(3)
        for number in (3, 1):
            entry[f"data{number}"] = h5py.ExternalLink("data.h5", f"/block{number}")
    with h5py.File(tmp_path / "a.h5", "w", track_order=True) as file:
        file["z"] = np.arange(3)
        file["entry"] = h5py.ExternalLink("entry.h5", "/entry")
        file["a"] = np.arange(3)
    inside = ["data2", "data0", "own", "data3", "data1"]
    with forebay.File(tmp_path / "a.h5") as file:
        assert list(file) == ["z", *[f"entry/{name}" for name in inside], "a"]
        for number in range(4):
            np.testing.assert_array_equal(file[f"entry/data{number}"][:], np.full(3, number))
    with forebay.File(tmp_path / "entry.h5") as file:
        assert list(file) == [f"entry/{name}" for name in inside]


def test_an_axis_without_a_name_is_a_dimension_of_its_group_as_long(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w", track_order=True) as file:
        for where in (file, file.create_group("g", track_order=True)):
            where["scale"] = np.arange(3)
            where["scale"].make_scale("scale")
            where["other"] = np.zeros((3, 5, 3))
            where["last"] = np.zeros((5, 3))
    for group in ("/", "g"):
        with xr.open_dataset(tmp_path / "a.h5", engine="netcdf4", group=group) as theirs:
            wanted = {name: one.dims for name, one in theirs.variables.items()}
        with xr.open_dataset(tmp_path / "a.h5", engine="forebay", group=group) as ours:
            assert {name: one.dims for name, one in ours.variables.items()} == wanted


def test_axes_that_grow_are_others_than_those_that_do_not(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("fixed", shape=(3, 4), dtype="f4")
        file.create_dataset("grows", shape=(3, 4), maxshape=(None, 4), dtype="f4")
        file.create_dataset("other", shape=(3,), maxshape=(None,), dtype="f4")
    with xr.open_dataset(tmp_path / "a.h5", engine="forebay") as ours, xr.open_dataset(tmp_path / "a.h5", engine="netcdf4") as theirs:
        assert {name: one.dims for name, one in ours.variables.items()} == {name: one.dims for name, one in theirs.variables.items()}
        assert ours.encoding["unlimited_dims"] == theirs.encoding["unlimited_dims"] != set()


@pytest.mark.parametrize("version", [2, 3])
def test_zarr_has_the_order_of_its_documents(tmp_path: Path, version: Any) -> None:
    path = tmp_path / "a.zarr"
    attrs = {"z": 1, "b": [1, 2], "a": "text"}
    variables = {name: (("x",), np.arange(3.0), attrs) for name in FEW}
    xr.Dataset(variables, attrs=attrs).to_zarr(path, zarr_format=version, encoding={"wind": {"_FillValue": -1.0}})
    with xr.open_dataset(path, engine="forebay", decode_cf=False) as ours, xr.open_dataset(path, engine="zarr", decode_cf=False) as theirs:
        same_order(ours, theirs)
    document = path / (".zmetadata" if version == 2 else "zarr.json")
    whole = json.loads(document.read_text())
    inner = whole if version == 2 else whole["consolidated_metadata"]
    inner["metadata"] = dict(reversed(inner["metadata"].items()))
    document.write_text(json.dumps(whole))
    with xr.open_dataset(path, engine="forebay") as ours, xr.open_dataset(path, engine="zarr") as theirs:
        same_order(ours, theirs)
        assert list(ours) == list(reversed(sorted(FEW, key=str.lower)))
    assert zarr.open_group(path, mode="r").attrs.asdict() == attrs


@pytest.mark.parametrize("version", [2, 3])
def test_groups_of_zarr_have_the_order_of_its_documents(tmp_path: Path, version: Any) -> None:
    paths = ["/", "/b", "/a", "/c", "/b/x", "/a/y", "/a/y/deep"]
    tree = xr.DataTree.from_dict({path: xr.Dataset({"v": ("x", np.arange(3.0))}) for path in paths})
    tree.to_zarr(tmp_path / "a.zarr", zarr_format=version)
    ours, theirs = (list(xr.open_groups(tmp_path / "a.zarr", engine=engine)) for engine in ("forebay", "zarr"))
    assert ours == theirs and set(ours) == set(paths)


def test_names_of_enumerated_values_may_have_commas(tmp_path: Path) -> None:
    members = {"a, b": 0, "c=1, d": 1, "e": -2}
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("e", data=np.array([0, 1, -2], "i1"), dtype=h5py.enum_dtype(members, "i1"))
    with xr.open_dataset(tmp_path / "a.h5", engine="forebay") as ours:
        np.testing.assert_array_equal(ours["e"].values, [0, 1, -2])
        assert "e" in ours["e"].encoding["dtype"].metadata["enum"]


def test_enumerations_are_written_back_under_the_names_of_their_types(tmp_path: Path) -> None:
    path = tmp_path / "a.nc"
    with netCDF4.Dataset(path, "w") as file:
        file.createDimension("x", 3)
        kind = file.createEnumType("u1", "cloud_t", {"clear": 0, "cumulus": 1, "stratus": 2})
        for name in ("low", "high"):
            file.createVariable(name, kind, ("x",), fill_value=0)[:] = [0, 2, 1]
        group = file.createGroup("g")
        group.createVariable("inner", kind, ("x",))[:] = [1, 1, 2]
    with h5py.File(tmp_path / "plain.h5", "w") as plain:
        plain.create_dataset("e", data=np.array([0, 1], "u1"), dtype=h5py.enum_dtype({"A": 0, "B": 1}, "u1"))
    for group, names in {"/": ["low", "high"], "g": ["inner"]}.items():
        ours, theirs = (xr.open_dataset(path, engine=engine, group=group) for engine in ("forebay", "netcdf4"))
        for name in names:
            assert ours[name].encoding["dtype"].metadata == theirs[name].encoding["dtype"].metadata
    for source, name in ((path, "low"), (tmp_path / "plain.h5", "e")):
        for engine in ("netcdf4", "h5netcdf"):
            written = tmp_path / f"{name}-{engine}.nc"
            with xr.open_dataset(source, engine="forebay") as ours:
                ours.to_netcdf(written, engine=engine)
                with xr.open_dataset(written, engine="netcdf4") as back:
                    np.testing.assert_array_equal(back[name].values, ours[name].values)
                    assert back[name].encoding["dtype"].metadata["enum"] == ours[name].encoding["dtype"].metadata["enum"]


@pytest.mark.parametrize("format", ["NETCDF3_CLASSIC", "NETCDF3_64BIT_OFFSET"])
def test_classic_files_have_no_encodings_of_hdf5(tmp_path: Path, format: Any) -> None:
    ds = xr.Dataset({"t": (("time", "x"), np.ones((4, 3), "f4")), "u": ("x", np.arange(3.0))})
    ds.to_netcdf(tmp_path / "a.nc", format=format, engine="netcdf4", unlimited_dims=["time"])
    with xr.open_dataset(tmp_path / "a.nc", engine="forebay") as ours, xr.open_dataset(tmp_path / "a.nc", engine="netcdf4") as theirs:
        for name in ds:
            assert set(ours[name].encoding) == set(theirs[name].encoding)


def test_tiers_of_no_use_are_a_warning(tmp_path: Path) -> None:
    path = write(tmp_path / "a.nc", "NETCDF4", FEW)
    time.sleep(2.1)  # of a file that has just changed nothing would be copied anywhere
    tier = {"path": str(tmp_path / "tier"), "quota": "1MiB", **FREE}
    with pytest.warns(forebay.ForebayWarning, match="the files lie on its own device"):
        xr.open_dataset(path, engine="forebay", tiers=[tier]).close()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        xr.open_dataset(path, engine="forebay", tiers=[tier]).close()
