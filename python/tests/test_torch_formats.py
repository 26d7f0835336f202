"""The call of the Stimulus paper, for each format: what is of another is refused, and says what it is."""

from __future__ import annotations

import pickle
import re
from pathlib import Path
from typing import Any

import netCDF4
import numpy as np
import pytest
from conftest import Make, images
from torch.utils.data import DataLoader

import forebay
import forebay.torch

FRONTS = ["HDF5", "NetCDF", "NC", "GNCF", "ADIOS2", "Silo", "Zarr"]
ROW = 6 * 5 * 3
pytestmark = pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")


@pytest.fixture
def hdf5(make: Make) -> Path:
    return make("images.h5", image=(images(16), {"chunks": (3, 6, 5, 3)}), label=np.arange(16))


@pytest.fixture
def netcdf(tmp_path: Path) -> Path:
    path = tmp_path / "images.nc"
    with netCDF4.Dataset(path, "w") as file:
        for name, length in zip("nyxc", (16, 6, 5, 3)):
            file.createDimension(name, length)
        file.createVariable("image", "u1", tuple("nyxc"))[:] = images(16)
        file.createVariable("label", "i8", ("n",))[:] = np.arange(16)
    return path


def steps(name: str) -> Any:
    """A format of our own that says of itself what ADIOS2's readers do."""

    def describe(file: Any) -> list[forebay.Variable]:
        count = file.size - 4
        return [
            forebay.Variable("x", "u1", (count // 4,), extents=[(file.size - count // 4, count // 4)]),
            forebay.Variable("x@steps", "u1", (4, count // 4), extents=[(4, count)]),
            forebay.Variable("label", "i4", (4,), values=np.arange(4)),
        ]

    return name, lambda path, head: head.startswith(b"STEP"), describe


@pytest.mark.parametrize("front", ["NetCDF", "NC", "GNCF", "HDF5"])
@pytest.mark.parametrize("workers", [0, 2])
def test_netcdf_is_read_by_its_fronts(netcdf: Path, front: str, workers: int) -> None:
    dataset = getattr(forebay.torch, front)((netcdf, "image", "label", ("FIXED", ROW)), read_threads=2)
    for data, labels in DataLoader(dataset, batch_size=4, shuffle=True, num_workers=workers):
        assert data.shape == (4, 6, 5, 3) and (data.numpy() == images(16)[labels]).all()
    assert len(pickle.loads(pickle.dumps(dataset))) == 16


@pytest.mark.parametrize("front", ["ADIOS2", "Silo", "Zarr"])
def test_a_file_of_another_format_is_refused(hdf5: Path, front: str) -> None:
    said = f"{hdf5}: a file of format hdf5, which {front} does not take; forebay.torch.HDF5 takes it"
    with pytest.raises(ValueError, match=re.escape(said)):
        getattr(forebay.torch, front)((hdf5, "image", "label", ("FIXED", ROW)))
    with pytest.raises(ValueError, match=f"format hdf5, which {front} does not take"):
        getattr(forebay.torch, front)((str(hdf5.parent / "*.h5"), "image", "label"))


@pytest.mark.parametrize("front", FRONTS)
def test_what_is_not_there_or_of_no_format_is_told_by_name(tmp_path: Path, front: str) -> None:
    with pytest.raises(forebay.NotFoundError, match="none"):
        getattr(forebay.torch, front)((tmp_path / "none", "x"))
    (tmp_path / "a.txt").write_text("no array")
    with pytest.raises(forebay.UnsupportedError, match=r"a\.txt: not a file of a format"):
        getattr(forebay.torch, front)((tmp_path / "a.txt", "x"))


def test_steps_of_adios2_are_stacked(tmp_path: Path) -> None:
    path = tmp_path / "a.bp"
    path.write_bytes(b"STEP" + bytes(range(12)))
    forebay.register_format(*steps("bp-like"))
    dataset = forebay.torch.ADIOS2((path, "x", "label", ("FIXED", 3)))
    assert len(dataset) == 4
    assert [(data.tolist(), int(label)) for data, label in map(dataset.__getitem__, range(4))] == [
        (list(range(3 * step, 3 * step + 3)), step) for step in range(4)
    ]


def test_there_is_one_name_for_each() -> None:
    assert forebay.torch.NC is forebay.torch.NetCDF
    assert set(FRONTS) <= set(forebay.torch.__all__)
    for front in set(FRONTS) - {"NC"}:
        assert getattr(forebay.torch, front).__module__ == "forebay.torch"
