"""Memory: lent without a copy, used again, and no more than was allowed."""

from __future__ import annotations

import gc
import json
import os
import pickle
import subprocess
import sys
import weakref
import zlib
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import memory_tree
from conftest import Make

import forebay

pytestmark = pytest.mark.usefixtures("no_tiers")


@pytest.fixture
def path(make: Make) -> Path:
    values = np.arange(512)[:, None] * np.ones(256, np.int64)
    return make(x=(values, {"chunks": (16, 256), "compression": "gzip"}))


def test_arrays_stay_valid_after_the_loader_is_gone(path: Path) -> None:
    ds = forebay.open(path, ["x"])
    loader = ds.loader(batch_size=16, shuffle="full")
    kept = [(batch["x"], batch.indices) for batch in loader]
    part = ds[3]["x"][10:20]
    view = kept[0][0][::2, :4]
    del loader, ds
    gc.collect()
    for _ in forebay.open(path, ["x"]).loader(batch_size=16, shuffle="full", seed=1):
        pass
    assert all((array == numbers[:, None]).all() for array, numbers in kept)
    assert (part == 3).all() and (view == kept[0][1][::2, None]).all()


def test_memory_that_nobody_holds_is_used_again(path: Path) -> None:
    loader = forebay.open(path, ["x"]).loader(batch_size=16, read_threads=1, prefetch=2)
    addresses = []
    for _ in range(4):
        for batch in loader:
            addresses.append(batch["x"].ctypes.data)
            assert addresses[-1] % 64 == 0
    assert len(addresses) == 128 and len(set(addresses)) <= 24


def test_memory_that_somebody_holds_is_not_used_again(path: Path) -> None:
    loader = forebay.open(path, ["x"]).loader(batch_size=16, read_threads=2)
    kept = [batch for _ in range(3) for batch in loader]
    assert len({batch["x"].ctypes.data for batch in kept}) == len(kept)
    assert all((batch["x"] == batch.indices[:, None]).all() for batch in kept)


def test_a_loader_lets_go_of_what_its_consumer_lets_go_of(path: Path) -> None:
    loader = forebay.open(path, ["x"]).loader(batch_size=16, read_threads=1)
    batches = iter(loader)
    kept = weakref.ref(next(batches)["x"])
    gc.collect()
    assert kept() is None, "nobody has the first batch"
    batch = next(batches)
    array = weakref.ref(batch["x"])
    del batch["x"]
    assert array() is None and batch.indices.size == 16, "what is left of a batch is without its memory"


def test_what_a_batch_is_seldom_asked_for_is_there_when_it_is(path: Path) -> None:
    loader = forebay.open(path, ["x"]).loader(batch_size=16, shuffle="full", seed=3)
    loader.set_epoch(2)
    for step, batch in enumerate(loader):
        assert (batch.epoch, batch.step, batch.size, batch.skipped, batch.offsets) == (2, step, 16, [], {})
        assert batch.indices is batch.indices and batch.indices.flags.writeable and batch.indices.dtype == np.int64
        assert batch.seeds.dtype == np.uint64 and len(set(batch.seeds.tolist())) == 16
        copy = pickle.loads(pickle.dumps(batch))
        assert (copy.indices == batch.indices).all() and (copy.seeds == batch.seeds).all() and copy.step == step
    with pytest.raises(AttributeError, match="nonsense"):
        batch.nonsense


def test_no_array_is_too_odd_to_be_lent(make: Make) -> None:
    numbers = {
        code: np.arange(24).astype(code).reshape(6, 2, 2)
        for code in ("i1", "u1", "<i2", ">i4", "<u8", "<f2", ">f4", "<f8", "?", "<c8", "<c16")
    }
    fields: dict[str, Any] = {f"n{at}": (values, {}) for at, values in enumerate(numbers.values())}
    fields["empty"] = (np.empty((6, 0, 3), "<f4"), {})
    fields["text"] = (np.array([b"ab", b"", b"cdefg", b"h", b"i", b"j"], "S5"), {})
    fields["pair"] = (np.array([(n, n / 2) for n in range(6)], [("a", "<i4"), ("b", "<f8")]), {})
    ds = forebay.open(make(**fields), list(fields))
    batch = next(iter(ds.loader(batch_size=6)))
    for name, (values, _) in fields.items():
        array = batch[name]
        assert array.dtype == values.dtype.newbyteorder("=") and array.shape == values.shape, name
        assert array.flags.c_contiguous and array.flags.aligned and array.flags.writeable, name
        assert array.tobytes() == values.astype(values.dtype.newbyteorder("=")).tobytes(), name


