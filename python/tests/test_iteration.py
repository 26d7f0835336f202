"""Iterations of a loader against a model: loops inside loops, epochs that are set, closing, states, forks, and signals at any point."""

from __future__ import annotations

import itertools
import os
import random
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from conftest import Make

import forebay
import forebay.torch

BATCH, STEPS = 2, 3
COUNT = BATCH * STEPS


@pytest.fixture
def ds(make: Make) -> forebay.Dataset:
    return forebay.open(make(x=np.arange(COUNT)), ["x"])


@dataclass
class Loop:
    """An iterator: where it is, or how it ended."""

    epoch: int = 0
    step: int = 0
    is_closed: bool = False
    is_replaced: bool = False


class Model:
    """What a loader of ``STEPS`` batches an epoch has to do."""

    def __init__(self) -> None:
        self.epoch = self.step = 0
        # The next loop begins at (epoch, step), and not with the epoch after.
        self.is_set = True
        # The epoch that was set while a loop was under way.
        self.meanwhile: int | None = None
        self.active: Loop | None = None

    def upcoming(self) -> tuple[int, int]:
        if self.meanwhile is not None:
            return self.meanwhile, 0
        return (self.epoch, self.step) if self.is_set or self.step == 0 else (self.epoch + 1, 0)

    def end(self, is_replaced: bool = False) -> None:
        if self.active is not None:
            self.active.is_closed, self.active.is_replaced = True, is_replaced
        self.active = None

    def begin(self) -> Loop:
        self.end(is_replaced=True)
        self.epoch, self.step = self.upcoming()
        self.is_set, self.meanwhile = False, None
        self.active = Loop(self.epoch, self.step)
        return self.active

    def next(self, loop: Loop) -> tuple[int, int] | str:
        """Epoch and step of the batch, or what is raised."""
        if loop.is_replaced:
            return "InvalidError"
        if loop.is_closed or loop.step == STEPS:
            self.active = None if self.active is loop else self.active
            return "StopIteration"
        place = loop.epoch, loop.step
        loop.step += 1
        self.epoch, self.step = loop.epoch, loop.step
        if loop.step == STEPS:
            self.epoch, self.step = loop.epoch + 1 if self.meanwhile is None else self.meanwhile, 0
            self.is_set, self.meanwhile = True, None
        return place

    def set_epoch(self, epoch: int) -> None:
        if self.active is not None and self.active.step < STEPS:
            self.meanwhile = epoch
        elif not self.is_set or self.epoch != epoch:
            self.epoch, self.step, self.is_set, self.meanwhile = epoch, 0, True, None

    def load(self, epoch: int, step: int) -> None:
        self.end()
        self.epoch, self.step, self.is_set, self.meanwhile = epoch, step, True, None

    def all_of_loop(self) -> list[tuple[int, int]]:
        loop = self.begin()
        return [place for place in iter(lambda: self.next(loop), "StopIteration") if isinstance(place, tuple)]

    def steps(self, count: int) -> list[tuple[int, int]]:
        self.end(is_replaced=True)
        self.load(self.epoch, self.step)
        places: list[tuple[int, int]] = []
        while len(places) < count:
            loop = self.begin()
            while len(places) < count and loop.step < STEPS:
                place = self.next(loop)
                assert isinstance(place, tuple)
                places.append(place)
        self.end()
        return places


