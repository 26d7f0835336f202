"""States that go from one front to another, and stores as the source: the same samples in the same batches."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from package_fixtures import Make, images, same

import forebay
import forebay.jax

COUNT, STEPS = 60, 6
HOW: dict[str, Any] = {"batch_size": 10, "shuffle": "full", "seed": 7}


@pytest.fixture
def path(make: Make) -> Path:
    return make(x=(images(COUNT), {"chunks": (7, 6, 5, 3), "compression": "gzip"}), y=np.arange(COUNT, dtype="i4"))


@pytest.fixture
def samples(path: Path) -> Any:
    return forebay.open(path, ["x"], label="y")


def loader_of(front: str, samples: Any) -> Any:
    return samples.loader(**HOW) if front == "numpy" else forebay.jax.Loader(samples, **HOW)


def rows(loader: Any, count: int | None = None) -> list[list[int]]:
    """The labels of each batch; of ``count`` batches, or to the end of the epoch."""
    taken = zip(range(count), loader) if count is not None else enumerate(loader)
    return [batch["y"].tolist() for _, batch in taken]


@pytest.mark.parametrize(("before", "after"), [("numpy", "jax"), ("jax", "numpy")])
def test_a_state_of_one_front_goes_on_in_the_other_at_any_step(samples: Any, before: str, after: str) -> None:
    whole = samples.loader(**HOW)
    epochs = [rows(whole), rows(whole)]
    for stop in range(STEPS + 1):
        loader, other = loader_of(before, samples), loader_of(after, samples)
        seen = rows(loader, stop)
        state = json.loads(json.dumps(loader.state_dict()))
        assert state == {**state, "epoch": stop // STEPS, "position": 10 * stop % COUNT}
        other.load_state_dict(state)
        # After the last batch the next epoch begins; a front that goes on has the same batches as one that was not stopped.
        assert seen + rows(other) == (epochs[0] if stop < STEPS else [*epochs[0], *epochs[1]])
        loader.close(), other.close()


def test_a_store_is_a_source_and_its_batches_are_those_of_the_files(samples: Any) -> None:
    with forebay.Store() as store:
        store.fill(samples)
        for batch, expected in zip(forebay.jax.Loader(store, **HOW), samples.loader(**HOW), strict=True):
            assert isinstance(batch["x"], jax.Array)
            same(np.asarray(batch["x"]), expected["x"])
            same(np.asarray(batch["y"]), expected["y"])


def test_a_run_goes_on_from_files_to_a_store_and_back(samples: Any) -> None:
    whole = rows(samples.loader(**HOW))
    with forebay.Store() as store:
        store.fill(samples)
        for first, second in ((samples, store), (store, samples)):
            loader, other = forebay.jax.Loader(first, **HOW), forebay.jax.Loader(second, **HOW)
            seen = rows(loader, 4)
            other.load_state_dict(loader.state_dict())
            assert seen + rows(other) == whole
            loader.close(), other.close()
