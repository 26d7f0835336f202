"""Callables over batches and samples: ahead of the consumer, in order, with errors where they belong."""

from __future__ import annotations

import os
import signal
import threading
import time
import traceback
from typing import Any

import numpy as np
import pytest
from conftest import Make

import forebay

COUNT = 40


@pytest.fixture
def ds(make: Make) -> forebay.Dataset:
    return forebay.open(make(x=np.arange(COUNT * 3).reshape(COUNT, 3), y=np.arange(COUNT)), ["x"], label="y")


def threads_left() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("forebay-map")]


@pytest.mark.parametrize("map_threads", [1, 2, 4])
def test_batches_arrive_in_order_whichever_thread_is_faster(ds: forebay.Dataset, map_threads: int) -> None:
    def slow_at_times(batch: Any) -> Any:
        time.sleep(0.004 if batch.step % 3 == 0 else 0)
        return batch.step, batch.indices.tolist(), (batch["x"] * 2).tolist(), batch.seeds.tolist()

    plain = [
        (b.step, b.indices.tolist(), (b["x"] * 2).tolist(), b.seeds.tolist()) for b in ds.loader(batch_size=3, shuffle="full")
    ]
    loader = ds.loader(batch_size=3, shuffle="full", map=slow_at_times, map_threads=map_threads)
    assert list(loader) == plain and len(loader) == len(plain)
    assert threads_left() == []


