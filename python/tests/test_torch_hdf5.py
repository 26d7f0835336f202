"""Samples as the Stimulus paper asks for them: a path, a field, a label, a boundary."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from conftest import Make, images
from torch.utils.data import DataLoader

import forebay
import forebay.torch

COUNT = 16
ROW = 6 * 5 * 3
pytestmark = pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")


@pytest.fixture
def path(make: Make) -> Path:
    return make("images.h5", image=(images(COUNT), {"chunks": (3, 6, 5, 3)}), label=np.arange(COUNT), half=np.arange(8))


@pytest.mark.parametrize("count", [0, 2])
@pytest.mark.parametrize("threads", [None, 1, 4])
def test_the_call_of_the_paper(path: Path, threads: int | None, count: int) -> None:
    dataset = forebay.torch.HDF5((path, "image", "label", ("FIXED", ROW)), transfer_size=1048576, read_threads=threads)
    data_loader = DataLoader(dataset, batch_size=4, shuffle=True, num_workers=count)
    seen = []
    for imgs, labels in data_loader:
        assert imgs.shape == (4, 6, 5, 3) and (imgs.numpy() == images(COUNT)[labels]).all()
        seen += labels.tolist()
    assert sorted(seen) == list(range(COUNT))


def test_the_source_may_be_given_in_place(path: Path) -> None:
    dataset = forebay.torch.HDF5(str(path), "image", "label", ("FIXED", ROW))
    data, label = dataset[5]
    assert isinstance(data, torch.Tensor) and (data.numpy() == images(COUNT)[5]).all() and label == 5
    assert len(dataset) == COUNT and len(pickle.loads(pickle.dumps(dataset))) == COUNT


def test_several_rows_may_be_a_sample(path: Path) -> None:
    dataset = forebay.torch.HDF5(path, "image", "half", ("FIXED", 2 * ROW))
    data, label = dataset[3]
    assert data.shape == (2, 6, 5, 3) and (data.numpy() == images(COUNT)[6:8]).all() and label == 3


def test_flat_data_are_cut_by_bytes(make: Make) -> None:
    path = make(x=np.arange(64, dtype="<f4"), y=np.arange(8))
    data, label = forebay.torch.HDF5(path, "x", "y", ("FIXED", 32))[2]
    assert data.tolist() == list(range(16, 24)) and label == 2


@pytest.mark.parametrize("as_list", [True, False])
def test_several_files_are_one_set(make: Make, path: Path, as_list: bool) -> None:
    other = make("more.h5", image=images(4, 1), label=np.arange(100, 104))
    sources = [(one, "image", "label", ("FIXED", ROW)) for one in (path, other)]
    dataset = forebay.torch.HDF5(sources) if as_list else forebay.torch.HDF5(*sources)
    assert len(dataset) == COUNT + 4
    data, label = dataset[COUNT + 1]
    assert (data.numpy() == images(4, 1)[1]).all() and label == 101


def test_a_length_that_is_no_whole_row_is_refused(path: Path) -> None:
    for length in (ROW + 1, 1, 0):
        with pytest.raises(ValueError, match=rf"images\.h5: variable 'image': samples of {length} bytes; a row has 90"):
            forebay.torch.HDF5(path, "image", "label", ("FIXED", length))


def test_files_whose_samples_differ_are_refused(make: Make, path: Path) -> None:
    other = make("more.h5", image=images(4), label=np.arange(2))
    with pytest.raises(ValueError, match=r"more\.h5: samples are Fixed\(rows=2\), in .*images\.h5 Fixed\(rows=1\)"):
        forebay.torch.HDF5([(path, "image", "label", ("FIXED", ROW)), (other, "image", "label", ("FIXED", 2 * ROW))])
    with pytest.raises(ValueError, match="same field and label"):
        forebay.torch.HDF5([(path, "image", "label", ("FIXED", ROW)), (other, "image", "half", ("FIXED", ROW))])


@pytest.mark.parametrize("threads", [None, 2, 4])
def test_samples_of_different_lengths(make: Make, threads: int | None) -> None:
    path = make(x=np.arange(10.0), ptr=[0, 3, 3, 10], y=[7, 8, 9])
    dataset = forebay.torch.HDF5((path, "x", "y", ("VARIABLE", "ptr")), read_threads=threads)
    items = [(data.tolist(), int(label)) for data, label in (dataset[number] for number in range(3))]
    assert items == [([0, 1, 2], 7), ([], 8), ([3, 4, 5, 6, 7, 8, 9], 9)]
    (batch,) = DataLoader(dataset, batch_size=3, collate_fn=forebay.torch.collate)
    assert batch[0].tolist() == list(range(10)) and batch[1].tolist() == [7, 8, 9]
    for data, _ in DataLoader(dataset, batch_size=1, shuffle=True):
        assert data.shape[0] == 1


def test_without_a_label_items_are_the_data(path: Path) -> None:
    for dataset in (forebay.torch.HDF5(path, "image"), forebay.torch.HDF5((path, "image", None, ("FIXED", ROW)))):
        assert (dataset[2].numpy() == images(COUNT)[2]).all()
        (batch,) = DataLoader(dataset, batch_size=COUNT)
        assert batch.shape == (COUNT, 6, 5, 3)


@pytest.mark.parametrize(
    "source", [(), ("a.h5",), ([],), (("a.h5", "x", "y", ("ROWS", 1)),), (("a.h5", "x", "y", 4096),), (5,)], ids=str
)
def test_what_is_no_source_is_refused(source: Any) -> None:
    with pytest.raises(ValueError, match="source is|one is|there are"):
        forebay.torch.HDF5(*source)


def test_no_threads_are_refused(path: Path) -> None:
    with pytest.raises(ValueError, match="at least 1"):
        forebay.torch.HDF5(path, "image", read_threads=0)
