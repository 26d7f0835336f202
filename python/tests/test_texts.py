"""Texts and sequences of any length as fields, against what h5py and zarr-python read."""

from __future__ import annotations

import itertools
import pickle
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import zarr
from conftest import Make, same

import forebay
from forebay import Field, Fixed, Groups, Whole, Windows

RANDOM = np.random.default_rng(29)
COUNT = 60
WORDS = ["", "ü", "a", "日本語", "forebay", "x" * 300]
TEXT = h5py.string_dtype()
LISTS = h5py.vlen_dtype(np.dtype("<f4"))


def words(count: int = COUNT) -> list[str]:
    return [f"{WORDS[number % len(WORDS)]}{number}" if number % 7 else "" for number in range(count)]


def lists(count: int = COUNT, dtype: str = "<f4") -> list[Any]:
    return [RANDOM.random(number * 5 % 23).astype(dtype) * 100 for number in range(count)]


def sequences(values: list[Any]) -> Any:
    table = np.empty(len(values), object)
    for number, value in enumerate(values):
        table[number] = value
    return table


def write(path: Path, chunks: int | None = None, start: int = 0, **options: Any) -> Path:
    with h5py.File(path, "w") as file:
        shape = None if chunks is None else (chunks,)
        file.create_dataset("x", data=np.arange(start, start + COUNT))
        file.create_dataset("name", data=words(), dtype=TEXT, chunks=shape, **options)
        file.create_dataset("pulse", data=sequences(lists()), dtype=LISTS, chunks=shape, **options)
        file.create_dataset("code", data=np.array([f"c{number % 5}" for number in range(COUNT)], "S4"))
    return path


@pytest.fixture(params=[None, 7], ids=["contiguous", "chunked"])
def path(request: Any, tmp_path: Path) -> Path:
    options = {} if request.param is None else {"compression": "gzip"}
    return write(tmp_path / "a.h5", request.param, **options)


def check(batch: Any, path: Path) -> None:
    """What ``batch`` has is what h5py reads, sample by sample."""
    with h5py.File(path) as file:
        names, pulses = file["name"].asstr()[...], file["pulse"][...]
        pieces = batch.parts("pulse")
        for number, sample in enumerate(np.asarray(batch.indices)):
            assert batch["name"][number] == names[sample]
            same(np.asarray(pieces[number]), pulses[sample])


@pytest.mark.parametrize("shuffle", ["none", "block", "full"])
def test_texts_are_lists_and_sequences_ragged_as_h5py_reads_them(path: Path, shuffle: str) -> None:
    ds = forebay.open(path, ["x", "name", "pulse"])
    seen = []
    for batch in ds.loader(batch_size=16, shuffle=shuffle, seed=3):
        assert isinstance(batch["name"], list) and all(type(one) is str for one in batch["name"])
        assert batch["pulse"].dtype == np.float32 and "name" not in batch.offsets
        check(batch, path)
        seen += batch.indices.tolist()
    assert sorted(seen) == list(range(COUNT))
    assert ds[7]["name"] == words()[7] and ds[7]["pulse"].shape == (7 * 5 % 23,)
    assert ds.describe()["fields"]["name"]["dtype"] == "text"


def test_a_batch_of_texts_is_pickled_taken_apart_and_padded(path: Path) -> None:
    ds = forebay.open(path, ["name", "pulse"])
    batch = next(iter(ds.loader(batch_size=COUNT, tail="short")))
    again = pickle.loads(pickle.dumps(batch))
    assert again["name"] == batch["name"] == words()
    assert ds.__getitems__([5, 3])[1]["name"] == words()[3]
    assert batch.padded("pulse").shape == (COUNT, 22)
    padded = next(iter(forebay.open(path, ["name"]).take(slice(0, 3)).loader(batch_size=8, tail="pad")))
    assert padded["name"] == [*words()[:3], "", "", "", "", ""]


def test_texts_and_sequences_reach_pytorch(path: Path) -> None:
    torch = pytest.importorskip("torch")
    from forebay.torch import Dataset, Loader

    loader = Loader(forebay.open(path, ["name", "pulse", "code"]), batch_size=16, shuffle="full")
    for batch in loader:
        assert isinstance(batch["pulse"], torch.Tensor) and isinstance(batch.offsets["pulse"], torch.Tensor)
        assert batch["code"] == [f"c{number % 5}" for number in batch.indices.tolist()]
        check(batch, path)
    assert Dataset(forebay.open(path, ["name", "code"]))[8] == {"name": words()[8], "code": "c3"}


