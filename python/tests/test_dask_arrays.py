"""Fields as arrays of dask; on a cluster of processes: tests/frameworks/test_dask_cluster.py."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dask
import h5py
import numpy as np
import pytest
from counting_server import serving

import forebay
from forebay._dataset import portable_set as _portable_set
from forebay._dataset.dask_array import FieldRows

Make = Callable[..., Path]
COUNT = 100


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


def test_blocks_are_cut_between_chunks(make: Make) -> None:
    values = np.arange(3000 * 4096, dtype="f4").reshape(3000, 4096)
    path = make(x=(values, {"chunks": (100, 4096)}), plain=np.arange(3000))
    ds = forebay.open(path, ["x", "plain"])
    assert ds.to_dask("x", chunks="stored").chunks[0] == (100,) * 30
    assert ds.to_dask("x", chunks=250).chunks[0] == (200,) * 15
    assert ds.to_dask("x", chunks=7).chunks[0] == (100,) * 30
    assert ds.to_dask("x", chunks=[1000, 1500, 500]).chunks[0] == (1000, 1500, 500)
    with dask.config.set({"array.chunk-size": "8MiB"}):
        assert ds.to_dask("x").chunks[0] == (500,) * 6
    part = ds.take(slice(150, 2950)).to_dask("x", chunks=100)
    assert part.chunks[0][:2] == (50, 100) and sum(part.chunks[0]) == 2800
    np.testing.assert_array_equal(part[::700].compute(scheduler="threads"), values[150:2950:700])
    # A number holds however small chunks are, and without any.
    small = make("s.h5", x=(np.arange(300.0).reshape(100, 3), {"chunks": (16, 3)}), plain=np.arange(100))
    assert forebay.open(small, ["x"]).to_dask("x", chunks=50).chunks[0] == (48, 48, 4)
    assert forebay.open(small, ["x"]).to_dask("x", chunks=7).chunks[0] == (16,) * 6 + (4,)
    assert forebay.open(small, ["plain"]).to_dask("plain", chunks=40).chunks[0] == (40, 40, 20)
    for wrong in ("other", 0, [1, 2]):
        with pytest.raises((ValueError, TypeError)):
            ds.to_dask("x", chunks=wrong)


@pytest.mark.parametrize("scheduler", ["sync", "threads", "processes"])
def test_every_scheduler_of_dask_gives_the_same(make: Make, scheduler: str) -> None:
    ds, values = packed(make)
    array = ds.to_dask("x")
    assert array[7:290:3, ::2].sum().compute(scheduler=scheduler, num_workers=2) == values[7:290:3, ::2].sum()


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_forked_workers_read_after_their_parent_has_read(make: Make) -> None:
    ds, values = packed(make)
    array = ds.to_dask("x", chunks="stored")
    assert array[0].compute(scheduler="threads").sum() == values[0].sum()
    with dask.config.set({"multiprocessing.context": "fork"}):
        assert array.sum().compute(scheduler="processes", num_workers=2) == values.sum()


def test_a_slice_reads_its_own_chunks_alone(tmp_path: Path) -> None:
    values = np.arange(192 * 65536, dtype="f4").reshape(192, 65536)
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("x", data=values, chunks=(4, 65536))
    with serving(tmp_path) as origin:
        array = forebay.open(f"{origin.url}/a.h5", ["x"]).to_dask("x", chunks="stored")
        before = origin.given
        np.testing.assert_array_equal(array[9:11, 5].compute(scheduler="threads"), values[9:11, 5])
        # A request over a network brings some chunks more.
        assert origin.given - before <= values.nbytes / 8
        assert array[:, 0].compute(scheduler="threads").tolist() == values[:, 0].tolist()
        assert origin.given - before <= 1.25 * values.nbytes


def test_arrays_of_different_blocks_are_computed_together(make: Make) -> None:
    ds = forebay.open(make(x=np.arange(100.0), y=np.arange(100.0) * 2), ["x", "y"])
    halves, tenths = ds.to_dask("x", chunks=(50, 50)), ds.to_dask("x", chunks=(10,) * 10)
    assert halves.name != tenths.name and halves.name == ds.to_dask("x", chunks=[50, 50]).name
    other, part = ds.to_dask("y", chunks=(50, 50)), ds.take(range(50, 100)).to_dask("x", chunks=(25, 25))
    found = dask.compute(halves.sum(), tenths.sum(), other.sum(), part.sum(), scheduler="threads")
    assert found == (4950.0, 4950.0, 9900.0, 3725.0)


def test_texts_are_cut_by_what_they_hold(make: Make) -> None:
    for number in range(6):
        path = make(f"{number}.h5", name=(np.array(["x" * 1000] * 100, object), {"dtype": h5py.string_dtype()}), x=np.arange(100))
    ds = forebay.open(path.parent / "*.h5", ["name", "x"])
    with dask.config.set({"array.chunk-size": "200kB"}):
        assert ds.to_dask("name").chunks[0] == (200, 200, 200)
        assert ds.to_dask("x").chunks[0] == (600,)


@pytest.mark.parametrize("is_replaced", [False, True], ids=["written", "replaced"])
def test_a_file_that_was_changed_before_an_array_was_made_is_refused(make: Make, is_replaced: bool) -> None:
    path = make(x=np.arange(20.0), y=np.arange(20))
    ds = forebay.open(path, ["x", "y"])
    if is_replaced:
        path.unlink()
    make(x=np.arange(20.0) + 1, y=np.arange(20))
    with pytest.raises(forebay.ForebayError, match="since it was opened"):
        ds.to_dask("x").compute(scheduler="threads")
    with pytest.raises(forebay.ForebayError, match="since it was opened"):
        ds.where("x", (">", 3))


def test_a_process_keeps_the_fields_of_a_graph_open_and_fewer_sets_with_tiers(make: Make) -> None:
    names = [f"f{number}" for number in range(6)]
    path = make(**{name: np.arange(40.0) + number for number, name in enumerate(names)})
    _portable_set._open_sets.clear()
    try:
        arrays = [pickle.dumps(FieldRows(forebay.open(path, [name]), name)) for name in names]
        assert [pickle.loads(array)[3] for array in arrays] == [3.0, 4.0, 5.0, 6.0, 7.0, 8.0]
        first = list(_portable_set._open_sets.values())
        assert len(first) == 6 and [pickle.loads(array)[-1] for array in arrays] == [39.0, 40.0, 41.0, 42.0, 43.0, 44.0]
        assert all(one is again for one, again in zip(first, _portable_set._open_sets.values()))
        ds = forebay.open(path, ["f0"], tiers=["memory:1MiB"])
        for number in range(20):
            portable = pickle.loads(pickle.dumps(_portable_set.PortableSet(ds.take([number]))))
            assert portable.samples()[0]["f0"] == number
        assert len(_portable_set._open_sets) == 6 + _portable_set.KEPT_WITH_TIERS
    finally:
        _portable_set._open_sets.clear()
