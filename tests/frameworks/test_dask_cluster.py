"""Fields as arrays of dask, and datasets of xarray, on a cluster of processes; without one: python/tests/test_dask_arrays.py."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import dask
import dask.array as da
import h5py
import numpy as np
import pytest
import xarray as xr
from dask.distributed import Client, LocalCluster
from page_code import make_files, run_page

import forebay
from forebay._dataset import portable_set

Make = Callable[..., Path]
COUNT = 100


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    """Two processes of two threads each."""
    with LocalCluster(n_workers=2, threads_per_worker=2, processes=True, dashboard_address=":0") as cluster, Client(cluster) as client:
        yield client


def images(count: int) -> Any:
    return np.random.default_rng(0).integers(0, 255, (count, 16, 16), np.uint8)


def packed(make: Make) -> tuple[forebay.Dataset, Any]:
    """Three files of images in chunks of 16, and all of them."""
    values = images(3 * COUNT)
    for number in range(3):
        part = slice(number * COUNT, (number + 1) * COUNT)
        options = {"chunks": (16, 16, 16), "compression": "gzip"}
        path = make(f"{number}.h5", x=(values[part], options), y=np.arange(3 * COUNT)[part])
    return forebay.open(path.parent / "*.h5", ["x", "y"]), values


def test_an_array_has_all_values_and_other_processes_read_them(make: Make, client: Client) -> None:
    ds, values = packed(make)
    array = ds.to_dask("x", chunks="stored")
    assert array.shape == values.shape and array.dtype == values.dtype and isinstance(array, da.Array)
    # Small chunks are joined up to 256 KiB, and never over the end of a file.
    assert array.chunks == ((COUNT,) * 3, (16,), (16,))
    by_process = client.compute([dask.delayed(os.getpid)(), (array.astype("f8") + 1).sum(), array.max()])
    other, total, most = client.gather(by_process)
    assert other != os.getpid() and total == (values.astype("f8") + 1).sum() and most == values.max()
    np.testing.assert_array_equal(array.compute(), values)
    np.testing.assert_array_equal(ds.to_dask("y").compute(), np.arange(3 * COUNT))
    opened = client.run(lambda: len(portable_set._open_sets))
    # One for each field, however many blocks a process has read.
    assert all(count <= 2 for count in opened.values()) and max(opened.values()) > 0


def test_parts_texts_and_windows_are_arrays_and_samples_of_different_lengths_are_not(make: Make, client: Client) -> None:
    path = make(name=(np.array(["a", "bc", "", "é"] * 5, object), {"dtype": h5py.string_dtype()}), x=np.arange(20.0))
    ds = forebay.open(path, ["name", "x"])
    assert ds.to_dask("name").compute().tolist() == ["a", "bc", "", "é"] * 5
    shuffled = ds.take([19, 3, 3, 0])
    assert shuffled.to_dask("x").compute().tolist() == [19.0, 3.0, 3.0, 0.0]
    windows = forebay.open(path, ["x"], samples=forebay.Windows({0: 4}, stride={0: 1}))
    np.testing.assert_array_equal(windows.to_dask("x").compute(), np.lib.stride_tricks.sliding_window_view(np.arange(20.0), 4))
    ragged = make("r.h5", x=np.arange(10.0), ptr=np.array([0, 4, 4, 10]))
    with pytest.raises(ValueError, match="different lengths"):
        forebay.open(ragged, ["x"], samples=forebay.Ragged(offsets="ptr")).to_dask("x")
    with pytest.raises(ValueError, match="no field"):
        ds.to_dask("other")
    assert forebay.open(path, ["x"]).take([]).to_dask("x").compute().shape == (0,)


def test_workers_refuse_files_that_were_changed(make: Make, client: Client) -> None:
    array = forebay.open(make(x=np.arange(20.0)), ["x"]).to_dask("x")
    make(x=np.arange(20.0) + 1)
    with pytest.raises(forebay.InvalidError, match="others here"):
        client.compute(array.sum()).result()


def test_the_engine_of_xarray_cuts_along_chunks_and_workers_read(make: Make, client: Client) -> None:
    values = np.random.default_rng(1).random((40, 30))
    path = make(t=(values, {"chunks": (8, 30)}), plain=np.arange(40.0))
    with xr.open_dataset(path, engine="forebay", chunks={}) as ds:
        assert ds["t"].chunks == ((8,) * 5, (30,)) and ds["plain"].chunks == ((40,),)
        assert float((ds["t"] * 2).sum()) == pytest.approx(2 * values.sum())
        other, total = client.gather(client.compute([dask.delayed(os.getpid)(), ds["t"].data.sum()]))
        assert other != os.getpid() and total == pytest.approx(values.sum())
    with xr.open_dataset(path, engine="forebay", chunks={"phony_dim_0": 16}) as ds:
        assert ds["t"].chunks[0] == (16, 16, 8)


def test_the_programs_of_the_page_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_files(tmp_path)
    monkeypatch.chdir(tmp_path)
    left = run_page("dask.md", "__main__")
    assert left["mean"].shape == (16, 16) and len(left["by_class"]) == 4
