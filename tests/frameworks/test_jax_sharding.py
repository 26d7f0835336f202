"""Batches over four devices, and over two processes."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from package_fixtures import Make, images, same

import forebay
import forebay.jax

COUNT = 60


@pytest.fixture
def path(make: Make) -> Path:
    return make(x=(images(COUNT), {"chunks": (7, 6, 5, 3)}), y=np.arange(COUNT, dtype="<i4"))


def over(*axes: str | None) -> NamedSharding:
    return NamedSharding(Mesh(np.array(jax.devices()), ("data",)), PartitionSpec(*axes))


def test_there_are_four_devices() -> None:
    assert len(jax.devices()) == 4


def test_a_batch_is_cut_over_the_devices(path: Path) -> None:
    loader = forebay.jax.Loader(forebay.open(path, ["x"], label="y"), batch_size=12, sharding=over("data"))
    start = 0
    for batch in loader:
        assert batch["x"].sharding.is_equivalent_to(over("data"), 4) and batch["x"].shape == (12, 6, 5, 3)
        for number, shard in enumerate(sorted(batch["x"].addressable_shards, key=lambda one: one.device.id)):
            assert shard.data.shape == (3, 6, 5, 3)
            same(np.asarray(shard.data), images(COUNT)[start + 3 * number : start + 3 * number + 3])
        assert batch["y"].tolist() == list(range(start, start + 12))
        start += 12
    assert start == COUNT and loader.stats()["hand_over"]["placed"] == 10


def test_fields_may_have_shardings_of_their_own(path: Path) -> None:
    shardings = {"x": over("data"), "y": over(None)}
    loader = forebay.jax.Loader(forebay.open(path, ["x"], label="y"), batch_size=20, sharding=shardings)
    for batch in loader:
        assert batch["y"].sharding.is_fully_replicated and not batch["x"].sharding.is_fully_replicated
        total = jax.jit(lambda batch: batch["x"].astype(int).sum() + batch["y"].sum())(batch)
        assert int(total) > 0
    with pytest.raises(ValueError, match="no sharding for field 'y'"):
        forebay.jax.Loader(forebay.open(path, ["x"], label="y"), batch_size=4, sharding={"x": over("data")})
    with pytest.raises(ValueError, match="sharding of 'z', which is no field; there are y"):
        forebay.jax.Loader(forebay.open(path, ["y"]), batch_size=4, sharding={"z": over("data")})


def test_what_cannot_be_sharded_is_refused(path: Path, make: Make) -> None:
    with pytest.raises(ValueError, match="shorter last batch cannot be sharded: choose tail="):
        forebay.jax.Loader(forebay.open(path, ["y"]), batch_size=8, sharding=over("data"))
    drawn: dict[str, Any] = {"sharding": over("data"), "weights": np.ones(COUNT), "epoch_samples": 20}
    with pytest.raises(ValueError, match="shorter last batch cannot be sharded: choose tail="):
        forebay.jax.Loader(forebay.open(path, ["y"]), batch_size=8, **drawn)
    assert len(list(forebay.jax.Loader(forebay.open(path, ["y"]), batch_size=8, **drawn, tail="pad"))) == 3
    assert len(list(forebay.jax.Loader(forebay.open(path, ["y"]), batch_size=4, **drawn))) == 5
    assert len(list(forebay.jax.Loader(forebay.open(path, ["y"]), batch_size=8, sharding=over("data"), tail="drop"))) == 7
    with pytest.raises(ValueError, match="batches of 6 samples .* cannot be cut over its 4 devices: choose a batch_size"):
        forebay.jax.Loader(forebay.open(path, ["y"]), batch_size=6, sharding=over("data"), tail="drop")
    with pytest.raises(TypeError, match="is no jax.sharding.Sharding"):
        forebay.jax.Loader(forebay.open(path, ["y"]), batch_size=4, sharding="data")
    with pytest.raises(ValueError, match="device_prefetch=-1"):
        forebay.jax.Loader(forebay.open(path, ["y"]), device_prefetch=-1)
    ragged = forebay.open(make("r.h5", x=np.arange(10.0), ptr=[0, 3, 10]), ["x"], samples=forebay.Ragged(offsets="ptr"))
    with pytest.raises(ValueError, match="field 'x': samples of different lengths cannot be sharded"):
        forebay.jax.Loader(ragged, batch_size=2, sharding=over("data"))
    padded = forebay.jax.Loader(
        ragged, batch_size=2, sharding=over(None), map=lambda batch: {"x": batch.padded("x").astype("f4")}
    )
    (batch,) = padded
    assert batch["x"].shape == (2, 7)


@pytest.mark.parametrize("ahead", [0, 3])
def test_stopped_at_any_step_a_sharded_epoch_goes_on_with_each_sample_once(path: Path, ahead: int) -> None:
    how: dict[str, Any] = {"batch_size": 12, "shuffle": "full", "seed": 6}
    whole = [batch["y"].tolist() for batch in forebay.open(path, ["x"], label="y").loader(**how)]
    assert sorted(number for batch in whole for number in batch) == list(range(COUNT))

    def loader_of() -> Any:
        return forebay.jax.Loader(forebay.open(path, ["x"], label="y"), sharding=over("data"), device_prefetch=ahead, **how)

    for stop in range(len(whole)):
        loader, other = loader_of(), loader_of()
        seen = [batch["y"].tolist() for _, batch in zip(range(stop), loader)]
        # What was sent to the devices ahead of the consumer does not count.
        assert loader.state_dict()["position"] == 12 * stop
        other.load_state_dict(loader.state_dict())
        loader.close()
        for batch in other:
            assert len(batch["x"].addressable_shards) == 4 and batch["y"].sharding.is_equivalent_to(over("data"), 1)
            same(np.asarray(batch["x"]), images(COUNT)[np.asarray(batch["y"])])
            seen.append(batch["y"].tolist())
        assert seen == whole


RANK = """
    import sys
    import jax
    import numpy as np
    from jax.sharding import Mesh, NamedSharding, PartitionSpec
    import forebay, forebay.jax

    rank, port, path = int(sys.argv[1]), sys.argv[2], sys.argv[3]
    jax.distributed.initialize(f"127.0.0.1:{port}", 2, rank)
    assert jax.process_count() == 2 and len(jax.devices()) == 4 and len(jax.local_devices()) == 2
    sharding = NamedSharding(Mesh(np.array(jax.devices()), ("data",)), PartitionSpec("data"))
    ds = forebay.open(path, ["x"], label="y")
    loader_of = lambda: forebay.jax.Loader(ds, batch_size=6, shuffle="full", seed=4, sharding=sharding)
    loader = loader_of()
    assert (loader.rank, loader.world) == (rank, 2)
    total = jax.jit(lambda y: y.sum(), out_shardings=NamedSharding(sharding.mesh, PartitionSpec()))
    for batch in loader:
        assert batch["x"].shape == (12, 6, 5, 3) and batch["x"].dtype == np.uint8
        local = [shard.data for shard in batch["y"].addressable_shards]
        assert [len(one) for one in local] == [3, 3]
        seen = [number for one in local for number in one.tolist()]
        assert sorted(seen) == sorted(batch.indices.tolist())
        print("batch", int(total(batch["y"])), *seen, flush=True)

    own = lambda batch: [number for shard in batch["y"].addressable_shards for number in shard.data.tolist()]
    for stop in range(5):
        first, other = loader_of(), loader_of()
        seen = [number for _, batch in zip(range(stop), first) for number in own(batch)]
        other.load_state_dict(first.state_dict())
        seen += [number for batch in other for number in own(batch)]
        print("resumed", stop, *seen, flush=True)

    # Of what every process must have alike, each brings the same.
    alike = NamedSharding(sharding.mesh, PartitionSpec())
    for batch in forebay.jax.Loader(ds, batch_size=30, fields=["y"], shuffle="full", seed=4, sharding=alike, world=1, rank=0):
        assert batch["y"].shape == (30,) and batch["y"].is_fully_replicated
        print("alike", *batch["y"].addressable_shards[0].data.tolist(), flush=True)
    jax.distributed.shutdown()
