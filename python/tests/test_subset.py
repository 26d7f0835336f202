"""Subsets of a set, and samples that are drawn: by number, chance, file, time, value, weight, class and length."""

from __future__ import annotations

import collections
import pickle
import re
import warnings
from collections.abc import Iterator
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
LENS = [40, 1, 62]
DOC = Path(__file__).parents[2] / "docs" / "samples.md"


def opened(make: Make, first: int = 0, prefix: str = "") -> forebay.Dataset:
    """Samples that hold their own numbers from ``first`` on, in three files; ``kind`` is the number modulo 4, some are longer."""
    numbers = np.arange(first, first + COUNT)
    paths = []
    for at, part in enumerate(np.split(numbers, np.cumsum(LENS)[:-1])):
        lens = part % 7
        paths.append(
            make(
                f"{prefix}{at}.h5",
                x=(part, {"chunks": (min(8, len(part)),)}),
                kind=part % 4,
                atoms=np.repeat(part, lens),
                ptr=np.r_[0, np.cumsum(lens)],
            )
        )
    atoms = forebay.Field("atoms", samples=forebay.Ragged(offsets="ptr"))
    return forebay.open(paths, ["x", atoms], label="kind")


@pytest.fixture(params=["files", "store"])
def ds(request: pytest.FixtureRequest, make: Make) -> Iterator[Any]:
    """The samples by each maker of batches."""
    files = opened(make)
    if request.param == "files":
        yield files
        return
    with forebay.Store() as store:
        store.fill(files)
        yield store


def samples_of(loader: forebay.Loader, steps: int | None = None) -> list[int]:
    """The samples of an epoch, by their values; all fields belong together, and ``indices`` name them in the set."""
    found: list[int] = []
    for batch in loader:
        real = batch.indices >= 0
        values = batch["x"][real]
        dataset: Any = loader.dataset
        base = dataset.base_indices(batch.indices[real]) if isinstance(dataset, forebay.Subset) else batch.indices[real]
        assert values.tolist() == base.tolist()
        assert (batch["kind"][real] == values % 4).all()
        assert batch["atoms"].tolist() == np.repeat(values, values % 7).tolist()
        found += values.tolist()
        if batch.step + 1 == steps:
            break
    return found


def all_ranks(dataset: Any, world: int, states: dict[str, Any] | None = None, steps: int | None = None, **options: Any) -> Any:
    """What all ranks get, from a state on and for some steps, and the state after that."""
    found: list[int] = []
    state: dict[str, Any] = {}
    for rank in range(world):
        options = {"batch_size": 4, "seed": 3, "tail": "pad", **options}
        loader = dataset.loader(rank=rank, world=world, **options)
        if states is not None:
            loader.load_state_dict(states)
        found += samples_of(loader, steps)
        state = loader.state_dict()
        loader.close()
    return found, state


def assert_comes(dataset: Any, wanted: list[int], **options: Any) -> None:
    """Each sample comes as often as ``wanted`` says, on several worlds, and after a resume by another world."""
    for world, other in ((1, 2), (3, 1), (5, 3)):
        whole, _ = all_ranks(dataset, world, **options)
        assert collections.Counter(whole) == collections.Counter(wanted)
        first, state = all_ranks(dataset, world, steps=2, **options)
        # After its last batch a state is at the start of the next epoch.
        rest = all_ranks(dataset, other, state, **options)[0] if state["epoch"] == 0 else []
        assert collections.Counter(first + rest) == collections.Counter(wanted)


def parts() -> list[tuple[Any, Any]]:
    mask = np.arange(COUNT) % 3 == 1
    some = [9, 2, 2, -1, 50, 50, 50, 7]
    return [
        (slice(10, 90, 3), range(10, 90, 3)),
        (slice(None, None, -1), range(COUNT)[::-1]),
        (mask, np.flatnonzero(mask)),
        (some, np.arange(COUNT)[some]),
        (np.array([5, 90, 41], np.uint16), [5, 90, 41]),
    ]


