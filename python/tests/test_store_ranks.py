"""A data set in the memory of several ranks, which are processes that find each other as under ``torchrun``."""

import json
import os
import socket
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

PRELUDE = """
import os, signal, sys, time
import numpy as np
import forebay
rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
"""


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


def run_ranks(count: int, source: str, timeout: float = 300, **environment: str) -> list[subprocess.CompletedProcess[str]]:
    """What ``count`` ranks that run ``source`` end with."""
    port = free_port()
    ranks = []
    for rank in range(count):
        variables = {
            **os.environ,
            "RANK": str(rank),
            "WORLD_SIZE": str(count),
            "LOCAL_RANK": str(rank),
            "LOCAL_WORLD_SIZE": str(count),
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(port),
            "OMP_NUM_THREADS": "1",
            **environment,
        }
        command = [sys.executable, "-c", PRELUDE + textwrap.dedent(source)]
        pipe = subprocess.PIPE
        ranks.append(subprocess.Popen(command, env=variables, stdout=pipe, stderr=pipe, text=True))
    done = []
    try:
        for one in ranks:
            out, err = one.communicate(timeout=timeout)
            done.append(subprocess.CompletedProcess(one.args, one.returncode, out, err))
    finally:
        for one in ranks:
            one.kill()
    return done


def succeed(count: int, source: str, **options: Any) -> list[str]:
    done = run_ranks(count, source, **options)
    failed = [f"rank {rank}: {one.stderr}" for rank, one in enumerate(done) if one.returncode != 0]
    assert not failed, "\n".join(failed)
    return [one.stdout for one in done]


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("store") / "set.h5"
    random = np.random.default_rng(7)
    lens = random.integers(0, 9, 101)
    ptr = np.r_[0, np.cumsum(lens)]
    with h5py.File(path, "w") as file:
        file.create_dataset("x", data=random.integers(0, 1 << 30, (101, 30)), chunks=(8, 30), compression="gzip")
        file["pos"] = random.random((ptr[-1], 3), np.float32)
        file["ptr"] = ptr
    return path


OPEN = """
fields = ["x", forebay.Field("pos", samples=forebay.Ragged(offsets="ptr"))]
ds = forebay.open({path!r}, fields=fields)
"""


@pytest.mark.parametrize("count", [2, 3])
def test_every_rank_reads_what_all_have_added(count: int) -> None:
    succeed(
        count,
        """
        for width in [None, *range(1, world + 1)]:
            with forebay.Store(width=width) as store:
                members = store.width
                # Each group holds the same: a rank brings its share of 17 samples.
                member = store._raw.member()[0]
                first, end = 17 * member // members, 17 * (member + 1) // members
                whole = np.arange(17 * 4.0).reshape(17, 4)
                store.add("x", whole[first:end])
                store.add("r", [np.full(n % 3, n) for n in range(first, end)])
                np.testing.assert_array_equal(store.get_batch(range(17))["x"], whole)
                for n in range(17):
                    np.testing.assert_array_equal(store.get(n, "r"), np.full(n % 3, n))
        """,
    )


def test_texts_and_sequences_are_filled_and_added_by_all_ranks(tmp_path: Path) -> None:
    texts = [f"{number}" * (number % 5) for number in range(50)]
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("name", data=texts, dtype=h5py.string_dtype())
        file["x"] = np.arange(50)
        pulses = file.create_dataset("pulse", (50,), h5py.vlen_dtype(np.float32), chunks=(7,))
        for number in range(50):
            pulses[number] = np.full(number % 4, number, "f4")
    succeed(
        3,
        f"""
        texts = [f"{{number}}" * (number % 5) for number in range(50)]
        for width in (None, 1):
            with forebay.Store(width=width) as store:
                store.fill(store.open({str(tmp_path / "a.h5")!r}, ["name", "x", "pulse"]), progress=False)
                if width is None:
                    store.add("added", texts[rank * 10 : rank * 10 + 10] if rank else [])
                assert store.fields[:3] == ["name", "x", "pulse"]
                seen = store.get_batch(range(50), ["name", "x", "pulse"])
                assert seen["name"] == texts and np.diff(seen.offsets["pulse"]).tolist() == [number % 4 for number in range(50)]
                assert (seen["pulse"] == np.repeat(np.arange(50), np.arange(50) % 4)).all()
                if width is None:
                    assert store.get_batch(range(20), ["added"])["added"] == texts[10:30]
        """,
    )


