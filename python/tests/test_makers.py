"""Every option of a loader over everything that batches are made from: what NumPy computes from the arrays, and nothing else."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import numpy.typing as npt
import pytest
import zarr

import forebay
from forebay import Field, Ragged
from forebay import transforms as T
from forebay._forebay import LoaderMemory
from forebay._torch import device_memory as _device_memory

COUNT, HALF = 48, 20
RANDOM = np.random.default_rng(17)
X = RANDOM.integers(0, 256, (COUNT, 3, 7, 9), np.uint8)
Y = np.arange(COUNT) % 4
LENS = RANDOM.integers(0, 6, COUNT)
PTR = np.r_[0, np.cumsum(LENS)]
NODES = RANDOM.random((PTR[-1], 2), np.float32)
NAMES = [f"{'ü' * (number % 3)}{'x' * (number * 7 % 11)}{number}" if number % 5 else "" for number in range(COUNT)]
PULSES = [RANDOM.integers(0, 99, number * 5 % 8).astype(np.int32) for number in range(COUNT)]
TEXTS = ("name", "pulse")
STEPS = [T.RandomCrop(5, 6), T.RandomFlip(), T.Normalize(120.0, 60.0)]


def arrays(rows: slice) -> dict[str, Any]:
    """The samples ``rows`` as one file has them."""
    ptr = PTR[rows.start : rows.stop + 1]
    return {"x": X[rows], "y": Y[rows], "nodes": NODES[ptr[0] : ptr[-1]], "ptr": ptr - ptr[0]}


def write_hdf5(path: Path, rows: slice, is_packed: bool) -> Path:
    options: dict[str, Any] = {"chunks": True, "compression": "gzip"} if is_packed else {}
    with h5py.File(path, "w") as file:
        for name, values in arrays(rows).items():
            file.create_dataset(name, data=values, **options)
        file.create_dataset("name", data=NAMES[rows], dtype=h5py.string_dtype(), **options)
        pulses = np.empty(rows.stop - rows.start, object)
        for number, pulse in enumerate(PULSES[rows]):
            pulses[number] = pulse
        file.create_dataset("pulse", data=pulses, dtype=h5py.vlen_dtype(np.int32), **options)
    return path


def write_zarr(path: Path, rows: slice) -> Path:
    group = zarr.open_group(path, mode="w")
    for name, values in arrays(rows).items():
        group.create_array(name, data=values, chunks=(min(7, len(values)), *values.shape[1:]))
    group.create_array("name", shape=(COUNT,), chunks=(7,), dtype=str)[:] = np.array(NAMES, object)
    return path


def write_virtual(path: Path) -> Path:
    """A virtual data set of boxes that are no hyperslab, which libhdf5 reads."""
    source = write_hdf5(path.with_suffix(".source.h5"), slice(0, COUNT), False)
    properties, whole = h5py.h5p.create(h5py.h5p.DATASET_CREATE), h5py.h5s.create_simple(X.shape)
    inner = X.shape[1:]
    both = h5py.h5s.create_simple(X.shape)
    both.select_hyperslab((0, 0, 0, 0), (11, *inner))
    both.select_hyperslab((15, 0, 0, 0), (COUNT - 15, *inner), op=h5py.h5s.SELECT_OR)
    rest = h5py.h5s.create_simple(X.shape)
    rest.select_hyperslab((11, 0, 0, 0), (4, *inner))
    for space in (both, rest):
        properties.set_virtual(space, source.name.encode(), b"x", space)
    with h5py.File(path, "w", libver="latest") as file:
        h5py.h5d.create(file.id, b"x", h5py.h5t.NATIVE_UINT8, whole, properties)
        for name, values in arrays(slice(0, COUNT)).items():
            if name != "x":
                file[name] = values
        texts = h5py.VirtualLayout((COUNT,), h5py.string_dtype())
        texts[...] = h5py.VirtualSource(source.name, "name", (COUNT,), h5py.string_dtype())
        file.create_virtual_dataset("name", texts)
    return path


def own_format(path: Path) -> Path:
    """A format written in Python, whose pictures its own reader reads."""
    path.write_bytes(b"MAKERS01")

    def describe(file: Any) -> list[forebay.Variable]:
        made = [
            forebay.Variable(name, values.dtype.str, values.shape, values=values)
            for name, values in arrays(slice(0, COUNT)).items()
            if name != "x"
        ]
        return [*made, forebay.Variable("x", "|u1", X.shape, read=lambda selection: X[selection])]

    forebay.register_format("makers", lambda path, head: head.startswith(b"MAKERS01"), describe)
    return path


def opened(files: Any, *texts: str) -> forebay.Dataset:
    fields = ["x", Field("nodes", samples=Ragged(offsets="ptr")), *texts]
    return forebay.open(files, fields, label="y")


def stored(dataset: forebay.Dataset) -> forebay.Store:
    store = forebay.Store()
    store.fill(dataset, progress=False)
    return store


def added() -> forebay.Store:
    store = forebay.Store()
    store.add("x", X)
    store.add("nodes", [NODES[start:end] for start, end in itertools.pairwise(PTR)])
    store.add("y", Y)
    return store


@functools.cache
def made(kind: str, folder: Path) -> Any:
    """The samples, in order, from what ``kind`` names."""
    first, second = slice(0, HALF), slice(HALF, COUNT)
    halves = lambda: [
        opened(write_hdf5(folder / f"{kind}-{part.start}.h5", part, bool(part.start)), *(TEXTS if "store" not in kind else ()))
        for part in (first, second)
    ]
    makers: dict[str, Callable[[], Any]] = {
        "packed": lambda: opened(write_hdf5(folder / "packed.h5", slice(0, COUNT), True), *TEXTS),
        "files": lambda: opened(
            [write_hdf5(folder / f"plain-{part.start}.h5", part, False) for part in (first, second)], *TEXTS
        ),
        "zarr": lambda: opened(write_zarr(folder / "a.zarr", slice(0, COUNT)), "name"),
        "own": lambda: opened(own_format(folder / "a.own")),
        "libhdf5": lambda: opened(write_virtual(folder / "virtual.h5"), "name"),
        "store": lambda: stored(opened(write_hdf5(folder / "store.h5", slice(0, COUNT), True))),
        "added": added,
        "concat": lambda: forebay.concat(*halves()),
        "concat-store": lambda: forebay.concat(*map(stored, halves())),
        "subset": lambda: forebay.concat(
            *(one.take(slice(None)) for one in halves())
        ),
        "mix": lambda: forebay.mix(dict.fromkeys(halves(), 1.0)),
        "mix-store": lambda: forebay.mix(dict.fromkeys(map(stored, halves()), 1.0)),
    }
    return makers[kind]()


KINDS = ["packed", "files", "zarr", "own", "libhdf5", "store", "added", "concat", "concat-store", "subset", "mix", "mix-store"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("makers")


@pytest.fixture(params=KINDS)
def samples(request: Any, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    # One of them is read by libhdf5, which a whole run of the tests forbids.
    monkeypatch.delenv("FOREBAY_LIBHDF5", raising=False)
    return made(request.param, folder)


def is_mixed(samples: Any) -> bool:
    return getattr(samples, "_drawn", None) is not None


def expected(samples: Any) -> int:
    """Samples of an epoch: a mixture ends where its shorter set does."""
    return 2 * HALF if is_mixed(samples) else COUNT


def nodes(index: int) -> npt.NDArray[Any]:
    return NODES[PTR[index] : PTR[index + 1]]


def check(batch: Any, numbers: Any = None) -> list[int]:
    """``batch`` has what its samples are; gives their numbers, by ``numbers`` where it is a part of the set."""
    indices = np.asarray(batch.indices)
    there = indices >= 0
    found = (indices if numbers is None else np.where(there, np.asarray(numbers)[indices], -1)).tolist()
    parts = batch.parts("nodes")
    for slot, index in enumerate(found):
        assert (np.asarray(batch["x"][slot]) == (X[index] if index >= 0 else 0)).all()
        assert batch["y"][slot] == (Y[index] if index >= 0 else 0)
        assert np.array_equal(parts[slot], nodes(index) if index >= 0 else np.zeros((0, 2)))
        if "name" in batch:
            assert batch["name"][slot] == (NAMES[index] if index >= 0 else "")
        if "pulse" in batch:
            assert np.array_equal(batch.parts("pulse")[slot], PULSES[index] if index >= 0 else [])
    return [index for index in found if index >= 0]


def transformed(batch: Any, numbers: npt.NDArray[np.int64]) -> npt.NDArray[np.float32]:
    """What ``STEPS`` make of the pictures, in NumPy."""
    crop, flip = STEPS[0], STEPS[1]
    starts, flips = crop.starts(batch.seeds, X.shape[1:]), flip.flips(batch.seeds, 3)
    parts = []
    for index, (row, column), turned in zip(numbers, starts, flips):
        part = X[index, :, row : row + 5, column : column + 6]
        parts.append(part[..., ::-1] if turned else part)
    return (np.stack(parts).astype(np.float32) - np.float32(120)) / np.float32(60)


@pytest.mark.parametrize("shuffle", ["none", "block", "full"])
def test_an_epoch_has_each_sample_once_whatever_the_tail(samples: Any, shuffle: str) -> None:
    if is_mixed(samples) and shuffle == "block":
        return
    seen = [number for batch in samples.loader(batch_size=7, shuffle=shuffle, seed=1, tail="pad") for number in check(batch)]
    assert len(seen) == len(set(seen)) == expected(samples)


def test_several_epochs_in_one_iteration_are_in_another_order_each(samples: Any) -> None:
    seen = [check(batch) for batch in samples.loader(batch_size=8, shuffle="full", seed=5, epochs=2)]
    numbers = list(itertools.chain(*seen))
    first, second = numbers[: expected(samples)], numbers[expected(samples) :]
    assert len(set(first)) == len(set(second)) == len(second) == expected(samples) and first != second


def test_a_state_goes_on_where_it_was_taken(samples: Any) -> None:
    make = lambda: samples.loader(batch_size=5, shuffle="full", seed=3, tail="short")
    whole = [check(batch) for batch in make()]
    loader = make()
    run = iter(loader)
    began = [check(next(run)) for _ in range(3)]
    state = loader.state_dict()
    again = make()
    again.load_state_dict(state)
    assert began + [check(batch) for batch in again] == whole


def test_maps_are_given_what_the_batch_has(samples: Any) -> None:
    def mapped(batch: Any) -> Any:
        return check(batch), batch["x"].astype(np.int64).sum((1, 2, 3))

    for numbers, sums in samples.loader(batch_size=8, shuffle="full", map=mapped, map_threads=2):
        assert (sums == X[numbers].astype(np.int64).sum((1, 2, 3))).all()

    def one(sample: Any) -> Any:
        return {"top": sample["x"].max(), "number": sample.index, "nodes": sample["nodes"].sum()}

    for batch in samples.loader(batch_size=8, shuffle="full", sample_map=one):
        numbers = batch["number"]
        assert (batch["top"] == X[numbers].max((1, 2, 3))).all()
        assert np.allclose(batch["nodes"], [nodes(number).sum() for number in numbers])

    collated = samples.loader(batch_size=8, collate=lambda each: [(one.index, one["x"], int(one["y"])) for one in each])
    for index, picture, label in itertools.chain(*collated):
        assert (picture == X[index]).all() and label == Y[index]


def test_transforms_are_those_of_numpy(samples: Any) -> None:
    for batch in samples.loader(batch_size=9, shuffle="full", seed=2, transforms={"x": STEPS}):
        assert np.array_equal(batch["x"], transformed(batch, np.asarray(batch.indices)))
        assert batch["y"].tolist() == Y[batch.indices].tolist()
    for batch in samples.loader(batch_size=9, normalize={"x": (120.0, 60.0)}, fields=["x", "y"]):
        assert list(batch) == ["x", "y"]
        assert np.array_equal(batch["x"], (X[batch.indices].astype(np.float32) - np.float32(120)) / np.float32(60))


def test_parts_have_the_samples_they_say(samples: Any) -> None:
    if is_mixed(samples):
        for part in (lambda: samples.take(slice(0, 5)), lambda: samples.split([0.5, 0.5]), lambda: samples.where("y", ("==", 1))):
            with pytest.raises(forebay.ForebayError, match="mixture"):
                part()
        return
    chosen = {
        "slice": (samples.take(slice(40, 3, -4)), list(range(40, 3, -4))),
        "list": (samples.take([5, 5, -1]), [5, 5, COUNT - 1]),
        "mask": (samples.take(Y == 2), np.flatnonzero(Y == 2).tolist()),
        "where": (samples.where("y", (">", 2)), np.flatnonzero(Y > 2).tolist()),
        "function": (samples.where("nodes", lambda each: np.array([len(one) == 3 for one in each])), np.flatnonzero(LENS == 3).tolist()),
    }
    if "name" in samples.fields:
        chosen["text"] = (samples.where("name", ("==", "")), [number for number in range(COUNT) if not NAMES[number]])
    for kind, (part, numbers) in chosen.items():
        seen = [number for batch in part.loader(batch_size=4) for number in check(batch, part.indices)]
        assert seen == numbers == part.indices.tolist(), kind
        assert (part[0]["x"] == X[numbers[0]]).all()
    parts = samples.split([0.5, 0.25, 0.25], seed=7)
    seen = [check(batch, part.indices) for part in parts for batch in part.loader(batch_size=5, shuffle="full")]
    assert sorted(itertools.chain(*seen)) == list(range(COUNT))


def test_draws_by_weight_and_class_have_their_part(samples: Any) -> None:
    if is_mixed(samples):
        with pytest.raises(ValueError, match="exclude each other"):
            samples.loader(batch_size=4, weights=np.ones(COUNT))
        return
    weights = np.where(Y == 1, 0.0, 1.0 + np.arange(COUNT))
    drawn = [check(batch) for batch in samples.loader(batch_size=8, weights=weights, epoch_samples=96, seed=4)]
    numbers = np.array(list(itertools.chain(*drawn)))
    assert len(numbers) == 96 and not (Y[numbers] == 1).any() and len(set(numbers.tolist())) < 96
    once = [check(batch) for batch in samples.loader(batch_size=8, weights=weights, replacement=False)]
    assert sorted(itertools.chain(*once)) == np.flatnonzero(weights).tolist()
    for batch in samples.loader(batch_size=8, balance="y", epoch_samples=64):
        assert np.bincount(Y[check(batch)], minlength=4).tolist() == [2, 2, 2, 2]


@pytest.mark.parametrize("field", ["nodes", "y", "name", "pulse"])
def test_buckets_have_samples_of_like_length(samples: Any, field: str) -> None:
    if field not in samples.fields:
        return
    if is_mixed(samples):
        with pytest.raises(ValueError, match="exclude each other"):
            samples.loader(batch_size=4, bucket_by=field)
        return
    lens = {"nodes": LENS, "y": Y, "name": [len(name.encode()) for name in NAMES], "pulse": list(map(len, PULSES))}[field]
    spread = []
    for options in ({"bucket_by": field}, {"shuffle": "full"}):
        batches = [check(batch) for batch in samples.loader(batch_size=2, seed=1, **options)]
        assert sorted(itertools.chain(*batches)) == list(range(COUNT))
        spread.append(sum(abs(int(lens[one]) - int(lens[other])) for one, other in batches))
    assert spread[0] < 0.6 * spread[1]


def test_batches_are_tuples_padded_and_nested_where_that_is_wanted(samples: Any) -> None:
    torch = pytest.importorskip("torch")
    from forebay.torch import Loader

    for row in samples.loader(batch_size=8, as_tuple=True, fields=["y", "x"]):
        assert type(row) is tuple and len(row) == 2 and row[1].shape[1:] == X.shape[1:]
    for batch in Loader(samples, batch_size=8, shuffle="full"):
        numbers = check(batch)
        longest = max(LENS[numbers])
        table = np.full((len(numbers), longest, 2), -1, np.float32)
        for slot, number in enumerate(numbers):
            table[slot, : LENS[number]] = nodes(number)
        assert np.array_equal(batch.padded("nodes", -1), table)
        assert (batch.mask("nodes").sum(1) == torch.tensor(LENS[numbers])).all()
        nested = batch.nested("nodes")
        assert nested.is_nested and all(np.array_equal(one, nodes(number)) for one, number in zip(nested.unbind(), numbers))


def test_batches_reach_pytorch_by_every_way_there_is_without_a_gpu(samples: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytest.importorskip("torch")
    from forebay.torch import Loader

    for batch in Loader(samples, batch_size=8, shuffle="full", device="cpu"):
        check(batch)
    if not torch.cuda.is_available():
        with pytest.raises((RuntimeError, ValueError, forebay.ForebayError)):
            list(Loader(samples, batch_size=8, pin_memory=True))
    # A double stands for the device: it copies at once, and gives the copies.
    monkeypatch.setattr("forebay.torch._cuda_device", lambda device: torch.device("cpu"))
    monkeypatch.setattr(_device_memory, "registered_memory", lambda device: LoaderMemory.registered(None))
    monkeypatch.setattr(_device_memory, "CudaCopier", lambda device, memory: Copier())
    seen = [check(batch) for batch in Loader(samples, batch_size=8, shuffle="full", device="cuda")]
    assert len(set(itertools.chain(*seen))) == expected(samples)


class Done:
    """A point in the double's stream that was reached."""

    def query(self) -> bool:
        return True

    def synchronize(self) -> None:
        pass


class Copier:
    """Copies as it is asked."""

    def start(self, host: list[Any]) -> tuple[list[Any], Done]:
        return [piece.clone() for piece in host], Done()

    def receive(self, target: list[Any], copied: Done) -> None:
        pass

    def mark(self) -> Done:
        return Done()
