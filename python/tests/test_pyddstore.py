"""Programs of DDStore, over stores."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

import forebay
import numpy as np
import pytest
from forebay import pyddstore as dds
from test_store_ranks import succeed


def test_what_programs_of_ddstore_call_does_what_it_did(tmp_path: Path) -> None:
    succeed(
        2,
        """
        import importlib, warnings
        from forebay import pyddstore as dds
        store = dds.PyDDStore(None, 0)
        data = (np.arange(rank * 16, rank * 16 + 16)[:, None] * 100 + np.arange(5)).astype(np.float32)
        store.add("x", data)
        store.init("y", 4, 3, itemsize=8)
        store.update("y", np.full((2, 3), rank + 1.0), 1)
        store.epoch_begin()
        out = np.zeros((2, 5), np.float32)
        for start in (0, 15, 30):
            store.get("x", out, start=start)
            np.testing.assert_array_equal(out, (np.arange(start, start + 2)[:, None] * 100 + np.arange(5)))
        numbers = np.array([31, 0, 16, 16])
        out = np.zeros((4, 5), np.float32)
        store.get_batch("x", out, numbers)
        np.testing.assert_array_equal(out, numbers[:, None] * 100 + np.arange(5))
        out = np.ones((8, 3))
        store.get("y", out)
        np.testing.assert_array_equal(out[:, 0], [0, 1, 1, 0, 0, 2, 2, 0])
        assert store.info("x") == (32, 5, 4) and store.info("y") == (8, 3, 8)
        store.register_recv("x", out)
        assert store.get_profile("x")["rank"] == rank
        for wrong, kind in (([32], IndexError), ([1, 2], ValueError)):
            try:
                store.get_batch("x", np.zeros((1, 5), np.float32), wrong)
                raise SystemExit("accepted")
            except kind:
                pass
        try:
            store.update("x", data, 0)
            raise SystemExit("accepted")
        except forebay.InvalidError as error:
            assert "sealed" in str(error)
        store.epoch_end()
        store.free()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            narrow = dds.PyDDStore(None, 1, 1)
            assert narrow.store.width == 1 and any("libfabric" in str(one.message) for one in caught)
        samples = [{"z": np.arange(n), "e": np.float64(n)} for n in range(9)]
        data = dds.DistDataset(samples, "train")
        assert len(data) == 9
        for n in (8, 0, 4):
            np.testing.assert_array_equal(data[n]["z"], np.arange(n))
        assert [float(one["e"]) for one in data.__getitems__([3, 3, 7])] == [3.0, 3.0, 7.0]
        data._store._comm.barrier()
        """,
    )


def test_the_module_name_of_ddstore_can_be_put_on_the_path() -> None:
    command = [sys.executable, "-m", "forebay.pyddstore"]
    folder = subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
    command = [sys.executable, "-c", "import pyddstore; print(pyddstore.PyDDStore.__module__)"]
    path = os.pathsep.join([folder, os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(command, env={**os.environ, "PYTHONPATH": path}, check=True, capture_output=True, text=True)
    assert done.stdout.strip() == "forebay.pyddstore"


def test_rows_are_read_of_variables_of_any_length() -> None:
    store = dds.PyDDStore()
    store.add("small", np.arange(3))
    store.add("big", np.arange(20).reshape(10, 2))
    into = np.zeros((3, 2), np.int64)
    store.get("big", into, 7)
    assert into.tolist() == [[14, 15], [16, 17], [18, 19]]
    store.get_batch("big", into, [9, 0, 9])
    assert into.tolist() == [[18, 19], [0, 1], [18, 19]]
    for start in (8, -1):
        with pytest.raises(IndexError, match="of 10 of 'big'"):
            store.get("big", into, start)
    with pytest.raises(KeyError, match="there are small, big"):
        store.get("none", into)
    store.free()
    store.free()


def test_rows_are_read_into_memory_that_the_program_sees_or_not_at_all() -> None:
    store = dds.PyDDStore()
    store.add("x", np.arange(12, dtype=np.float32).reshape(4, 3))
    sealed = np.zeros((2, 3), np.float32)
    sealed.flags.writeable = False
    refused: list[Any] = [
        [[0.0] * 3] * 2,
        np.zeros((3, 2), np.float32).T,
        np.zeros((2, 6), np.float32)[:, ::2],
        np.zeros((2, 3), ">f4"),
        np.zeros((), np.float32),
        sealed,
        memoryview(bytearray(24)),
    ]
    try:
        import torch

        # What is not in memory of the host, on any machine.
        refused += [torch.zeros((2, 3), device="meta"), torch.zeros((3, 2)).T]
        tensor = torch.zeros((2, 3), requires_grad=True)
        store.get("x", tensor, 1)
        assert tensor.tolist() == [[3, 4, 5], [6, 7, 8]]
        store.get_batch("x", tensor, torch.tensor([3, 0]))
        assert tensor.tolist() == [[9, 10, 11], [0, 1, 2]]
    except ModuleNotFoundError:
        pass
    for wrong in refused:
        with pytest.raises(TypeError):
            store.get("x", wrong)
        with pytest.raises(TypeError):
            store.get_batch("x", wrong, [0, 1])
    for other in (np.zeros((2, 3)), np.zeros((2, 2), np.float32), np.zeros((2, 6), np.int16)):
        with pytest.raises(ValueError, match="rows of 'x' are 3 elements of 4 bytes"):
            store.get("x", other)
    nothing = np.zeros((0, 3), np.float32)
    store.get("x", nothing, 4)
    store.get_batch("x", nothing, [])
    with pytest.raises(TypeError, match="list of numbers"):
        store.get_batch("x", np.zeros((1, 3), np.float32), [0.0])
    store.free()


def test_updates_are_whole_rows_of_the_type_that_is_there() -> None:
    store = dds.PyDDStore()
    store.init("y", 4, 3, itemsize=4)
    for wrong in (np.ones((2, 2), np.float32), np.ones(3, np.float32), np.ones((1, 3)), np.ones((1, 6), np.int16)):
        with pytest.raises(ValueError, match="rows of 'y' are 3 elements of 4 bytes"):
            store.update("y", wrong, 0)
    for offset in (3, 4, -1):
        with pytest.raises((ValueError, forebay.InvalidError)):
            store.update("y", np.ones((2, 3), np.float32), offset)
    into = np.ones((4, 3), np.float32)
    store.get("y", into)
    assert not into.any()
    store.update("y", np.full((2, 3), 7, ">f4"), 1)
    store.get("y", into)
    assert into[:, 0].tolist() == [0, 7, 7, 0]
    store.free()


def test_a_record_of_bytes_is_read_as_one_piece() -> None:
    store = dds.PyDDStore()
    records = np.random.default_rng(1).integers(0, 256, 4 << 20).astype(np.uint8)
    store.add("records", records)
    into = np.zeros(4_000_000, np.uint8)
    began = time.perf_counter()
    store.get("records", into, 12_345)
    took = time.perf_counter() - began
    np.testing.assert_array_equal(into, records[12_345:4_012_345])
    # A byte at a time it takes many seconds.
    assert took < 1, took
    told = store.get_profile("records")
    assert (told["calls"], told["rows"], told["py_gets"], told["mr_miss"]) == (1, 4_000_000, 1, 0)
    assert 0 < told["read"] == told["py_get"] and told["own"] == {"samples": 4_000_000, "bytes": 4_000_000}
    assert store.get_profile()["calls"] == 1 and told["get_latency"]["count"] == 1
    with pytest.raises(KeyError):
        store.get_profile("others")
    store.free()


def test_ranks_may_bring_no_rows_but_not_different_ones() -> None:
    told = succeed(
        3,
        """
        from forebay import pyddstore as dds
        store = dds.PyDDStore()
        store.add("x", np.zeros((0, 5), np.float32) if rank == 0 else np.full((2, 5), rank, np.float32))
        store.add("y", np.array([]) if rank != 2 else np.arange(3, dtype=np.int16))
        store.add("z", np.zeros((0, 4)))
        assert [store.info(name) for name in "xyz"] == [(4, 5, 4), (3, 1, 2), (0, 4, 8)]
        into = np.zeros((4, 5), np.float32)
        store.get("x", into)
        assert into[:, 4].tolist() == [1, 1, 2, 2]
        for wrong in (np.zeros((2, 4 + rank), np.float32), np.zeros((2, 4), "f4" if rank else "f8"), 3 if rank == 1 else np.zeros(3)):
            try: store.add("w", wrong)
            except (forebay.InvalidError, ValueError) as error: print(error)
        store.free()
        """,
    )
    for one in told:
        lens, types, numbers = one.splitlines()
        assert lens == "ranks add different rows of 'w': rank 0 4 elements of 4 bytes, rank 1 5 elements of 4 bytes", lens
        assert types == "ranks add different rows of 'w': rank 0 4 elements of 8 bytes, rank 1 4 elements of 4 bytes", types
        assert "'w' is one number" in numbers, numbers


class Pair(NamedTuple):
    name: str
    value: int


@pytest.mark.parametrize(
    "samples",
    [
        [{"n": 3 + k, "f": 0.5, "b": k > 0, "s": "é" * k, "raw": b"ab", "c": 1j, "a": np.arange(k), "z": np.float32(k)} for k in range(4)],
        [(k, float(k)) for k in range(4)],
        [[np.full((2, k), k)] for k in range(4)],
        [Pair("x" * k, k) for k in range(4)],
        [np.array(k) for k in range(4)],
        [np.array((k, 2.5), [("a", "i4"), ("b", "f8")])[()] for k in range(4)],
        ["text", "", "other"],
        [7, 8],
    ],
    ids=["dict", "tuple", "list", "named tuple", "0-d arrays", "records", "strings", "numbers"],
)
def test_samples_of_a_data_set_come_back_as_what_they_were(samples: list[Any]) -> None:
    data = dds.DistDataset(samples, "set")
    assert len(data) == data.len() == data.total_ns == len(samples)
    for got in (data[1], data.get(1), data.__getitems__([0, 1])[1], data[1 - len(samples)]):
        assert type(got) is type(samples[1])
        is_mapping = isinstance(got, dict)
        expected: Any = samples[1].values() if is_mapping else samples[1] if isinstance(got, (tuple, list)) else [samples[1]]
        values: Any = got.values() if is_mapping else got if isinstance(got, (tuple, list)) else [got]
        for one, other in zip(values, expected, strict=True):
            assert type(one) is type(other)
            np.testing.assert_array_equal(one, other)
            assert getattr(one, "dtype", None) == getattr(other, "dtype", None)
    data.ddstore.free()


def test_what_a_data_set_cannot_keep_is_said() -> None:
    for wrong in ([{"a": [1, 2]}], [{"a": None}], [{"a": 2**70}], [{"a": 1}, {"a": 1.0}], [{"a": np.ones(2)}, (np.ones(2),)]):
        with pytest.raises((TypeError, OverflowError)):
            dds.DistDataset(wrong, "set")
    with pytest.raises(TypeError, match="encode="):
        dds.DistDataset([{"a": {}}], "set")
    with pytest.raises(TypeError, match="unexpected keyword argument 'locale'"):
        dds.DistDataset([1], "set", locale=True)  # type: ignore[call-arg]
    with pytest.raises(ValueError, match="exclude each other"):
        dds.DistDataset([1], "set", encode=str, fields=[0])
    with pytest.warns(forebay.ForebayWarning, match="chunk_size"):
        dds.DistDataset([1], "set", chunk_size=4)


def test_the_store_of_a_data_set_is_one_of_ddstore() -> None:
    data = dds.DistDataset([{"x": np.arange(3) + n, "y": n} for n in range(5)], "train", fields=["x"])
    assert isinstance(data.ddstore, dds.PyDDStore) and data[4].keys() == {"x"}
    for _ in range(2):
        data.ddstore.epoch_begin()
        into = np.zeros((2, 3), np.int64)
        data.ddstore.get("train/x", into, 3)
        assert into.tolist() == [[3, 4, 5], [4, 5, 6]] and data.ddstore.info("train/x") == (5, 3, 8)
        data.ddstore.epoch_end()
    names = ["cat", "owl"]
    coded = dds.DistDataset(["owl", "cat"], encode=names.index, decode=lambda number, at: (names[number], at))
    assert coded[0] == ("owl", 0) and coded.__getitems__([-1, 1]) == [("cat", 1), ("cat", 1)]


def test_a_data_set_of_the_own_parts_of_ranks_holds_all_of_them() -> None:
    succeed(
        3,
        """
        from forebay import pyddstore as dds
        mine = [{"x": np.full(n + 1, rank), "n": n} for n in range([2, 0, 3][rank])]
        data = dds.DistDataset(mine, "part", local=True)
        assert len(data) == 5
        assert [(int(one["x"][0]), one["n"]) for one in data.__getitems__(range(5))] == [(0, 0), (0, 1), (2, 0), (2, 1), (2, 2)]
        data.ddstore.free()
        # Sources that differ are not the same source.
        for options in ({}, {"local": True, "ddstore_width": 1}):
            try: dds.DistDataset(mine, "part", **options)
            except forebay.InvalidError as error: assert "local=True" in str(error), error
            else: raise SystemExit("accepted")
        # Ranks without samples learn what they are; fewer samples than ranks are no error.
        few = dds.DistDataset([("a", 1)], "few")
        assert few[0] == ("a", 1)
        few.ddstore.free()
        """,
    )


def test_the_modules_of_ddstore_are_those_that_programs_import() -> None:
    pytest.importorskip("torch")
    command = [sys.executable, "-m", "forebay.pyddstore"]
    folder = subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
    source = """