def test_empty_lists_of_one_rank_are_of_what_others_add() -> None:
    succeed(
        3,
        """
        with forebay.Store() as store:
            store.add("tags", [["a", "bc"], []] if rank == 2 else [[], []])
            store.add("numbers", [[], []] if rank else [np.arange(3), np.arange(1)])
            batch = store.get_batch(range(6))
            assert batch["tags"] == [[], [], [], [], ["a", "bc"], []], batch["tags"]
            assert batch["numbers"].tolist() == [0, 1, 2, 0] and batch["numbers"].dtype == np.int64
        """,
    )


def test_a_width_is_chosen_for_texts_much_longer_than_others_too(tmp_path: Path) -> None:
    zarr = pytest.importorskip("zarr")
    texts = ["a"] * 64
    texts[20] = texts[50] = "x" * 1500_000
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("name", data=texts, dtype=h5py.string_dtype())
    array = zarr.open_group(tmp_path / "a.zarr", mode="w").create_array("name", shape=(64,), chunks=(8,), dtype=str)
    array[:] = np.array(texts, object)
    succeed(
        2,
        f"""
        for name in ("a.h5", "a.zarr"):
            with forebay.Store(width="auto", limit="2MiB") as store:
                sizes = []
                # As on hosts that are far from each other: as few ranks as hold that much.
                maker = store._maker
                maker.make_for = lambda size: sizes.append(size) or maker.make(1 if size <= 2 << 20 else 2)
                store.fill(forebay.open({str(tmp_path)!r} + "/" + name, ["name"]), progress=False)
                assert store.width == 2 and sizes[0] == (3000_062 if name == "a.h5" else 64 * 64), sizes
                lens = [len(text) for text in store.get_batch(range(64))["name"]]
                assert lens == [1500_000 if number in (20, 50) else 1 for number in range(64)]
        """,
    )


def test_restriped_samples_are_even_and_the_same() -> None:
    succeed(
        3,
        """
        with forebay.Store() as store:
            mine = np.arange(30) if rank == 2 else np.arange(0)
            store.add("x", mine[:, None] * np.ones(512))
            store.add("r", [np.full(n % 3, n) for n in mine])
            before = store.stats()["shard_bytes"]
            store.restripe("count")
            assert (before > 0) == (rank == 2) and 0 < store.stats()["shard_bytes"] < 60_000
            np.testing.assert_array_equal(store.get_batch(range(30))["x"][:, 0], np.arange(30))
            for n in range(30):
                np.testing.assert_array_equal(store.get(n, "r"), np.full(n % 3, n))
            try: store.restripe(balance="rows")
            except ValueError as error: assert "'bytes' and 'count'" in str(error)
            else: raise SystemExit("by rows")
        """,
    )


def test_a_rank_without_samples_learns_what_they_are() -> None:
    succeed(
        3,
        """
        with forebay.Store() as store:
            store.add("x", [np.ones((2, n), np.int16) for n in (1, 4)] if rank == 1 else [])
            assert len(store) == 2 and store.get(1, "x").shape == (2, 4) and store.get(0, "x").dtype == np.int16
        """,
    )


def test_a_set_is_described_by_one_rank_and_opened_by_all(path: Path, tmp_path: Path) -> None:
    outs = succeed(
        3,
        OPEN.format(path=str(path)).replace("ds = forebay.open", "store = forebay.Store(); ds = store.open")
        + textwrap.dedent(f"""
        store.fill(ds)
        np.testing.assert_array_equal(store.get_batch(range(101))["x"], forebay.open({str(path)!r}, fields)[:]["x"])
        try: store.open({str(tmp_path / "none.h5")!r}, ["x"])
        except forebay.ForebayError as error: assert "none.h5" in str(error), error
        else: raise SystemExit("opened")
        print("opened", len(ds), ds.fields == forebay.open({str(path)!r}, fields).fields)
        store.close()
        """),
    )
    assert [out.strip() for out in outs] == 3 * ["opened 101 True"]