def test_arrays_are_the_consumers_to_write_to(path: Path) -> None:
    ds = forebay.open(path, ["x"])
    batch = next(iter(ds.loader(batch_size=16)))
    batch["x"] += 5
    batch["x"][:] = -1
    assert (ds[:16]["x"] == np.arange(16)[:, None]).all()
    assert batch["x"].flags.c_contiguous and batch["x"].flags.writeable


def test_any_framework_takes_an_array_by_dlpack(path: Path) -> None:
    array = forebay.open(path, ["x"])[:4]["x"]
    other = np.from_dlpack(array)
    assert other.ctypes.data == array.ctypes.data


def test_memory_is_used_again_once_a_tensor_that_holds_it_by_dlpack_is_dropped(path: Path) -> None:
    loader = forebay.open(path, ["x"]).loader(batch_size=16, read_threads=1, prefetch=1)
    run = loader._loader.start()

    def memories() -> list[Any]:
        raw = run.next()
        assert raw is not None
        return raw.take_fields()

    (memory,) = memories()
    address = memory.__array_interface__["data"][0]
    held = np.from_dlpack(memory)
    del memory
    gc.collect()
    assert held.ctypes.data == address and held.flags.writeable and held.dtype == np.int64
    before = held.copy()
    later = [memories()[0].__array_interface__["data"][0] for _ in range(10)]
    assert address not in later and (held == before).all()
    del held
    gc.collect()
    # All of them are held: what is free has to be used before anything new.
    more = [memories()[0] for _ in range(10)]
    assert address in [memory.__array_interface__["data"][0] for memory in more]


def test_dlpack_copies_when_asked_and_refuses_what_it_cannot_hold(path: Path, make: Make) -> None:
    (memory,) = forebay.open(path, ["x"])._reader.get([1, 2]).take_fields()
    assert memory.__dlpack_device__() == (1, 0)
    copied = np.from_dlpack(memory, copy=True)
    assert copied.ctypes.data != memory.__array_interface__["data"][0] and (copied == np.asarray(memory)).all()
    with pytest.raises(BufferError):
        memory.__dlpack__(dl_device=(2, 0))
    text = make("text.h5", name=np.array([b"one", b"two"]))
    (memory,) = forebay.open(text, ["name"])._reader.get([1]).take_fields()
    with pytest.raises(BufferError, match="field 'name'"):
        np.from_dlpack(memory)


RSS = """
import os
def rss(name="VmRSS"):
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) << 10 for line in status if line.startswith(name))
"""


@pytest.mark.long
def test_memory_does_not_grow_over_many_batches(program: Any, make: Make) -> None:
    path = make(x=np.arange(4000).reshape(1000, 4), y=(np.arange(1000), {"chunks": (50,), "compression": "gzip"}))
    done = program(
        RSS
        + """
import sys, forebay
ds = forebay.open(sys.argv[1], ["x", "y"])
loader = ds.loader(batch_size=2, shuffle="full")
count, start, most = 0, 0, int(sys.argv[2])
while count < most:
    for batch in loader:
        count += 1
        assert len(batch["x"]) == 2
    if count == most // 5: start = rss()
print(start, rss())
""",
        path,
        200_000 if os.environ.get("FOREBAY_SLOW") else 50_000,
    )
    start, end = map(int, done.stdout.split())
    assert end <= start * 1.05, f"{start} -> {end}"


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """256 MiB of samples that hold their own numbers, 16 of them a chunk."""
    path = tmp_path_factory.mktemp("large") / "large.h5"
    with h5py.File(path, "w") as file:
        made = file.create_dataset("x", (16384, 64, 64), "<f4", chunks=(16, 64, 64), compression="gzip")
        for start in range(0, 16384, 16):
            values = np.repeat(np.arange(start, start + 16, dtype="<f4"), 4096)
            made.id.write_direct_chunk((start, 0, 0), zlib.compress(values.tobytes(), 1))
    return path