@pytest.mark.parametrize("number", range(len(parts())))
def test_what_is_taken_comes_as_often_as_it_is_named(ds: Any, number: int) -> None:
    which, wanted = parts()[number]
    taken = ds.take(which)
    assert len(taken) == len(wanted) and taken.indices.tolist() == list(wanted)
    assert samples_of(taken.loader(batch_size=7)) == list(wanted)
    for shuffle in ("full", "block") if number in (1, 3) else ("full",):
        assert_comes(taken, list(wanted), shuffle=shuffle, **({"lanes": 30} if shuffle == "block" else {}))


def test_a_subset_is_indexed_by_its_own_numbers(ds: Any) -> None:
    taken = ds.take([50, 7, 7, 101])
    assert taken[0]["x"] == 50 and taken[-1]["x"] == 101 and taken[1]["atoms"].tolist() == []
    batch = taken[[3, 0]]
    assert batch["x"].tolist() == [101, 50] and batch.indices.tolist() == [3, 0]
    assert taken.base_indices(batch.indices).tolist() == [101, 50]
    assert taken.base_indices([-1, 1]).tolist() == [-1, 7]
    assert [sample["x"] for sample in taken.__getitems__([1, 2])] == [7, 7]
    assert [int(sample["x"]) for sample in taken] == [50, 7, 7, 101]
    assert taken.fields == ds.fields and taken.label == "kind" and "4 samples" in repr(taken)


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_what_is_taken_of_what_was_taken_is_as_numpy_has_it(ds: Any, data: st.DataObject) -> None:
    taken, wanted = ds, np.arange(COUNT)
    for _ in range(3):
        if len(wanted) == 0:
            break
        if data.draw(st.booleans()):
            which: Any = data.draw(st.slices(len(wanted)))
        else:
            which = data.draw(st.lists(st.integers(-len(wanted), len(wanted) - 1), max_size=30))
            which = np.array(which, np.int64)
        taken, wanted = taken.take(which), wanted[which]
    if taken is not ds:
        assert taken.indices.tolist() == wanted.tolist()
        if len(wanted):
            assert taken.batch(range(len(wanted)))["x"].tolist() == wanted.tolist()


def test_the_parts_of_a_split_share_nothing_and_lack_nothing(ds: Any) -> None:
    train, test = ds.split([0.8, 0.2], seed=3)
    assert (len(train), len(test)) == (82, 21)
    assert sorted([*train.indices, *test.indices]) == list(range(COUNT))
    assert np.diff(train.indices).min() > 0
    again, _ = ds.split([0.8, 0.2], seed=3)
    other, _ = ds.split([0.8, 0.2], seed=4)
    assert again.indices.tolist() == train.indices.tolist() != other.indices.tolist()
    assert [len(part) for part in ds.split([0.5, 0.25])] == [52, 25]
    assert [len(part) for part in ds.split([100, 3])] == [100, 3]
    assert_comes(train, train.indices.tolist(), shuffle="full")
    assert_comes(test, test.indices.tolist(), shuffle="block", lanes=30)


def test_a_split_by_file_keeps_files_together_and_one_by_time_keeps_the_order(ds: Any) -> None:
    starts = np.r_[0, np.cumsum(LENS)]
    small, large = ds.split([0.4, 0.6], seed=1, by="file")
    for part in (small, large):
        files = set(np.searchsorted(starts, part.indices, side="right"))
        assert len(part) == sum(LENS[file - 1] for file in files) > 0
    assert sorted([*small.indices, *large.indices]) == list(range(COUNT))
    first, second, third = ds.split([0.5, 0.3, 0.2], by="time", gap=4)
    assert first.indices.tolist() == list(range(52))
    assert second.indices.tolist() == list(range(56, 82)) and third.indices.tolist() == list(range(86, COUNT))
    again, _ = large.split([0.5, 0.5], by="time")
    assert again.indices.tolist() == large.indices.tolist()[: len(again)]
    with pytest.raises(ValueError, match="has no file"):
        ds.split([0.25] * 4, by="file")