def test_a_forked_child_that_goes_on_with_the_iterator_is_refused(ds: forebay.Dataset) -> None:
    # More than once: a thread of the parent holds the lock of its epoch in some of the forks only.
    for _ in range(60):
        run = iter(ds.loader(batch_size=2, map=lambda batch: batch.step))
        assert next(run) == 0
        child = os.fork()
        if child == 0:
            # Ends the child where it would wait for ever.
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.alarm(60)
            try:
                next(run)
            except forebay.InvalidError as error:
                os._exit(0 if "fork" in str(error) else 2)
            os._exit(1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert list(run) == list(range(1, COUNT // 2))


def test_it_runs_ahead_and_the_state_counts_what_was_received(ds: forebay.Dataset) -> None:
    seen: list[int] = []
    reached = threading.Semaphore(0)

    def note(batch: Any) -> Any:
        seen.extend(batch.indices.tolist())
        reached.release()
        return batch

    loader = ds.loader(batch_size=2, map=note, map_threads=2)
    run = iter(loader)
    received = [index for _ in range(3) for index in next(run).indices.tolist()]
    for _ in range(5):
        assert reached.acquire(timeout=300)
    assert len(seen) > len(received) and loader.remaining == COUNT // 2 - 3
    state = loader.state_dict()
    del run
    other = ds.loader(batch_size=2, map=lambda batch: batch.indices.tolist())
    other.load_state_dict(state)
    assert received + [index for batch in other for index in batch] == list(range(COUNT))
    assert threads_left() == []


def test_an_error_is_raised_at_its_batch_with_the_place_it_came_from(ds: forebay.Dataset) -> None:
    def fails_at_four(batch: Any) -> Any:
        if batch.step == 4:
            raise KeyError("the fourth")
        return batch.step

    loader = ds.loader(batch_size=2, map=fails_at_four, map_threads=3)
    received = []
    with pytest.raises(KeyError, match="the fourth") as raised:
        for step in loader:
            received.append(step)
    assert received == [0, 1, 2, 3]
    assert "fails_at_four" in "".join(traceback.format_tb(raised.value.__traceback__))
    assert threads_left() == []
    # The batch was not received: it comes again.
    again = ds.loader(batch_size=2, map=lambda batch: batch.indices[0])
    again.load_state_dict(loader.state_dict())
    assert next(iter(again)) == 8


def test_an_error_of_the_loader_itself_comes_after_what_was_read(make: Make) -> None:
    path = make(x=(np.arange(400.0).reshape(40, 10), {"chunks": (4, 10), "fletcher32": True}))
    ds = forebay.open(path, ["x"])
    import h5py

    with h5py.File(path) as file:
        place = file["x"].id.get_chunk_info(5).byte_offset
    bytes_ = bytearray(path.read_bytes())
    bytes_[place] ^= 0xFF
    path.write_bytes(bytes_)
    ds = forebay.open(path, ["x"])
    received = []
    with pytest.raises(forebay.CorruptError):
        for batch in ds.loader(batch_size=4, map=lambda batch: batch.step, prefetch=0):
            received.append(batch)
    assert received == [0, 1, 2, 3, 4] and threads_left() == []


def test_leaving_early_ends_the_threads_and_the_next_epoch_is_whole(ds: forebay.Dataset) -> None:
    loader = ds.loader(batch_size=2, map=lambda batch: batch.indices.tolist(), map_threads=2)
    for number, _ in enumerate(loader):
        if number == 2:
            break
    loader.close()
    assert threads_left() == []
    loader.set_epoch(5)
    assert sum(len(batch) for batch in loader) == COUNT


@pytest.mark.parametrize("refresh", [False, True])
def test_threads_stay_from_epoch_to_epoch(ds: forebay.Dataset, refresh: bool) -> None:
    called_on: set[int] = set()

    def note(batch: Any) -> Any:
        called_on.add(threading.get_ident())
        return batch.epoch, batch.indices.tolist()

    loader = ds.loader(batch_size=3, shuffle="full", epochs=4, map=note, map_threads=2, refresh=refresh)
    run = iter(loader)
    received = [next(run)]
    started = {thread.ident for thread in threading.enumerate() if thread.name.startswith("forebay-map")}
    received += run
    plain = [(b.epoch, b.indices.tolist()) for b in ds.loader(batch_size=3, shuffle="full", epochs=4)]
    assert received == plain and called_on <= started and len(started) == 2
    assert threads_left() == []


def test_an_error_in_a_later_epoch_is_raised_at_its_batch(ds: forebay.Dataset) -> None:
    def fails_once(batch: Any) -> Any:
        if (batch.epoch, batch.step) == (2, 1):
            raise KeyError("the second of the third")
        return batch.epoch, batch.step

    loader = ds.loader(batch_size=8, epochs=None, map=fails_once, map_threads=3)
    received = []
    with pytest.raises(KeyError, match="the second of the third"):
        for place in loader:
            received.append(place)
    assert received == [(epoch, step) for epoch in range(2) for step in range(5)] + [(2, 0)]
    assert threads_left() == []
    assert (loader.state_dict()["epoch"], loader.state_dict()["position"]) == (2, 8)


def test_a_state_over_the_border_of_epochs_counts_what_was_received(ds: forebay.Dataset) -> None:
    def numbers(epochs: int) -> forebay.Loader:
        return ds.loader(batch_size=7, shuffle="full", epochs=epochs, map=lambda batch: batch.indices.tolist(), map_threads=3)

    whole = [index for batch in numbers(3) for index in batch]
    for count in range(19):
        loader = numbers(3)
        run = iter(loader)
        received = [index for _ in range(count) for index in next(run)]
        state = loader.state_dict()
        run.close()  # type: ignore[attr-defined]
        if state["epoch"] < 3:
            other = numbers(3 - state["epoch"])
            other.load_state_dict(state)
            received += [index for batch in other for index in batch]
        assert received == whole, count


def test_closing_the_loader_ends_the_threads_of_an_iteration_that_is_kept(ds: forebay.Dataset) -> None:
    loader = ds.loader(batch_size=2, epochs=None, map=lambda batch: batch.step, map_threads=2)
    run = iter(loader)
    assert next(run) == 0 and len(threads_left()) == 2
    loader.close()
    assert threads_left() == []


def test_samples_are_mapped_one_by_one_and_stacked_again(ds: forebay.Dataset) -> None:
    def jitter(sample: forebay.Sample) -> dict[str, Any]:
        noise = np.random.default_rng(sample.seed).normal()
        return {"x": sample["x"] + noise, "y": sample["y"], "index": sample.index}

    loader = ds.loader(batch_size=6, shuffle="full", sample_map=jitter)
    for batch in loader:
        assert isinstance(batch, forebay.Batch) and batch["index"].tolist() == batch.indices.tolist()
        noise = np.array([np.random.default_rng(seed).normal() for seed in batch.seeds])
        assert (batch["x"] == ds.batch(batch.indices)["x"] + noise[:, None]).all()
        assert (batch["y"] == batch.indices).all()


def test_collate_is_given_all_samples_of_a_batch(ds: forebay.Dataset) -> None:
    loader = ds.loader(batch_size=8, sample_map=lambda sample: int(sample["y"]), collate=sorted, map=tuple)
    assert list(loader) == [tuple(range(at, at + 8)) for at in range(0, COUNT, 8)]


def test_tuples_have_the_fields_in_order(ds: forebay.Dataset) -> None:
    for x, y in ds.loader(batch_size=8, as_tuple=True):
        assert (x[:, 0] == 3 * y).all()
    (pairs,) = ds.loader(batch_size=COUNT, as_tuple=True, fields=["y", "x"])
    assert pairs[0].ndim == 1 and pairs[1].ndim == 2
    for x, y in ds.loader(batch_size=8, as_tuple=True, map=lambda batch: {"x": batch["x"] + 1, "y": batch["y"]}):
        assert (x[:, 0] == 3 * y + 1).all()


def test_a_store_maps_as_files_do(ds: forebay.Dataset) -> None:
    with forebay.Store() as store:
        store.fill(ds)
        assert [y for batch in store.loader(batch_size=8, map=lambda b: b["y"].tolist()) for y in batch] == list(range(COUNT))


def test_what_cannot_be_called_is_refused(ds: forebay.Dataset) -> None:
    with pytest.raises(TypeError, match="map='x' cannot be called"):
        ds.loader(map="x")
    with pytest.raises(ValueError, match="map_threads"):
        ds.loader(map=len, map_threads=0)


@pytest.mark.parametrize("kind", ["numpy", "torch"])
def test_whole_numbers_of_samples_are_stacked_as_they_are(ds: forebay.Dataset, kind: str) -> None:
    loader_of = forebay.Loader
    if kind == "torch":
        pytest.importorskip("torch")
        loader_of = pytest.importorskip("forebay.torch").Loader
    given = {"below": lambda seed: seed >> 1, "mixed": lambda seed: seed, "small": lambda seed: -(seed & 7), "over": lambda seed: seed << 3}
    loader = loader_of(ds, batch_size=COUNT, sample_map=lambda one: {name: of(one.seed) for name, of in given.items()})
    (batch,) = loader
    seeds = [int(seed) for seed in batch.seeds]
    assert min(seeds) < 2**63 < max(seeds)
    for name, of in given.items():
        assert [int(value) for value in np.asarray(batch[name])] == [of(seed) for seed in seeds], name
    assert str(batch["below"].dtype).endswith("int64") and str(batch["mixed"].dtype).endswith("uint64")


@pytest.fixture
def ragged(make: Make) -> forebay.Dataset:
    lens = np.array([3, 1, 0, 5])
    edges = np.arange(18).reshape(2, 9)
    path = make(v=np.arange(18.0).reshape(9, 2), e=edges, n=lens, y=np.arange(4))
    return forebay.open(path, ["v", "e"], label="y", samples=forebay.Ragged(lengths="n", axis={"v": 0, "e": 1}))


def test_samples_of_different_lengths_are_filled_up(ragged: forebay.Dataset) -> None:
    (batch,) = ragged.loader(batch_size=4)
    padded, mask = batch.padded("v", -1.0, multiple_of=4), batch.mask("v", multiple_of=4)
    assert padded.shape == (4, 8, 2) and mask.shape == (4, 8) and padded.dtype == np.float64
    assert mask.sum(1).tolist() == [3, 1, 0, 5] and (padded[~mask] == -1).all()
    assert (padded[mask] == batch["v"]).all()
    edges = batch.padded("e")
    assert edges.shape == (4, 2, 5) and edges[3].tolist() == batch["e"][:, 4:].tolist()
    assert ragged.batch([3, 1]).padded("v").shape == (2, 5, 2)
    with pytest.raises(ValueError, match="do not differ in length"):
        batch.padded("y")
    with pytest.raises(TypeError, match=r"forebay\.torch"):
        batch.nested("v")


def test_tensors_are_filled_up_and_nested(ragged: forebay.Dataset) -> None:
    torch = pytest.importorskip("torch")
    import forebay.torch

    (batch,) = forebay.torch.Loader(ragged, batch_size=4)
    padded, mask = batch.padded("v", 0), batch.mask("v")
    assert padded.shape == (4, 5, 2) and mask.dtype == torch.bool and torch.equal(padded[mask], batch["v"])
    nested = batch.nested("v")
    assert nested.is_nested and [len(one) for one in nested.unbind()] == [3, 1, 0, 5]
    assert torch.equal(torch.cat(list(nested.unbind())), batch["v"])
    mapped = forebay.torch.Loader(ragged, batch_size=4, map=lambda batch: batch.padded("v").sum(), as_tuple=True)
    assert [float(one) for one in mapped] == [float(np.arange(18).sum())]
    stacked = forebay.torch.Loader(ragged, batch_size=2, sample_map=lambda sample: {"y": sample["y"] * 2, "i": sample.index})
    assert [batch["y"].tolist() for batch in stacked] == [[0, 2], [4, 6]]