@pytest.mark.parametrize("shuffle", ["full", "block", pytest.param("none", marks=pytest.mark.slow)])
def test_an_epoch_of_all_ranks_has_every_sample_once_and_is_that_of_the_files(path: Path, shuffle: str) -> None:
    outs = succeed(
        2,
        OPEN.format(path=str(path))
        + textwrap.dedent(f"""
        options = dict(batch_size=5, shuffle={shuffle!r}, seed=3, tail="pad", rank=rank, world=world)
        with forebay.Store() as store:
            store.fill(ds)
            seen = []
            for ours, theirs in zip(store.loader(**options), ds.loader(**options), strict=True):
                np.testing.assert_array_equal(ours.indices, theirs.indices)
                for name in theirs:
                    np.testing.assert_array_equal(ours[name], theirs[name])
                seen += [int(n) for n in ours.indices if n >= 0]
            print(*seen)
        """),
    )
    seen = sorted(int(number) for out in outs for number in out.split())
    assert seen == list(range(101))


def test_forked_workers_of_a_data_loader_read_the_store(path: Path) -> None:
    pytest.importorskip("torch")
    succeed(
        2,
        OPEN.format(path=str(path))
        + textwrap.dedent("""
        import torch
        import forebay.torch
        with forebay.Store() as store:
            store.fill(ds)
            data = forebay.torch.StoreDataset(store)
            loader = torch.utils.data.DataLoader(data, batch_size=10, num_workers=2, collate_fn=forebay.torch.collate)
            at = 0
            for batch in loader:
                theirs = ds[at : at + 10]
                for name in theirs:
                    np.testing.assert_array_equal(batch[name].numpy(), theirs[name])
                at += 10
            assert at >= 101
            for batch in forebay.torch.Loader(store, batch_size=7, shuffle="full", tail="drop"):
                assert isinstance(batch["x"], torch.Tensor)
            options = {"batch_size": 2, "shuffle": "full", "seed": 4, "tail": "drop"}
            kinds = (forebay.Loader, forebay.torch.Loader, forebay.torch.IterableDataset)
            parts = [[batch["x"].tolist() for batch in kind(store, **options)] for kind in kinds]
            assert parts[0] == parts[1] == parts[2] and len(parts[0]) == 25
            # Others may still read.
            store._comm.barrier()
        """),
        timeout=240,
    )


@pytest.mark.parametrize("on_lost", ["raise", pytest.param("origin", marks=pytest.mark.slow)])
def test_a_rank_that_is_killed_is_named_or_its_samples_come_from_their_files(path: Path, on_lost: str) -> None:
    done = run_ranks(
        3,
        OPEN.format(path=str(path))
        + textwrap.dedent(f"""
        store = forebay.Store()
        store.fill(ds)
        store._comm.barrier()
        if rank == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        began = time.monotonic()
        loader = store.loader(batch_size=10, shuffle="full", rank=0, world=1, on_lost={on_lost!r})
        try:
            while time.monotonic() - began < 10:
                seen = sorted(int(n) for batch in loader for n in batch.indices)
                assert seen == list(range(101)), seen
            print("whole", flush=True)
        except forebay.UnavailableError as error:
            assert "rank 1" in str(error), error
            print("named", flush=True)
        os._exit(0)
        """),
    )
    assert done[1].returncode == -9
    expected = {"raise": "named", "origin": "whole"}[on_lost]
    for rank in (0, 2):
        assert (done[rank].returncode, done[rank].stdout.strip()) == (0, expected), done[rank].stderr


def test_a_failure_of_one_rank_is_an_error_on_all() -> None:
    done = run_ranks(
        2,
        """
        def read(number):
            if number == 3:
                raise OSError("this file is gone")
            return {"x": np.ones(3)}
        try:
            forebay.Store().fill(reader=read, count=4)
        except OSError as error:
            print("own")
        except forebay.InvalidError as error:
            assert "rank 1" in str(error) and "this file is gone" in str(error), error
            print("told")
        """,
    )
    assert [one.stdout.strip() for one in done] == ["told", "own"], [one.stderr for one in done]