BUDGETED = (
    RSS
    + """
import glob, json, os, sys, time, forebay
path, folder, options = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
def meet(where):
    # One that has ended before the other begins has nothing to share with it.
    if len(sys.argv) < 5: return
    open(f"{sys.argv[4]}.{where}.{os.getpid()}", "w").close()
    while len(glob.glob(f"{sys.argv[4]}.{where}.*")) < options["world"]: time.sleep(0.01)
ds = forebay.open(path, ["x"])
start = rss()
open("/proc/self/clear_refs", "w").write("5")
loader = ds.loader(memory="64MiB", spill=folder, **{"batch_size": 64, **options})
meet("start")
seen = []
for batch in loader:
    assert (batch["x"][:, ::21, 5] == batch.indices[:, None]).all()
    seen += batch.indices.tolist()
meet("end")
print(json.dumps({"count": len(set(seen)), "above": rss("VmHWM") - start, **loader.stats()}))
"""
)


def run_budgeted(program: Any, large: Path, spill: Path, options: dict[str, Any]) -> dict[str, Any]:
    """Runs an epoch within 64 MiB, and gives what it did."""
    spill.mkdir()
    told: dict[str, Any] = json.loads(program(BUDGETED, large, spill, json.dumps(options)).stdout)
    assert told["count"] == 16384
    assert not [path for path in spill.rglob("*") if path.is_file()]
    return told


FULL, BLOCK = {"shuffle": "full"}, {"shuffle": "block", "spill_quota": 0}


@pytest.mark.parametrize(
    "options",
    [
        FULL,
        {"shuffle": "none", "spill_quota": 0},
        pytest.param({**FULL, "read_threads": 8, "batch_size": 16}, marks=pytest.mark.slow),
        pytest.param({**BLOCK, "read_threads": 1}, marks=pytest.mark.slow),
        pytest.param({**BLOCK, "read_threads": 2}, marks=pytest.mark.slow),
        {**BLOCK, "read_threads": 4},
    ],
    ids=str,
)
def test_each_chunk_is_decoded_once_within_64_mib(
    program: Any, large: Path, tmp_path: Path, options: dict[str, Any]
) -> None:
    told = run_budgeted(program, large, tmp_path / "spill", options)
    assert told["decoded_again"] == 0 and told["decoded_units"] == 1024


@pytest.mark.parametrize(
    "options",
    [
        FULL,
        pytest.param({"shuffle": "none", "spill_quota": 0}, marks=pytest.mark.slow),
        pytest.param({**FULL, "batch_size": 16}, marks=pytest.mark.slow),
        {**FULL, "batch_size": 1600},
        {**BLOCK, "read_threads": 2},
    ],
    ids=str,
)
def test_a_budget_of_64_mib_is_kept(program: Any, large: Path, tmp_path: Path, options: dict[str, Any]) -> None:
    told = run_budgeted(program, large, tmp_path / "spill", options)
    assert told["above"] <= 80 << 20, told["above"] >> 20


def test_the_processes_of_a_node_share_what_they_decode(program: Any, large: Path, tmp_path: Path) -> None:
    script = tmp_path / "rank.py"
    script.write_text(BUDGETED)
    spill = tmp_path / "spill"
    spill.mkdir()
    options = [json.dumps({"shuffle": "full", "rank": rank, "world": 2}) for rank in range(2)]
    meeting = str(tmp_path / "rank")
    commands = [[sys.executable, str(script), str(large), str(spill), one, meeting] for one in options]
    ranks = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for command in commands]
    told = [json.loads(rank.communicate(timeout=300)[0]) for rank in ranks]
    assert [one["count"] for one in told] == [8192, 8192]
    # Alone, each would decode nearly every chunk; a few are decoded by both at the same moment.
    assert sum(one["decoded_units"] for one in told) < 1.2 * 1024
    assert not [path for path in spill.rglob("*") if path.is_file()]


