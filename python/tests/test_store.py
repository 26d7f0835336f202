"""A data set in the memory of ranks: one rank alone here; several run under a launcher elsewhere."""

import json
import pickle

import forebay
import h5py
import numpy as np
import pytest


@pytest.fixture
def grid(tmp_path):
    values = np.random.default_rng(3).integers(0, 9999, (137, 6, 5)).astype(np.int32)
    labels = np.arange(137, dtype=np.int64) * 3
    with h5py.File(tmp_path / "grid.h5", "w") as file:
        file.create_dataset("x", data=values, chunks=(10, 6, 5), compression="gzip", shuffle=True)
        file["y"] = labels
    return tmp_path / "grid.h5", values, labels


@pytest.fixture
def graphs(tmp_path):
    random = np.random.default_rng(5)
    nodes, edges = random.integers(0, 7, 60), random.integers(0, 20, 60)
    ptr, eptr = np.r_[0, np.cumsum(nodes)], np.r_[0, np.cumsum(edges)]
    with h5py.File(tmp_path / "graphs.h5", "w") as file:
        file["pos"] = random.random((ptr[-1], 3), np.float32)
        file["edge_index"] = random.integers(0, 9, (2, eptr[-1]))
        file["ptr"], file["eptr"] = ptr, eptr
        file["energy"] = random.random(60)
    fields = ["pos", forebay.Field("edge_index", samples=forebay.Ragged(offsets="eptr", axis=1))]
    return forebay.open(
        tmp_path / "graphs.h5", fields=fields, label="energy", samples=forebay.Ragged(offsets="ptr")
    )


def test_a_store_gives_what_was_added(tmp_path):
    values = np.arange(60.0).reshape(20, 3)
    for folder in (None, tmp_path):
        with forebay.Store(folder=folder) as store:
            store.add("x", values)
            store.add("z", np.arange(20, dtype=">i2"))
            assert len(store) == 20 and store.fields == ["x", "z"]
            np.testing.assert_array_equal(store.get(7, "x"), values[7])
            assert store.get(7)["z"] == 7 and store[-1]["z"] == 19
            batch = store.get_batch([9, 2, 2])
            np.testing.assert_array_equal(batch["x"], values[[9, 2, 2]])
            np.testing.assert_array_equal(batch["z"], [9, 2, 2])
            assert store.stats()["own"] == {"samples": 6, "bytes": 6 * 24 + 5 * 2}


def test_samples_that_differ_in_one_axis_are_added_as_a_list():
    samples = [np.arange(2 * n, dtype=np.float32).reshape(2, n) + n for n in (3, 0, 5, 1)]
    with forebay.Store() as store:
        store.add("edges", samples)
        store.add("names", [np.frombuffer(text, "S1") for text in (b"abc", b"", b"defgh", b"i")])
        for number, sample in enumerate(samples):
            np.testing.assert_array_equal(store.get(number, "edges"), sample)
        batch = store.get_batch([2, 1, 0, 2])
        np.testing.assert_array_equal(batch["edges"], np.concatenate([samples[at] for at in (2, 1, 0, 2)], axis=1))
        assert batch.offsets["edges"].tolist() == [0, 5, 5, 8, 13]
        assert batch["names"].tobytes() == b"defghabcdefgh"
        with pytest.raises(ValueError, match="one alone may differ"):
            store.add("bad", [np.zeros((1, 2)), np.zeros((2, 3))])


def test_a_store_that_is_filled_gives_the_samples_of_the_files(grid):
    path, values, labels = grid
    ds = forebay.open(path, fields=["x"], label="y")
    seen = []
    with forebay.Store() as store:
        store.fill(ds, progress=seen.append)
        assert seen[-1]["samples"] == seen[-1]["of"] == 137 and seen[-1]["bytes"] == values.nbytes + labels.nbytes
        batch = store.get_batch(range(137))
        np.testing.assert_array_equal(batch["x"], values)
        np.testing.assert_array_equal(batch["y"], labels)
        assert store.label == "y" and store.describe()["fields"]["x"]["shape"] == (6, 5)


