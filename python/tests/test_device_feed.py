"""Batches on their way to a device: the order of copies, and when host memory is used again. A double stands for the device."""

from __future__ import annotations

import os
import queue
import random
import threading
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from conftest import Make

import forebay
import forebay.torch
from forebay import Ragged
from forebay._device import feed as _device_feed
from forebay._device import pinned_memory as _pinned_memory
from forebay._forebay import LoaderMemory
from forebay._torch import device_memory as _device_memory

pytestmark = pytest.mark.usefixtures("no_tiers")

COUNT = 600


class LateEvent:
    """A point in the double's stream."""

    def __init__(self) -> None:
        self.done = threading.Event()

    def query(self) -> bool:
        return self.done.is_set()

    def synchronize(self) -> None:
        assert self.done.wait(300)


class LateCopier:
    """Copies in a thread of its own, each after a random delay, and tells what was asked of it."""

    def __init__(self, seed: int = 0, delay: float = 0.003) -> None:
        self.random, self.delay = random.Random(seed), delay
        self.calls: list[str] = []
        self.copied_pieces: list[int] = []
        self.work: queue.SimpleQueue[Any] = queue.SimpleQueue()
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        while (job := self.work.get()) is not None:
            host, target, event = job
            time.sleep(self.random.random() * self.delay)
            for piece, copy in zip(host, target):
                copy.copy_(piece)
            event.done.set()

    def start(self, host: list[torch.Tensor]) -> tuple[list[torch.Tensor], LateEvent]:
        target, event = [torch.empty_like(piece) for piece in host], LateEvent()
        self.calls.append("start")
        self.copied_pieces.append(len(host))
        # As a device does, it reads by address alone: it keeps no memory alive.
        self.work.put(([_unowned(piece) for piece in host], target, event))
        return target, event

    def receive(self, target: list[torch.Tensor], copied: LateEvent) -> None:
        self.calls.append("receive")
        copied.synchronize()

    def mark(self) -> LateEvent:
        event = LateEvent()
        event.done.set()
        return event


def _unowned(piece: torch.Tensor) -> torch.Tensor:
    import ctypes

    raw = (ctypes.c_uint8 * piece.numel()).from_address(piece.data_ptr())
    return torch.frombuffer(raw, dtype=torch.uint8) if piece.numel() else piece


@pytest.fixture
def copier(monkeypatch: pytest.MonkeyPatch) -> Iterator[LateCopier]:
    copier = LateCopier()
    monkeypatch.setattr("forebay.torch._cuda_device", lambda device: torch.device("cpu"))
    monkeypatch.setattr(_device_memory, "registered_memory", lambda device: LoaderMemory.registered(None))
    monkeypatch.setattr(_device_memory, "CudaCopier", lambda device, memory: copier)
    yield copier
    copier.work.put(None)


@pytest.fixture
def dense(make: Make) -> forebay.Dataset:
    values = np.arange(COUNT * 500, dtype=np.float32).reshape(COUNT, 500)
    return forebay.open(make(x=values, label=np.arange(COUNT)), ["x", "label"])


@pytest.fixture
def ragged(make: Make) -> forebay.Dataset:
    offsets = np.concatenate([[0], np.cumsum(np.arange(COUNT) % 7)])
    nodes = np.arange(offsets[-1] * 3, dtype=np.float64).reshape(-1, 3)
    path = make("ragged.h5", x=nodes, label=np.arange(COUNT), ptr=offsets)
    return forebay.open(path, ["x", "label"], samples=Ragged(offsets={"x": "ptr"}))


def check_dense(batch: Any) -> None:
    expected = np.arange(COUNT * 500, dtype=np.float32).reshape(COUNT, 500)[batch["label"].numpy()]
    assert (batch["x"].numpy() == expected).all()
    assert batch.indices.tolist() == batch["label"].tolist()


def test_no_host_memory_is_used_again_before_its_copy_is_done(dense: forebay.Dataset, copier: LateCopier) -> None:
    loader = forebay.torch.Loader(dense, batch_size=8, shuffle="full", device="cuda", memory="64MiB", read_threads=2)
    delays, plain, pageable = random.Random(1), dense.loader(batch_size=8, shuffle="full"), 0
    for epoch in range(2):
        plain.set_epoch(epoch)
        for batch, expected in zip(loader, plain, strict=True):
            assert batch.indices.tolist() == expected.indices.tolist() and batch.epoch == epoch
            check_dense(batch)
            # What nobody uses may be given back before the end.
            pageable = max(pageable, loader.stats()["pinned"]["pageable_bytes"])
            if delays.random() < 0.1:
                time.sleep(0.01)
    assert copier.copied_pieces.count(1) > len(copier.copied_pieces) - 20, "one copy moves a batch"
    assert pageable > 0