@pytest.fixture(scope="module")
def tree_set(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """128 MiB in shuffled gzip chunks of 4 MiB."""
    path = tmp_path_factory.mktemp("tree") / "tree.h5"
    memory_tree.make_set(path, 128 << 20, 4 << 20)
    return path


@pytest.mark.parametrize("first", ["workers", pytest.param("loaders", marks=pytest.mark.slow)])
def test_a_tree_of_workers_and_loaders_stays_within_one_budget(tree_set: Path, first: str) -> None:
    told = memory_tree.watch(tree_set, 2, first, {"FOREBAY_MEMORY": "512MiB"})
    assert told["above"] <= 512 << 20, told
    assert told["samples"] == 2 * 3 * 512
    process = told["process"]
    assert process["budget_bytes"] == process["share_bytes"] == 512 << 20
    assert process["budget_by"] == "FOREBAY_MEMORY"
    assert [one["what"] for one in process["taken"]] == ["loader", "loader"]
    taken = sum(one["bytes"] for one in process["taken"]) + process["forked_bytes"] + process["free_bytes"]
    assert taken <= 512 << 20


LARGE_CHUNKS = (
    RSS
    + """
import json, sys, forebay
ds = forebay.open(sys.argv[1], ["x"])
start = rss()
open("/proc/self/clear_refs", "w").write("5")
loader = ds.loader(memory="256MiB", read_threads=8, batch_size=16, shuffle="block", lanes=4)
count = sum(len(batch["x"]) for _ in range(2) for batch in loader)
print(json.dumps({"count": count, "above": rss("VmHWM") - start, **loader.describe()}))
"""
)


def test_stored_bytes_and_the_workspace_of_filters_are_counted(program: Any, tmp_path: Path) -> None:
    path = tmp_path / "large.h5"
    memory_tree.make_set(path, 256 << 20, 16 << 20)
    told = json.loads(program(LARGE_CHUNKS, path).stdout)
    assert told["count"] == 2 * 1024
    assert told["above"] <= 256 << 20, told["above"] >> 20
    assert 1 <= told["threads"] < 8 and told["batches_ahead"] > 0, "fewer threads, and batches still ahead"


def test_loaders_and_sets_of_a_process_have_equal_parts_and_give_them_back(program: Any, tree_set: Path) -> None:
    source = """
import gc, json, os, sys
os.environ["FOREBAY_MEMORY"] = "1GiB"
os.environ["LOCAL_WORLD_SIZE"] = "2"
import forebay
MIB = 1 << 20
ds = forebay.open(sys.argv[1], ["x"])
assert ds.describe()["in_force"] is None and ds.describe()["process"]["taken"] == []
assert ds.describe()["process"]["share_bytes"] == 512 * MIB, "of two ranks"
taken = lambda: [(one["what"], one["bytes"] // MIB) for one in ds.describe()["process"]["taken"]]
# What they can use is limited by the set, which takes 128 MiB decoded.
first = ds.loader(batch_size=16, read_threads=1)
assert taken()[0][0] == "loader" and 128 <= taken()[0][1] <= 256
second = ds.loader(batch_size=16, memory="300MiB")
assert dict(taken()[1:]) == {"loader": 300}
assert taken()[0][1] <= 106, "half of what is left"
assert first.describe()["memory_bytes"] // MIB == taken()[0][1] > first.describe()["cache_bytes"] // MIB
assert sum(len(batch["x"]) for batch in first) == 512
assert first.stats()["in_force"]["threads"] == 1
ds[0]
assert len(taken()) == 3 and ds.describe()["in_force"]["memory_bytes"] > 0
assert sum(bytes for _, bytes in taken()) <= 512
del second
gc.collect()
assert len(taken()) == 2 and taken()[0][1] >= 128, "given back"
ds.close()
print("done")
"""
    assert program(source, tree_set).stdout == "done\n"


def test_a_memory_tier_and_what_is_fetched_ahead_are_divided_by_the_ranks(program: Any, path: Path) -> None:
    source = """
import os, sys
os.environ["FOREBAY_MEMORY"] = "1GiB"
os.environ["LOCAL_WORLD_SIZE"] = "8"
import forebay
ds = forebay.open(sys.argv[1], ["x"], tiers="memory")
assert (ds.stats()["tiers"]["tiers"][0]["quota"] + 99) >> 20 == 32
taken = {one["what"]: (one["bytes"] + 99) >> 20 for one in ds.describe()["process"]["taken"]}
assert taken == {"memory tier": 32, "look-ahead": 16}, taken
assert ds.loader(batch_size=16).describe()["memory_bytes"] <= 40 << 20
print("done")
"""
    assert program(source, path).stdout == "done\n"


def test_a_spill_that_cannot_be_used_is_an_error(path: Path) -> None:
    with pytest.raises(forebay.ForebayError, match="/proc/self"):
        forebay.open(path, ["x"]).loader(spill="/proc/self")
    ds = forebay.open(path, ["x"], spill="/proc/self")
    with pytest.raises(forebay.ForebayError, match="/proc/self"):
        ds[0]
    assert next(iter(forebay.open(path, ["x"]).loader(spill="/proc/self", spill_quota=0))).size == 1


def test_a_budget_that_is_no_size_is_an_error(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FOREBAY_MEMORY", "much")
    with pytest.raises(forebay.InvalidError, match="FOREBAY_MEMORY: 'much' is no size"):
        forebay.open(path, ["x"]).loader()