"""


def numbers(said: str, what: str) -> list[list[int]]:
    """The numbers of each line of a process that begins with ``what``."""
    return [[int(word) for word in line.split()[1:]] for line in said.splitlines() if line.startswith(what)]


def test_two_processes_bring_their_parts_of_global_arrays_and_go_on_after_a_stop(path: Path, tmp_path: Path) -> None:
    script = tmp_path / "rank.py"
    script.write_text(textwrap.dedent(RANK))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    environment = {**os.environ, "XLA_FLAGS": "--xla_force_host_platform_device_count=2", "JAX_PLATFORMS": "cpu"}
    environment["JAX_CPU_COLLECTIVES_IMPLEMENTATION"] = "gloo"
    ranks = [
        subprocess.Popen(
            [sys.executable, script, str(rank), str(port), path],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]
    try:
        said = [rank.communicate(timeout=200) for rank in ranks]
    finally:
        for rank in ranks:
            rank.kill()
    assert [rank.returncode for rank in ranks] == [0, 0], said
    rows, resumed, alike = ([numbers(out, what) for out, _ in said] for what in ("batch", "resumed", "alike"))
    assert len(rows[0]) == len(rows[1]) == 5
    # Both see the same global sum, and the samples of both make up the epoch.
    for one, other in zip(*rows):
        assert one[0] == other[0] == sum(one[1:]) + sum(other[1:])
    assert sorted(number for row in rows[0] + rows[1] for number in row[1:]) == list(range(COUNT))
    # Wherever both are stopped, each goes on with the batches that it would have had.
    for row, again in zip(rows, resumed, strict=True):
        assert [one[0] for one in again] == list(range(5))
        assert all(one[1:] == [number for batch in row for number in batch[1:]] for one in again)
    assert alike[0] == alike[1] and sorted(alike[0][0] + alike[0][1]) == list(range(COUNT))