def test_fields_that_only_some_ranks_have_are_an_error_on_all() -> None:
    told = succeed(
        3,
        """
        store = forebay.Store()
        try: store.fill(reader=lambda number: {"a": np.ones(3), **({"b": np.ones(2)} if rank == 1 else {})}, count=6)
        except forebay.InvalidError as error: print(error)
        # A rank without samples has no fields.
        store.fill(reader=lambda number: {"a": np.ones(3)}, count=2)
        assert len(store) == 2
        """,
    )
    assert all("samples of rank 1 have the fields ['a', 'b'], and those of rank 0 ['a']" in one for one in told), told


def test_an_interrupted_rank_does_not_wait_for_the_others(tmp_path: Path) -> None:
    done = run_ranks(
        2,
        f"""
        mark = {str(tmp_path / "interrupted")!r}
        def read(number):
            if rank == 0:
                raise KeyboardInterrupt
            until = time.monotonic() + 60
            while not os.path.exists(mark):
                assert time.monotonic() < until, "rank 0 waits for this one"
                time.sleep(0.01)
            return {{"x": np.ones(3)}}
        try:
            forebay.Store().fill(reader=read, count=2)
        except KeyboardInterrupt:
            open(mark, "w").close()
            os._exit(0)
        except forebay.UnavailableError as error:
            print(error)
        """,
    )
    assert done[0].returncode == 0 and "rank 0" in done[1].stdout, [one.stderr for one in done]


def test_what_ranks_add_is_of_one_type_in_any_byte_order() -> None:
    told = succeed(
        2,
        """
        with forebay.Store() as store:
            store.add("x", np.arange(3, dtype="<f4" if rank == 0 else ">f4"))
            np.testing.assert_array_equal(store.get_batch(range(6))["x"], [0, 1, 2, 0, 1, 2])
            store.add("r", [np.arange(n, dtype="<i2" if rank == 0 else ">i2") for n in (1, 3)])
            np.testing.assert_array_equal(store.get(3, "r"), [0, 1, 2])
            # An array of nothing has no type to speak of.
            store.add("n", np.array([]) if rank == 0 else np.ones((2, 3), np.int16))
            assert store.get(1, "n").dtype == np.int16 and store.get(1, "n").shape == (3,)
            for wrong in (np.zeros(3, "f4" if rank == 0 else "i4"), np.zeros((3, 2) if rank == 0 else 3), np.zeros(()) if rank else np.zeros(3)):
                try: store.add("y", wrong)
                except (forebay.InvalidError, ValueError) as error: print(error)
        """,
    )
    types, shapes, one_number = told[0].splitlines()
    assert types == "ranks add samples of 'y' of different types: rank 0 float32, rank 1 int32", types
    assert shapes == "ranks add samples of 'y' of different shapes: rank 0 (2,), rank 1 ()", shapes
    assert one_number.startswith("rank 1: ValueError: 'y' is one number"), one_number
    assert told[1].splitlines()[:2] == [types, shapes]


def test_arrays_are_added_to_all_ranks_whatever_width_would_be_chosen() -> None:
    succeed(
        2,
        """
        def narrow(store):
            maker = store._maker
            maker.make_for = lambda size: maker.made or maker.make(1)
            return store
        with narrow(forebay.Store(width="auto")) as store:
            assert "nothing yet" in repr(store), store
            store.add("x", np.full(3, rank))
            assert store.width == 2 and store.get_batch(range(6))["x"].tolist() == [0, 0, 0, 1, 1, 1]
            assert "6 samples" in repr(store)
        # Of a narrower one each group would hold another part, and all would look whole.
        with narrow(forebay.Store(width="auto")) as store:
            store._maker.make_for(0)
            try: store.add("x", np.full(3, rank))
            except forebay.InvalidError as error: assert "width was chosen" in str(error)
            else: raise SystemExit("added")
            store.fill(reader=lambda number: {"x": np.int64(number)}, count=5)
            assert store.width == 1 and store.get_batch(range(5))["x"].tolist() == [0, 1, 2, 3, 4]
        assert "closed" in repr(store)
        """,
    )


