"""Sets of samples as datasets of Ray Data, on a cluster of two nodes of this machine."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import ray
from counting_server import serving
from page_code import make_files, run_page
from ray.cluster_utils import Cluster
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

import forebay
import forebay.ray
from forebay._ray_source import SampleDatasource

Make = Callable[..., Path]
NODES = 2
PROCESSORS = 2
"""Of each node: as many of its processes read at a time, and share its tiers."""
MIB = 1 << 20
IS_OLD = int(ray.__version__.split(".")[1]) < 55
IS_LONG = bool(os.environ.get("FOREBAY_LONG") or os.environ.get("FOREBAY_SLOW"))


@pytest.fixture(scope="module")
def disks(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """A disk of each node."""
    return [tmp_path_factory.mktemp(f"node{number}") for number in range(NODES)]


@pytest.fixture(scope="module", autouse=True)
def cluster(disks: list[Path]) -> Iterator[None]:
    """Two nodes, with a variable that leads each to its own disk."""
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    # Memory of this machine that others use is none of Ray's.
    os.environ["RAY_memory_monitor_refresh_ms"] = "0"
    # Short: names of sockets are made of it.
    os.environ["RAY_TMPDIR"] = tempfile.mkdtemp(prefix="ray-")
    nodes = [{"num_cpus": PROCESSORS, "object_store_memory": 100 * MIB, "env_vars": {"NODE_DISK": str(disk)}} for disk in disks]
    made = Cluster(initialize_head=True, head_node_args={**nodes[0], "include_dashboard": False})
    try:
        for node in nodes[1:]:
            made.add_node(**node)
        ray.init(address=made.address, log_to_driver=False)
        context = ray.data.DataContext.get_current()
        context.enable_progress_bars = False
        yield
    finally:
        ray.shutdown()
        made.shutdown()
        shutil.rmtree(os.environ.pop("RAY_TMPDIR"), ignore_errors=True)


def write_chunks(folder: Path, files: int, rows: int, shape: tuple[int, ...] = (64, 64)) -> Any:
    """Files of random samples in chunks of 16, with their numbers; gives all samples."""
    values = np.random.default_rng(0).integers(0, 1 << 30, (files * rows, *shape), np.int32)
    for number in range(files):
        part = slice(number * rows, (number + 1) * rows)
        with h5py.File(folder / f"{number}.h5", "w") as file:
            file.create_dataset("x", data=values[part], chunks=(16, *shape), compression="gzip", compression_opts=1)
            file["y"] = np.arange(files * rows)[part]
    return values


def test_every_row_comes_once_from_both_nodes(tmp_path: Path) -> None:
    values = write_chunks(tmp_path, 2, 200)

    def with_node(batch: dict[str, Any]) -> dict[str, Any]:
        return {**batch, "node": np.array([ray.get_runtime_context().get_node_id()] * len(batch["y"]))}

    rows = forebay.ray.read(tmp_path / "*.h5", ["x"], label="y", override_num_blocks=8)
    assert rows.count() == 400 and set(rows.schema().names) == {"x", "y"}
    seen, nodes = [], set()
    for batch in rows.map_batches(with_node).iter_batches(batch_size=64):
        np.testing.assert_array_equal(batch["x"], values[batch["y"]])
        seen += batch["y"].tolist()
        nodes |= set(batch["node"])
    assert sorted(seen) == list(range(400)) and len(nodes) == NODES
    # Asked to keep the order, Ray gives rows as they lie.
    ray.data.DataContext.get_current().execution_options.preserve_order = True
    try:
        again = forebay.ray.read(tmp_path / "*.h5", ["y"])
        assert [row["y"] for row in again.iter_rows()] == list(range(400))
    finally:
        ray.data.DataContext.get_current().execution_options.preserve_order = False


def test_tiers_of_the_nodes_keep_the_origin_at_one_reading_of_the_set(tmp_path: Path, disks: list[Path]) -> None:
    folder, count = tmp_path / "origin", 2 * 3072
    folder.mkdir()
    for number in range(2):
        with h5py.File(folder / f"{number}.h5", "w", libver="latest") as file:
            numbers = np.arange(number * count // 2, (number + 1) * count // 2, dtype="i4")
            file["y"] = numbers
            file.create_dataset("x", data=np.broadcast_to(numbers[:, None], (count // 2, 4096)), chunks=(32, 4096))
    tier = {"path": "$NODE_DISK/tier", "quota": "256MiB", "free": 0, "keep": True}
    with serving(folder) as origin:
        urls = [f"{origin.url}/{number}.h5" for number in range(2)]
        rows = forebay.ray.read(urls, ["x", "y"], tiers=[tier], tier_block="64KiB", override_num_blocks=8)
        for epoch in range(2):
            before, seen = origin.given, []
            for batch in rows.iter_batches(batch_size=512):
                assert (batch["x"] == batch["y"][:, None]).all()
                seen += batch["y"].tolist()
            assert sorted(seen) == list(range(count))
            if epoch == 0:
                # What this process read to plan is counted too.
                assert 0.95 * origin.stored <= origin.given <= 1.05 * origin.stored, (before, origin.given, origin.stored)
                assert all(list((disk / "tier").iterdir()) for disk in disks)
            else:
                # A task may run on the other node than before; one that runs on the same reads its copies.
                assert origin.given - before <= origin.stored


def test_processes_of_a_node_that_read_the_same_at_once_fetch_it_once(tmp_path: Path) -> None:
    folder, gate, count = tmp_path / "origin", tmp_path / "gate", 1024
    folder.mkdir()
    gate.mkdir()
    with h5py.File(folder / "0.h5", "w", libver="latest") as file:
        file.create_dataset("x", data=np.broadcast_to(np.arange(count, dtype="i4")[:, None], (count, 4096)), chunks=(2, 4096))
    tier = {"path": "$NODE_DISK/same", "quota": "256MiB", "free": 0, "keep": True}
    nodes = [node["NodeID"] for node in ray.nodes()]

    def read(url: str, seed: int) -> list[int]:
        ds = forebay.open(url, ["x"], tiers=[tier], tier_block="64KiB")
        # All begin at once: what one has read, the others would find.
        (gate / str(seed)).touch()
        while len(list(gate.iterdir())) < len(nodes) * PROCESSORS:
            time.sleep(0.01)
        loader = ds.loader(batch_size=16, shuffle="full", seed=seed, read_threads=2, check_ranks=False)
        return sorted(int(x[0]) for batch in loader for x in batch["x"])

    with serving(folder) as origin:
        # A process for each: as many as a node has processors.
        tasks = []
        for seed, node in enumerate(nodes * PROCESSORS):
            there = NodeAffinitySchedulingStrategy(node, soft=False)
            task = ray.remote(read).options(num_cpus=1, scheduling_strategy=there)
            tasks.append(task.remote(f"{origin.url}/0.h5", seed))
        assert all(seen == list(range(count)) for seen in ray.get(tasks))
        assert origin.given <= 1.05 * len(nodes) * origin.stored, (origin.given, origin.stored)


def test_a_node_that_has_read_all_asks_the_origin_for_nothing(tmp_path: Path) -> None:
    folder, count = tmp_path / "origin", 512
    folder.mkdir()
    with h5py.File(folder / "0.h5", "w", libver="latest") as file:
        file.create_dataset("x", data=np.broadcast_to(np.arange(count, dtype="i4")[:, None], (count, 4096)), chunks=(32, 4096))
    here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
    # The same tasks in every epoch.
    options: dict[str, Any] = {"tier_block": "64KiB", "override_num_blocks": 2, "ray_remote_args": {"scheduling_strategy": here}}
    tier = {"path": "$NODE_DISK/whole", "quota": "256MiB", "free": 0, "keep": True}
    with serving(folder) as origin:
        rows = forebay.ray.read(f"{origin.url}/0.h5", ["x"], tiers=[tier], **options)
        given: list[int] = []
        # Copies are written behind what is read: those of the first epoch may still be under way in the second.
        while len(given) < 5 and 0 not in given:
            before = origin.given
            assert sorted(row[0] for batch in rows.iter_batches(batch_size=128) for row in batch["x"]) == list(range(count))
            given.append(origin.given - before)
        assert given[0] >= 0.9 * origin.stored and given[-1] == 0, (given, origin.stored)


def test_tasks_begin_and_end_with_chunks(tmp_path: Path) -> None:
    write_chunks(tmp_path, 2, 200)
    ds = forebay.open(tmp_path / "*.h5", ["x"], label="y")
    tasks = SampleDatasource(ds).get_read_tasks(7)
    lens = [task.metadata.num_rows for task in tasks]
    assert sum(lens) == 400 and len(lens) <= 7
    ends = np.cumsum(lens)
    assert all(end % 200 % 16 == 0 for end in ends)
    assert [len(task.metadata.input_files) for task in tasks].count(1) >= len(tasks) - 1
    assert sum(task.metadata.size_bytes for task in tasks) == pytest.approx(ds.nbytes, rel=0.01)
    # With tiers, no task is so small that blocks which two nodes read count.
    assert len(SampleDatasource(ds, tiers={"tiers": ["memory:64MiB"]}).get_read_tasks(7)) == 1
    assert len(SampleDatasource(ds, tiers={"tiers": ["memory:64MiB"], "tier_block": "4KiB"}).get_read_tasks(7)) == len(tasks)
    # Of a small set: four tasks for each processor.
    assert SampleDatasource(ds).task_count() == 4 * NODES * PROCESSORS
    assert SampleDatasource(ds.take([])).get_read_tasks(3) == []
    limited = SampleDatasource(ds).get_read_tasks(4, 10)
    assert sum(task.metadata.num_rows for task in limited) == 400


def test_ragged_fields_texts_parts_and_transforms_are_rows(make: Make) -> None:
    lens = np.arange(12) % 5
    bounds = np.concatenate([[0], np.cumsum(lens)])
    texts = np.array([f"molecule {number}é" for number in range(12)], object)
    path = make(
        x=np.arange(bounds[-1] * 3, dtype="f4").reshape(-1, 3), ptr=bounds, name=(texts, {"dtype": h5py.string_dtype()}),
        edges=np.arange(2 * bounds[-1]).reshape(2, -1), code=np.array([b"ab", b"c"] * 6, "S2"), half=np.ones(12, "f2"),
    )  # fmt: skip
    ragged = forebay.Ragged(offsets="ptr", axis={"edges": 1})
    one = forebay.Fixed(1)
    fields = ["x", "edges", *(forebay.Field(name, samples=one) for name in ("name", "code", "half"))]
    ds = forebay.open(path, fields, samples=ragged)
    rows = forebay.ray.read(ds, override_num_blocks=3)
    types = dict(zip(rows.schema().names, rows.schema().types))
    # As the tasks give them: their lengths differ.
    assert {type(types[name]).__name__ for name in ("x", "edges")} == {"ArrowVariableShapedTensorType"}, types
    assert "string" in str(types["name"]) and str(types["half"]) in ("halffloat", "float16"), types
    taken = sorted(rows.take_all(), key=lambda row: int(row["name"][9:-1]))
    assert [row["name"] for row in taken] == texts.tolist() and taken[1]["code"] == "c"
    for row, sample in zip(taken, ds):
        np.testing.assert_array_equal(row["x"], sample["x"])
        np.testing.assert_array_equal(row["edges"], sample["edges"])
    part = ds.take([11, 3, 4])
    assert sorted(row["name"] for row in forebay.ray.read(part).take_all()) == sorted(texts[[11, 3, 4]])
    cast = forebay.ray.read(path, [forebay.Field("half", samples=one)], transforms={"half": forebay.transforms.Cast("float64")})
    assert next(iter(cast.iter_batches()))["half"].dtype == np.float64


def test_rows_that_are_left_out_are_not_counted(tmp_path: Path) -> None:
    values = write_chunks(tmp_path, 1, 64, (8, 8))
    with h5py.File(tmp_path / "0.h5", "r+") as file:
        # A chunk of 16 samples that no decoder takes.
        file["x"].id.write_direct_chunk((16, 0, 0), b"none")
    rows = forebay.ray.read(tmp_path / "0.h5", ["x", "y"], on_error="skip", tiers=None, memory=None, override_num_blocks=2)
    assert rows.count() == 48 and len(values) == 64
    assert sorted(row["y"] for row in rows.take_all()) == [*range(16), *range(32, 64)]
    ds = forebay.open(tmp_path / "0.h5", ["x", "y"])
    assert {task.metadata.num_rows for task in SampleDatasource(ds, options={"on_error": "skip"}).get_read_tasks(2)} == {None}


@pytest.mark.skipif(IS_OLD and not IS_LONG, reason="as with the newest Ray; FOREBAY_LONG=1 asks for it")
def test_two_consumers_share_the_rows_of_each_epoch(tmp_path: Path) -> None:
    write_chunks(tmp_path, 2, 200, (8, 8))

    def consume(shard: Any) -> list[list[int]]:
        return [[int(y) for batch in shard.iter_batches(batch_size=32) for y in batch["y"]] for _ in range(2)]

    ds = forebay.open(tmp_path / "*.h5", ["x"], label="y")
    for samples in (ds, ds.take(slice(0, 299))):
        shards = forebay.ray.read(samples, override_num_blocks=4).streaming_split(2, equal=True)
        with ThreadPoolExecutor(2) as threads:
            first, second = threads.map(consume, shards)
        for one, other in zip(first, second):
            # Of an odd number Ray leaves one out.
            half = len(samples) // 2
            assert len(one) == len(other) == half and len({*one, *other} & {*range(len(samples))}) == 2 * half


def test_what_cannot_be_is_an_error_that_says_so(tmp_path: Path, make: Make) -> None:
    complex_numbers = make("c.h5", z=np.ones(4, complex))
    with pytest.raises(ValueError, match="'z': Arrow has no tensors"):
        forebay.ray.read(complex_numbers, ["z"])
    path = make(x=np.arange(8.0))
    ds = forebay.open(path, ["x"])
    with pytest.raises(ValueError, match="open already"):
        forebay.ray.read(ds, ["x"])
    for peers in ("peers:1GiB", "peers"):
        with pytest.raises(ValueError, match="peers"):
            forebay.ray.read(path, ["x"], tiers=[peers])
    with pytest.raises(ValueError, match="override_num_blocks=0"):
        forebay.ray.read(path, ["x"], override_num_blocks=0)
    with pytest.raises(TypeError, match="forebay.Dataset is needed"):
        forebay.ray.read(7)  # type: ignore[arg-type]
    rows = forebay.ray.read(ds)
    make(x=np.arange(8.0) + 1)
    with pytest.raises(Exception, match="others here than where it was opened"):
        rows.take_all()


def test_the_programs_of_the_page_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_files(tmp_path)
    monkeypatch.chdir(tmp_path)
    left = run_page("ray.md")
    assert left["rows"].count() == 300 and left["seen"] == 300