def test_ragged_samples_of_files_are_the_same_from_a_store(graphs):
    with forebay.Store() as store:
        store.fill(graphs)
        for number in range(60):
            for name, array in graphs[number].items():
                np.testing.assert_array_equal(store.get(number, name), array, err_msg=name)
        order = np.random.default_rng(1).integers(0, 60, 100)
        ours, theirs = store.get_batch(order), graphs[order]
        assert ours.keys() == theirs.keys()
        for name in theirs:
            np.testing.assert_array_equal(ours[name], theirs[name])
        for name, offsets in theirs.offsets.items():
            np.testing.assert_array_equal(ours.offsets[name], offsets)


def test_a_loader_of_a_store_has_the_order_and_the_states_of_the_files(grid):
    path, _, _ = grid
    ds = forebay.open(path, fields=["x"], label="y")
    with forebay.Store() as store:
        store.fill(ds)
        for shuffle in ("full", "block", "none"):
            options = {"batch_size": 16, "shuffle": shuffle, "seed": 11}
            files, memory = ds.loader(**options), store.loader(**options)
            halfway = None
            for step, (ours, theirs) in enumerate(zip(memory, files, strict=True)):
                np.testing.assert_array_equal(ours.indices, theirs.indices)
                np.testing.assert_array_equal(ours["x"], theirs["x"])
                if step == 3:
                    halfway = memory.state_dict()
            again = ds.loader(**options)
            again.load_state_dict(halfway)
            resumed = store.loader(**options)
            resumed.load_state_dict(halfway)
            assert [b.indices.tolist() for b in again] == [b.indices.tolist() for b in resumed]


def test_padding_of_a_store_is_zero(grid):
    path, _, _ = grid
    with forebay.Store() as store:
        store.fill(forebay.open(path, fields=["x"]))
        seen = 0
        for rank in range(4):
            loader = store.loader(batch_size=20, shuffle="full", tail="pad", rank=rank, world=4)
            for batch in loader:
                padding = batch.indices < 0
                seen += padding.sum()
                assert not batch["x"][padding].any()
        assert seen == 160 - 137


def test_a_store_is_filled_by_a_reader_of_ones_own(tmp_path):
    samples = [np.arange(n * 2.0).reshape(n, 2) for n in (1, 4, 2)]
    for number, sample in enumerate(samples):
        np.save(tmp_path / f"{number}.npy", sample)

    def read(number):
        return {"a": np.load(tmp_path / f"{number}.npy"), "n": np.int64(number)}

    with forebay.Store() as store:
        store.fill(reader=read, count=3)
        for number, sample in enumerate(samples):
            np.testing.assert_array_equal(store.get(number, "a"), sample)
            assert store.get(number, "n") == number
    with forebay.Store() as store, pytest.raises(FileNotFoundError):
        store.fill(reader=read, count=4)


def test_samples_are_updated_until_the_seal():
    with forebay.Store() as store:
        store.add("x", np.zeros((4, 2), np.float32))
        store.update("x", np.ones((2, 2)), first=1)
        np.testing.assert_array_equal(store.get_batch(range(4))["x"][:, 0], [0, 1, 1, 0])
        store.seal()
        with pytest.raises(forebay.InvalidError, match="sealed"):
            store.update("x", np.ones((1, 2)), first=0)
        with pytest.raises(forebay.InvalidError, match="sealed"):
            store.add("y", np.zeros(4))


def test_variables_of_different_counts_are_read_by_their_own():
    with forebay.Store() as store:
        store.add("small", np.arange(3))
        store.add("big", np.arange(10) * 2)
        store.add("too", np.arange(10) * 3)
        assert store.get(7, "big") == 14 and store.get(-1, "big") == 18 and store.get(-1, "small") == 2
        assert store.get_batch([9, -10], ["big", "too"])["too"].tolist() == [27, 0]
        with pytest.raises(IndexError, match="sample 3 of 3"):
            store.get(3, "small")
        with pytest.raises(IndexError, match="sample -11 of 10"):
            store.get_batch([-11], ["big"])
        for read in (lambda: store.get(0), lambda: store.get_batch([0]), lambda: store.get_batch([0], ["big", "small"])):
            with pytest.raises(forebay.InvalidError, match="different numbers of samples: .*'big' 10"):
                read()