def test_ragged_batches_and_their_offsets_go_in_one_copy(ragged: forebay.Dataset, copier: LateCopier) -> None:
    loader = forebay.torch.Loader(ragged, batch_size=16, shuffle="full", device="cuda")
    for batch, expected in zip(loader, ragged.loader(batch_size=16, shuffle="full"), strict=True):
        assert batch["x"].tolist() == expected["x"].tolist() and batch["label"].tolist() == expected["label"].tolist()
        assert batch.offsets["x"].tolist() == expected.offsets["x"].tolist()
    assert copier.copied_pieces[-1] == 1


def test_the_next_copies_are_started_before_a_batch_is_handed_out(dense: forebay.Dataset, copier: LateCopier) -> None:
    copier.delay = 0
    loader = forebay.torch.Loader(dense, batch_size=100, device="cuda")
    for _ in loader:
        time.sleep(0.02)
    assert copier.calls.count("start") == copier.calls.count("receive") == 6
    ahead = [copier.calls[: at + 1].count("start") - number for number, at in
             enumerate([at for at, call in enumerate(copier.calls) if call == "receive"], 1)]  # fmt: skip
    assert max(ahead) == _device_feed.AHEAD and min(ahead[1:3]) > 0


class Epochs:
    """Runs whose batches are always there: numbers, each epoch followed by the next."""

    def __init__(self, lens: list[int], first: int = 0) -> None:
        self.numbers = list(range(first, first + lens[0]))
        self.follower = Epochs(lens[1:], first + lens[0]) if lens[1:] else None

    def poll(self) -> Any:
        return self.numbers.pop(0) if self.numbers else None

    def poll_following(self) -> Any:
        return self.follower.poll() if self.follower is not None and not self.numbers else None

    def next(self) -> Any:
        return self.poll()


@pytest.mark.parametrize("lens", [[4, 5, 3], [1, 1, 1, 1], [2, 1, 6]])
def test_two_copies_are_ahead_at_the_border_of_two_epochs_as_anywhere_else(copier: LateCopier, lens: list[int]) -> None:
    epoch: Epochs | None = Epochs(lens)
    feed = _device_feed.DeviceFeed(epoch, copier, lambda raw: ([torch.tensor([raw])], None), lambda raw, *_: -raw)
    for number, length in enumerate(lens):
        first = sum(lens[:number])
        assert list(feed) == [(raw, -raw) for raw in range(first, first + length)]
        epoch = epoch and epoch.follower
        if epoch is not None:
            feed.follow(epoch)
    feed.close()
    received = [at for at, call in enumerate(copier.calls) if call == "receive"]
    ahead = [copier.calls[: at + 1].count("start") - given for given, at in enumerate(received, 1)]
    # Only the epoch that follows has begun: what is after it comes later.
    ends = np.repeat(np.cumsum([*lens[1:], 0]) + lens[0], lens)
    assert ahead == [min(_device_feed.AHEAD, end - given) for given, end in enumerate(ends, 1)]


def test_epochs_on_a_device_are_those_of_a_plain_loader(dense: forebay.Dataset, copier: LateCopier) -> None:
    loader = forebay.torch.Loader(dense, batch_size=100, shuffle="full", device="cuda", epochs=3)
    plain, seen = dense.loader(batch_size=100, shuffle="full", epochs=3), []
    for batch, expected in zip(loader, plain, strict=True):
        time.sleep(0.01)
        check_dense(batch)
        assert (batch.epoch, batch.indices.tolist()) == (expected.epoch, expected.indices.tolist())
        assert loader.state_dict() == plain.state_dict() and loader.step == plain.step, "what is copied ahead is not received"
        seen.append(batch.epoch)
    assert seen == [0] * 6 + [1] * 6 + [2] * 6


def test_a_feed_goes_on_with_the_epoch_that_was_begun_ahead(
    dense: forebay.Dataset, copier: LateCopier, monkeypatch: pytest.MonkeyPatch
) -> None:
    ahead: list[int] = []
    follow = _device_feed.DeviceFeed.follow

    def noted(feed: Any, source: Any) -> None:
        ahead.append(len(feed._following))
        follow(feed, source)

    monkeypatch.setattr(_device_feed.DeviceFeed, "follow", noted)
    run, until = iter(forebay.torch.Loader(dense, batch_size=100, device="cuda", epochs=None)), time.monotonic() + 300
    while not any(ahead) and time.monotonic() < until:
        check_dense(next(run))
        time.sleep(0.01)
    assert any(ahead), "no batch of the next epoch was on its way"
    run.close()


def test_epochs_shorter_than_what_is_copied_ahead_come_whole(dense: forebay.Dataset, copier: LateCopier) -> None:
    part = dense.take([5, 3, 9])
    loader = forebay.torch.Loader(part, batch_size=2, device="cuda", epochs=None)
    run = iter(loader)
    for number in range(20):
        batch = next(run)
        time.sleep(0.002)
        assert batch["label"].tolist() == ([9] if number % 2 else [5, 3]) and batch.epoch == number // 2
        assert loader.epoch == (number + 1) // 2 and loader.step == (number + 1) % 2
    run.close()
    assert [batch["label"].tolist() for batch in forebay.torch.Loader(part, batch_size=8, device="cuda", epochs=4)] == [[5, 3, 9]] * 4


