"""Data sets of ``tf.data``: contents, order, specs, memory, epochs, and what is made of them."""

from __future__ import annotations

import gc
import weakref
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import tensorflow as tf
from package_fixtures import Make, images, same

import forebay
import forebay.tensorflow
from forebay._tensorflow import feed as _tf_feed
from forebay._tensorflow import fields as _tf_fields

COUNT = 60


@pytest.fixture
def path(make: Make) -> Path:
    return make(image=(images(COUNT), {"chunks": (7, 6, 5, 3), "compression": "gzip"}), label=np.arange(COUNT))


def address(tensor: Any) -> int:
    """Where the values of an eager tensor lie."""
    return np.from_dlpack(tensor).ctypes.data if hasattr(tensor, "__dlpack__") else memoryview_address(tensor)


def memoryview_address(tensor: Any) -> int:
    return np.asarray(memoryview(tensor)).ctypes.data


@pytest.mark.parametrize("shuffle", ["none", "block", "full"])
def test_batches_are_those_of_the_loader_bit_for_bit(path: Path, shuffle: str) -> None:
    ds = forebay.open(path, ["image"], label="label")
    theirs = forebay.tensorflow.dataset(ds, batch_size=8, shuffle=shuffle, seed=3)
    ours = ds.loader(batch_size=8, shuffle=shuffle, seed=3)
    for _ in range(2):
        seen = []
        for batch, expected in zip(theirs, ours, strict=True):
            assert list(batch) == ["image", "label"]
            for name, values in expected.items():
                same(batch[name].numpy(), values)
            seen += batch["label"].numpy().tolist()
        assert sorted(seen) == list(range(COUNT))


def test_epochs_have_orders_of_their_own_and_can_be_joined(path: Path) -> None:
    options: dict[str, Any] = {"fields": ["label"], "batch_size": 10, "shuffle": "full", "seed": 5}
    alone = forebay.tensorflow.dataset(path, **options)
    epochs = [[int(one) for batch in alone for one in batch["label"]] for _ in range(2)]
    assert epochs[0] != epochs[1] and sorted(epochs[0]) == sorted(epochs[1]) == list(range(COUNT))
    joined = forebay.tensorflow.dataset(path, **options, epochs=2)
    assert joined.cardinality() == 12
    assert [int(one) for batch in joined for one in batch["label"]] == epochs[0] + epochs[1]
    repeated = forebay.tensorflow.dataset(path, **options).repeat(2)
    assert [int(one) for batch in repeated for one in batch["label"]] == epochs[0] + epochs[1]
    endless = forebay.tensorflow.dataset(path, **options, epochs=None)
    assert endless.cardinality() == tf.data.INFINITE_CARDINALITY
    assert [int(one) for batch in endless.take(12) for one in batch["label"]] == epochs[0] + epochs[1]


def test_specs_and_lengths_are_exact(path: Path) -> None:
    image, label = tf.TensorSpec((None, 6, 5, 3), tf.uint8), tf.TensorSpec((None,), tf.int64)
    short = forebay.tensorflow.dataset(path, fields=["image"], label="label", batch_size=8)
    assert short.element_spec == {"image": image, "label": label} and short.cardinality() == len(short) == 8
    whole = forebay.tensorflow.dataset(path, fields=["image"], label="label", batch_size=10, as_supervised=True)
    assert whole.element_spec == (tf.TensorSpec((10, 6, 5, 3), tf.uint8), tf.TensorSpec((10,), tf.int64))
    dropped = forebay.tensorflow.dataset(path, fields=["label"], batch_size=8, tail="drop", as_tuple=True, position=True)
    assert dropped.element_spec == (tf.TensorSpec((8,), tf.int64), tf.TensorSpec((2,), tf.int64)) and len(dropped) == 7
    shared = forebay.tensorflow.dataset(path, fields=["label"], batch_size=5, rank=1, world=3)
    assert len(shared) == 4
    assert [int(one) for batch in shared for one in batch["label"]][:5] == [5, 6, 7, 8, 9]