class Checked:
    """A loader and its model, which do the same."""

    def __init__(self, loader: Any, orders: dict[int, list[list[int]]]) -> None:
        self.loader, self.orders, self.model = loader, orders, Model()
        self.saved = (loader.state_dict(), (0, 0))
        self.loops: dict[str, tuple[Any, Loop | None]] = {}
        self.log: list[str] = []

    def do(self, name: str) -> None:
        self.log.append(name)
        word, *arguments = name.split()
        getattr(self, f"do_{word}")(*arguments)
        state = self.loader.state_dict()
        assert (state["epoch"], state["position"]) == (self.model.epoch, self.model.step * BATCH), self.log
        assert self.loader.remaining == STEPS - self.model.step, self.log

    def samples(self, places: list[tuple[int, int]]) -> list[list[int]]:
        return [self.orders[epoch][step] for epoch, step in places]

    def do_next(self, key: str) -> None:
        run, loop = self.loops.get(key) or (iter(self.loader), None)
        if loop is None:
            loop = self.model.begin()
        self.loops[key] = run, loop
        expected = self.model.next(loop)
        try:
            found: Any = [next(run).indices.tolist()]
        except (StopIteration, forebay.InvalidError) as error:
            found = type(error).__name__
            del self.loops[key]
        assert found == (expected if isinstance(expected, str) else self.samples([expected])), self.log

    def do_drop(self, key: str) -> None:
        _, loop = self.loops.pop(key, (None, None))
        if loop is not None and loop is self.model.active:
            self.model.end()

    def do_loop(self) -> None:
        assert [batch.indices.tolist() for batch in self.loader] == self.samples(self.model.all_of_loop()), self.log

    def do_steps(self, count: str) -> None:
        found = [batch.indices.tolist() for batch in self.loader.steps(int(count))]
        assert found == self.samples(self.model.steps(int(count))), self.log

    def do_set_epoch(self, epoch: str) -> None:
        self.loader.set_epoch(int(epoch))
        self.model.set_epoch(int(epoch))

    def do_close(self) -> None:
        self.loader.close()
        self.model.end()

    def do_save(self) -> None:
        self.saved = self.loader.state_dict(), (self.model.epoch, self.model.step)

    def do_load(self) -> None:
        self.loader.load_state_dict(self.saved[0])
        self.model.load(*self.saved[1])

    def do_fork(self) -> None:
        """A child that does anything with the parent's iterators, and then loops, has all of the epoch that is under way, or what is
        left where none is; the parent goes on."""
        model, run = self.model, next((run for run, loop in self.loops.values() if loop is self.model.active), None)
        is_under_way = model.active is not None
        child = os.fork()
        if child == 0:
            try:
                if run is not None:
                    with pytest.raises(forebay.InvalidError, match="fork"):
                        next(run)
                self.loader.close()
                found = [batch.indices.tolist() for batch in self.loader]
                start = (model.epoch, 0 if is_under_way else model.step)
                os._exit(found != self.samples([(start[0], step) for step in range(start[1], STEPS)]))
            finally:
                os._exit(2)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0, self.log


OPERATIONS = ["next a", "next b", "loop", "set_epoch 0", "set_epoch 5", "close", "load"]
MORE = [*OPERATIONS, *OPERATIONS, "next a", "next a", "next b", "drop a", "steps 2", "steps 4", "save", "set_epoch 1", "fork"]

KINDS: dict[str, Callable[[forebay.Dataset], Any]] = {
    "caller": lambda ds: ds.loader(batch_size=BATCH, shuffle="full", prefetch=0, read_threads=1),
    "threads": lambda ds: ds.loader(batch_size=BATCH, shuffle="full"),
    "map": lambda ds: ds.loader(batch_size=BATCH, shuffle="full", map=lambda batch: batch),
    "torch": lambda ds: forebay.torch.Loader(ds, batch_size=BATCH, shuffle="full"),
}


def orders(ds: forebay.Dataset) -> dict[int, list[list[int]]]:
    loader = ds.loader(batch_size=BATCH, shuffle="full", epochs=50)
    batches = [batch.indices.tolist() for batch in loader]
    return {epoch: batches[epoch * STEPS : epoch * STEPS + STEPS] for epoch in range(50)}


def test_whatever_four_operations_follow_each_other_a_loader_does_as_the_model(ds: forebay.Dataset) -> None:
    of_epochs = orders(ds)
    for names in itertools.product(OPERATIONS, repeat=4):
        checked = Checked(KINDS["caller"](ds), of_epochs)
        # Where most happens: in the middle of an epoch.
        for name in ("next a", *names, "next a"):
            checked.do(name)