def test_every_loader_of_a_store_reads_the_part_of_its_rank() -> None:
    # Those of forebay.torch: see above.
    told = succeed(
        2,
        """
        with forebay.Store() as store:
            store.add("x", np.arange(10) + 10 * rank)
            kinds = (forebay.Loader, lambda store, **options: store.loader(**options))
            for kind in kinds:
                print(*(int(n) for batch in kind(store, batch_size=2, shuffle="full", seed=4, tail="drop") for n in batch["x"]))
            assert len(forebay.Loader(store, batch_size=2, rank=0, world=1)) == 10
            store._comm.barrier()
        """,
    )
    first, second = (one.splitlines() for one in told)
    assert len(set(first)) == 1 and len(set(second)) == 1 and len(first) == 2, told
    assert sorted(map(int, (first[0] + " " + second[0]).split())) == list(range(20))


def test_ranks_that_fill_different_things_are_told(path: Path, tmp_path: Path) -> None:
    for name in ("a", "b"):
        np.save(tmp_path / f"{name}.npy", np.arange(20.0) + ord(name))
    succeed(
        2,
        f"""
        def refused(what, **options):
            store = forebay.Store()
            try:
                store.fill(**options)
            except (forebay.InvalidError, TypeError) as error:
                assert what in str(error), error
            else:
                raise SystemExit(f"filled: {{what}}")
        refused("same count=", reader=lambda n: {{"x": np.ones(2)}}, count=11 + rank)
        files = [{str(tmp_path / "a.npy")!r}, {str(tmp_path / "b.npy")!r}]
        refused("set of files", dataset=forebay.open(files if rank else files[::-1], ["data"]))
        fields = [forebay.Field("data", scale=1.0 + rank)]
        refused("set of files", dataset=forebay.open(files, fields))
        refused("no data set", dataset=files[0])
        refused("reader(", reader=lambda n: np.ones(2), count=4)
        # A sample of two fields is one sample.
        store = forebay.Store()
        store.add("a", np.ones((3, 2)))
        store.add("b", np.ones((3, 5)))
        store.get_batch(range(6))
        told = store.stats()
        assert told["own"]["samples"] + told["same_host"]["samples"] == 6, told
        assert told["own"]["bytes"] + told["same_host"]["bytes"] == 6 * 7 * 8, told
        # Nothing of it is in memory.
        much = np.broadcast_to(np.uint8(1), (1 << 22, 1 << 20))
        try: store.add("c", much if rank == 1 else much[:1])
        except forebay.FullError as error: assert "rank 1" in str(error), error
        else: raise SystemExit("room for 4 TiB")
        store._comm.barrier()
        """,
    )


def test_ranks_that_read_longer_than_others_are_waited_for() -> None:
    succeed(
        2,
        """
        with forebay.Store() as store:
            def read(number):
                time.sleep(0.6 if rank == 1 else 0)
                return {"n": number}
            store.fill(reader=read, count=10)
            assert store.get_batch(range(10))["n"].tolist() == list(range(10))
        """,
        FOREBAY_STORE_TIMEOUT="1.5",
    )


def test_two_ranks_measure_gets_and_batches() -> None:
    told = succeed(
        2,
        """
        import forebay._command
        sys.argv = ["forebay", "store-bench", "--bytes", "4MiB", "--sample-size", "1KiB,8KiB", "--time", "50ms", "--json"]
        sys.exit(forebay._command.main())
        """,
    )
    bench = json.loads(told[0])
    assert told[1] == "" and (bench["ranks"], bench["ranks_per_host"]) == (2, 2)
    assert [(one["width"], one["sample_bytes"]) for one in bench["results"]] == [(1, 1024), (1, 8192), (2, 1024), (2, 8192)]
    for one in bench["results"]:
        assert one["samples_per_s"] > 0 and one["remote_share"] == 0
        # With a width of 1 no other rank holds anything.
        assert (one["get_p50_us"] is None) == (one["width"] == 1) and len(one["get_cdf_us"]) == (21 if one["width"] > 1 else 0)
        assert one["get_cdf_us"] == sorted(one["get_cdf_us"])