def test_memory_is_taken_over_and_used_again(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    handed: list[int] = []
    arrays = _tf_fields.TensorField.arrays

    def noting(self: Any, memory: Any) -> list[Any]:
        made = arrays(self, memory)
        handed.append(made[0].ctypes.data)
        return made

    monkeypatch.setattr(_tf_fields.TensorField, "arrays", noting)
    ds = forebay.tensorflow.dataset(path, fields=["image"], batch_size=4, prefetch=1, read_threads=1, epochs=6)
    found = []
    for batch in ds:
        found.append(address(batch["image"]))
        assert found[-1] % 64 == 0
        del batch
    assert len(found) == 90 and found == handed
    # Batches that are gone leave their memory to others.
    assert len(set(found)) <= 30
    kept = [batch["image"] for batch in forebay.tensorflow.dataset(path, fields=["image"], batch_size=4)]
    assert len({address(one) for one in kept}) == len(kept) == 15
    same(tf.concat(kept, 0).numpy(), images(COUNT))


def test_python_is_called_once_for_each_batch(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []
    function = tf.numpy_function

    def counting(called: Any, given: Any, types: Any) -> Any:
        def counted(*arguments: Any) -> Any:
            calls.append(called.__name__)
            return called(*arguments)

        return function(counted, given, types)

    monkeypatch.setattr(tf, "numpy_function", counting)
    ds = forebay.tensorflow.dataset(path, fields=["image", "label"], batch_size=10)
    assert len(list(ds)) == 6 and calls == ["begin"] + ["take"] * 6


def test_what_tf_data_does_with_them(path: Path, tmp_path: Path) -> None:
    ds = forebay.tensorflow.dataset(path, fields=["image"], label="label", batch_size=10, as_supervised=True)
    brighter = ds.map(lambda x, y: (tf.cast(x, tf.float32) / 255, y), num_parallel_calls=2).prefetch(3)
    assert brighter.element_spec[0] == tf.TensorSpec((10, 6, 5, 3), tf.float32) and len(brighter) == 6
    labels = lambda made: sorted(int(one) for _, y in made for one in np.ravel(y))
    assert labels(brighter) == labels(ds.unbatch().batch(7)) == labels(ds.shuffle(4)) == list(range(COUNT))
    cached = ds.cache(str(tmp_path / "cache"))
    assert labels(cached) == labels(cached) == labels(ds.cache()) == list(range(COUNT))
    assert labels(tf.data.Dataset.zip(ds, ds.map(lambda x, y: y)).take(0)) == []
    interleaved = tf.data.Dataset.range(2).interleave(lambda _: ds.take(1), cycle_length=1)
    assert len(list(interleaved)) == 2


def test_samples_of_different_lengths_are_ragged(make: Make) -> None:
    ptr = np.array([0, 3, 3, 10, 11, 20])
    nodes, edges = np.arange(40, dtype="<f4").reshape(20, 2), np.arange(40).reshape(2, 20)
    path = make(x=nodes, edge=edges, ptr=ptr, y=np.arange(5))
    samples = forebay.Ragged(offsets={"x": "ptr", "edge": "ptr"}, axis={"edge": 1})
    ds = forebay.tensorflow.dataset(path, fields=["x", "edge"], label="y", samples=samples, batch_size=2)
    assert ds.element_spec["x"] == tf.RaggedTensorSpec((None, None, 2), tf.float32, 1, tf.int64)
    assert ds.element_spec["edge"] == tf.RaggedTensorSpec((None, None, 2), tf.int64, 1, tf.int64)
    number = 0
    for batch in ds:
        assert isinstance(batch["x"], tf.RaggedTensor)
        for x, edge, y in zip(batch["x"], batch["edge"], batch["y"]):
            same(x.numpy(), nodes[ptr[number] : ptr[number + 1]])
            # The ragged axis comes first.
            same(edge.numpy(), edges[:, ptr[number] : ptr[number + 1]].T)
            assert y == number
            number += 1
    assert number == 5
    total = ds.map(lambda batch: tf.reduce_sum(batch["x"], 1)).map(lambda sums: tf.shape(sums)[0])
    assert [int(one) for one in total] == [2, 2, 1]


def test_texts_are_strings(tmp_path: Path) -> None:
    words = [f"wörd {number}" * (number % 3) for number in range(9)]
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("name", data=words, dtype=h5py.string_dtype())
        file["code"] = np.array([f"c{number}" for number in range(9)], "S4")
    ds = forebay.tensorflow.dataset(tmp_path / "a.h5", fields=["name", "code"], batch_size=4)
    assert ds.element_spec == {name: tf.TensorSpec((None,), tf.string) for name in ("name", "code")}
    batches = list(ds)
    assert [one.decode() for batch in batches for one in batch["name"].numpy()] == words
    assert [one.decode() for batch in batches for one in batch["code"].numpy()] == [f"c{number}" for number in range(9)]
    pairs = forebay.tensorflow.dataset(tmp_path / "a.h5", fields=["name"], samples=forebay.Fixed(3), batch_size=2)
    assert pairs.element_spec["name"] == tf.RaggedTensorSpec((None, None), tf.string, 1, tf.int64)
    rows = [row for batch in pairs for row in batch["name"].to_list()]
    assert [[one.decode() for one in row] for row in rows] == [words[0:3], words[3:6], words[6:9]]


@pytest.mark.parametrize("dtype", ["?", "i1", "u2", "i4", "u8", "f2", "f8", "c8", "c16"])
def test_types_stay_what_they_are(make: Make, dtype: str) -> None:
    values = np.random.default_rng(1).integers(0, 2, (6, 3)).astype(dtype)
    (batch,) = forebay.tensorflow.dataset(make(x=values), fields=["x"], batch_size=6)
    same(batch["x"].numpy(), values)


def test_bfloat16_stays_bfloat16(make: Make) -> None:
    values = np.arange(12, dtype="f4").reshape(4, 3)
    path = make(x=values)
    casts = {"x": [forebay.transforms.Cast("bfloat16")]}
    (batch,) = forebay.tensorflow.dataset(path, fields=["x"], batch_size=4, transforms=casts)
    assert batch["x"].dtype == tf.bfloat16 and (tf.cast(batch["x"], tf.float32).numpy() == values).all()


def test_what_tensorflow_has_no_type_for_is_refused_by_name(make: Make, path: Path) -> None:
    records = make("records.h5", x=np.zeros(4, [("a", "i4"), ("b", "f8")]), y=np.arange(4))
    with pytest.raises(ValueError, match=r"field 'x': TensorFlow has no type for .*fields="):
        forebay.tensorflow.dataset(records, fields=["x", "y"], batch_size=2)
    member = forebay.Field("x", member="b")
    assert forebay.tensorflow.dataset(records, fields={"b": member}, batch_size=2).element_spec["b"].dtype == tf.float64
    with h5py.File(records, "a") as file:
        file["y"].attrs["units"] = "hours since 1900-01-01"
    with pytest.raises(ValueError, match=r"field 'y': TensorFlow has no type for .*fields="):
        forebay.tensorflow.dataset(records, fields=["y"], batch_size=2, cf=True)
    with pytest.raises(ValueError, match=r"map= is of Python: use Dataset\.map"):
        forebay.tensorflow.dataset(path, fields=["label"], map=lambda batch: batch)
    with pytest.raises(ValueError, match="refresh=True"):
        forebay.tensorflow.dataset(path, fields=["label"], refresh=True)
    with pytest.raises(ValueError, match="as_supervised=True needs a label"):
        forebay.tensorflow.dataset(path, fields=["label"], as_supervised=True)
    with pytest.raises(TypeError, match="not int"):
        forebay.tensorflow.dataset(7)


def test_a_sample_that_cannot_be_read_is_an_error_or_left_out(make: Make) -> None:
    path = make(image=(images(COUNT), {"chunks": (10, 6, 5, 3), "compression": "gzip"}), label=np.arange(COUNT))
    with h5py.File(path) as file:
        chunk = file["image"].id.get_chunk_info(2)
    with open(path, "r+b") as raw:
        raw.seek(chunk.byte_offset)
        raw.write(b"\xff" * chunk.size)
    strict = forebay.tensorflow.dataset(path, fields=["image", "label"], batch_size=5)
    with pytest.raises(tf.errors.OpError, match=r"a\.h5: variable 'image': chunk"):
        list(strict)
    loose = forebay.tensorflow.dataset(path, fields=["image", "label"], batch_size=5, on_error="skip")
    assert loose.cardinality() == tf.data.UNKNOWN_CARDINALITY
    seen = [int(one) for batch in loose for one in batch["label"]]
    assert seen == [*range(20), *range(30, 60)]


def test_inside_interleave_an_error_names_what_takes_its_place(path: Path) -> None:
    paths = tf.data.Dataset.from_tensor_slices([str(path)] * 2)
    with pytest.raises(TypeError, match=r"a path that is a tensor.*forebay\.tensorflow\.from_slices"):
        paths.interleave(lambda one: forebay.tensorflow.dataset(one, fields=["label"], batch_size=10))
    # One that a graph makes is gone when the graph is made.
    made = tf.data.Dataset.range(2).interleave(lambda _: forebay.tensorflow.dataset(path, fields=["label"], batch_size=10))
    with pytest.raises(tf.errors.OpError, match=r"dataset\(\) made is gone: keep it"):
        list(made)


def test_tf_distribute_leaves_the_samples_of_ranks_as_they_are(path: Path) -> None:
    policy = tf.data.experimental.AutoShardPolicy
    for world, expected in ((2, policy.OFF), (1, policy.AUTO)):
        ds = forebay.tensorflow.dataset(path, fields=["label"], batch_size=10, rank=0, world=world)
        made = ds.map(lambda batch: batch["label"]).prefetch(2)
        assert made.options().experimental_distribute.auto_shard_policy == expected


def test_a_store_is_a_source_and_its_batches_are_those_of_the_files(path: Path) -> None:
    ds = forebay.open(path, ["image"], label="label")
    how: dict[str, Any] = {"batch_size": 8, "shuffle": "full", "seed": 3}
    with forebay.Store() as store:
        store.fill(ds)
        theirs = forebay.tensorflow.dataset(store, **how, as_supervised=True)
        for (image, label), expected in zip(theirs.prefetch(2), ds.loader(**how), strict=True):
            same(image.numpy(), expected["image"])
            same(label.numpy(), expected["label"])


def test_a_second_iteration_ends_the_first(path: Path) -> None:
    ds = forebay.tensorflow.dataset(path, fields=["label"], batch_size=5)
    first, second = iter(ds), iter(ds)
    next(first), next(second)
    with pytest.raises(tf.errors.OpError, match="ended by another"):
        for _ in first:
            pass
    assert len(list(second)) == 11


def test_a_dataset_that_is_gone_gives_all_back(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Any] = []

    class Noted(_tf_feed.TensorFeed):
        def __init__(self, *given: Any, **options: Any) -> None:
            super().__init__(*given, **options)
            made.append(weakref.ref(self))

    monkeypatch.setattr(forebay.tensorflow, "TensorFeed", Noted)
    ds = forebay.tensorflow.dataset(path, fields=["image"], batch_size=4)
    iterator = iter(ds)
    next(iterator)
    doubled = iter(ds.map(lambda batch: batch["image"] * 2).prefetch(1))
    del ds, iterator
    gc.collect()
    assert made[0]() is not None and next(doubled).shape == (4, 6, 5, 3)
    del doubled
    gc.collect()
    assert made[0]() is None


@pytest.mark.parametrize("ahead", [0, 8])
def test_a_program_that_ends_in_the_middle_of_an_epoch_ends(path: Path, program: Any, ahead: int) -> None:
    done = program(
        """
        import sys
        import forebay.tensorflow
        ds = forebay.tensorflow.dataset(sys.argv[1], fields=["image"], batch_size=1, epochs=None, shuffle="full")
        ahead = int(sys.argv[2])
        for number, batch in enumerate(ds.prefetch(ahead) if ahead else ds):
            if number == 20:
                break
        print("done", flush=True)
        """,
        path,
        ahead,
    )
    assert "done" in done.stdout


def test_padding_is_known_by_the_numbers_of_samples(make: Make) -> None:
    path = make(x=np.arange(10.0), y=np.arange(10))
    opened = forebay.open(path, ["x"], label="y")
    given = {"batch_size": 4, "tail": "pad", "indices": True}
    dicts = list(forebay.tensorflow.dataset(opened, **given).as_numpy_iterator())
    assert [one["indices"].tolist() for one in dicts] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, -1, -1]]
    pairs = forebay.tensorflow.dataset(opened, **given, as_supervised=True)
    assert pairs.element_spec[2] == tf.TensorSpec((4,), tf.int64)
    weighed = pairs.map(lambda x, y, indices: (x, y, tf.cast(indices >= 0, tf.float32)))
    assert sum(float(tf.reduce_sum(weights)) for _, _, weights in weighed) == 10
    with pytest.raises(ValueError, match="indices=True, and a field is called 'indices'"):
        forebay.tensorflow.dataset(make("i.h5", indices=np.arange(3)), fields=["indices"], indices=True)
    with pytest.raises(ValueError, match="label with a set that is open already"):
        forebay.tensorflow.dataset(opened, label="y")
    with pytest.raises(ValueError, match="as_supervised=True and as_tuple=True"):
        forebay.tensorflow.dataset(opened, as_supervised=True, as_tuple=True)
