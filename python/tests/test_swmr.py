"""Files that a SWMR writer adds to while they are read."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import h5py
import numpy as np
import pytest

import forebay


class Writer:
    """A SWMR writer of the file at ``path``, whose rows ``x`` are numbered."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.file = h5py.File(path, "w", libver="latest")
        self.rows = self.file.create_dataset("x", (0, 2), "<i8", maxshape=(None, 2), chunks=(2, 2))
        self.file.swmr_mode = True

    def add(self, count: int) -> None:
        first = len(self.rows)
        self.rows.resize(first + count, axis=0)
        self.rows[first:] = np.arange(first, first + count)[:, None]
        self.rows.flush()


@pytest.fixture
def writer(tmp_path: Path) -> Iterator[Writer]:
    writer = Writer(tmp_path / "growing.h5")
    yield writer
    writer.file.close()


def _rows(loader: forebay.Loader) -> list[int]:
    return [int(row) for batch in loader for row in batch["x"][:, 0]]


def test_a_file_that_changed_since_it_was_opened_is_an_error_that_names_swmr(writer: Writer) -> None:
    writer.add(4)
    loader = forebay.Loader(forebay.open(writer.path, "x"), batch_size=2)
    assert _rows(loader) == [0, 1, 2, 3]
    writer.add(2)
    with pytest.raises(forebay.ForebayError, match="SWMR"):
        _rows(loader)
    assert forebay.inspect(writer.path)["swmr"]


def test_an_epoch_with_refresh_has_what_was_added_before_it(writer: Writer) -> None:
    writer.add(4)
    loader = forebay.Loader(forebay.open(writer.path, "x"), batch_size=2, refresh=True)
    assert _rows(loader) == [0, 1, 2, 3]
    writer.add(3)
    assert _rows(loader) == list(range(7))
    assert len(loader.dataset) == 7 and loader.state_dict()["epoch"] >= 1


def test_a_state_of_an_epoch_with_refresh_goes_on_with_its_own_count_only(writer: Writer) -> None:
    writer.add(4)
    loader = forebay.Loader(forebay.open(writer.path, "x"), batch_size=2, refresh=True)
    next(iter(loader))
    state = loader.state_dict()
    again = forebay.Loader(forebay.open(writer.path, "x"), batch_size=2, refresh=True)
    again.load_state_dict(state)
    assert _rows(again) == [2, 3]
    writer.add(2)
    later = forebay.Loader(forebay.open(writer.path, "x"), batch_size=2, refresh=True)
    with pytest.raises(forebay.InvalidError, match="4 samples"):
        later.load_state_dict(state)


def test_refresh_is_for_one_rank(writer: Writer) -> None:
    writer.add(4)
    with pytest.raises(ValueError, match="refresh"):
        forebay.Loader(forebay.open(writer.path, "x"), world=2, refresh=True)
