"""The life of a loader: epochs that flow into each other, what it tells of itself, and memory that it gives back."""

from __future__ import annotations

import inspect
import pickle
from typing import Any

import numpy as np
import pytest
import torch
from conftest import Make
from torch.utils.data import DataLoader

import forebay
import forebay.torch

COUNT = 50


@pytest.fixture
def ds(make: Make) -> forebay.Dataset:
    values = np.arange(COUNT * 6, dtype=np.float32).reshape(COUNT, 6)
    return forebay.open(make(x=(values, {"chunks": (5, 6), "compression": "gzip"}), label=np.arange(COUNT)), ["x"], "label")


def by_epochs(ds: forebay.Dataset, epochs: int, **options: Any) -> list[tuple[int, int, list[int]]]:
    """Epoch, step and samples of each batch, epoch by epoch."""
    loader = ds.loader(**options)
    return [(batch.epoch, batch.step, batch.indices.tolist()) for _ in range(epochs) for batch in loader]


@pytest.mark.parametrize("shuffle", ["full", "block", "none"])
@pytest.mark.parametrize("more", [{}, {"prefetch": 0}, {"read_threads": 1}, {"tail": "drop"}])
def test_epochs_that_flow_have_the_batches_of_epochs_that_are_begun_one_by_one(
    ds: forebay.Dataset, shuffle: str, more: dict[str, Any]
) -> None:
    options = {"batch_size": 7, "shuffle": shuffle, "seed": 4, **more}
    expected = by_epochs(ds, 4, **options)
    told = lambda batches: [(batch.epoch, batch.step, batch.indices.tolist()) for batch in batches]
    assert told(ds.loader(**options, epochs=4)) == expected
    loader = ds.loader(**options)
    # Each call goes on where the one before ended, whether or not that is inside an epoch.
    seen = [told(loader.steps(count)) for count in (0, 3, 1, 9, len(expected) - 13)]
    assert [samples for some in seen for _, _, samples in some] == [samples for _, _, samples in expected]
    assert (loader.epoch, loader.step, loader.remaining) == (4, 0, len(loader))
    endless = iter(ds.loader(**options, epochs=None))
    assert told(next(endless) for _ in expected) == expected
    endless.close()


def test_a_state_taken_while_the_next_epoch_is_made_ahead_resumes_after_what_was_received(ds: forebay.Dataset) -> None:
    options: dict[str, Any] = {"batch_size": 4, "shuffle": "full", "seed": 9}
    loader = ds.loader(**options, epochs=None)
    run, seen = iter(loader), []
    for step in range(40):
        seen.append(next(run).indices.tolist())
        other = ds.loader(**options)
        other.load_state_dict(loader.state_dict())
        assert next(iter(other)).indices.tolist() == _flat(ds, options)[step + 1]
    assert seen == _flat(ds, options)[:40]
    run.close()


def _flat(ds: forebay.Dataset, options: dict[str, Any]) -> list[list[int]]:
    return [samples for _, _, samples in by_epochs(ds, 4, **options)]


def test_an_epoch_that_is_set_meanwhile_comes_next(ds: forebay.Dataset) -> None:
    loader = ds.loader(batch_size=10, shuffle="full", epochs=None)
    epochs = []
    for step, batch in enumerate(loader):
        epochs.append(batch.epoch)
        if step == 4:
            loader.set_epoch(7)
        if step == 9:
            break
    assert epochs == [0] * 5 + [7] * 5


def test_errors_of_epochs(ds: forebay.Dataset) -> None:
    with pytest.raises(ValueError, match="epochs=0"):
        ds.loader(epochs=0)
    loader = ds.loader(batch_size=10, epochs=2)
    first = iter(loader)
    next(first)
    second = iter(loader)
    next(second)
    with pytest.raises(forebay.InvalidError, match="ended by another"):
        list(first)


def test_a_loader_tells_where_it_is_and_what_it_takes(ds: forebay.Dataset) -> None:
    loader = ds.loader(batch_size=7, rank=1, world=2, tail="drop", read_threads=2, memory="32MiB")
    assert (loader.rank, loader.world, loader.epoch, loader.step, loader.threads) == (1, 2, 0, 0, 2)
    assert loader.memory == 32 << 20 and loader.remaining == len(loader) == 3
    run = iter(loader)
    batch = next(run)
    assert (loader.epoch, loader.step, loader.remaining) == (0, 1, 2)
    assert batch.make_seconds > 0 and batch.wait_seconds >= 0
    other = pickle.loads(pickle.dumps(batch))
    assert other.make_seconds == batch.make_seconds
    assert "step 1 of 3" in repr(loader) and "batches of 7" in repr(loader)
    for name in ("rank", "epoch", "memory"):
        with pytest.raises(AttributeError):
            setattr(loader, name, 1)


def test_notebooks_show_tables(ds: forebay.Dataset) -> None:
    loader = forebay.torch.Loader(ds, batch_size=7)
    batch = next(iter(loader))
    for shown, words in ((ds, ["x", "label", "50 samples"]), (batch, ["float32", "[7, 6]"]), (loader, ["batch_size", "of 8"])):
        text = shown._repr_html_()
        assert text.startswith("<div>") and all(word in text for word in words), text
    batch["note"] = ["anything"]
    assert "note: list" in repr(batch)
    ds.close()
    assert "closed" in ds._repr_html_()