def test_where_chooses_by_the_values_of_a_field(ds: Any) -> None:
    values = np.arange(COUNT)
    assert ds.where("x", (">=", 50)).indices.tolist() == list(range(50, COUNT))
    assert ds.where("kind", ("in", [1, 3])).indices.tolist() == values[values % 2 == 1].tolist()
    assert ds.where("x", lambda x: x % 5 == 0).indices.tolist() == list(range(0, COUNT, 5))
    long = ds.where("atoms", lambda samples: np.array([len(one) > 4 for one in samples]))
    assert long.indices.tolist() == values[values % 7 > 4].tolist()
    both = ds.where("x", ("<", 60)).where("kind", ("==", 2))
    assert both.indices.tolist() == list(range(2, 60, 4))
    assert len(ds.where("x", ("<", 0))) == 0


@pytest.mark.parametrize("as_given", [set, frozenset, lambda among: dict.fromkeys(among).keys(), dict.fromkeys, tuple, iter, np.array])
@pytest.mark.parametrize("among", [[1, 2], [], [0, 1, 2, 3], ["a", "c"]])
def test_where_looks_among_the_values_of_any_collection(make: Make, among: list[Any], as_given: Any) -> None:
    values = np.arange(12) % 4
    names = [["a", "b", "c", "d"][value] for value in values]
    path = make("among.h5", y=values, t=np.array(names, h5py.string_dtype()), s=np.array(names, "S1"))
    ds = forebay.open(path, ["y", "t", "s"])
    fields = {"y": values.tolist()} if among and among != ["a", "c"] else {"t": names, "s": names}
    for field, has in fields.items():
        expected = [number for number, value in enumerate(has) if value in among]
        if among or as_given is not np.array:
            assert ds.where(field, ("in", as_given(among))).indices.tolist() == expected
            others = sorted(set(range(12)) - set(expected))
            assert ds.where(field, ("not in", as_given(among))).indices.tolist() == others


def test_weights_without_replacement_bring_each_sample_once(ds: Any) -> None:
    weights = np.arange(COUNT) % 5
    assert_comes(ds, np.flatnonzero(weights).tolist(), weights=weights, replacement=False)
    train, _ = ds.split([0.5, 0.5])
    assert_comes(train, train.indices.tolist(), weights=np.ones(len(train)), replacement=False)


def test_weights_with_replacement_are_chances(ds: Any) -> None:
    weights = np.where(np.arange(COUNT) < 3, 1.0, 0.0)
    drawn = samples_of(ds.loader(batch_size=64, weights=weights, epoch_samples=3000))
    assert len(drawn) == 3000 and set(drawn) == {0, 1, 2}
    # Six deviations of 1000 of 3000 are 155.
    assert all(abs(drawn.count(one) - 1000) < 155 for one in range(3))
    assert_comes(ds, samples_of(ds.loader(batch_size=4, seed=3, weights=weights)), weights=weights)


def test_balanced_classes_come_equally_often(ds: Any) -> None:
    few = ds.where("x", lambda x: (x % 4 != 3) | (x == 7))
    loader = few.loader(batch_size=8, balance="kind", epoch_samples=400)
    drawn = samples_of(loader)
    kinds = collections.Counter(one % 4 for one in drawn)
    assert kinds == {0: 100, 1: 100, 2: 100, 3: 100} and drawn.count(7) == 100
    # Of 26 samples of a class that come 100 times, each comes three or four times.
    assert {drawn.count(one) for one in range(0, COUNT, 4)} == {3, 4}
    assert len(few.loader(balance=np.zeros(len(few)))) == len(few)
    assert_comes(few, samples_of(few.loader(seed=3, balance="kind")), balance="kind")


@pytest.mark.parametrize("by", ["atoms", "array", "x"])
def test_buckets_bring_each_sample_once_beside_others_of_its_length(ds: Any, by: str) -> None:
    lens = np.arange(COUNT) if by == "x" else np.arange(COUNT) % 7
    given = lens if by == "array" else by
    assert_comes(ds, list(range(COUNT)), bucket_by=given)
    loader = ds.loader(batch_size=4, bucket_by=given)
    spreads = [int(np.ptp(lens[batch.indices])) for batch in loader]
    shuffled = [int(np.ptp(lens[batch.indices])) for batch in ds.loader(batch_size=4, shuffle="full")]
    assert np.mean(spreads) < np.mean(shuffled) / 2
    orders = [[tuple(batch.indices) for batch in loader] for _ in range(2)]
    assert orders[0] != orders[1]


