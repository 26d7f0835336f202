"""Going on elsewhere: states on copies of the files, pickled and forked loaders and data sets."""

from __future__ import annotations

import json
import os
import pickle
import shutil
import warnings
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from conftest import in_fork

import forebay

COUNT = 90
SHUFFLES = ["none", "full", "block"]
pytestmark = pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")


def write(folder: Path, counts: tuple[int, ...] = (40, 20, 30), dtype: str = "i8", name: str = "part") -> Path:
    """Files of samples that hold their own numbers, chunks of 2 KiB."""
    folder.mkdir(parents=True, exist_ok=True)
    numbers = np.repeat(np.arange(sum(counts), dtype=dtype)[:, None], 64, axis=1)
    for at, part in enumerate(np.split(numbers, np.cumsum(counts)[:-1])):
        with h5py.File(folder / f"{name}{at}.h5", "w") as file:
            file.create_dataset("x", data=part, chunks=(4, 64), compression="gzip")
    return folder


def opened(folder: Path) -> forebay.Dataset:
    return forebay.open(folder / "*.h5", ["x"])


def order_of(run: Any) -> list[int]:
    order: list[int] = []
    for batch in run:
        assert (batch["x"] == batch.indices[:, None]).all()
        order += batch.indices.tolist()
    return order


def begun(folder: Path, shuffle: str = "full") -> tuple[dict[str, Any], list[int]]:
    """A state after two batches, and what is left of the epoch."""
    loader = opened(folder).loader(batch_size=8, shuffle=shuffle, seed=3)
    run = iter(loader)
    next(run), next(run)
    return json.loads(json.dumps(loader.state_dict())), order_of(run)


def test_batches_that_are_taken_ahead_count_in_the_state_once_they_are_committed(tmp_path: Path) -> None:
    ds = opened(write(tmp_path))
    loader = ds.loader(batch_size=8, shuffle="full", seed=3)
    inner = loader._loader
    run = inner.start()
    taken = [run.next() for _ in range(3)]
    assert loader.state_dict()["position"] == 0
    assert taken[0] is not None
    run.received = taken[0]
    state = loader.state_dict()
    assert state["position"] == 8
    resumed = ds.loader(batch_size=8, shuffle="full", seed=3)
    resumed.load_state_dict(state)
    assert order_of(resumed) == order_of(ds.loader(batch_size=8, shuffle="full", seed=3))[8:]


@pytest.mark.parametrize("shuffle", SHUFFLES)
@pytest.mark.parametrize("keeps_times", [True, False])
def test_a_state_holds_on_a_copy_of_the_files_in_another_folder(
    tmp_path: Path, shuffle: str, keeps_times: bool
) -> None:
    state, rest = begun(write(tmp_path / "here"), shuffle)
    copy = shutil.copy2 if keeps_times else shutil.copy
    shutil.copytree(tmp_path / "here", tmp_path / "node" / "scratch", copy_function=copy)
    loader = opened(tmp_path / "node" / "scratch").loader(batch_size=8, shuffle=shuffle, seed=3)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        loader.load_state_dict(state)
    told = [str(one.message) for one in caught]
    assert told == [] if keeps_times else ["other times of modification" in text for text in told] == [True]
    assert order_of(loader) == rest


def test_a_state_of_the_very_files_is_loaded_without_a_warning(tmp_path: Path) -> None:
    state, rest = begun(write(tmp_path / "here"))
    loader = opened(tmp_path / "here").loader(batch_size=8)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        loader.load_state_dict(state)
    assert order_of(loader) == rest