def test_samples_of_several_texts_are_lists_of_them(tmp_path: Path) -> None:
    grid = np.array(words(24), object).reshape(8, 3)
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("tags", data=grid, dtype=TEXT)
        for group in range(3):
            file.create_dataset(f"mol_{group}/atoms", data=words(group * 2), dtype=TEXT)
            file.create_dataset(f"mol_{group}/name", data=f"molecule {group}", dtype=TEXT)
    rows = next(iter(forebay.open(tmp_path / "a.h5", ["tags"]).loader(batch_size=8)))
    assert rows["tags"] == grid.tolist()
    pairs = next(iter(forebay.open(tmp_path / "a.h5", ["tags"], samples=Fixed(2)).loader(batch_size=4)))
    assert pairs["tags"] == grid.reshape(4, 6).tolist()
    boxes = forebay.open(tmp_path / "a.h5", ["tags"], samples=Windows({0: 2, 1: 2}, stride={0: 1, 1: 1}))
    assert boxes[3]["tags"] == grid[1:3, 1:].ravel().tolist()
    groups = forebay.open(tmp_path / "a.h5", ["atoms", "name"], samples=Groups("mol_*"))
    batch = next(iter(groups.loader(batch_size=3)))
    assert batch["atoms"] == [words(0), words(2), words(4)]
    assert batch["name"] == ["molecule 0", "molecule 1", "molecule 2"]
    whole = forebay.open(tmp_path / "a.h5", ["tags"], samples=Whole())
    assert whole[0]["tags"] == grid.ravel().tolist()