def test_an_update_has_the_type_and_the_shape_of_the_samples():
    with forebay.Store() as store:
        store.add("m", np.zeros((4, 3), np.int32))
        store.add("r", [np.zeros((2, n), np.float32) for n in (1, 3, 2)])
        for wrong, kind in (
            (np.ones((2, 2), np.int32), ValueError),
            (np.ones(3, np.int32), ValueError),
            (np.int32(1), ValueError),
            (np.full((1, 3), 1.5), TypeError),
            (np.full((1, 3), 1 << 40), ValueError),
        ):
            with pytest.raises(kind, match="'m'"):
                store.update("m", wrong, first=1)
        assert not store.get_batch(range(4), ["m"])["m"].any()
        store.update("m", [[1, 2, 3], [4, 5, 6]], first=2)
        assert store.get(3, "m").tolist() == [4, 5, 6]
        with pytest.raises(ValueError, match=r"have \[1, 3\] rows, and these \[3, 1\]"):
            store.update("r", [np.ones((2, 3)), np.ones((2, 1))], first=0)
        with pytest.raises(ValueError, match="'r'"):
            store.update("r", [np.ones((3, 1))], first=0)
        with pytest.raises(ValueError, match=r"have \[2\] rows"):
            store.update("r", [np.ones((2, 2)), np.ones((2, 2))], first=2)
        store.update("r", [np.arange(6.0).reshape(2, 3), np.ones((2, 2))], first=1)
        assert store.get(1, "r").tolist() == [[0, 1, 2], [3, 4, 5]] and not store.get(0, "r").any()
        with pytest.raises(KeyError, match="it has m, r"):
            store.update("z", np.ones(3), first=0)


def test_samples_are_chosen_by_whole_numbers():
    with forebay.Store() as store:
        store.add("x", np.arange(5))
        assert store.get(np.int8(-1), "x") == 4 and store[np.uint64(2)]["x"] == 2
        with pytest.raises(TypeError):
            store.get(1.0)
        for wrong in ([1.0], [True], [[1]], ["1"]):
            with pytest.raises(IndexError, match="list of numbers"):
                store.get_batch(wrong)


def test_a_batch_of_a_store_data_set_asks_once_how_many_samples_there_are():
    torch = pytest.importorskip("torch")
    import forebay.torch

    class Counted:
        def __init__(self, raw):
            self.raw, self.calls = raw, 0

        def __getattr__(self, name):
            self.calls += 1
            return getattr(self.raw, name)

    with forebay.Store() as store:
        store.add("x", np.arange(300))
        data = forebay.torch.StoreDataset(store)
        store._maker.made = counted = Counted(store._maker.made)
        samples = data.__getitems__(list(range(-100, 100)))
        assert [int(one["x"]) for one in samples[:2]] == [200, 201] and counted.calls <= 3
        for wrong in ([300], torch.tensor([0, -301])):
            with pytest.raises(IndexError, match="of 300"):
                data.__getitems__(wrong)
        store._maker.made = counted.raw


def test_a_store_that_cannot_be_pickled_says_how_workers_get_it():
    with forebay.Store() as store, pytest.raises(TypeError, match='multiprocessing_context="fork"'):
        pickle.dumps(store)


def test_a_reader_gives_every_sample_the_same_fields():
    with forebay.Store() as store:
        for reader in (lambda number: {"a": 1} if number else {}, lambda number: {"a": 1, "b": 2} if number else {"a": 1}):
            with pytest.raises(ValueError, match="fields"):
                store.fill(reader=reader, count=2)


def test_what_cannot_be_done_is_said(grid):
    path, _, _ = grid
    with pytest.raises(forebay.InvalidError, match="between 1 and 1"):
        forebay.Store(width=2)
    with pytest.raises(TypeError, match="mpi4py"):
        forebay.Store(comm="world")
    with forebay.Store(limit=1000) as store:
        with pytest.raises(forebay.FullError, match="larger width"):
            store.fill(forebay.open(path, fields=["x"]))
        store.add("y", np.zeros(10))
        with pytest.raises(forebay.InvalidError, match="already"):
            store.add("y", np.zeros(10))
        with pytest.raises(IndexError, match="sample 10 of 10"):
            store.get(10)
        with pytest.raises(forebay.NotFoundError, match="it has y"):
            store.get(1, "z")
        with pytest.raises(ValueError, match="of no use"):
            store.loader(batch_size=2, tiers=[])
        with pytest.raises(ValueError, match="does not change"):
            store.loader(batch_size=2, refresh=True)
        with pytest.raises(ValueError, match="filled from a data set"):
            store.loader(batch_size=2, on_lost="origin")
    with pytest.raises(forebay.InvalidError, match="was closed"):
        store.get(0)


