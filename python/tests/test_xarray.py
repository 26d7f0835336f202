"""xarray's engine "forebay", held against the engines of netCDF4 and zarr."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import pickle
import re
import signal
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import h5py
import netCDF4
import numpy as np
import pytest
import xarray as xr
from conftest import FREE

import forebay
from forebay._xarray import store as _xarray_store
from forebay._xarray.outer_index import outer

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*Zarr format 3 specification.*"),
    pytest.mark.filterwarnings("ignore:Consolidated metadata.*"),
]
DOC = Path(__file__).parents[2] / "docs" / "xarray.md"


def weather() -> xr.Dataset:
    """A set with all that CF has: packed values, missing ones, times, texts, scalars, coordinates of two axes."""
    random = np.random.default_rng(5)
    lat, lon = np.linspace(50, 60, 7), np.linspace(0, 20, 9)
    ds = xr.Dataset(
        {
            "t2m": (("time", "lat", "lon"), random.normal(280, 5, (6, 7, 9)).astype("f4"), {"units": "K"}),
            "packed": (("time", "lat"), np.where(random.random((6, 7)) < 0.2, np.nan, random.normal(0, 5, (6, 7)))),
            "flags": (("lat", "lon"), random.integers(0, 100, (7, 9)).astype("i2"), {"levels": np.array([1, 2], "i4")}),
            "name": (("lat",), np.array(["a", "bé", "", "dd", "e", "f", "gg"], dtype=object)),
            "scalar": ((), 2.5, {"of": "nothing"}),
            "ends": (("time",), np.arange(6) * np.timedelta64(90, "m")),
        },
        coords={
            "time": np.datetime64("2001-01-31T06", "ns") + np.arange(6) * np.timedelta64(6, "h"),
            "lat": lat,
            "lon": lon,
            "area": (("lat", "lon"), np.outer(lat, lon)),
        },
        attrs={"title": "made up", "version": np.int32(3)},
    )
    ds["packed"].encoding = {"dtype": "i2", "scale_factor": np.float32(0.01), "add_offset": np.float32(1), "_FillValue": -99}
    ds["t2m"].encoding = {"chunksizes": (2, 7, 4), "zlib": True, "complevel": 4, "shuffle": True}
    return ds


def zarr_of(version: int, **encoding: Any) -> Callable[[Path], Path]:
    def write(folder: Path) -> Path:
        ds = weather().drop_vars("name")
        ds["t2m"].encoding = {"chunks": (2, 7, 4), **encoding}
        ds["code"] = ("lat", np.array(["a", "bb", "", "ccc", "d", "e", "f"]))
        ds.to_zarr(folder / "a.zarr", zarr_format=version)
        return folder / "a.zarr"

    return write


def netcdf_of(format: str) -> Callable[[Path], Path]:
    def write(folder: Path) -> Path:
        ds = weather()
        if format != "NETCDF4":
            ds["t2m"].encoding = {}
        ds.to_netcdf(folder / "a.nc", format=format, engine="netcdf4", unlimited_dims=["time"])
        return folder / "a.nc"

    return write


FILES: dict[str, tuple[Callable[[Path], Path], str]] = {
    "netcdf4": (netcdf_of("NETCDF4"), "netcdf4"),
    "netcdf4-classic": (netcdf_of("NETCDF4_CLASSIC"), "netcdf4"),
    "netcdf3": (netcdf_of("NETCDF3_CLASSIC"), "netcdf4"),
    "netcdf3-64bit": (netcdf_of("NETCDF3_64BIT"), "netcdf4"),
    "zarr-2": (zarr_of(2), "zarr"),
    "zarr-3": (zarr_of(3), "zarr"),
    "zarr-3-shards": (zarr_of(3, shards=(4, 7, 8)), "zarr"),
}
DECODINGS: dict[str, dict[str, Any]] = {
    "decoded": {},
    "stored": {"decode_cf": False},
    "unscaled": {"mask_and_scale": False},
    "numbers-for-times": {"decode_times": False},
    "letters": {"concat_characters": False},
}


def identical(ours: xr.Dataset, theirs: xr.Dataset) -> None:
    """The same names, axes, types, attributes and bits."""
    assert set(ours.variables) == set(theirs.variables)
    assert set(ours.coords) == set(theirs.coords) and dict(ours.sizes) == dict(theirs.sizes)
    same_attributes(ours.attrs, theirs.attrs)
    for name, their in theirs.variables.items():
        our = ours.variables[name]
        assert our.dims == their.dims, name
        assert our.dtype == their.dtype, (name, our.dtype, their.dtype)
        same_attributes(our.attrs, their.attrs)
        if their.dtype.kind == "O":
            assert our.values.tolist() == their.values.tolist(), name
        else:
            assert our.values.tobytes() == their.values.tobytes(), name
        for key in ("chunksizes", "chunks", "preferred_chunks", "zlib", "shuffle", "complevel", "contiguous", "original_shape"):
            if key in their.encoding:
                assert our.encoding.get(key) == their.encoding[key], (name, key)


def same_attributes(ours: dict[Any, Any], theirs: dict[Any, Any]) -> None:
    assert set(ours) == set(theirs)
    for name, their in theirs.items():
        our = ours[name]
        # Of Zarr's missing values xarray has the number without its type.
        assert type(our) is type(their) or name == "_FillValue", (name, our, their)
        np.testing.assert_array_equal(our, their)
        assert np.asarray(our).dtype.kind == np.asarray(their).dtype.kind, name


@pytest.mark.parametrize("kind", FILES)
def test_a_dataset_is_the_one_of_the_formats_own_engine(tmp_path: Path, kind: str) -> None:
    write, engine = FILES[kind]
    path = write(tmp_path)
    for options in DECODINGS.values():
        with xr.open_dataset(path, engine="forebay", **options) as ours, xr.open_dataset(path, engine=engine, **options) as theirs:
            identical(ours, theirs)
    with xr.open_dataset(path, engine="forebay") as ours, xr.open_dataset(path, engine=engine) as theirs:
        assert ours.encoding.get("unlimited_dims", set()) == theirs.encoding.get("unlimited_dims", set())
        identical(ours.load(), theirs)
        written = tmp_path / "again.nc"
        ours.to_netcdf(written, engine="netcdf4")
        xr.testing.assert_identical(xr.load_dataset(written, engine="netcdf4"), ours)


SELECTIONS: list[dict[str, Any]] = [
    {"time": 2},
    {"time": -1, "lat": 3, "lon": 0},
    {"time": slice(None, None, -2), "lon": slice(1, 8, 3)},
    {"lat": [5, 0, 0, -1], "lon": [8, 1]},
    {"time": [], "lat": slice(2, 2)},
    {"lon": np.array([1, 3, 5, 7])},
    {"lat": np.arange(7) % 2 == 0},
    {"lat": xr.DataArray([0, 4, 6], dims="p"), "lon": xr.DataArray([8, 0, 2], dims="p")},
]


@pytest.mark.parametrize("kind", ["netcdf4", "netcdf3", "zarr-3"])
def test_any_selection_is_read_as_numpy_takes_it_and_nothing_else_is_loaded(tmp_path: Path, kind: str) -> None:
    write, engine = FILES[kind]
    path = write(tmp_path)
    theirs = xr.load_dataset(path, engine=engine)["t2m"]
    for selection in SELECTIONS:
        with xr.open_dataset(path, engine="forebay", cache=False) as ds:
            part = ds["t2m"].isel(selection)
            assert not ds["t2m"].variable._in_memory
            assert part.values.tobytes() == theirs.isel(selection).values.tobytes()
            assert part.shape == theirs.isel(selection).shape


def test_outer_indexing_reads_neighbours_together_and_far_rows_apart() -> None:
    array = np.arange(40 * 30).reshape(40, 30)
    asked: list[tuple[slice, ...]] = []

    def read(slices: tuple[slice, ...]) -> Any:
        asked.append(slices)
        assert all(part.step is None or part.step > 0 for part in slices)
        return array[slices]

    rows, columns = np.array([39, 2, 0, 38, 2]), np.array([1, 4, 7])
    found = outer(read, (rows, columns), array.shape, (3, 3), array.dtype)
    np.testing.assert_array_equal(found, array[np.ix_(rows, columns)])
    assert asked == [(slice(0, 3, 2), slice(1, 8, 3)), (slice(38, 40, 1), slice(1, 8, 3))]
    asked.clear()
    outer(read, (np.arange(0, 40, 13), np.arange(0, 30, 7)), array.shape, (1, 1), array.dtype)
    assert len(asked) == 20
    with pytest.raises(IndexError):
        outer(read, (np.array([40]), 0), array.shape, (1, 1), array.dtype)


def test_types_that_netcdf4_has_come_as_its_engine_gives_them(tmp_path: Path) -> None:
    path = tmp_path / "types.nc"
    with netCDF4.Dataset(path, "w") as file:
        file.createDimension("x", 4)
        file.createDimension("bare", 3)
        colour = file.createEnumType("u1", "colour", {"red": 1, "green": 2})
        file.createVariable("enum", colour, ("x",))[:] = np.array([1, 2, 2, 1], "u1")
        pair = file.createCompoundType(np.dtype([("a", "<i4"), ("b", "<f8")]), "pair_t")
        file.createVariable("pair", pair, ("x",))[:] = np.array([(n, n / 2) for n in range(4)], [("a", "<i4"), ("b", "<f8")])
        letters = file.createVariable("letters", "S1", ("x", "bare"))
        letters[:] = np.array([list("abc"), list("de "), list("f  "), list("ghi")], "S1")
        file.createVariable("text", str, ())[...] = np.array("alone", dtype=object)
        file.createVariable("big", ">f4", ("x",), endian="big")[:] = np.arange(4)
        inside = file.createGroup("inside").createGroup("deep")
        inside.createDimension("z", 2)
        inside.createVariable("z", "i8", ("z",))[:] = [7, 9]
        inside.createVariable("both", "f4", ("x", "z"))[:] = np.arange(8).reshape(4, 2)
        inside.note = "deep"
    options: dict[str, Any] = {"engine": "forebay"}
    for group in (None, "inside", "inside/deep"):
        with xr.open_dataset(path, group=group, **options) as ours, xr.open_dataset(path, group=group, engine="netcdf4") as theirs:
            identical(ours, theirs)
    with xr.open_dataset(path, **options) as ours, xr.open_dataset(path, engine="netcdf4") as theirs:
        assert ours["enum"].encoding["dtype"].metadata["enum"] == theirs["enum"].encoding["dtype"].metadata["enum"]
    with xr.open_datatree(path, **options) as ours, xr.open_datatree(path, engine="netcdf4") as theirs:
        assert ours.identical(theirs)
    assert set(xr.open_groups(path, **options)) == {"/", "/inside", "/inside/deep"}
    with pytest.raises(OSError, match="group not found"):
        xr.open_dataset(path, group="none", **options)


def test_plain_hdf5_has_the_axes_that_the_netcdf_library_makes_up(tmp_path: Path) -> None:
    path = tmp_path / "plain.h5"
    with h5py.File(path, "w") as file:
        file["image"] = np.arange(5 * 4 * 4, dtype="f4").reshape(5, 4, 4)
        file["label"] = np.arange(5)
        file["group/one"] = np.arange(6)
        file["group/two"] = np.arange(5)
    for group in (None, "group"):
        with xr.open_dataset(path, group=group, engine="forebay") as ours, xr.open_dataset(path, group=group, engine="netcdf4") as theirs:
            identical(ours, theirs)
    with h5py.File(path, "a") as file:
        file.create_dataset("fixed", data=np.array([b"ab", b"c"], "S2"))
        file.create_dataset("truth", data=np.array([True, False]))
        file.create_dataset("rows", (2,), dtype=np.dtype(("<i2", (3,))))[...] = np.arange(6).reshape(2, 3)
    with xr.open_dataset(path, engine="forebay") as ours:
        assert ours["fixed"].values.tolist() == [b"ab", b"c"] and ours["truth"].values.tolist() == [True, False]
        assert ours["rows"].shape == (2, 3) and ours["rows"].isel({ours["rows"].dims[1]: 1}).values.tolist() == [1, 4]


def test_other_formats_are_datasets_too(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.arange(12.0).reshape(3, 4))
    with xr.open_dataset(tmp_path / "a.npy", engine="forebay") as ds:
        (name,) = ds.data_vars
        assert ds[name].shape == (3, 4) and ds[name].values[1, 2] == 6.0


def test_a_dataset_is_pickled_closed_and_read_again_and_guessed_for_nobody(tmp_path: Path) -> None:
    path = netcdf_of("NETCDF4")(tmp_path)
    ds = xr.open_dataset(path, engine="forebay", cache=False)
    copy = pickle.loads(pickle.dumps(ds))
    expected = ds["t2m"].values
    ds.close()
    assert (copy["t2m"].values == expected).all() and (ds["t2m"].values == expected).all()
    ds.close()
    copy.close()
    assert xr.backends.list_engines()["forebay"].guess_can_open(str(path)) is False
    with pytest.raises(TypeError, match="name of the file"):
        xr.open_dataset(open(path, "rb"), engine="forebay")
    with pytest.raises(FileNotFoundError if issubclass(forebay.NotFoundError, FileNotFoundError) else forebay.NotFoundError):
        xr.open_dataset(tmp_path / "none.nc", engine="forebay")


def replaced(path: Path, kind: str) -> None:
    """Puts another file of the same shapes in the place of ``path``, as a simulation does that runs again."""
    time.sleep(0.05)
    ds = xr.load_dataset(path, engine=FILES[kind][1], decode_cf=False)
    ds["t2m"] = ds["t2m"] + np.float32(1000)
    other = path.with_name(f"other{path.suffix}")
    if path.is_dir():
        ds.to_zarr(other, zarr_format=3)
        path.rename(path.with_name("old"))
    else:
        ds.to_netcdf(other, engine="netcdf4")
    other.rename(path)


def read_elsewhere(ds: xr.Dataset) -> Any:
    return ds["t2m"].values


@pytest.mark.parametrize("tiers", [[], ["memory:8MiB"]])
@pytest.mark.parametrize("kind", ["netcdf4", "netcdf3", "zarr-3"])
def test_a_process_that_finds_another_file_in_the_place_of_the_one_it_was_sent_gets_an_error(
    tmp_path: Path, kind: str, tiers: list[str]
) -> None:
    path = FILES[kind][0](tmp_path)
    ds = xr.open_dataset(path, engine="forebay", cache=False, tiers=tiers)
    before, sent = ds["t2m"].values, pickle.dumps(ds)
    held = pickle.loads(sent)
    assert (held["t2m"].values == before).all()
    ds.close()
    replaced(path, kind)
    with pytest.raises(forebay.UnavailableError, match="changed since"):
        ds["t2m"].values
    # A worker that still has the old one open; below, workers that have not opened any yet.
    with contextlib.suppress(forebay.UnavailableError):
        assert (held["t2m"].values == before).all()
    del held
    for start in ("fork", "spawn"):
        with ProcessPoolExecutor(1, multiprocessing.get_context(start)) as pool:
            with pytest.raises(forebay.UnavailableError, match="changed since"):
                pool.submit(read_elsewhere, pickle.loads(sent)).result(300)
            anew = xr.open_dataset(path, engine="forebay", cache=False, tiers=tiers)
            after = pool.submit(read_elsewhere, anew).result(300)
            assert (after != before).all() and (after == anew["t2m"].values).all()
            anew.close()


def test_attributes_that_were_changed_alone_make_another_version(tmp_path: Path) -> None:
    path = tmp_path / "a.zarr"
    weather()[["t2m"]].to_zarr(path, zarr_format=3, consolidated=False)
    sent = pickle.dumps(xr.open_dataset(path, engine="forebay", cache=False))
    described = path / "t2m" / "zarr.json"
    described.write_text(described.read_text().replace('"units": "K"', '"units": "C"'))
    with pytest.raises(forebay.UnavailableError, match="changed since"):
        pickle.loads(sent)["t2m"].values


def test_a_child_that_is_forked_while_a_thread_opens_a_file_reads_it(tmp_path: Path) -> None:
    path = netcdf_of("NETCDF4")(tmp_path)
    ds = xr.open_dataset(path, engine="forebay", cache=False)
    expected = ds["t2m"].values
    files = [one for one in _xarray_store._all_opened if one.path == str(path)]
    assert files
    with contextlib.ExitStack() as held:
        for file in files:
            held.enter_context(file._lock)
        child = os.fork()
        if child == 0:
            signal.alarm(300)
            os._exit(0 if (ds["t2m"].values == expected).all() else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_many_files_are_one_dataset(tmp_path: Path) -> None:
    pytest.importorskip("dask")
    whole = weather()[["t2m"]].drop_vars("area")
    whole["t2m"].encoding = {}
    for number in range(3):
        whole.isel(time=slice(2 * number, 2 * number + 2)).to_netcdf(tmp_path / f"{number}.nc", engine="netcdf4")
    with xr.open_mfdataset(str(tmp_path / "*.nc"), engine="forebay") as ds:
        xr.testing.assert_equal(ds.compute(), whole)


@pytest.mark.parametrize("chunks", ["auto", {}, {"time": 4}])
def test_dask_cuts_along_the_chunks_of_the_file(tmp_path: Path, chunks: Any) -> None:
    pytest.importorskip("dask")
    for kind in ("netcdf4", "zarr-3"):
        write, engine = FILES[kind]
        folder = tmp_path / kind
        folder.mkdir()
        path = write(folder)
        with xr.open_dataset(path, engine="forebay", chunks=chunks) as ours, xr.open_dataset(path, engine=engine, chunks=chunks) as theirs:
            assert ours["t2m"].chunks == theirs["t2m"].chunks
            ours, theirs = pickle.loads(pickle.dumps(ours)), theirs.load()
            identical(ours.compute(scheduler="threads"), theirs)
            if os.environ.get("FOREBAY_LONG"):
                assert (ours["t2m"].max("time").compute(scheduler="processes") == theirs["t2m"].max("time")).all()


def test_h5netcdf_gives_the_same(tmp_path: Path) -> None:
    pytest.importorskip("h5netcdf")
    path = netcdf_of("NETCDF4")(tmp_path)
    with xr.open_dataset(path, engine="forebay") as ours, xr.open_dataset(path, engine="h5netcdf") as theirs:
        xr.testing.assert_identical(ours, theirs)


def test_the_second_reading_comes_from_the_tiers(origin: Path, tmp_path: Path) -> None:
    disk = {"path": tmp_path / "tier", "quota": "64MiB", **FREE}
    plain = xr.load_dataset(origin / "plain0.h5", engine="forebay", tiers=[])
    for _ in range(2):
        ds = xr.open_dataset(origin / "plain0.h5", engine="forebay", tiers=["memory:8MiB", disk])
        xr.testing.assert_identical(ds.load(), plain)
        ds.close()
    with forebay.File(origin / "plain0.h5", tiers=["memory:8MiB", disk]) as file:
        file["x"][...]
        assert file._origin is not None
        stats = file._origin.stats()
        assert stats is not None
        once = (origin / "plain0.h5").stat().st_size
        assert stats["origin"]["bytes"] <= once + (64 << 10) and stats["tiers"][0]["bytes"] >= 2 * plain["x"].nbytes
        assert pickle.loads(pickle.dumps(file))["x"].shape == plain["x"].shape


def test_the_pages_examples_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    weather().to_netcdf(tmp_path / "era5.nc", engine="netcdf4")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FOREBAY_CONFIG", "none")
    for block in re.findall(r"```python\n(.*?)```", DOC.read_text(), re.DOTALL):
        if "dask" not in block or os.environ.get("FOREBAY_HAS_DASK"):
            exec(compile(block, str(DOC), "exec"), {})