def test_samples_of_several_texts_go_through_a_callable_and_are_put_together_again(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    from forebay.torch import Loader

    with h5py.File(tmp_path / "a.h5", "w") as file:
        for group in range(4):
            file.create_dataset(f"mol_{group}/atoms", data=words(group), dtype=TEXT)
            file.create_dataset(f"mol_{group}/bonds", data=words(2), dtype=TEXT)
            file.create_dataset(f"mol_{group}/name", data=f"molecule {group}", dtype=TEXT)
            file[f"mol_{group}/xyz"] = np.full((group, 3), group, "f4")
            file[f"mol_{group}/energy"] = float(group)
    ds = forebay.open(tmp_path / "a.h5", ["atoms", "bonds", "name", "xyz", "energy"], samples=Groups("mol_*"))
    for loader in (ds.loader(batch_size=4, sample_map=dict), Loader(ds, batch_size=4, sample_map=dict)):
        (batch,) = loader
        assert batch["atoms"] == [words(group) for group in range(4)] and batch["bonds"] == [words(2)] * 4
        assert batch["name"] == [f"molecule {group}" for group in range(4)]
        assert [tuple(one.shape) for one in batch["xyz"]] == [(group, 3) for group in range(4)]
        assert batch["energy"].tolist() == [0, 1, 2, 3]
    assert isinstance(batch["energy"], torch.Tensor) and isinstance(batch["xyz"][1], torch.Tensor)


def test_sequences_of_other_numbers_are_cast_as_any_field(make: Make, tmp_path: Path) -> None:
    values = {dtype: lists(12, dtype) for dtype in ("<i2", ">f8", "<u8", "<c8")}
    with h5py.File(tmp_path / "a.h5", "w") as file:
        for dtype, one in values.items():
            file.create_dataset(dtype, data=sequences(one), dtype=h5py.vlen_dtype(np.dtype(dtype)))
    batch = next(iter(forebay.open(tmp_path / "a.h5", list(values)).loader(batch_size=12)))
    for dtype, one in values.items():
        same(batch[dtype], np.concatenate(one))
        assert batch.offsets[dtype].tolist() == [0, *np.cumsum([len(piece) for piece in one])]
    scaled = forebay.open(tmp_path / "a.h5", [Field("<i2", dtype="float32", scale=0.5)])
    same(scaled.batch(range(12))["<i2"], np.concatenate(values["<i2"]).astype("f4") * np.float32(0.5))


def test_files_whose_numbers_differ_in_width_are_cast_to_one(tmp_path: Path) -> None:
    values = {"<i2": lists(12, "<i2"), "<i8": lists(9, "<i8")}
    for number, (dtype, one) in enumerate(values.items()):
        with h5py.File(tmp_path / f"{number}.h5", "w") as file:
            file.create_dataset("pulse", data=sequences(one), dtype=h5py.vlen_dtype(np.dtype(dtype)))
    paths = [tmp_path / "0.h5", tmp_path / "1.h5"]
    expected = [piece.astype("f4") for one in values.values() for piece in one]
    for batch in forebay.open(paths, [Field("pulse", dtype="float32")]).loader(batch_size=6, shuffle="full"):
        for at, sample in enumerate(batch.indices.tolist()):
            same(batch.parts("pulse")[at], expected[sample])


def test_texts_of_one_length_choose_samples_too(path: Path) -> None:
    ds = forebay.open(path, ["x", "code"])
    fifth = list(range(3, COUNT, 5))
    assert ds.where("code", ("==", "c3")).indices.tolist() == fifth
    assert ds.where("code", ("in", ["c3", "none"])).indices.tolist() == fifth
    assert ds.where("code", ("==", b"c3")).indices.tolist() == fifth


def test_files_of_texts_are_one_set_and_texts_choose_samples(tmp_path: Path) -> None:
    paths = [write(tmp_path / f"{number}.h5", 7, number * COUNT) for number in range(2)]
    ds = forebay.open(paths, ["x", "name"])
    ones = ds.where("name", ("==", "forebay4"))
    assert ones.indices.tolist() == [4, COUNT + 4]
    assert ds.where("name", lambda names: np.char.startswith(names.astype(str), "日")).batch([0])["name"] == ["日本語3"]
    loader = ds.loader(batch_size=20, balance="name", epoch_samples=40)
    assert sum(batch.size for batch in loader) == 40
    pulses = forebay.open(paths, ["pulse"])
    assert len(list(pulses.loader(batch_size=20, bucket_by="pulse"))) == 6


def padded_texts(path: Path) -> list[str]:
    """Writes texts of which some are padded with NUL, which h5py itself does not write; gives them as they are read."""
    texts = [("ab" * 20 if number % 2 else "cdef") + f"{number:02}" for number in range(24)]
    with h5py.File(path, "w") as file:
        file.create_dataset("name", data=texts, dtype=TEXT)
        file["x"] = np.arange(24)
    written = path.read_bytes()
    for number in range(1, 24, 2):
        written = written.replace(texts[number].encode(), b"ab".ljust(len(texts[number]), b"\0"))
    path.write_bytes(written)
    return ["ab" if number % 2 else text for number, text in enumerate(texts)]


def test_texts_that_a_writer_padded_fill_a_store_and_buckets_as_they_are_delivered(tmp_path: Path) -> None:
    texts = padded_texts(tmp_path / "a.h5")
    ds = forebay.open(tmp_path / "a.h5", ["name", "x"])
    assert ds.batch(range(24))["name"] == texts
    with forebay.Store() as store:
        store.fill(ds, progress=False)
        assert store.get_batch(range(24))["name"] == texts
    lens = np.array([len(text) for text in texts])
    by_field, by_array = (
        [batch.indices.tolist() for batch in ds.loader(batch_size=4, bucket_by=given, seed=3)] for given in ("name", lens)
    )
    assert by_field == by_array


@pytest.mark.parametrize("kind", ["h5", "zarr"])
def test_texts_that_are_much_longer_than_the_first_fill_a_store_within_memory(tmp_path: Path, kind: str) -> None:
    texts = ["a"] * 400 + ["x" * 200_000] * 100
    path = tmp_path / f"a.{kind}"
    if kind == "h5":
        with h5py.File(path, "w") as file:
            file.create_dataset("name", data=texts, dtype=TEXT)
    else:
        zarr.open_group(path, mode="w").create_array("name", shape=(500,), chunks=(10,), dtype=str)[:] = np.array(texts, object)
    with forebay.Store() as store:
        store.fill(forebay.open(path, ["name"]), memory="8MiB", progress=False)
        assert store.get_batch([0, 399, 400, 499])["name"] == [texts[0], texts[399], texts[400], texts[499]]
        assert len(store) == 500


def test_a_subset_of_texts_of_fixed_length_fills_a_store_with_their_width_and_few_reads(path: Path, monkeypatch: Any) -> None:
    ds = forebay.open(path, ["name", "x", "pulse", "code"])
    part = ds.take(range(5, COUNT, 2))
    reads: list[int] = []
    read = forebay.Subset.batch
    monkeypatch.setattr(forebay.Subset, "batch", lambda self, numbers: reads.append(1) or read(self, numbers))
    with forebay.Store() as store, forebay.Store() as even:
        store.fill(part, progress=False)
        assert len(reads) <= 3 and len(store) == len(part)
        described = store.describe()["fields"]
        assert described["code"]["numpy"] == np.dtype("S4") and described["name"]["dtype"] == "text"
        batch = store.get_batch(range(len(part)))
        assert batch["name"] == [words()[number] for number in part.indices] and batch["x"].tolist() == part.indices.tolist()
        assert batch["code"].tolist() == [f"c{number % 5}".encode() for number in part.indices]
        for number, sample in enumerate(part.indices):
            same(batch.parts("pulse")[number], ds[int(sample)]["pulse"])
        # Samples that happen to be of one length still may differ.
        even.fill(ds.take([9, 9]), progress=False)
        assert even.describe()["fields"]["pulse"]["shape"] == (None,)


def test_a_subset_whose_lists_of_texts_are_empty_holds_lists_of_texts(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        for group in range(3):
            file.create_dataset(f"mol_{group}/atoms", data=words(2 * max(group - 1, 0)), dtype=TEXT)
    ds = forebay.open(tmp_path / "a.h5", ["atoms"], samples=Groups("mol_*"))
    with forebay.Store() as store:
        store.fill(ds.take([0, 1]), progress=False)
        assert store.describe()["fields"]["atoms"]["dtype"] == "texts" and store.get_batch([1, 0])["atoms"] == [[], []]


def test_a_loader_reads_the_fields_that_it_gives_and_no_others(path: Path) -> None:
    ds = forebay.open(path, ["name", "x", "pulse", "code"])
    with forebay.Store() as store:
        store.fill(ds, progress=False)
        for samples, shuffle in itertools.product((ds, ds.take(slice(3, None)), store), ("full", "block")):
            options: dict[str, Any] = {"batch_size": 16, "shuffle": shuffle, "seed": 5}
            with samples.loader(fields=["x"], **options) as few, samples.loader(**options) as every:
                for mine, theirs in zip(few, every, strict=True):
                    assert list(mine) == ["x"] and mine.indices.tolist() == theirs.indices.tolist()
                    same(mine["x"], theirs["x"])
                assert 0 < few.stats()["read_bytes"] < every.stats()["read_bytes"] / 2
                every.load_state_dict(few.state_dict())
    with pytest.raises(forebay.InvalidError, match="no field .none."):
        ds.loader(batch_size=2, fields=["x", "none"])


def test_texts_of_like_length_come_together(path: Path) -> None:
    ds = forebay.open(path, ["x", "name", "code"])
    lens = [len(name.encode()) for name in words()]
    for part in (ds, ds.take(slice(0, COUNT))):
        batches = [batch.indices.tolist() for batch in part.loader(batch_size=2, bucket_by="name", seed=3)]
        assert sorted(sum(batches, [])) == list(range(COUNT))
        spread = [abs(lens[one] - lens[other]) for one, other in batches]
        assert np.mean(spread) < 30, "texts of 300 bytes are among them, and as many of none"
    assert len(list(ds.loader(batch_size=2, bucket_by="code"))) == COUNT // 2


@pytest.mark.parametrize("kind", ["h5", "zarr"])
def test_a_text_longer_than_memory_is_left_out_or_named(tmp_path: Path, kind: str) -> None:
    texts = words(40)
    texts[13] = "x" * (12 << 20)
    path = tmp_path / f"a.{kind}"
    if kind == "h5":
        with h5py.File(path, "w") as file:
            file.create_dataset("name", data=texts, dtype=TEXT, chunks=(8,), compression="gzip")
    else:
        zarr.open_group(path, mode="w").create_array("name", shape=(40,), chunks=(8,), dtype=str)[:] = np.array(texts, object)
    ds = forebay.open(path, ["name"])
    options = {"batch_size": 5, "memory": "8MiB", "spill_quota": 0}
    loader = ds.loader(on_error="skip", **options)
    seen: list[int] = []
    for batch in loader:
        seen += batch.indices.tolist()
        assert batch["name"] == [texts[number] for number in batch.indices]
    assert seen == [number for number in range(40) if number != 13] and loader.stats()["skipped"] == 1
    with pytest.raises(forebay.ForebayError, match=f"a.{kind}[^:]*: variable 'name': row 13: .*{12 << 20}.*memory") as raised:
        list(ds.loader(**options))
    assert raised.value.kind == "full" and "on_error='skip'" in str(raised.value)


def test_long_texts_choose_samples_within_little_memory(tmp_path: Path) -> None:
    texts = [f"{number:06}" * 2000 for number in range(600)]
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("name", data=texts, dtype=TEXT)
    ds = forebay.open(tmp_path / "a.h5", ["name"], memory="4MiB")
    assert 0.9 < ds.nbytes / (600 * 12000) < 1.1
    assert ds.where("name", lambda names: np.array([name.startswith("00031") for name in names])).indices.tolist() == list(range(310, 320))


def test_texts_of_zarr_are_as_zarr_python_reads_them(tmp_path: Path) -> None:
    group = zarr.open_group(tmp_path / "a.zarr", mode="w")
    array = group.create_array("name", shape=(COUNT,), chunks=(7,), dtype=str)
    array[:] = np.array(words(), object)
    ds = forebay.open(tmp_path / "a.zarr", ["name"])
    theirs = zarr.open_group(tmp_path / "a.zarr")["name"][:].tolist()
    for batch in ds.loader(batch_size=16, shuffle="full"):
        assert batch["name"] == [theirs[sample] for sample in batch.indices]


def test_what_cannot_be_a_field_says_so(make: Make, tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("name", data=words(), dtype=TEXT)
        file.create_dataset("pulse", data=sequences(lists()).reshape(30, 2), dtype=LISTS)
        pair = np.dtype([("name", TEXT), ("x", "f4")])
        file.create_dataset("pair", data=np.array([("a", 1.0), ("b", 2.0)], pair), dtype=pair)
    for field, samples, kind, words_of_it in (
        ("pulse", Fixed(), "unsupported", "several sequences"),
        ("pair", Fixed(), "unsupported", "texts and sequences of numbers can be fields"),
        (Field("name", dtype="float32"), Fixed(), "invalid", "text is no number"),
    ):
        with pytest.raises(forebay.ForebayError, match=words_of_it) as refused:
            forebay.open(tmp_path / "a.h5", [field], samples=samples)
        assert refused.value.kind == kind and "a.h5" in str(refused.value)


def test_a_store_holds_texts_and_sequences_as_files_do(path: Path) -> None:
    ds = forebay.open(path, ["name", "x", "pulse", "code"])
    plain = forebay.open(path, ["name", "x", "pulse"])
    with forebay.Store() as store, forebay.Store() as first, forebay.Store() as other:
        store.fill(ds, progress=False)
        assert store.fields == ds.fields and store[7]["name"] == words()[7]
        assert store.describe()["fields"]["name"]["dtype"] == "text"
        for mine, theirs in zip(
            store.loader(batch_size=16, shuffle="full", seed=2), ds.loader(batch_size=16, shuffle="full", seed=2), strict=True
        ):
            assert mine.indices.tolist() == theirs.indices.tolist()
            check(mine, path)
            same(mine["x"], theirs["x"])
        assert store.where("name", ("==", words()[4])).indices.tolist() == ds.where("name", ("==", words()[4])).indices.tolist()
        padded = next(iter(store.take([1, 2]).loader(batch_size=3, tail="pad")))
        assert padded["name"] == [words()[1], words()[2], ""]
        first.fill(plain, progress=False)
        other.fill(plain.take([5, 3, 3, 20]), progress=False)
        batch = forebay.concat(first, other).get_batch([COUNT + 1, 0, COUNT + 3])
        assert batch["name"] == [words()[number] for number in (3, 0, 20)]
        same(batch.parts("pulse")[2], ds[20]["pulse"])
        with pytest.raises(forebay.InvalidError, match="texts"):
            store.update("name", ["a"], 0)


def test_texts_are_added_to_a_store_one_or_several_a_sample() -> None:
    names, tags = words(5), [["a", "bc"], [], ["日本"], [""], ["x"] * 3]
    with forebay.Store() as store:
        store.add("name", names)
        store.add("tags", tags)
        store.add("other", np.array(names, object))
        batch = store.get_batch([4, 0, 1])
        assert batch["name"] == batch["other"] == [names[4], names[0], names[1]] and batch["tags"] == [tags[4], tags[0], tags[1]]
        assert store[2] == {"name": names[2], "tags": tags[2], "other": names[2]}
        with pytest.raises(ValueError, match="NUL"):
            store.add("bad", [["a\0b"]])
    with forebay.Store() as store:
        store.fill(reader=lambda number: {"name": names[number], "tags": tags[number], "y": number}, count=5, progress=False)
        assert store[3] == {"name": names[3], "tags": [""], "y": 3} and store[1]["tags"] == []


def test_a_damaged_text_is_left_out_or_named(tmp_path: Path) -> None:
    path = write(tmp_path / "a.h5", 7)
    with h5py.File(path) as file:
        pulse = file["pulse"].id.get_chunk_info(3)
    with open(path, "r+b") as file:
        # The address of the first sequence of the chunk.
        file.seek(pulse.byte_offset + 4)
        file.write(b"\x07\x00\x00\x00\x00\x00\x00\x00")
    ds = forebay.open(path, ["pulse"])
    with pytest.raises(forebay.ForebayError, match="pulse"):
        list(ds.loader(batch_size=16))
    left = list(ds.loader(batch_size=16, on_error="skip"))
    assert [sample for batch in left for sample, _ in batch.skipped] == [21]