def test_files_of_other_names_lengths_or_types_are_refused(tmp_path: Path) -> None:
    state, rest = begun(write(tmp_path / "here"))
    renamed = opened(write(tmp_path / "renamed", name="piece")).loader(batch_size=8)
    for other in (renamed, opened(write(tmp_path / "types", dtype="f8")).loader(batch_size=8)):
        with pytest.raises(forebay.InvalidError, match=r"names, lengths or types(.|\n)*strict=False"):
            other.load_state_dict(state)
    with pytest.warns(forebay.ForebayWarning, match="other files or fields"):
        renamed.load_state_dict(state, strict=False)
    assert order_of(renamed) == rest
    with pytest.raises(forebay.InvalidError, match="90 samples, this one has 91"):
        opened(write(tmp_path / "more", (40, 20, 31))).loader().load_state_dict(state, strict=False)
    with pytest.raises(ValueError, match="state_dict"):
        renamed.load_state_dict({"version": 1})


def test_a_block_shuffle_refuses_samples_that_lie_otherwise_in_files(tmp_path: Path) -> None:
    folder, split = write(tmp_path / "here"), write(tmp_path / "split", (30, 30, 30))
    for shuffle in SHUFFLES:
        state, rest = begun(folder, shuffle)
        loader = opened(split).loader(batch_size=8)
        if shuffle == "block":
            with pytest.raises(forebay.InvalidError, match="other numbers of samples"):
                loader.load_state_dict(state, strict=False)
        else:
            with pytest.warns(UserWarning, match="other files or fields"):
                loader.load_state_dict(state, strict=False)
            assert order_of(loader) == rest


def test_a_state_of_another_version_is_refused_and_says_what_can_be_done(tmp_path: Path) -> None:
    loader = opened(write(tmp_path / "here")).loader(batch_size=8)
    old = {"version": 1, "order_version": 1, "fingerprint": "1c0f", "samples": COUNT, "shuffle": "full", "group_len": 4,
           "seed": 0, "epoch": 3, "position": 16}  # fmt: skip
    with pytest.raises(forebay.UnsupportedError, match=r"order version 1(.|\n)*set_epoch\(3\)"):
        loader.load_state_dict(old)
    with pytest.raises(forebay.UnsupportedError, match="version 99"):
        loader.load_state_dict({**loader.state_dict(), "version": 99, "more": 1})


def test_a_pickled_set_keeps_its_files_whatever_a_pattern_matches_by_then(tmp_path: Path) -> None:
    folder = write(tmp_path / "here")
    for ds in (opened(folder), forebay.open(folder, ["x"])):
        stored = pickle.dumps(ds)
        with h5py.File(folder / "a.h5", "w") as file:
            file["x"] = np.full((10, 64), -1)
        copy = pickle.loads(stored)
        assert copy.files == ds.files and copy.fingerprint == ds.fingerprint and len(copy) == COUNT
        assert (copy[:]["x"][:, 0] == np.arange(COUNT)).all()
        # So does a loader that opens them again through tiers of its own.
        assert order_of(ds.loader(batch_size=9, tiers=["memory:8MiB"])) == list(range(COUNT))
        (folder / "a.h5").unlink()


def test_a_pickled_set_of_files_that_were_changed_is_refused(tmp_path: Path) -> None:
    folder = write(tmp_path / "here")
    ds = opened(folder)
    stored, loader = pickle.dumps(ds), pickle.dumps(ds.loader(batch_size=8))
    fresh = write(tmp_path / "fresh")
    os.replace(fresh / "part1.h5", folder / "part1.h5")
    for one in (stored, loader):
        with pytest.raises(forebay.InvalidError, match="were changed since it was opened"):
            pickle.loads(one)
    (folder / "part1.h5").unlink()
    with pytest.raises(forebay.NotFoundError, match=r"part1\.h5"):
        pickle.loads(stored)


