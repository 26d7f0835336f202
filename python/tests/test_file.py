"""Files that stay open, held against h5py, netCDF4 and zarr-python."""

from __future__ import annotations

import os
import pickle
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import h5py
import netCDF4
import numpy as np
import pytest
import zarr
from conftest import Make, same

import forebay

CUBE = np.arange(4 * 5 * 6, dtype="<i4").reshape(4, 5, 6)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        cube = file.create_dataset("cube", data=CUBE, chunks=(2, 5, 4), compression="gzip")
        cube.attrs["units"] = "K"
        file.create_dataset("group/flat", data=np.arange(7.0))
        file.create_dataset("scalar", data=2.5)
        file["group"].attrs["level"] = 3
        file.attrs["title"] = "a title"
    return tmp_path / "a.h5"


@pytest.mark.parametrize("selection", [..., 2, -1, np.s_[1:3], np.s_[::2, 1], np.s_[..., 2], np.s_[0, ..., ::3], ()], ids=str)
def test_variables_are_read_as_numpy_chooses_their_parts(path: Path, selection: Any) -> None:
    with forebay.File(path) as file:
        same(file["cube"][selection], CUBE[selection])


def test_a_file_has_the_names_attributes_and_facts_that_h5py_shows(path: Path) -> None:
    with forebay.File(path) as file:
        assert list(file) == ["cube", "group/flat", "scalar"] and len(file) == 3
        assert "cube" in file and "group/flat" in file and "none" not in file and 5 not in file
        assert file.format == "hdf5" and file.groups == ("", "group")
        assert file.attrs == {"title": "a title"} and file.group_attrs("group") == {"level": 3}
        cube = file["cube"]
        assert (cube.shape, cube.dtype, cube.ndim, cube.size, len(cube)) == ((4, 5, 6), np.dtype("<i4"), 3, 120, 4)
        assert cube.chunks == (2, 5, 4) and cube.filters == ("gzip-4",) and cube.attrs == {"units": "K"}
        same(np.asarray(cube), CUBE)
        assert file["scalar"][()] == 2.5
        same(file["group/flat"][2:4], np.array([2.0, 3.0]))
    with pytest.raises(KeyError, match="none"), forebay.File(path) as file:
        file["none"]


def test_dimensions_are_those_of_the_file(tmp_path: Path) -> None:
    with netCDF4.Dataset(tmp_path / "a.nc", "w") as file:
        file.createDimension("time", 3)
        file.createDimension("x", 5)
        file.createVariable("t2m", "f4", ("time", "x"))[:] = np.ones((3, 5))
    store = zarr.create_array(str(tmp_path / "b.zarr"), shape=(4, 6), chunks=(2, 3), dtype="f8", dimension_names=("y", "z"))
    store[:] = np.arange(24.0).reshape(4, 6)
    with forebay.File(tmp_path / "a.nc") as file:
        assert file["t2m"].dimensions == ("time", "x") and file.dimensions == {"time": 3, "x": 5}
    with forebay.File(tmp_path / "b.zarr") as file:
        (name,) = file
        assert file[name].dimensions == ("y", "z")
        same(file[name][1:3, ::2], np.arange(24.0).reshape(4, 6)[1:3, ::2])


def test_a_file_is_closed_once_and_its_arrays_stay(path: Path) -> None:
    file = forebay.File(path)
    cube, array = file["cube"], file["cube"][...]
    before = len(os.listdir("/proc/self/fd"))
    file.close()
    file.close()
    assert len(os.listdir("/proc/self/fd")) < before
    same(array, CUBE)
    assert "closed" in repr(file) and "cube" in repr(cube)
    with pytest.raises(ValueError, match="closed"):
        file["cube"]
    with pytest.raises(forebay.InvalidError, match="closed"):
        cube[0]


def test_a_file_is_used_by_threads_pickled_and_forked(path: Path) -> None:
    file = forebay.File(path)
    with ThreadPoolExecutor(8) as pool:
        for number, row in enumerate(pool.map(lambda number: file["cube"][number % 4], range(64))):
            same(row, CUBE[number % 4])
    same(pickle.loads(pickle.dumps(file))["cube"][1], CUBE[1])
    child = os.fork()
    if child == 0:
        os._exit(0 if (file["cube"][2] == CUBE[2]).all() else 1)
    assert os.waitpid(child, 0)[1] == 0


def test_a_file_that_was_replaced_is_an_error_where_the_old_one_was_sent(tmp_path: Path) -> None:
    path = tmp_path / "a.npy"
    np.save(path, np.zeros(9))
    with forebay.File(path) as file:
        sent = pickle.dumps(file)
    again = pickle.loads(sent)
    np.save(tmp_path / "b.npy", np.ones(10))
    (tmp_path / "b.npy").rename(path)
    with pytest.raises(forebay.UnavailableError, match="a.npy: changed since it was first opened"):
        pickle.loads(sent)
    with pytest.raises(forebay.UnavailableError, match="changed since it was first opened"):
        pickle.loads(pickle.dumps(again))


def test_what_is_wrong_is_named(path: Path, make: Make) -> None:
    with pytest.raises(forebay.NotFoundError, match="nowhere.h5"):
        forebay.File(path.parent / "nowhere.h5")
    with forebay.File(path) as file:
        with pytest.raises(forebay.InvalidError, match="cube"):
            file["cube"][9]
        for odd in ([1, 2], None, np.ones(3, bool), (0, None)):
            with pytest.raises(TypeError, match="selection"):
                file["cube"][odd]


def test_a_variable_is_walked_row_by_row(path: Path) -> None:
    with forebay.File(path) as file:
        rows = list(file["cube"])
    assert len(rows) == len(CUBE) and all((row == one).all() for row, one in zip(rows, CUBE))
