"""PyTorch: tensors without a copy, loaders, and data sets under PyTorch's DataLoader."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from conftest import Make, images
from torch.utils.data import DataLoader, Subset

import forebay
import forebay.torch
from forebay import Field, Ragged

COUNT = 24
OFFSETS = np.concatenate([[0], np.cumsum(np.arange(COUNT) % 4)])
pytestmark = [
    pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:This DataLoader will create:UserWarning"),
]


@pytest.fixture
def ds(make: Make) -> forebay.Dataset:
    path = make(image=(images(COUNT), {"chunks": (5, 6, 5, 3), "compression": "gzip"}), label=np.arange(COUNT))
    return forebay.open(path, ["image"], "label")


@pytest.fixture
def ragged(make: Make) -> forebay.Dataset:
    nodes = np.arange(OFFSETS[-1] * 2, dtype=np.float32).reshape(-1, 2)
    path = make("ragged.h5", x=nodes, y=np.arange(COUNT), ptr=OFFSETS)
    return forebay.open(path, ["x", "y"], samples=Ragged(offsets={"x": "ptr"}))


def test_importing_forebay_does_not_import_torch(program: Any) -> None:
    program(
        """
        import sys, forebay
        assert "torch" not in sys.modules
        forebay.torch.Loader
        assert "torch" in sys.modules
        try: forebay.nothing
        except AttributeError: pass
        else: raise SystemExit("forebay.nothing is something")
        """
    )


def test_batches_are_tensors_over_the_same_memory(ds: forebay.Dataset) -> None:
    raw = ds._reader.get([3, 1])
    batch = forebay.torch.Batch._tensors(raw)
    for memory in raw.take_fields():
        assert batch[memory.name].data_ptr() == memory.__array_interface__["data"][0]
    loader = forebay.torch.Loader(ds, batch_size=5, shuffle="full", seed=1)
    for batch, plain in zip(loader, ds.loader(batch_size=5, shuffle="full", seed=1)):
        assert batch["image"].dtype == torch.uint8 and batch["image"].data_ptr() % 64 == 0
        assert (batch["image"].numpy() == plain["image"]).all()
        assert batch.indices.tolist() == plain.indices.tolist() == batch["label"].tolist()
        assert isinstance(batch.indices, torch.Tensor) and batch.seeds.tolist() == plain.seeds.tolist()
        assert (batch.epoch, batch.step, batch.skipped, batch.size) == (0, plain.step, [], plain.size)


def test_memory_lives_as_long_as_its_tensor(ds: forebay.Dataset) -> None:
    kept = [batch["image"][:, 0] for batch in forebay.torch.Loader(ds, batch_size=4)]
    for _ in range(3):
        list(forebay.torch.Loader(ds, batch_size=4))
    assert (torch.cat(kept).numpy() == images(COUNT)[:, 0]).all()


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64", "int8", "int16", "int32", "int64",
                                   "uint8", "uint16", "uint32", "uint64"])  # fmt: skip
def test_every_number_type_is_a_tensor(make: Make, dtype: str) -> None:
    values = np.arange(12).reshape(3, 4)
    loader = forebay.torch.Loader(forebay.open(make(x=values), [Field("x", dtype=dtype)]), batch_size=3)
    (batch,) = loader
    assert batch["x"].dtype == getattr(torch, dtype) and batch["x"].to(torch.int64).tolist() == values.tolist()


def test_bfloat16_needs_no_ml_dtypes(ds: forebay.Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("forebay._batch._bfloat16", None)
    ds = forebay.open(ds.files, [Field("label", dtype="bfloat16")])
    assert forebay.torch.Dataset(ds)[7]["label"].dtype == torch.bfloat16


def test_torch_takes_memory_by_dlpack_and_keeps_it_until_the_tensor_is_dropped(make: Make) -> None:
    values = np.arange(4096).reshape(64, 64)
    ds = forebay.open(make(x=values), [Field("x", dtype="bfloat16")])
    run = ds.loader(batch_size=4, read_threads=1, prefetch=1)._loader.start()
    raw = run.next()
    assert raw is not None
    (memory,) = raw.take_fields()
    address = memory.__array_interface__["data"][0]
    tensor = torch.from_dlpack(memory)
    old = torch.utils.dlpack.from_dlpack(memory.__dlpack__())
    del raw, memory
    assert tensor.data_ptr() == old.data_ptr() == address
    assert tensor.dtype == old.dtype == torch.bfloat16 and tensor.shape == (4, 64)
    expected = torch.from_numpy(values[:4]).to(torch.bfloat16)
    addresses = []
    while (raw := run.next()) is not None:
        addresses += [memory.__array_interface__["data"][0] for memory in raw.take_fields()]
    assert address not in addresses and torch.equal(tensor, expected) and torch.equal(old, expected)


def test_what_torch_cannot_hold_stays_an_array_and_texts_are_a_list(make: Make) -> None:
    pairs = np.array([(1, 2.5), (3, 4.5)], [("a", "i4"), ("b", "f8")])
    path = make(name=np.array([b"one", b"two"]), pair=pairs, flag=np.array([True, False]), z=np.array([1j, 2]))
    (batch,) = forebay.torch.Loader(forebay.open(path, ["name", "pair", "flag", "z"]), batch_size=2)
    assert batch["name"] == ["one", "two"] and (batch["pair"] == pairs).all()
    assert batch["flag"].dtype == torch.bool and batch["z"].dtype == torch.complex128


def test_ragged_fields_come_with_offsets(ragged: forebay.Dataset) -> None:
    loader = forebay.torch.Loader(ragged, batch_size=5, shuffle="full")
    for batch in loader:
        offsets = batch.offsets["x"]
        assert isinstance(offsets, torch.Tensor) and offsets[-1] == len(batch["x"])
        for slot, number in enumerate(batch.indices.tolist()):
            cut = batch["x"][offsets[slot] : offsets[slot + 1]]
            assert (
                cut.numpy() == np.arange(OFFSETS[-1] * 2).reshape(-1, 2)[OFFSETS[number] : OFFSETS[number + 1]]
            ).all()


def test_a_batch_moves_and_copies_as_a_whole(ds: forebay.Dataset) -> None:
    (batch,) = forebay.torch.Loader(ds, batch_size=COUNT, device="meta")
    assert batch["image"].device.type == "meta" and batch.indices.device.type == "meta" and batch.epoch == 0
    (batch,) = forebay.torch.Loader(ds, batch_size=COUNT)
    for other in (batch.to("cpu"), copy.copy(batch), pickle.loads(pickle.dumps(batch))):
        assert type(other) is forebay.torch.Batch and torch.equal(other["label"], batch["label"])
        assert torch.equal(other.indices, batch.indices) and other.seeds.tolist() == batch.seeds.tolist()
    # Frameworks rebuild containers from their items.
    assert forebay.torch.Batch({"a": 1}) == {"a": 1}


def test_a_loader_has_what_trainers_look_for(ds: forebay.Dataset) -> None:
    loader = forebay.torch.Loader(ds, batch_size=5, shuffle=True, seed=2)
    assert len(loader) == 5
    loader.sampler.set_epoch(4)
    run = iter(loader)
    first = next(run)
    assert first.epoch == 4
    state = loader.state_dict()
    rest = [batch.indices.tolist() for batch in run]
    resumed = forebay.torch.Loader(forebay.torch.Dataset(ds), batch_size=5, shuffle=True, seed=2)
    resumed.load_state_dict(state)
    resumed.sampler.set_epoch(4)
    assert [batch.indices.tolist() for batch in resumed] == rest
    run = iter(resumed)
    next(run)
    copied = pickle.loads(pickle.dumps(resumed))
    assert [batch.indices.tolist() for batch in copied] == [batch.indices.tolist() for batch in run]
    with pytest.raises(ValueError, match="together"):
        forebay.torch.Loader(ds, rank=0)
    with pytest.raises(TypeError, match=r"forebay\.Dataset"):
        forebay.torch.Loader([1, 2])  # type: ignore[arg-type]


def test_a_state_is_that_of_a_numpy_loader_at_any_step_and_goes_on_in_either(ds: forebay.Dataset) -> None:
    # What JAX and TensorFlow go on from is held against NumPy's in tests/frameworks.
    how: dict[str, Any] = {"batch_size": 4, "shuffle": "full", "seed": 7}
    whole = [batch["label"].tolist() for batch in ds.loader(**how)]
    for stop in range(len(whole)):
        loaders = ds.loader(**how), forebay.torch.Loader(ds, **how)
        seen = [[batch["label"].tolist() for _, batch in zip(range(stop), loader)] for loader in loaders]
        states = [loader.state_dict() for loader in loaders]
        assert seen == [whole[:stop]] * 2 and states[0] == states[1]
        for loader, state in zip(loaders, reversed(states)):
            loader.load_state_dict(state)
            assert [batch["label"].tolist() for batch in loader] == whole[stop:]
            loader.close()


def test_rank_and_world_are_those_of_the_process_group(ds: forebay.Dataset, tmp_path: Path) -> None:
    torch.distributed.init_process_group("gloo", init_method=f"file://{tmp_path}/group", rank=0, world_size=1)
    try:
        assert sum(batch.size for batch in forebay.torch.Loader(ds, batch_size=4)) == COUNT
    finally:
        torch.distributed.destroy_process_group()


def test_two_ranks_of_a_process_group_share_the_samples(ds: forebay.Dataset, tmp_path: Path, program: Any) -> None:
    done = program(
        """
        import sys, torch, forebay.torch
        import torch.multiprocessing as mp
        def rank(number, path, group):
            torch.distributed.init_process_group("gloo", init_method=f"file://{group}", rank=number, world_size=2)
            loader = forebay.torch.Loader(forebay.open(path, ["label"]), batch_size=4, shuffle=True)
            data = forebay.torch.IterableDataset(forebay.open(path, ["label"]), batch_size=4)
            seen = [n for batch in loader for n in batch["label"].tolist()]
            seen += [n + 100 for batch in data for n in batch["label"].tolist()]
            print(f"{number}: {seen}\\n", end="", flush=True)
        if __name__ == "__main__":
            mp.start_processes(rank, (sys.argv[1], sys.argv[2]), 2, start_method="fork")
        """,
        ds.files[0],
        tmp_path / "group",
    )
    lines = dict(line.split(": ") for line in done.stdout.strip().splitlines())
    seen = [eval(lines[rank]) for rank in "01"]
    assert len(seen[0]) == len(seen[1]) and sorted(seen[0] + seen[1]) == [*range(COUNT), *range(100, 100 + COUNT)]


WORKERS: list[Any] = [(0, None), (2, "fork"), (2, "spawn")]
# A spawned worker imports PyTorch, which takes longer than all else here.
FORKED: list[Any] = [(0, None), (2, "fork"), pytest.param(2, "spawn", marks=pytest.mark.slow)]


def workers(count: int, context: str | None) -> dict[str, Any]:
    return {"num_workers": count, "multiprocessing_context": context, "timeout": 60 if count else 0}


@pytest.mark.parametrize(("count", "context"), WORKERS)
def test_a_data_set_works_under_a_plain_dataloader(ds: forebay.Dataset, count: int, context: str | None) -> None:
    data = forebay.torch.Dataset(ds)
    assert len(data) == COUNT and data[5]["label"] == 5 and data[-1]["label"] == COUNT - 1
    # The folklore mistake: read before the workers are forked.
    assert (data[5]["image"].numpy() == images(COUNT)[5]).all()
    loader = DataLoader(data, batch_size=7, shuffle=True, **workers(count, context))
    seen = []
    for batch in loader:
        assert (batch["image"].numpy() == images(COUNT)[batch["label"]]).all()
        seen += batch["label"].tolist()
    assert sorted(seen) == list(range(COUNT))


@pytest.mark.parametrize(("count", "context"), FORKED)
def test_collate_hands_the_batch_over_as_it_was_read(ragged: forebay.Dataset, count: int, context: str | None) -> None:
    data = forebay.torch.Dataset(ragged)
    loader = DataLoader(data, batch_size=5, collate_fn=forebay.torch.collate, shuffle=True, **workers(count, context))
    seen = []
    for batch in loader:
        assert isinstance(batch, forebay.torch.Batch) and batch.indices.tolist() == batch["y"].tolist()
        assert batch.offsets["x"][-1] == len(batch["x"])
        seen += batch["y"].tolist()
    assert sorted(seen) == list(range(COUNT))


def test_samples_are_views_of_one_batch(ragged: forebay.Dataset) -> None:
    data = forebay.torch.Dataset(ragged)
    samples = data.__getitems__([7, 2, 2])
    assert isinstance(samples, list) and len(samples) == 3
    batch = forebay.torch.collate(samples)
    assert samples[0]["x"].data_ptr() == batch["x"].data_ptr() and [int(s["y"]) for s in samples] == [7, 2, 2]
    assert torch.equal(torch.cat([sample["x"] for sample in samples]), batch["x"])
    with pytest.raises(IndexError):
        data.__getitems__([COUNT])
    with pytest.raises(IndexError):
        data[COUNT]
    # Others are collated as PyTorch does.
    assert forebay.torch.collate([torch.ones(2), torch.ones(2)]).shape == (2, 2)


def test_a_subset_reads_its_samples_in_one_call(ds: forebay.Dataset) -> None:
    loader = DataLoader(Subset(forebay.torch.Dataset(ds), [9, 3, 5]), batch_size=3, collate_fn=forebay.torch.collate)
    (batch,) = loader
    assert batch["label"].tolist() == [9, 3, 5]


@pytest.mark.parametrize(("count", "context"), [*WORKERS, (3, "fork"), pytest.param(1, "fork", marks=pytest.mark.slow)])
@pytest.mark.parametrize("persistent", [pytest.param(False, marks=pytest.mark.slow), True])
def test_workers_share_whole_batches(ds: forebay.Dataset, count: int, context: str | None, persistent: bool) -> None:
    if persistent and count == 0:
        pytest.skip("no workers to persist")
    data = forebay.torch.IterableDataset(ds, batch_size=4, shuffle="full", seed=1)
    loader = DataLoader(data, batch_size=None, persistent_workers=persistent, **workers(count, context))
    orders = []
    for epoch in (0, 1, 1):
        data.set_epoch(epoch)
        seen = []
        for batch in loader:
            assert isinstance(batch, forebay.torch.Batch) and batch.epoch == epoch
            assert (batch["image"].numpy() == images(COUNT)[batch["label"]]).all()
            seen += batch["label"].tolist()
        assert sorted(seen) == list(range(COUNT))
        orders.append(seen)
    assert orders[0] != orders[1] == orders[2]


def test_ranks_refuse_a_shorter_last_batch_before_any_worker_begins(ds: forebay.Dataset) -> None:
    with pytest.raises(ValueError, match="tail='short' for 2 ranks of 1 workers"):
        forebay.torch.IterableDataset(ds, batch_size=4, rank=0, world=2, tail="short")
    with pytest.raises(ValueError, match="24 samples do not fill batches of 5 for 2 ranks"):
        forebay.torch.IterableDataset(ds, batch_size=5, rank=0, world=2)
    with pytest.raises(ValueError, match="'tall'"):
        forebay.torch.IterableDataset(ds, batch_size=5, tail="tall")
    data = forebay.torch.IterableDataset(ds, batch_size=4, tail="short")
    assert sum(batch.size for batch in data) == COUNT
    with pytest.raises(ValueError, match="tail='short' for 1 ranks of 2 workers"):
        list(DataLoader(data, batch_size=None, **workers(2, "fork")))


def test_samples_are_chosen_by_tensors_as_by_arrays(ds: forebay.Dataset) -> None:
    chosen = ds[torch.tensor([3, -1, 0])]
    assert chosen.indices.tolist() == [3, COUNT - 1, 0] == chosen["label"].tolist()
    assert ds[torch.arange(COUNT) % 2 == 0].size == COUNT // 2
    assert ds[torch.tensor(5)]["label"] == 5
    assert ds.batch(torch.tensor([2, 2])).indices.tolist() == [2, 2]


def test_workers_refuse_a_tail_they_cannot_share(ds: forebay.Dataset) -> None:
    def loader(**options: Any) -> Any:
        data = forebay.torch.IterableDataset(ds, batch_size=5, **options)
        return DataLoader(data, batch_size=None, **workers(2, "fork"))

    with pytest.raises(ValueError, match="24 samples do not fill batches of 5 for 1 ranks of 2 workers.*tail="):
        list(loader())
    assert sum(batch.size for batch in loader(drop_last=True)) == 20
    padded = [n for batch in loader(tail="pad") for n in batch.indices.tolist() if n >= 0]
    assert sorted(padded) == list(range(COUNT))
    assert sum(batch.size for batch in forebay.torch.IterableDataset(ds, batch_size=5)) == COUNT


def test_a_dataloader_that_is_left_early_does_not_hang(ds: forebay.Dataset) -> None:
    for data, size in ((forebay.torch.Dataset(ds), 2), (forebay.torch.IterableDataset(ds, batch_size=2), None)):
        loader = DataLoader(data, batch_size=size, **workers(2, "fork"))
        for _ in loader:
            break
        del loader


def test_errors_of_a_worker_keep_their_type(make: Make) -> None:
    path = make("cut.h5", x=np.arange(1 << 16))
    data = forebay.torch.Dataset(forebay.open(path, ["x"]))
    with open(path, "r+b") as raw:
        raw.truncate(path.stat().st_size // 2)
    with pytest.raises(forebay.ForebayError, match=r"cut\.h5"):
        list(DataLoader(data, batch_size=1 << 12, **workers(2, "fork")))