@pytest.mark.parametrize("copy", ["pickle", "fork"])
def test_a_copied_loader_keeps_epoch_and_state(tmp_path: Path, copy: str) -> None:
    ds = opened(write(tmp_path / "here"))
    state, rest = begun(tmp_path / "here")

    def check(loader: forebay.Loader, state: dict[str, Any], order: list[int]) -> None:
        def work(loader: forebay.Loader = loader) -> None:
            assert loader.state_dict() == state
            assert order_of(loader) == order
            # The copy goes on by itself.
            assert loader.state_dict()["epoch"] == state["epoch"] + 1

        if copy == "fork":
            in_fork(work)
        else:
            work(pickle.loads(pickle.dumps(loader)))
        assert loader.state_dict() == state

    loader = ds.loader(batch_size=8, shuffle="full", seed=5)
    loader.set_epoch(3)
    epoch = ds.loader(batch_size=8, shuffle="full", seed=5)
    epoch.set_epoch(3)
    check(loader, loader.state_dict(), order_of(epoch))
    # A state brings its own shuffle and seed.
    loader = ds.loader(batch_size=8)
    loader.load_state_dict(state)
    check(loader, state, rest)


def test_a_forked_loader_gives_all_of_the_epoch_that_is_under_way(tmp_path: Path) -> None:
    loader = opened(write(tmp_path / "here")).loader(batch_size=8, shuffle="full", seed=5)
    loader.set_epoch(2)
    run = iter(loader)
    seen = next(run).indices.tolist()

    def work() -> None:
        batches = list(loader)
        assert {batch.epoch for batch in batches} == {2} and len(batches) == len(loader)
        assert batches[0].indices.tolist() == seen

    in_fork(work)
    assert sorted(seen + order_of(run)) == list(range(COUNT))


@pytest.mark.parametrize("shuffle", SHUFFLES)
def test_a_batch_knows_where_its_consumer_is_once_it_was_used(tmp_path: Path, shuffle: str) -> None:
    loader = opened(write(tmp_path)).loader(batch_size=20, shuffle=shuffle, seed=3)
    run = loader._opened.start()
    positions = []
    while (raw := run.next()) is not None:
        positions.append(raw.position)
        run.received = raw
        state = loader.state_dict()
        assert raw.position == (state["epoch"], state["position"])
    assert positions == [(0, 20), (0, 40), (0, 60), (0, 80), (1, 0)]
    assert opened(tmp_path)._raw_batch([3]).position is None


def test_tensorflow_knows_the_end_of_an_epoch_whose_last_samples_cannot_be_read_in_any_order_of_commits() -> None:
    from forebay._tensorflow.state import State

    for order in ([(0, 5), (0, 10)], [(0, 10), (0, 5)]):
        state = State()
        state._attach({"epoch": 0, "position": 0})
        for position in [(0, 5), (0, 10)]:
            state._handed(position)
        state._finished((1, 0))
        assert state.epoch == 0 and state.is_behind
        for position in order:
            state.commit(position)
        assert state.state_dict() == {"epoch": 1, "position": 0} and not state.is_behind


def test_a_state_is_plain_data_whose_numbers_are_exact(tmp_path: Path) -> None:
    ds = opened(write(tmp_path))
    loader = ds.loader(batch_size=8, shuffle="block", seed=2**64 - 1)
    loader.set_epoch(2**53 + 1)
    next(iter(loader))
    state = loader.state_dict()
    assert list(state) == [
        "version", "order_version", "fingerprint", "files", "samples", "shuffle", "group_len", "parts", "seed", "epoch", "position",
    ]  # fmt: skip
    assert state["seed"] == 2**64 - 1 and state["epoch"] == 2**53 + 1 and type(state["shuffle"]) is dict
    assert {type(value) for value in state.values()} == {int, str, dict} and json.loads(json.dumps(state)) == state
    other = ds.loader(batch_size=8)
    other.load_state_dict(state)
    assert other.state_dict() == state
    for name, wrong in (("epoch", 1.0), ("epoch", True), ("seed", 2**64), ("seed", -1), ("shuffle", ("full",)), ("files", 3)):
        with pytest.raises(forebay.InvalidError):
            other.load_state_dict({**state, name: wrong})
    assert other.state_dict() == state