def test_stats_say_what_was_read(grid):
    path, values, _ = grid
    with forebay.Store() as store:
        store.fill(forebay.open(path, fields=["x"]))
        store.get_batch(range(100))
        stats = store.stats()
        assert stats["own"] == {"samples": 100, "bytes": 100 * values[0].nbytes}
        assert stats["shard_bytes"] >= values.nbytes and stats["gone"] == [] and stats["threads"] == "any"
        assert stats["batch_latency"]["count"] == 1 and stats["batch_latency"]["p50_ns"] > 0
        json.dumps(stats)


def test_stores_put_together_count_what_was_read_of_each():
    with forebay.Store() as one, forebay.Store() as other:
        one.add("x", np.arange(6.0))
        other.add("x", np.arange(10.0))
        both = forebay.concat(one, other)
        both.get_batch([0, 7, 15, 15])
        both.get(9)
        stats = both.stats()
        assert stats["own"] == {"samples": 5, "bytes": 40} and one.stats()["own"]["samples"] == 1
        assert stats["batch_latency"]["count"] == 2 and stats["get_latency"]["count"] == 1
        assert stats["shard_bytes"] == one.stats()["shard_bytes"] + other.stats()["shard_bytes"]
        assert both.width == 1 and stats["gone"] == [] and stats["variables"] == 1


def test_batches_of_stores_put_together_are_made_in_place():
    # Long and short samples, joined along their second axis, of three stores, in any order and with padding among them.
    random = np.random.default_rng(2)
    parts = [[random.random((2, int(n)), np.float32) for n in random.integers(0, 6, count)] for count in (5, 2, 9)]
    stores = [forebay.Store() for _ in parts]
    for store, part in zip(stores, parts):
        store.add("edges", [*part[:-1], np.zeros((2, 7), np.float32)])
        store.add("y", np.arange(len(part), dtype=np.int16).reshape(-1, 1) + np.arange(3, dtype=np.int16))
    both = forebay.concat(*stores)
    whole = [store.get(number, "edges") for store in stores for number in range(len(store))]
    for batch in both.loader(batch_size=4, shuffle="full", tail="pad", memory="1MiB"):
        indices = batch.indices.tolist()
        expected = [whole[number] if number >= 0 else np.zeros((2, 0), np.float32) for number in indices]
        np.testing.assert_array_equal(batch["edges"], np.concatenate(expected, axis=1))
        rows = [both.get(number, "y") if number >= 0 else np.zeros(3) for number in indices]
        np.testing.assert_array_equal(batch["y"], rows)
    for store in stores:
        store.close()


@pytest.mark.parametrize("stores", [1, 2])
def test_where_of_a_store_reads_few_bytes_at_a_time_however_long_its_samples_are(stores):
    lens = [(number % 7 == 0) * number * 30 << 10 for number in range(24)]
    made = [forebay.Store() for _ in range(stores)]
    for store in made:
        store.add("wide", np.arange(24, dtype=np.float32)[:, None] + np.zeros((1, 1 << 18), np.float32))
        store.add("small", np.arange(24))
        store.add("ragged", [np.full(length, length, np.float64) for length in lens])
    together = made[0] if stores == 1 else forebay.concat(*made)
    for field, most in (("wide", 4 << 20), ("small", 4 << 20), ("ragged", max(lens) * 8)):
        sizes = []

        def odd(values, sizes=sizes):
            sizes.append(sum(value.nbytes for value in values))
            return np.array([value.size > 0 and value.flat[0] % 2 == 1 for value in values])

        found = together.where(field, odd).indices.tolist()
        of_one = [] if field == "ragged" else list(range(1, 24, 2))
        assert found == [number + 24 * at for at in range(stores) for number in of_one]
        assert max(sizes) <= most and (len(sizes) == 1) == (field == "small"), field
    assert together.take(slice(5, None)).where("wide", lambda values: values[:, 3] == 7).indices.tolist() == [7, 31][:stores]
    for store in made:
        store.close()
