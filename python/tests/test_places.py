"""Ranks that see the same files in different places: near, behind a slow file system, through tiers."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

import forebay

COUNT = 740
SHUFFLES: list[dict[str, Any]] = [
    {"shuffle": "full"},
    {"shuffle": "block"},
    {"shuffle": "block", "lanes": 6},
    {"shuffle": "block", "lanes": 6, "window": 2},
    {"shuffle": "none"},
]


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    """Two files of chunks of 40 KiB that hardly compress, and of plain rows; settled, so that tiers take them."""
    far = Path("/dev/shm")
    folder = Path(tempfile.mkdtemp(prefix="forebay-places-", dir=far if far.is_dir() else None))
    values = np.random.default_rng(0).integers(0, 256, (COUNT, 4096), np.uint8)
    values[:, :8] = np.arange(COUNT)[:, None].view(np.uint8)
    for at, part in enumerate(np.split(values, [500])):
        with h5py.File(folder / f"part{at}.h5", "w") as file:
            file.create_dataset("packed", data=part, chunks=(10, 4096), compression="gzip")
            file["plain"] = part
    time.sleep(2.2)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture(scope="module")
def mount(folder: Path) -> Iterator[Path]:
    """The same folder as ``forebay simulate`` shows it."""
    program = os.environ.get("FOREBAY_BIN") or shutil.which("forebay")
    if not program or not Path("/dev/fuse").exists():
        pytest.skip("no forebay command, or no FUSE")
    place = Path(tempfile.mkdtemp(prefix="forebay-mount-"))
    command = [program, "simulate", folder, place, "--latency", "0ms", "--bandwidth", "0"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as shown:
        until = time.monotonic() + 30
        while not (place / "part0.h5").exists():
            if shown.poll() is not None and shown.stderr is not None:
                pytest.skip(f"FUSE is not permitted: {shown.stderr.read().decode()}")
            assert time.monotonic() < until, "the mount does not come"
            time.sleep(0.02)
        yield place
        shown.send_signal(signal.SIGINT)
    place.rmdir()


def order_of(place: Path, field: str, tiers: Any, **options: Any) -> list[int]:
    ds = forebay.open(place / "*.h5", [field], tiers=tiers)
    order = []
    for batch in ds.loader(batch_size=7, seed=11, memory="64MiB", spill_quota=0, **options):
        real = batch.indices >= 0
        numbers = np.ascontiguousarray(batch[field][real, :8]).view(np.int64)[:, 0]
        assert numbers.tolist() == batch.indices[real].tolist()
        order += numbers.tolist()
    ds.close()
    return order


@pytest.mark.parametrize("field", ["packed", "plain"])
@pytest.mark.parametrize("shuffle", SHUFFLES, ids=str)
def test_the_order_is_the_same_near_far_and_through_tiers(
    folder: Path, mount: Path, tmp_path: Path, field: str, shuffle: dict[str, Any]
) -> None:
    whole = {"path": tmp_path / "whole", "quota": "64MiB", "free": 0}
    scant = {"path": tmp_path / "scant", "quota": "1MiB", "free": 0}
    near = order_of(folder, field, [], **shuffle)
    assert sorted(near) == list(range(COUNT))
    for place in (folder, mount):
        for tiers in ([], [whole], [scant], ["memory:2MiB"]):
            assert order_of(place, field, tiers, **shuffle) == near, (place, tiers)


@pytest.mark.parametrize("tiered", [False, True])
@pytest.mark.parametrize("world", [1, 2, 3])
@pytest.mark.parametrize("shuffle", SHUFFLES, ids=str)
def test_ranks_that_see_the_files_in_different_places_share_each_epoch(
    folder: Path, mount: Path, tmp_path: Path, shuffle: dict[str, Any], world: int, tiered: bool
) -> None:
    disk = {"path": tmp_path / "tier", "quota": "1MiB", "free": 0}
    for first in (0, 1):
        seen: list[int] = []
        for rank in range(world):
            is_far = (rank + first) % 2 == 1
            tiers = [disk] if tiered and is_far else []
            place = mount if is_far else folder
            seen += order_of(place, "packed", tiers, rank=rank, world=world, tail="pad", **shuffle)
        assert sorted(seen) == list(range(COUNT))