def test_an_epoch_that_is_set_takes_the_place_of_what_was_copied_ahead(dense: forebay.Dataset, copier: LateCopier) -> None:
    loader = forebay.torch.Loader(dense, batch_size=200, shuffle="full", device="cuda", epochs=2)
    epochs = []
    for number, batch in enumerate(loader):
        time.sleep(0.02)
        epochs.append(batch.epoch)
        check_dense(batch)
        if number == 2:
            loader.set_epoch(7)
    assert epochs == [0, 0, 0, 7, 7, 7]


def test_the_state_counts_what_was_received_and_not_what_was_copied(dense: forebay.Dataset, copier: LateCopier) -> None:
    loader = forebay.torch.Loader(dense, batch_size=7, shuffle="full", seed=3, device="cuda", tail="drop")
    run = iter(loader)
    seen = [next(run).indices.tolist() for _ in range(5)]
    time.sleep(0.05)
    state = loader.state_dict()
    assert copier.calls.count("start") > 5 and state["position"] == 35
    rest = [batch.indices.tolist() for batch in run]
    other = dense.loader(batch_size=7, shuffle="full", seed=3, tail="drop")
    other.load_state_dict(state)
    assert [batch.indices.tolist() for batch in other] == rest and len(seen) + len(rest) == len(loader)


def test_an_error_comes_where_its_batch_would_have_come(copier: LateCopier) -> None:
    class Failing:
        def __init__(self) -> None:
            self.step = 0

        def poll(self) -> Any:
            self.step += 1
            if self.step == 4:
                raise OSError("no more")
            return self.step

        def poll_following(self) -> Any:
            return None

        def next(self) -> Any:
            return self.poll()

    feed = _device_feed.DeviceFeed(Failing(), copier, lambda raw: ([torch.tensor([raw])], None), lambda raw, *_: -raw)
    assert [next(feed) for _ in range(3)] == [(1, -1), (2, -2), (3, -3)]
    with pytest.raises(OSError, match="no more"):
        next(feed)
    feed.close()


def test_an_epoch_that_is_left_early_waits_for_its_copies(dense: forebay.Dataset, copier: LateCopier) -> None:
    copier.delay = 0.05
    loader = forebay.torch.Loader(dense, batch_size=8, device="cuda")
    for _ in range(3):
        for step, batch in enumerate(loader):
            check_dense(batch)
            if step == 3:
                break
        loader.close()
        assert copier.work.empty()
        loader.set_epoch(0)


def test_a_forked_child_touches_none_of_it(dense: forebay.Dataset, copier: LateCopier) -> None:
    loader = forebay.torch.Loader(dense, batch_size=8, device="cuda")
    run = iter(loader)
    next(run)
    calls = len(copier.calls)
    child = os.fork()
    if child == 0:
        try:
            next(run)
        except forebay.InvalidError:
            os._exit(0 if len(copier.calls) == calls else 2)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    check_dense(next(run))
    loader.close()


def test_pinned_batches_are_views_of_tensors_of_the_allocator(
    dense: forebay.Dataset, ragged: forebay.Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: dict[int, int] = {}

    def allocate(size: int) -> torch.Tensor:
        tensor = torch.empty(size, dtype=torch.uint8)
        given[tensor.untyped_storage().data_ptr()] = size
        return tensor

    monkeypatch.setattr(_device_memory, "pinned_memory", lambda: LoaderMemory.allocated(allocate))
    for batch in forebay.torch.Loader(dense, batch_size=8, pin_memory=True, shuffle="full"):
        check_dense(batch)
        assert {batch[name].untyped_storage().data_ptr() for name in batch} <= given.keys()
    kept = list(forebay.torch.Loader(ragged, batch_size=16, pin_memory=True))
    for batch, expected in zip(kept, ragged.loader(batch_size=16), strict=True):
        assert batch["x"].tolist() == expected["x"].tolist()
        assert batch.offsets["x"].tolist() == expected.offsets["x"].tolist()
    with pytest.raises(ValueError, match="pin_memory"):
        monkeypatch.setattr("forebay.torch._cuda_device", lambda device: torch.device("cpu"))
        forebay.torch.Loader(dense, device="cuda", pin_memory=True)


def test_memory_that_is_not_pinned_is_warned_of_once() -> None:
    class Pageable:
        pageable_bytes = 5

        def stats(self) -> dict[str, int]:
            return {"pageable_bytes": 5, "refusals": 2, "last_error": 2}

    watch = _pinned_memory.PinningWatch(Pageable())  # type: ignore[arg-type]
    with pytest.warns(forebay.ForebayWarning, match="ulimit -l") as warned:
        watch.look()
        watch.look()
    assert len(warned) == 1 and warned[0].message.kind == "pinning"  # type: ignore[union-attr]