def test_a_loader_that_was_closed_has_given_its_memory_back_and_goes_on(ds: forebay.Dataset) -> None:
    with ds.loader(batch_size=7, shuffle="full") as loader:
        first = [batch.indices.tolist() for batch in loader]
    decoded = loader.stats()["decoded_units"]
    loader.set_epoch(0)
    assert [batch.indices.tolist() for batch in loader] == first
    assert loader.stats()["decoded_units"] == 2 * decoded, "decoded units were given back"


@pytest.mark.parametrize("tail", [None, "drop", "pad", "wrap"])
@pytest.mark.parametrize("batch_size", [1, 8, 10, 60])
def test_the_length_of_an_iterable_dataset_is_how_many_batches_come(ds: forebay.Dataset, tail: str | None, batch_size: int) -> None:
    once = np.r_[np.ones(11), np.zeros(COUNT - 11)]
    kinds: list[tuple[Any, dict[str, Any]]] = [
        (ds, {}),
        (ds, {"weights": np.ones(COUNT)}),
        (ds, {"weights": np.ones(COUNT), "epoch_samples": 30}),
        (ds, {"weights": once, "replacement": False}),
        (ds, {"weights": once, "replacement": False, "epoch_samples": 9}),
        (ds, {"balance": np.arange(COUNT) % 3}),
        (ds, {"balance": "label", "epoch_samples": 133}),
        (ds, {"bucket_by": "label"}),
        (forebay.mix({ds: 1, ds.take(slice(0, 10)): 1}), {}),
        (forebay.mix({ds: 1, ds.take(slice(0, 10)): 1}, length=77), {}),
    ]
    for data, options in kinds:
        made = forebay.torch.IterableDataset(data, batch_size=batch_size, tail=tail, **options)
        assert len(made) == len(DataLoader(made, batch_size=None)) == sum(1 for _ in made), options
    for rank in (0, 1):
        made = forebay.torch.IterableDataset(
            ds, batch_size=batch_size, tail=tail or "pad", rank=rank, world=2, weights=np.ones(COUNT), epoch_samples=29
        )
        assert len(made) == sum(1 for _ in made)


def test_drawn_samples_that_do_not_fill_batches_on_all_ranks_are_refused_when_it_is_made(ds: forebay.Dataset) -> None:
    options: dict[str, Any] = {"batch_size": 5, "rank": 0, "world": 2, "weights": np.ones(COUNT)}
    with pytest.raises(ValueError, match="33 samples do not fill batches of 5 for 2 ranks"):
        forebay.torch.IterableDataset(ds, **options, epoch_samples=33)
    assert len(forebay.torch.IterableDataset(ds, **options, epoch_samples=30)) == 3


def test_an_iterable_dataset_has_a_length_and_a_state(ds: forebay.Dataset) -> None:
    made = lambda: forebay.torch.IterableDataset(ds, batch_size=8, shuffle="full", tail="drop")
    assert len(made()) == len(DataLoader(made(), batch_size=None)) == 6
    assert len(forebay.torch.IterableDataset(ds, batch_size=8)) == 7
    first = made()
    run = iter(first)
    seen = [next(run).indices.tolist() for _ in range(2)]
    state = first.state_dict()
    rest = [batch.indices.tolist() for batch in run]
    other = made()
    assert other.state_dict() == {}
    other.load_state_dict(state)
    assert [batch.indices.tolist() for batch in other] == rest and len(seen + rest) == 6


@pytest.mark.filterwarnings("ignore:'set_vital' is deprecated:UserWarning")
def test_torchdata_resumes_its_workers(ds: forebay.Dataset) -> None:
    stateful = pytest.importorskip("torchdata.stateful_dataloader")
    made = lambda: stateful.StatefulDataLoader(
        forebay.torch.IterableDataset(ds, batch_size=4, shuffle="full", tail="drop"),
        batch_size=None, num_workers=2, multiprocessing_context="fork",
    )  # fmt: skip
    loader = made()
    run = iter(loader)
    for _ in range(5):
        next(run)
    state = loader.state_dict()
    rest = [batch.indices.tolist() for batch in run]
    other = made()
    other.load_state_dict(state)
    assert [batch.indices.tolist() for batch in other] == rest and len(rest) == 7


def test_tensors_have_the_types_and_offsets_of_arrays(make: Make) -> None:
    offsets = np.concatenate([[0], np.cumsum(np.arange(12) % 4)])
    path = make(x=np.arange(offsets[-1] * 2.0).reshape(-1, 2), flag=np.arange(12) % 2 == 0, ptr=offsets)
    ragged = forebay.open(path, ["x", "flag"], samples=forebay.Ragged(offsets={"x": "ptr"}))
    for batch, expected in zip(forebay.torch.Loader(ragged, batch_size=5), ragged.loader(batch_size=5), strict=True):
        assert batch["flag"].dtype == torch.bool and batch["x"].tolist() == expected["x"].tolist()
        assert batch.offsets["x"].dtype == torch.int64 and batch.offsets["x"].tolist() == expected.offsets["x"].tolist()
        assert batch["x"].data_ptr() % 64 == 0


def test_what_type_checkers_know_of_a_torch_loader_is_what_a_loader_takes() -> None:
    from forebay._loader.options import IterationOptions

    taken = set(inspect.signature(forebay.Loader).parameters) - {"dataset", "rank", "world"}
    assert taken == set(IterationOptions.__annotations__)