@pytest.mark.parametrize("kind", KINDS)
def test_a_loader_does_as_the_model_in_long_sequences_of_operations(ds: forebay.Dataset, kind: str) -> None:
    of_epochs = orders(ds)
    for seed in range(40):
        chosen = random.Random(seed)
        checked = Checked(KINDS[kind](ds), of_epochs)
        for _ in range(14):
            checked.do(chosen.choice(MORE))
        checked.loader.close()


@pytest.mark.parametrize("kind", KINDS)
def test_a_loop_that_another_loop_ended_is_an_error_wherever_it_was(ds: forebay.Dataset, kind: str) -> None:
    for taken in range(1, STEPS):
        loader = KINDS[kind](ds)
        received = 0
        with pytest.raises(forebay.InvalidError, match="ended by another.*\n.*a loader for each"):
            for _ in loader:
                received += 1
                if received == taken:
                    assert len(list(loader)) == STEPS
        assert received == taken


class Interrupt(BaseException):
    """What the handler of a signal raises."""


PACKAGE = os.path.dirname(forebay.__file__)


class Interrupter:
    """Raises where the handler of a signal may raise: when Python code of the package, or of ``threading`` that it calls, is entered, or has
    called something that is no Python code; the ``at``-th time."""

    def __init__(self, at: int) -> None:
        self.left = at
        self.places = (PACKAGE, threading.__file__)

    def __call__(self, frame: Any, event: str, _: Any) -> None:
        if event not in ("call", "c_return") or not frame.f_code.co_filename.startswith(self.places):
            return
        self.left -= 1
        if self.left == 0:
            sys.setprofile(None)
            raise Interrupt

    def __enter__(self) -> Interrupter:
        sys.setprofile(self)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)


INTERRUPTED: dict[str, Callable[[forebay.Dataset], Any]] = {
    **KINDS,
    "tuples": lambda ds: ds.loader(batch_size=BATCH, shuffle="full", as_tuple=True, sample_map=lambda sample: dict(sample)),
    "map on caller": lambda ds: ds.loader(batch_size=BATCH, shuffle="full", map=lambda batch: batch, prefetch=0, read_threads=1),
    "several maps": lambda ds: ds.loader(batch_size=BATCH, shuffle="full", map=lambda batch: batch, map_threads=3),
    "to a device": lambda ds: forebay.torch.Loader(ds, batch_size=BATCH, shuffle="full", device="cpu"),
}


@pytest.mark.parametrize("kind", INTERRUPTED)
@pytest.mark.parametrize("how", ["loop", "steps"])
def test_a_state_counts_what_the_loop_got_wherever_a_signal_comes(ds: forebay.Dataset, kind: str, how: str) -> None:
    whole = [indices for batches in list(orders(ds).values())[:1] for indices in batches]
    at, is_over = 0, False
    while not is_over:
        at += 1
        loader = INTERRUPTED[kind](ds)
        received = 0
        try:
            with Interrupter(at) as interrupter:
                for _ in loader if how == "loop" else loader.steps(STEPS):
                    received += 1
            # In a destructor it is lost.
            is_over = interrupter.left > 0
        except Interrupt:
            pass
        state = loader.state_dict()
        assert (state["epoch"], state["position"]) == divmod(received * BATCH, COUNT), at
        loader.close()
        rest = KINDS["caller"](ds)
        rest.load_state_dict(state)
        if received < STEPS:
            assert [batch.indices.tolist() for batch in rest] == whole[received:], at
        # threading.enumerate() would list a thread whose start was interrupted for good.
        for thread in [thread for thread in threading.enumerate() if not thread.is_alive()]:
            threading._limbo.pop(thread, None)  # type: ignore[attr-defined]
    assert received == STEPS and at > 20