def test_a_state_of_another_subset_or_other_draws_is_refused(ds: Any) -> None:
    train, test = ds.split([0.5, 0.5])
    states = {
        "train": train.take(slice(0, 51)).loader().state_dict(),
        "test": test.take(slice(0, 51)).loader().state_dict(),
        "whole": ds.loader().state_dict(),
        "weighted": ds.loader(weights=np.ones(COUNT)).state_dict(),
        "other": ds.loader(weights=np.arange(COUNT)).state_dict(),
        "buckets": ds.loader(bucket_by="x").state_dict(),
    }
    loaders = {
        "train": train.take(slice(0, 51)).loader(),
        "whole": ds.take(slice(None)).loader(),
        "weighted": ds.loader(weights=np.ones(COUNT)),
    }
    for name, loader in loaders.items():
        for of, state in states.items():
            if of == name:
                loader.load_state_dict(state)
            else:
                with pytest.raises(forebay.InvalidError):
                    loader.load_state_dict(state)


def test_what_makes_no_sense_is_refused(ds: Any) -> None:
    for which, error in (([COUNT], IndexError), ([-COUNT - 1], IndexError), ([True, False], IndexError), ([0.5], IndexError)):
        with pytest.raises(error):
            ds.take(which)
    for fractions in ([], [0.8, 0.3], [-0.1, 0.5], [float("nan")], [100, 4]):
        with pytest.raises(ValueError):
            ds.split(fractions)
    with pytest.raises(TypeError, match="no fraction"):
        ds.split(["half"])
    with pytest.raises(ValueError, match="by='hour'"):
        ds.split([0.5], by="hour")
    with pytest.raises(ValueError, match="gap=3"):
        ds.split([0.5], gap=3)
    with pytest.raises(TypeError, match="give a function"):
        ds.where("x", ("~", 3))
    with pytest.raises(ValueError, match="one bool for each sample"):
        ds.where("x", lambda x: x)
    with pytest.raises(ZeroDivisionError):
        ds.where("x", lambda x: 1 // 0)
    with pytest.raises((ValueError, forebay.ForebayError), match="nothing"):
        ds.where("nothing", (">", 3))
    ones = np.ones(COUNT)
    for weights in (ones[1:], ones * 0, -ones, ones * np.nan, ones * np.inf, ["a"] * COUNT):
        with pytest.raises((ValueError, forebay.InvalidError), match="weight"):
            ds.loader(weights=weights)
    with pytest.raises(forebay.InvalidError, match="without replacement"):
        ds.loader(weights=ones, replacement=False, epoch_samples=COUNT + 1)
    for options in ({"weights": ones, "balance": "kind"}, {"replacement": False}, {"epoch_samples": 3}, {"fields": []}):
        with pytest.raises(ValueError):
            ds.loader(**options)
    for options in ({"weights": ones}, {"balance": "kind"}):
        with pytest.raises(ValueError, match="epoch_samples=0"):
            ds.loader(epoch_samples=0, **options)
    for name in ("batch_size", "prefetch", "seed"):
        with pytest.raises(TypeError, match=f"{name}=True"):
            ds.loader(**{name: True})
    with pytest.raises(ValueError, match="shuffle='block'"):
        ds.loader(weights=ones, shuffle="block")
    with pytest.raises(ValueError, match="is no field"):
        ds.loader(balance="nothing")
    with pytest.raises(ValueError, match="one value for each"):
        ds.loader(balance=[1, 2])
    with pytest.raises(ValueError, match="whole numbers"):
        ds.loader(bucket_by=ones / 2)


def test_an_empty_subset_has_no_batches(ds: Any) -> None:
    nothing = ds.take([])
    assert len(nothing) == 0 and list(nothing.loader(batch_size=3)) == []
    with pytest.raises(IndexError):
        nothing[0]


def test_a_subset_and_its_loaders_are_pickled(make: Make) -> None:
    files = opened(make)
    for which in (slice(3, 99, 2), np.arange(COUNT) % 3 == 0, [4, 4, 1], [4, 4, 4], []):
        taken = files.take(which)
        again = pickle.loads(pickle.dumps(taken))
        assert again.indices.tolist() == taken.indices.tolist() and again.fingerprint == taken.fingerprint
    loader = files.take(slice(3, 99)).loader(batch_size=5, bucket_by="atoms")
    first = next(iter(loader))["x"].tolist()
    again = pickle.loads(pickle.dumps(loader))
    assert sorted(first + samples_of(again)) == list(range(3, 99))


def test_sets_end_to_end_are_one_set(make: Make) -> None:
    one, other = opened(make), opened(make, COUNT, "other")
    both = forebay.concat(one, other)
    assert len(both) == 2 * COUNT and len(both.files) == 6
    assert both.batch(range(2 * COUNT))["x"].tolist() == list(range(2 * COUNT))
    assert_comes(both, list(range(2 * COUNT)), shuffle="full")
    parts = forebay.concat(one.take([5, 3]), other, one.take(slice(0, 2)))
    assert parts.batch(range(len(parts)))["x"].tolist() == [5, 3, *range(COUNT, 2 * COUNT), 0, 1]
    assert pickle.loads(pickle.dumps(both)).fingerprint == both.fingerprint
    assert forebay.concat(one).fingerprint == one.fingerprint


def test_sets_that_do_not_fit_each_other_are_named(make: Make) -> None:
    one = forebay.open(make("a.h5", x=np.zeros((3, 2))), ["x"])
    for other, match in (
        (forebay.open(make("b.h5", x=np.zeros((3, 4))), ["x"]), r"field 'x' .* shape \(2,\).* shape \(4,\)"),
        (forebay.open(make("c.h5", x=np.zeros((3, 2), np.int8)), ["x"]), "field 'x' "),
        (forebay.open(make("d.h5", y=np.zeros((3, 2))), ["y"]), r"the fields \['x'\].* \['y'\]"),
        (forebay.open(make("e.h5", y=np.zeros((3, 2))), {"x": "y"}), "different ways"),
    ):
        with pytest.raises(forebay.InvalidError, match=match):
            forebay.concat(one, other)
    with pytest.raises(TypeError):
        forebay.concat(one, [1])  # type: ignore[arg-type]
    with pytest.raises(ValueError):
        forebay.concat()


def test_a_mixture_has_the_weights_in_every_round(make: Make) -> None:
    one, other = opened(make), opened(make, COUNT, "other")
    mixed = forebay.mix({one: 0.7, other.take(slice(0, 40)): 0.3})
    order = [int(value) for batch in mixed.loader(batch_size=8, seed=2) for value in batch["x"]]
    # 13 rounds of 7 and 3 are all that 40 samples fill.
    assert len(order) == len(set(order)) == 130
    assert all(sum(value < COUNT for value in order[at : at + 10]) == 7 for at in range(0, 130, 10))
    long = forebay.mix({one: 2, other: 1}, length=600)
    counts = collections.Counter(int(value) for batch in long.loader(batch_size=60) for value in batch["x"])
    assert sum(count for value, count in counts.items() if value < COUNT) == 400
    assert {counts[value] for value in range(COUNT)} == {3, 4} and {counts[value] for value in range(COUNT, 2 * COUNT)} == {1, 2}
    wanted = [value for batch in mixed.loader(seed=3) for value in batch["x"].tolist()]
    for world, other_world in ((2, 3), (5, 1)):
        got: list[int] = []
        for rank in range(world):
            loader = mixed.loader(batch_size=4, seed=3, rank=rank, world=world, tail="pad")
            batches = iter(loader)
            for _ in range(2):
                batch = next(batches)
                got += batch["x"][batch.indices >= 0].tolist()
            state = loader.state_dict()
        for rank in range(other_world):
            loader = mixed.loader(batch_size=3, seed=3, rank=rank, world=other_world, tail="pad")
            loader.load_state_dict(state)
            for batch in loader:
                got += batch["x"][batch.indices >= 0].tolist()
        assert collections.Counter(got) == collections.Counter(wanted)
    assert len(pickle.loads(pickle.dumps(mixed)).loader()) == 130
    for weights in ({}, {one: 0}, {one: -1}, {one: float("nan")}, {one: 1, other.take([]): 1}):
        with pytest.raises(ValueError):
            forebay.mix(weights)


@pytest.mark.parametrize(
    "which", [slice(None, None, -1), slice(None), np.random.default_rng(1).permutation(100)], ids=["turned", "whole", "mixed"]
)
@pytest.mark.parametrize("from_store", [True, False])
def test_a_block_order_goes_on_between_a_store_and_its_subset_only_where_both_are_numbered_alike(
    make: Make, which: Any, from_store: bool
) -> None:
    part = forebay.open(make("even.h5", x=(np.arange(100), {"chunks": (5,)})), ["x"]).take(which)
    with forebay.Store() as store:
        store.fill(part)
        sets = (store, part) if from_store else (part, store)
        options: dict[str, Any] = {"batch_size": 8, "shuffle": "block", "seed": 2}
        first, second = (one.loader(**options) for one in sets)
        batches = iter(first)
        seen = [number for _ in range(5) for number in next(batches).indices.tolist()]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", forebay.ForebayWarning)
            try:
                second.load_state_dict(first.state_dict(), strict=False)
            except forebay.InvalidError as error:
                assert "part of the order of a block shuffle" in str(error)
                assert not np.array_equal(part.indices, np.arange(100)), "both are numbered alike"
                return
        seen += [number for batch in second for number in batch.indices.tolist()]
        assert sorted(seen) == list(range(100))


def test_a_store_is_filled_with_a_subset(make: Make) -> None:
    train, _ = opened(make).split([0.8, 0.2], seed=3)
    with forebay.Store() as store:
        store.fill(train)
        assert store.label == "kind"
        assert store.get_batch(range(len(store)))["x"].tolist() == train.indices.tolist()
        assert len(train.files) == 3 and train.stats()["read_bytes"] > 0


def test_tiers_see_what_a_subset_will_read(make: Make, tmp_path: Path) -> None:
    files = opened(make)
    part = files.take(slice(0, 40))
    with part.loader(batch_size=8, shuffle="full", tiers=["memory:8MiB"]) as loader:
        assert sorted(samples_of(loader)) == list(range(40))
        assert loader.stats()["tiers"] is not None


def test_workers_of_a_data_loader_share_a_subset(make: Make) -> None:
    torch = pytest.importorskip("torch")
    import forebay.torch

    train, _ = opened(make).split([0.8, 0.2], seed=3)
    wanted = sorted(train.indices.tolist())
    mapped = forebay.torch.Dataset(train)
    loader = torch.utils.data.DataLoader(mapped, 16, shuffle=True, num_workers=2, collate_fn=forebay.torch.collate)
    assert sorted(value for batch in loader for value in batch["x"].tolist()) == wanted
    whole = forebay.torch.IterableDataset(train, batch_size=5, shuffle="full", tail="pad")
    batches = torch.utils.data.DataLoader(whole, batch_size=None, num_workers=2)
    got = [value for batch in batches for value in batch["x"][batch.indices >= 0].tolist()]
    assert sorted(got) == wanted
    ours = forebay.torch.Loader(train, batch_size=5, bucket_by="atoms")
    assert sorted(value for batch in ours for value in batch["x"].tolist()) == wanted


def test_the_examples_of_the_guide_run(make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    random = np.random.default_rng(1)
    for name in ("2020.h5", "2021.h5", "other.h5"):
        make(name, image=random.random((60, 4, 4), np.float32), label=np.arange(60) % 3)
    names: dict[str, Any] = {}
    blocks = re.findall(r"```python\n(.*?)```", DOC.read_text(), re.S)
    assert len(blocks) >= 5
    for block in blocks:
        exec(block, names)
