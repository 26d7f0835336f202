"""Faults that were found, one test each."""

from __future__ import annotations

import os
from typing import Any

import h5py
import numpy as np
import pytest

import forebay


def test_an_array_of_compounds_stays_within_its_memory(tmp_path: Any) -> None:
    pair = h5py.h5t.py_create(np.dtype([("a", "i4"), ("b", "f4")]), logical=True)
    with h5py.File(tmp_path / "a.h5", "w") as file:
        space = h5py.h5s.create_simple((4,))
        h5py.h5d.create(file.id, b"x", h5py.h5t.array_create(pair, (3,)), space)
    batch = forebay.open(tmp_path / "a.h5", ["x"])[[0, 1, 2, 3]]
    assert batch["x"].shape == (4, 3) and batch["x"].dtype.itemsize == 8


def test_what_is_closed_can_still_be_shown(tmp_path: Any) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["x"] = np.zeros(4)
    ds = forebay.open(tmp_path / "a.h5", ["x"])
    loader = ds.loader(batch_size=2)
    assert "4 samples in 1 files: x" in repr(ds)
    ds.close()
    assert repr(ds) == "<forebay.Dataset, closed>"
    assert "of <forebay.Dataset, closed>, batches of 2" in repr(loader)


def test_requests_that_make_no_sense_name_what_is_wrong(tmp_path: Any) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["v"] = np.zeros((4, 3), "f4")
    ds = forebay.open(tmp_path / "a.h5", ["v"])
    with h5py.File(tmp_path / "a.h5") as file, pytest.raises(TypeError, match="HDF5 file .* is no path"):
        forebay.open(file, ["v"])  # type: ignore[arg-type]
    for wrong in (7, b"a.h5", [tmp_path / "a.h5", None], {"a.h5": 1}):
        with pytest.raises(TypeError, match="is no path"):
            forebay.open(wrong, ["v"])  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"seed=1180591620717411303424; it must be below 2\*\*64"):
        ds.loader(seed=2**70)
    with pytest.raises(TypeError, match="memory=1.5 is no number of bytes"):
        ds.loader(memory=1.5)  # type: ignore[arg-type]
    assert sum(batch.size for batch in ds.loader(memory=64e6)) == 4
    (tmp_path / "zero.h5").touch()
    with pytest.raises(forebay.CorruptError, match=r"zero\.h5: the file is empty"):
        forebay.open(tmp_path / "zero.h5", ["v"])


def test_a_vast_empty_variable_takes_no_memory(tmp_path: Any) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("x", shape=(2**40,), chunks=(1,), compression="gzip", dtype="u1")
    ds = forebay.open(tmp_path / "a.h5", ["x"])
    assert ds[2**40 - 1]["x"] == 0


def test_epochs_of_any_number_come_to_an_end(tmp_path: Any) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("x", data=np.zeros((512, 64, 64), "f4"), chunks=(16, 64, 64), compression="gzip")
        file["at"] = np.random.default_rng(0).integers(8, 500, (64, 1))
    ds = forebay.open(tmp_path / "a.h5", ["x"], samples=forebay.Centres("at", (4,)))
    loader = ds.loader(batch_size=4, shuffle="full", memory="2MiB", spill_quota=0)
    for epoch in (0, 10_000_000, 2**32 - 1):
        loader.set_epoch(epoch)
        assert sum(batch.size for batch in loader) == 64


def test_another_batch_size_loses_nothing_on_resuming(tmp_path: Any) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["x"] = np.arange(120)
    ds = forebay.open(tmp_path / "a.h5", ["x"])
    first = ds.loader(batch_size=7)
    batches = iter(first)
    seen = [*next(batches).indices, *next(batches).indices]
    second = ds.loader(batch_size=8)
    second.load_state_dict(first.state_dict())
    seen += [index for batch in second for index in batch.indices]
    assert sorted(seen) == list(range(120))


def test_samples_longer_than_memory_are_refused(tmp_path: Any) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["x"] = np.zeros(1_000_000)
        file["ptr"] = np.tile([0, 1_000_000], (100, 1))
    ds = forebay.open(tmp_path / "a.h5", ["x"], samples=forebay.Ragged(offsets="ptr"))
    with pytest.raises(forebay.FullError):
        ds.loader(batch_size=50, memory="64MiB")


def test_memory_to_change_samples_in_is_counted(tmp_path: Any) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["x"] = np.zeros((4, 1 << 22))
    field = forebay.Field("x", dtype="uint8")
    with pytest.raises(forebay.FullError, match="convert them in"):
        forebay.open(tmp_path / "a.h5", [field]).loader(memory="16MiB", read_threads=1)


def test_a_step_along_an_axis_without_a_size_is_refused(tmp_path: Any) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["x"] = np.zeros((4, 10))
    with pytest.raises(forebay.InvalidError, match="axis 1"):
        forebay.open(tmp_path / "a.h5", ["x"], samples=forebay.Windows({0: 2}, step={1: 2}))


def write_source(folder: Any, number: int, values: Any) -> None:
    with h5py.File(folder / f"s{number}.h5", "w") as file:
        file["x"] = values


def write_irregular(folder: Any, count: int) -> None:
    """A virtual data set of ``count`` sources, each mapped to two boxes, which libhdf5 reads."""
    properties = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    for number in range(count):
        write_source(folder, number, np.arange(20.0) + 100 * number)
        space = h5py.h5s.create_simple((2 * count, 100))
        space.select_hyperslab((2 * number, 0), (1, 10))
        space.select_hyperslab((2 * number + 1, 3), (1, 10), op=h5py.h5s.SELECT_OR)
        properties.set_virtual(space, f"s{number}.h5".encode(), b"x", h5py.h5s.create_simple((20,)))
    with h5py.File(folder / "v.h5", "w", libver="latest") as file:
        h5py.h5d.create(
            file.id, b"v", h5py.h5t.NATIVE_DOUBLE, h5py.h5s.create_simple((2 * count, 100)), properties
        )


def test_libhdf5_never_takes_sources_that_nobody_else_knows_for_what_they_were(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("FOREBAY_LIBHDF5", raising=False)
    write_irregular(tmp_path, 3)
    file = forebay.File(tmp_path / "v.h5")
    for turn in range(3):
        for _ in range(2):
            with h5py.File(tmp_path / "v.h5") as other:
                expected = other["v"][...]
            assert (file["v"][...] == expected).all()
            assert (file["v"][3] == expected[3]).all()
        # Another length of names moves the values within the file.
        with h5py.File(tmp_path / "s1.h5", "w") as source:
            source["a longer name" * turn + "y"] = np.zeros(turn * 1000)
            source["x"] = np.arange(20.0) - turn