def test_the_study_of_ddstore_compares_files_and_stores() -> None:
    pytest.importorskip("adios2")
    told = succeed(
        2,
        """
        import forebay._command
        sys.argv = ["forebay", "store-bench", "--study", "ddstore", "--graphs", "60", "--batch", "8", "--global-batch", "10",
                    "--latency", "0", "--json"]
        sys.exit(forebay._command.main())
        """,
    )
    study = json.loads(told[0])
    assert told[1] == "" and (study["ranks"], study["graphs"]) == (2, 60)
    ways = [(row["way"], row["width"], row["batch"]) for row in study["rows"]]
    each = [("pickles", None), ("adios", None), ("store", 1), ("store", 2)]
    assert ways == [(*way, batch) for way in each for batch in ("local", "global")]
    for row in study["rows"]:
        assert 0 < row["p50_ms"] <= row["p95_ms"] <= row["p99_ms"] and len(row["cdf_ms"]) == 21
        assert row["loading_s"] > 0 and row["batching_s"] > 0 and row["graphs_per_s"] > 0
        assert (row["by_batch_graphs_per_s"] is not None) == (row["way"] == "store")


def test_tiers_of_peers_serve_all_ranks(origin: Path) -> None:
    succeed(
        2,
        f"""
        name = {str(origin)!r} + "/plain*.h5"
        ds = forebay.open(name, ["x"], tiers="peers:16MiB", tier_block="256KiB")
        loader = ds.loader(batch_size=32, shuffle="full", seed=rank)
        again = forebay.open(name, ["x"], tiers="peers:16MiB", tier_block="256KiB")
        barrier = forebay.Store()._comm.barrier
        def epoch(loader):
            for batch in loader:
                assert (batch["x"] == batch.indices[:, None]).all()
        epoch(loader)
        # What is being copied is there when it is.
        until = time.monotonic() + 120
        while (now := loader.stats()["tiers"])["backlog"] or now["waiting"]:
            assert time.monotonic() < until, now
            time.sleep(0.01)
        barrier()
        epoch(loader)
        told = loader.stats()["tiers"]
        assert told["epochs"][1]["origin"]["reads"] == 0, told
        (peers,) = told["tiers"]
        assert peers["name"] == "peers" and 0 < peers["used"] < 4 << 20 and peers["faults"] == 0, peers
        # So do forked workers, which copy nothing themselves.
        worker = os.fork()
        if worker == 0:
            right = (again[::50]["x"] == np.arange(0, 1024, 50)[:, None]).all()
            # Another tier cannot be made by a worker alone: it does without.
            other = forebay.open(name, ["x"], tiers="peers:8MiB", tier_block="256KiB")
            right = right and (other[::100]["x"] == np.arange(0, 1024, 100)[:, None]).all()
            told = again.stats()["tiers"]
            os._exit(0 if right and told["origin"]["reads"] == 0 and told["placed"] == 0 else 7)
        assert os.waitstatus_to_exitcode(os.waitpid(worker, 0)[1]) == 0
        # A second set has the same memory; one that is closed leaves it to the other.
        ds.close()
        reads = again.stats()["tiers"]["origin"]["reads"]
        assert (again[::100]["x"] == np.arange(0, 1024, 100)[:, None]).all()
        assert again.stats()["tiers"]["origin"]["reads"] == reads
        barrier()
        """,
    )


def test_without_ranks_a_tier_of_peers_is_memory_of_this_process(origin: Path) -> None:
    source = f"""
    import forebay
    ds = forebay.open({str(origin)!r} + "/plain*.h5", ["x"], tiers={{"kind": "peers", "quota": "8MiB"}})
    assert ds.tiers == [{{"kind": "peers", "quota": "8MiB"}}], ds.tiers
    for epoch in range(2):
        assert sum(batch.size for batch in ds.loader(batch_size=32, shuffle="full")) == 1024
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(source)], check=True, timeout=300)