import warnings
import numpy as np, torch
import pyddstore, forebay
from pyddstore.torch import DistDataset, DistDatasetReader, ThreadDataLoader
assert pyddstore.__version__ == forebay.__version__ and pyddstore.PyDDStore is forebay.pyddstore.PyDDStore
data = DistDataset([(torch.full((2, 2), float(n)), n) for n in range(21)], "train")
assert isinstance(data, torch.utils.data.Dataset) and isinstance(data, pyddstore.DistDataset)
assert data[3][0].dtype == torch.float32 and type(data[3][1]) is int
for workers, batch_size in ((0, 4), (3, 4), (1, None)):
    loader = ThreadDataLoader(data, batch_size=batch_size, num_workers=workers)
    loader.dataset.ddstore.epoch_begin()
    plain = list(torch.utils.data.DataLoader(data, batch_size=batch_size))
    for (ours, n), (theirs, m) in zip(loader, plain, strict=True):
        assert torch.equal(ours, theirs) and torch.equal(torch.as_tensor(n), torch.as_tensor(m))
    loader.dataset.ddstore.epoch_end()
# An epoch that is left leaves no threads.
for batch in ThreadDataLoader(data, batch_size=1, num_workers=2):
    break
try: DistDatasetReader("train", n_core=1)
except forebay.InvalidError as error: assert "ranks of it" in str(error)
else: raise SystemExit("joined")
try: from pyddstore.torch import WindowedDataset
except ImportError as error: assert "get_batch" in str(error), error
else: raise SystemExit("imported")
"""
    path = os.pathsep.join([folder, os.environ.get("PYTHONPATH", "")])
    done = subprocess.run([sys.executable, "-c", source], env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
