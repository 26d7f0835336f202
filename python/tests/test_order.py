"""The order of samples: complete, repeatable, independent of threads; and going on from a state."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from conftest import Make
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import forebay

COUNT = 103
SHUFFLES = ["none", "full", "block"]


@pytest.fixture
def ds(make: Make) -> forebay.Dataset:
    """Samples that hold their own numbers, in three files."""
    numbers = np.arange(COUNT)
    parts = [numbers[:40], numbers[40:41], numbers[41:]]
    paths = [make(f"{at}.h5", x=(part, {"chunks": (min(8, len(part)),)})) for at, part in enumerate(parts)]
    return forebay.open(paths, ["x"])


def order_of(loader: forebay.Loader) -> list[int]:
    """The samples of one epoch, whose values are their numbers."""
    order: list[int] = []
    for batch in loader:
        real = batch.indices >= 0
        assert batch["x"][real].tolist() == batch.indices[real].tolist()
        order += batch.indices.tolist()
    return order


@pytest.mark.parametrize("tail", ["drop", "pad", "wrap"])
@pytest.mark.parametrize("world", [1, 2, 3, 5])
@pytest.mark.parametrize("shuffle", SHUFFLES)
def test_every_sample_comes_once_over_all_ranks(ds: forebay.Dataset, shuffle: str, world: int, tail: str) -> None:
    options = {"batch_size": 4, "shuffle": shuffle, "seed": 5, "world": world, "tail": tail, "lanes": 30, "window": 2}
    loaders = [ds.loader(rank=rank, **options) for rank in range(world)]
    assert len({len(loader) for loader in loaders}) == 1
    seen = [number for loader in loaders for number in order_of(loader)]
    real = [number for number in seen if number >= 0]
    step = 4 * world
    if tail == "drop":
        assert len(real) == len(set(real)) == COUNT // step * step
    else:
        assert len(seen) == -(-COUNT // step) * step and set(real) == set(range(COUNT))
    if tail == "pad":
        assert len(real) == COUNT


@pytest.mark.parametrize("shuffle", SHUFFLES)
def test_one_rank_alone_may_have_a_short_last_batch(ds: forebay.Dataset, shuffle: str) -> None:
    loader = ds.loader(batch_size=10, shuffle=shuffle)
    sizes = [batch.size for batch in loader]
    assert sizes == [10] * 10 + [3] and len(loader) == 11
    with pytest.raises(forebay.InvalidError, match="samples do not divide into 2 ranks x .*tail='drop'"):
        len(ds.loader(batch_size=10, world=2))


@pytest.mark.parametrize("shuffle", SHUFFLES)
def test_the_order_does_not_depend_on_the_threads(ds: forebay.Dataset, shuffle: str) -> None:
    orders = [
        order_of(ds.loader(batch_size=7, shuffle=shuffle, seed=9, read_threads=threads, prefetch=prefetch))
        for threads in (1, 2, 5)
        for prefetch in (1, 8)
    ]
    assert all(order == orders[0] for order in orders)
    assert (orders[0] == sorted(orders[0])) == (shuffle == "none")


def test_epochs_and_seeds_have_orders_of_their_own(ds: forebay.Dataset) -> None:
    loader = ds.loader(batch_size=8, shuffle="full", seed=1)
    first, second = order_of(loader), order_of(loader)
    assert first != second and sorted(first) == sorted(second)
    assert order_of(ds.loader(batch_size=8, shuffle="full", seed=2)) != first
    loader.set_epoch(0)
    assert order_of(loader) == first
    loader.set_epoch(1)
    assert order_of(loader) == second
    assert order_of(ds.loader(batch_size=5, shuffle=True, seed=1)) == first


def test_seeds_belong_to_sample_and_epoch_alone(ds: forebay.Dataset) -> None:
    def seeds(**options: Any) -> dict[int, int]:
        loader = ds.loader(seed=3, **options)
        loader.set_epoch(2)
        return {int(n): int(s) for batch in loader for n, s in zip(batch.indices, batch.seeds)}

    first = seeds(batch_size=4)
    assert len(set(first.values())) == COUNT
    assert seeds(batch_size=9, shuffle="full", read_threads=3) == first
    other = ds.loader(seed=4, batch_size=4)
    other.set_epoch(2)
    assert int(next(iter(other)).seeds[0]) != first[0]
    # They must stay what they are from version to version.
    assert first[0] == GOLDEN_SEED


GOLDEN_SEED = 13829258079976668481


@pytest.mark.parametrize("shuffle", SHUFFLES)
def test_a_run_goes_on_from_every_step(ds: forebay.Dataset, shuffle: str) -> None:
    options: dict[str, Any] = {"batch_size": 9, "shuffle": shuffle, "seed": 4}
    loader = ds.loader(**options)
    whole = [batch.indices.tolist() for batch in loader] + [batch.indices.tolist() for batch in loader]
    half = len(whole) // 2
    for stop in range(half + 1):
        loader = ds.loader(prefetch=6, read_threads=2, **options)
        run = iter(loader)
        taken = [next(run).indices.tolist() for _ in range(stop)]
        state = json.loads(json.dumps(loader.state_dict()))
        assert taken == whole[:stop]
        resumed = ds.loader(prefetch=3, **options)
        resumed.load_state_dict(state)
        assert len(resumed) == half
        # After the last batch the state is at the start of the next epoch.
        assert resumed.remaining == half - stop % half
        if stop < half:
            assert [batch.indices.tolist() for batch in resumed] == whole[stop:half]
        assert [batch.indices.tolist() for batch in resumed] == whole[half:]


@pytest.mark.parametrize("tail", ["short", "drop", "pad"])
def test_the_length_is_that_of_a_whole_epoch_and_the_rest_is_told_apart(ds: forebay.Dataset, tail: str) -> None:
    loader = ds.loader(batch_size=9, shuffle="full", tail=tail)
    count = COUNT // 9 if tail == "drop" else -(-COUNT // 9)
    assert len(loader) == loader.remaining == count
    for number, _ in enumerate(loader, 1):
        assert len(loader) == count and loader.remaining == (count - number or count)
    assert loader.state_dict()["epoch"] == 1 and loader.remaining == count
    for _ in loader:
        break
    resumed = ds.loader(batch_size=9, shuffle="full", tail=tail)
    resumed.load_state_dict(loader.state_dict())
    assert len(resumed) == count and resumed.remaining == count - 1


@pytest.mark.parametrize("tail", ["short", "drop", "pad", "wrap"])
def test_a_state_taken_after_the_last_batch_begins_the_next_epoch(ds: forebay.Dataset, tail: str) -> None:
    loader = ds.loader(batch_size=10, shuffle="full", tail=tail)
    states = [loader.state_dict() for _ in loader]
    assert (states[-1]["epoch"], states[-1]["position"]) == (1, 0) and states[-2]["epoch"] == 0
    assert loader.state_dict() == states[-1]
    resumed = ds.loader(batch_size=10, shuffle="full", tail=tail)
    resumed.load_state_dict(states[-1])
    first = next(iter(resumed))
    assert first.epoch == 1 and first.indices.tolist() == next(iter(loader)).indices.tolist()


def test_a_run_may_be_resumed_twice_and_from_another_order(ds: forebay.Dataset) -> None:
    options: dict[str, Any] = {"batch_size": 9, "shuffle": "full", "seed": 4}
    whole = order_of(ds.loader(**options))
    loader = ds.loader(**options)
    run = iter(loader)
    taken = [n for _ in range(2) for n in next(run).indices.tolist()]
    # The state's own seed and shuffle count, not those of the new loader.
    second = ds.loader(batch_size=5, shuffle="none", seed=99)
    second.load_state_dict(loader.state_dict())
    run = iter(second)
    taken += [n for _ in range(3) for n in next(run).indices.tolist()]
    third = ds.loader(**options)
    third.load_state_dict(second.state_dict())
    assert taken + order_of(third) == whole


def test_another_number_of_ranks_goes_on_with_the_same_samples(ds: forebay.Dataset) -> None:
    def steps(state: Any, world: int, count: int | None) -> tuple[list[int], Any]:
        seen: list[int] = []
        states = []
        for rank in range(world):
            loader = ds.loader(batch_size=4, shuffle="full", seed=6, rank=rank, world=world, tail="pad")
            if state is not None:
                loader.load_state_dict(state)
            for number, batch in enumerate(loader):
                seen += batch.indices[batch.indices >= 0].tolist()
                if number + 1 == count:
                    states.append(loader.state_dict())
                    break
        assert all(one == states[0] for one in states)
        return seen, states[0] if states else None

    one, state = steps(None, 1, 5)
    three, state = steps(state, 3, 3)
    two, _ = steps(state, 2, None)
    whole = order_of(ds.loader(batch_size=4, shuffle="full", seed=6))
    assert one == whole[:20] and sorted(three) == sorted(whole[20:56]) and sorted(two) == sorted(whole[56:])


def test_setting_the_epoch_of_a_loaded_state_keeps_its_place(ds: forebay.Dataset) -> None:
    loader = ds.loader(batch_size=9, shuffle="full")
    loader.set_epoch(3)
    run = iter(loader)
    next(run)
    state = loader.state_dict()
    rest = [n for batch in run for n in batch.indices.tolist()]
    resumed = ds.loader(batch_size=9, shuffle="full")
    resumed.load_state_dict(state)
    resumed.set_epoch(3)
    assert order_of(resumed) == rest


def test_a_loader_is_pickled_with_its_place(ds: forebay.Dataset) -> None:
    loader = ds.loader(batch_size=9, shuffle="full", seed=8)
    run = iter(loader)
    next(run)
    copy = pickle.loads(pickle.dumps(loader))
    assert order_of(copy) == [n for batch in run for n in batch.indices.tolist()]


def test_data_sets_and_batches_are_pickled(ds: forebay.Dataset) -> None:
    copy = pickle.loads(pickle.dumps(ds))
    assert copy.fingerprint == ds.fingerprint and copy[:]["x"].tolist() == list(range(COUNT))
    batch = next(iter(ds.loader(batch_size=5, shuffle="full")))
    copied = pickle.loads(pickle.dumps(batch))
    assert isinstance(copied, forebay.Batch) and copied["x"].tolist() == batch["x"].tolist()
    for name in ("indices", "seeds"):
        assert getattr(copied, name).tolist() == getattr(batch, name).tolist()
    assert (copied.epoch, copied.step, copied.skipped) == (batch.epoch, batch.step, batch.skipped)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    count=st.integers(1, 200), chunk=st.integers(1, 50), batch_size=st.integers(1, 40),
    shuffle=st.sampled_from(SHUFFLES), seed=st.integers(0, 2**64 - 1), stop=st.integers(0, 9), window=st.integers(1, 3),
)  # fmt: skip
def test_any_run_is_complete_and_resumes(
    tmp_path: Path, count: int, chunk: int, batch_size: int, shuffle: str, seed: int, stop: int, window: int
) -> None:
    path = tmp_path / "any.h5"
    with h5py.File(path, "w") as file:
        file.create_dataset("x", data=np.arange(count), chunks=(min(chunk, count),))
    ds = forebay.open(path, ["x"])
    options: dict[str, Any] = {"batch_size": batch_size, "shuffle": shuffle, "seed": seed, "window": window}
    whole = order_of(ds.loader(**options))
    assert sorted(whole) == list(range(count))
    loader = ds.loader(**options)
    taken: list[int] = []
    for _, batch in zip(range(stop), loader):
        taken += batch.indices.tolist()
    resumed = ds.loader(**options)
    resumed.load_state_dict(loader.state_dict())
    if 0 < len(taken) < count:
        assert taken + order_of(resumed) == whole


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    count=st.integers(1, 120), chunk=st.integers(1, 50), shuffle=st.sampled_from(SHUFFLES), seed=st.integers(0, 9),
    runs=st.lists(st.tuples(st.integers(1, 4), st.integers(1, 9), st.integers(1, 6)), min_size=1, max_size=6),
)  # fmt: skip
def test_any_change_of_ranks_and_batches_covers_the_epoch(
    tmp_path: Path, count: int, chunk: int, shuffle: str, seed: int, runs: list[tuple[int, int, int]]
) -> None:
    path = tmp_path / "any.h5"
    with h5py.File(path, "w") as file:
        file.create_dataset("x", data=np.arange(count), chunks=(min(chunk, count),))
    ds = forebay.open(path, ["x"])
    options: dict[str, Any] = {"shuffle": shuffle, "seed": seed, "lanes": 12}
    whole = order_of(ds.loader(batch_size=7, **options))
    seen: list[int] = []
    state = None
    for world, batch_size, steps in runs:
        states = []
        for rank in range(world):
            loader = ds.loader(batch_size=batch_size, rank=rank, world=world, tail="pad", **options)
            if state is not None:
                loader.load_state_dict(state)
            for _, batch in zip(range(steps), loader):
                seen += batch.indices[batch.indices >= 0].tolist()
            states.append(loader.state_dict())
        state = states[0]
        assert all(other == state for other in states)
        if state["epoch"] > 0 or state["position"] == count:
            assert sorted(seen) == list(range(count))
            break
        assert sorted(seen) == sorted(whole[: state["position"]])
