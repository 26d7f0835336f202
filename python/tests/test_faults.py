"""Files that are damaged: named errors, and runs that go on without the samples."""

from __future__ import annotations

import os
import re
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from conftest import Make

import forebay

COUNT = 40
PER_CHUNK = 4


@pytest.fixture(params=["gzip", "fletcher32"])
def damaged(make: Make, request: pytest.FixtureRequest) -> tuple[Path, int]:
    """A file whose chunk of samples 16 to 19 is damaged, and where that chunk is."""
    options = {"compression": "gzip"} if request.param == "gzip" else {"fletcher32": True}
    values = np.arange(COUNT)[:, None] * np.ones(50, np.int64)
    path = make("damaged.h5", x=(values, {"chunks": (PER_CHUNK, 50), **options}), y=np.arange(COUNT))
    with h5py.File(path) as file:
        chunk = file["x"].id.get_chunk_info_by_coord((16, 0))
    with open(path, "r+b") as raw:
        raw.seek(chunk.byte_offset + 2)
        raw.write(b"\xff" * min(40, chunk.size - 4))
    return path, chunk.byte_offset


BAD = set(range(16, 20))


def test_the_error_names_file_variable_chunk_and_offset(damaged: tuple[Path, int]) -> None:
    path, offset = damaged
    ds = forebay.open(path, ["x", "y"])
    pattern = rf"damaged\.h5: variable '/?x': chunk \d+ at 0x{offset:x}"
    with pytest.raises(forebay.CorruptError, match=pattern) as caught:
        ds[17]
    assert caught.value.kind == "corrupt"
    assert ds[15]["x"][0] == 15 and ds[20]["x"][0] == 20
    loader = ds.loader(batch_size=5)
    seen = []
    with pytest.raises(forebay.CorruptError, match=pattern):
        for batch in loader:
            seen += batch.indices.tolist()
    # Batches before the damage arrive, whatever was made ahead.
    assert seen == list(range(15))
    loader.close()


def test_skip_leaves_damaged_samples_out_and_reports_them(damaged: tuple[Path, int]) -> None:
    ds = forebay.open(damaged[0], ["x", "y"])
    loader = ds.loader(batch_size=5, shuffle="full", seed=3, on_error="skip")
    for _ in range(2):
        seen, skipped = [], {}
        for batch in loader:
            assert (batch["x"] == batch.indices[:, None]).all() and (batch["y"] == batch.indices).all()
            assert len(batch.seeds) == batch.size == len(batch["x"])
            seen += batch.indices.tolist()
            skipped.update(batch.skipped)
        assert sorted(seen) == sorted(set(range(COUNT)) - BAD)
        assert set(skipped) == BAD
        assert all(re.search(r"damaged\.h5.*'/?x'", why) for why in skipped.values())
    assert loader.stats()["skipped"] == 2 * len(BAD)


def test_substitute_puts_another_sample_in_their_place(damaged: tuple[Path, int]) -> None:
    ds = forebay.open(damaged[0], ["x", "y"])
    loader = ds.loader(batch_size=8, shuffle="full", seed=3, on_error="substitute")
    skipped = set()
    for batch in loader:
        assert batch.size == 8
        assert (batch["x"] == batch.indices[:, None]).all()
        assert not BAD & set(batch.indices.tolist())
        skipped |= {number for number, _ in batch.skipped}
    assert skipped == BAD and loader.stats()["substituted"] == len(BAD)


def test_skipping_does_not_move_what_follows(damaged: tuple[Path, int]) -> None:
    ds = forebay.open(damaged[0], ["x"])
    options: dict[str, Any] = {"batch_size": 5, "shuffle": "full", "seed": 3, "on_error": "skip"}
    whole = [batch.indices.tolist() for batch in ds.loader(**options)]
    for stop in range(1, len(whole)):
        loader = ds.loader(**options)
        run = iter(loader)
        for _ in range(stop):
            next(run)
        resumed = ds.loader(**options)
        resumed.load_state_dict(loader.state_dict())
        assert [batch.indices.tolist() for batch in resumed] == whole[stop:]


def test_nothing_can_stand_in_for_a_batch_of_which_nothing_can_be_read(damaged: tuple[Path, int]) -> None:
    loader = forebay.open(damaged[0], ["x"]).loader(batch_size=4, on_error="substitute")
    with pytest.raises(forebay.CorruptError, match="no sample of a batch can be read"):
        list(loader)


