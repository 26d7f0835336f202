"""Samples by number for Grain."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import grain
import numpy as np
import pytest
from package_fixtures import Make, images, same

import forebay
import forebay.jax

COUNT = 60


@pytest.fixture
def source(make: Make) -> Any:
    path = make(x=(images(COUNT), {"chunks": (7, 6, 5, 3), "compression": "gzip"}), y=np.arange(COUNT))
    return forebay.jax.RandomAccessDataSource(forebay.open(path, ["x"], label="y"))


def test_it_is_a_source_of_grain(source: Any) -> None:
    assert isinstance(source, grain.sources.RandomAccessDataSource) and len(source) == COUNT
    sample = source[7]
    same(sample["x"], images(COUNT)[7])
    assert sample["y"] == 7
    assert [one["y"] for one in source._getitems([9, 2, 2])] == [9, 2, 2]


def test_grain_orders_and_batches_the_samples(source: Any) -> None:
    ds = grain.MapDataset.source(source).shuffle(seed=5).batch(8)
    seen = []
    for batch in ds:
        same(batch["x"], images(COUNT)[batch["y"]])
        seen += batch["y"].tolist()
    assert sorted(seen) == list(range(COUNT)) and seen != list(range(COUNT))
    again = iter(grain.MapDataset.source(source).shuffle(seed=5).batch(8).to_iter_dataset())
    next(again)
    state = again.get_state()
    expected = next(again)["y"].tolist()
    again.set_state(state)
    assert next(again)["y"].tolist() == expected


def test_its_name_is_that_of_the_samples_in_any_process(source: Any, make: Make) -> None:
    assert repr(pickle.loads(pickle.dumps(source))) == repr(source) and "60 samples" in repr(source)
    other = forebay.jax.RandomAccessDataSource(forebay.open(make("b.h5", x=images(3)), ["x"]))
    assert repr(other) != repr(source)
    with pytest.raises(TypeError, match="not list"):
        forebay.jax.RandomAccessDataSource([1])


def test_samples_of_different_lengths(make: Make) -> None:
    path: Path = make("r.h5", x=np.arange(10.0), ptr=[0, 3, 3, 10])
    source = forebay.jax.RandomAccessDataSource(forebay.open(path, ["x"], samples=forebay.Ragged(offsets="ptr")))
    assert [source[number]["x"].tolist() for number in range(3)] == [[0, 1, 2], [], [3, 4, 5, 6, 7, 8, 9]]