@pytest.mark.parametrize("batch_size", [1, 2, 4])
@pytest.mark.parametrize("prefetch", [0, 4])
def test_a_batch_of_which_nothing_can_be_read_is_left_out(damaged: tuple[Path, int], batch_size: int, prefetch: int) -> None:
    ds = forebay.open(damaged[0], ["x", "y"])
    loader = ds.loader(batch_size=batch_size, on_error="skip", prefetch=prefetch)
    steps = COUNT // batch_size
    for epoch in range(2):
        seen, skipped = [], {}
        for batch in loader:
            assert batch.size == batch_size and (batch["x"] == batch.indices[:, None]).all()
            assert batch.epoch == epoch and batch.indices[0] == batch.step * batch_size
            seen += batch.indices.tolist()
            skipped.update(batch.skipped)
        assert seen == sorted(set(range(COUNT)) - BAD)
        assert set(skipped) == BAD
        assert len(loader) == steps
    stats = loader.stats()
    assert (stats["skipped"], stats["skipped_batches"]) == (2 * len(BAD), 2 * len(BAD) // batch_size)
    assert stats["batches"] == 2 * (steps - len(BAD) // batch_size)


def test_a_batch_that_is_left_out_at_the_end_is_told_of_at_the_end(make: Make) -> None:
    path = make("end.h5", x=(np.arange(8), {"chunks": (1,), "fletcher32": True}))
    with h5py.File(path) as file:
        chunk = file["x"].id.get_chunk_info_by_coord((7,))
    with open(path, "r+b") as raw:
        raw.seek(chunk.byte_offset)
        raw.write(b"\xff" * 8)
    loader = forebay.open(path, ["x"]).loader(batch_size=1, on_error="skip")
    with pytest.warns(UserWarning, match="end.h5"):
        assert sum(batch.size for batch in loader) == 7


def test_a_state_counts_batches_that_were_left_out(damaged: tuple[Path, int]) -> None:
    ds = forebay.open(damaged[0], ["y", "x"])
    whole = [batch.indices.tolist() for batch in ds.loader(on_error="skip")]
    assert whole == [[number] for number in range(COUNT) if number not in BAD]
    loader = ds.loader(on_error="skip")
    run = iter(loader)
    for stop in range(1, len(whole)):
        last = next(run).indices[0]
        state = loader.state_dict()
        assert state["position"] == last + 1
        resumed = ds.loader(on_error="skip")
        resumed.load_state_dict(state)
        assert resumed.remaining == COUNT - last - 1
        assert [batch.indices.tolist() for batch in resumed] == whole[stop:]


def test_ranks_have_as_many_batches_where_one_can_read_nothing_of_its_own(damaged: tuple[Path, int]) -> None:
    ds = forebay.open(damaged[0], ["x", "y"])
    for tail in (None, "pad"):
        ranks = [ds.loader(batch_size=4, rank=rank, world=2, on_error="skip", tail=tail) for rank in range(2)]
        batches = [list(loader) for loader in ranks]
        assert [len(of_rank) for of_rank in batches] == [5, 5] == [len(loader) for loader in ranks]
        (padded,) = (batch for of_rank in batches for batch in of_rank if batch.indices[0] < 0)
        assert padded.indices.tolist() == [-1] * 4 and padded["x"].shape == (4, 50) and not padded["x"].any()
        assert {number for number, _ in padded.skipped} == BAD
        assert [loader.stats()["skipped_batches"] for loader in ranks] == [1, 0]
        seen = [number for of_rank in batches for batch in of_rank for number in batch.indices.tolist() if number >= 0]
        assert sorted(seen) == sorted(set(range(COUNT)) - BAD)


@pytest.mark.parametrize("world", [1, 2])
def test_an_epoch_of_which_nothing_can_be_read_is_an_error_where_no_other_rank_would_wait(make: Make, world: int) -> None:
    path = make("gone.h5", x=(np.arange(1 << 12), {"chunks": (1 << 12,), "compression": "gzip"}))
    with h5py.File(path) as file:
        chunk = file["x"].id.get_chunk_info(0)
    with open(path, "r+b") as raw:
        raw.seek(chunk.byte_offset + 2)
        raw.write(b"\xff" * 40)
    ds = forebay.open(path, ["x"])
    if world == 1:
        loader = ds.loader(batch_size=64, on_error="skip")
        for _ in range(2):
            with pytest.raises(forebay.ForebayError, match=r"no sample of the epoch can be read.*gone\.h5"):
                list(loader)
        return
    # The last batch of some rank is padding alone, which is not to count as samples.
    for rank in range(world):
        loader = ds.loader(world=world, rank=rank, on_error="skip", batch_size=96, tail="pad")
        # The same warning is given once in a process.
        loader.set_epoch(2 * rank)
        for epoch in range(2):
            with pytest.warns(forebay.ForebayWarning, match=rf"no sample .* part of epoch {2 * rank + epoch} can be read.*gone\.h5"):
                batches = list(loader)
            assert len(batches) == len(loader) and all((batch.indices == -1).all() for batch in batches)


def lengths(make: Make) -> tuple[Path, list[int]]:
    counts = [10, 3, 60_000, 0, 7, 55_000] + [5] * 100
    return make("ragged.h5", x=np.arange(sum(counts), dtype=np.float64), n=counts), counts


def test_a_sample_longer_than_memory_is_named_before_anything_is_read(make: Make) -> None:
    path, _ = lengths(make)
    ds = forebay.open(path, ["x"], samples=forebay.Ragged(lengths="n"))
    what = r"memory=400000 is less than the 480000 bytes that sample 2 of field 'x' takes at once"
    with pytest.raises(forebay.FullError, match=what):
        ds.loader(memory=400_000, read_threads=1)
    # Another budget than in other tests: the same warning is given once in a process.
    with pytest.warns(UserWarning, match=what.replace("400000", "400001") + ".*counts as one that cannot be read"):
        ds.loader(memory=400_001, read_threads=1, on_error="skip")
    assert [batch.indices.tolist() for batch in ds.loader(memory=2_000_000, read_threads=1)] == [[n] for n in range(106)]


@pytest.mark.parametrize("batch_size", [1, 3])
def test_samples_longer_than_memory_can_be_skipped(make: Make, batch_size: int) -> None:
    path, counts = lengths(make)
    ds = forebay.open(path, ["x"], samples=forebay.Ragged(lengths="n"))
    starts = np.concatenate([[0], np.cumsum(counts)])
    with warnings.catch_warnings():
        # It is given once in a process, to whichever test comes first.
        warnings.simplefilter("ignore")
        loader = ds.loader(memory=400_000, read_threads=1, batch_size=batch_size, on_error="skip")
    seen, skipped = [], []
    for batch in loader:
        wanted = [np.arange(starts[n], starts[n] + counts[n]) for n in batch.indices]
        assert batch["x"].tolist() == np.concatenate(wanted).tolist()
        seen += batch.indices.tolist()
        skipped += batch.skipped
    assert seen == [0, 1, 3, 4, *range(6, 106)]
    assert [number for number, _ in skipped] == [2, 5] and "480000 bytes that are needed at once" in skipped[0][1]
    assert loader.stats()["skipped"] == 2


def test_what_on_error_cannot_mean_is_refused(make: Make) -> None:
    with pytest.raises(ValueError, match="ignore"):
        forebay.open(make(x=np.arange(3)), ["x"]).loader(on_error="ignore")


def test_a_file_that_was_cut_off_is_an_error_that_names_it(make: Make) -> None:
    path = make("cut.h5", x=np.arange(1 << 16))
    with open(path, "r+b") as raw:
        raw.truncate(path.stat().st_size // 2)
    with pytest.raises(forebay.ForebayError, match=r"cut\.h5") as caught:
        forebay.open(path, ["x"])[:]
    assert caught.value.kind in ("corrupt", "unavailable")


def test_a_file_that_is_cut_off_while_open_gives_errors_never_zeros(make: Make) -> None:
    good = make("good.h5", x=np.arange(1, 1 + (1 << 12)))
    path = make("cut.h5", x=np.arange(1, 1 + (1 << 16)))
    ds = forebay.open([good, path], ["x"])
    with open(path, "r+b") as raw:
        raw.truncate(path.stat().st_size // 2)
    with pytest.raises(forebay.ForebayError, match=r"cut\.h5"):
        ds[[len(ds) - 1]]
    loader = ds.loader(batch_size=512, on_error="raise")
    with pytest.raises(forebay.ForebayError, match=r"cut\.h5"):
        for batch in loader:
            # What was delivered is right.
            assert (batch["x"] > 0).all()


def test_skip_goes_on_past_a_file_that_was_cut_off(make: Make) -> None:
    good = make("good.h5", x=np.arange(1, 1025))
    path = make("cut.h5", x=np.arange(1025, 2049))
    ds = forebay.open([good, path], ["x"])
    with h5py.File(path) as file:
        start = file["x"].id.get_offset()
    with open(path, "r+b") as raw:
        raw.truncate(start + 512 * 8)
    loader = ds.loader(batch_size=256, shuffle="full", on_error="skip")
    seen: list[int] = []
    skipped: set[int] = set()
    for batch in loader:
        assert batch["x"].tolist() == (batch.indices + 1).tolist()
        seen += batch.indices.tolist()
        skipped |= {number for number, _ in batch.skipped}
    assert set(range(1024)) <= set(seen) and set(range(1536, 2048)) <= skipped
    assert len(seen) + len(skipped) == 2048


def test_a_file_that_changes_while_open_is_refused(make: Make) -> None:
    path = make("changed.h5", x=np.arange(1000))
    ds = forebay.open(path, ["x"])
    assert ds[5]["x"] == 5
    make("changed.h5", x=np.arange(1000) + 7)
    # The old bytes or an error, never new bytes by an old description.
    try:
        assert ds[6]["x"] == 6
    except forebay.ForebayError as error:
        assert re.search(r"changed\.h5", str(error))


ACTS: dict[str, Callable[[Path], Any]] = {
    "mode": lambda path: path.chmod(0o640),
    "link": lambda path: path.with_suffix(".link").hardlink_to(path),
    "name": lambda path: path.rename(path.with_suffix(".moved")),
    "note": lambda path: os.setxattr(path, "user.note", b"1"),
}


@pytest.mark.parametrize("act", ACTS)
@pytest.mark.parametrize("compression", [None, "gzip"])
def test_a_new_mode_link_or_name_of_a_file_does_not_end_an_epoch(make: Make, act: str, compression: str) -> None:
    values = np.arange(400)[:, None] * np.ones(64, np.float32)
    path = make(x=(values, {"chunks": (10, 64), "compression": compression}))
    ds = forebay.open(path, ["x"])
    loader = ds.loader(batch_size=4, shuffle="full", prefetch=1, memory="1MiB", spill_quota=0)
    time.sleep(0.02)
    seen = []
    for number, batch in enumerate(loader):
        if number == 5:
            ACTS[act](path)
        assert (batch["x"] == batch.indices[:, None]).all()
        seen += batch.indices.tolist()
    assert sorted(seen) == list(range(400))
    if act != "name":
        assert (ds[[399, 0]]["x"] == [[399], [0]]).all() and (forebay.open(path, ["x"])[1]["x"] == 1).all()


def test_a_file_that_is_cut_and_put_back_gives_right_values_or_errors(program: Any, make: Make) -> None:
    path = make("cut.h5", x=np.arange(1, 1 + (1 << 20)))
    done = program(
        """
        import faulthandler, os, sys, threading, time
        import forebay
        path = sys.argv[1]
        whole = open(path, "rb").read()
        ds = forebay.open(path, ["x"])
        ds[:]
        # Another's handler of bus errors, above forebay's.
        faulthandler.enable()
        over = threading.Event()
        def cut():
            while not over.is_set():
                os.truncate(path, len(whole) // 3)
                time.sleep(0.002)
                with open(path, "r+b") as file: file.write(whole)
                time.sleep(0.002)
        thread = threading.Thread(target=cut)
        thread.start()
        errors, until = 0, time.monotonic() + 1.5
        while time.monotonic() < until:
            for opened in (ds, None):
                try:
                    opened = opened or forebay.open(path, ["x"])
                    for batch in opened.loader(batch_size=1 << 12, shuffle="full", read_threads=3):
                        assert (batch["x"] == batch.indices + 1).all(), "wrong values"
                except forebay.ForebayError:
                    errors += 1
        over.set()
        thread.join()
        print(errors)
        """,
        path,
    )
    assert int(done.stdout) > 0


@pytest.mark.parametrize("on_error", ["skip", "substitute"])
def test_a_sample_beyond_the_memory_budget_is_left_out_and_counted(make: Make, on_error: str) -> None:
    lengths = [10] * 20
    lengths[7] = 3_000_000
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    path = make(x=np.arange(offsets[-1], dtype="f4"), ptr=offsets)
    ds = forebay.open(path, ["x"], samples=forebay.Ragged(offsets="ptr"))
    with pytest.raises(forebay.FullError, match="memory="):
        list(ds.loader(batch_size=5, memory="8MiB"))
    loader = ds.loader(batch_size=5, memory="8MiB", on_error=on_error)
    seen = []
    for batch in loader:
        for number, begin, end in zip(batch.indices, batch.offsets["x"], batch.offsets["x"][1:]):
            assert batch["x"][begin:end].tolist() == list(range(offsets[number], offsets[number + 1]))
            seen.append(int(number))
    stands_in = [8] if on_error == "substitute" else []
    assert seen == [*range(7), *stands_in, *range(8, 20)]
    assert loader.stats()["skipped" if on_error == "skip" else "substituted"] == 1
