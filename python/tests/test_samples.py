"""Which part of a variable is one sample."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from conftest import Make, same
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import forebay
from forebay import Centres, Field, Fixed, Ragged, Sparse, Whole, Windows

VALUES = np.random.default_rng(5).random((24, 3)).astype(np.float32)
OFFSETS = np.array([0, 3, 3, 10, 11, 24])
PAIRS = np.stack([OFFSETS[:-1], OFFSETS[1:]], axis=1)


def joined(values: Any, pairs: Any, numbers: Any, axis: int = 0) -> tuple[Any, Any]:
    """The reference: samples cut out one by one, joined, with their offsets."""
    cuts = [np.take(values, range(*pairs[number]), axis=axis) for number in numbers]
    lengths = [cut.shape[axis] for cut in cuts]
    return np.concatenate(cuts, axis=axis), np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])


def check_ragged(ds: forebay.Dataset, name: str, values: Any, pairs: Any, axis: int = 0) -> None:
    """Single samples, any list of them, and loaded batches are those of the reference."""
    assert len(ds) == len(pairs)
    for number, (begin, end) in enumerate(pairs):
        same(ds[number][name], np.take(values, range(begin, end), axis=axis))
    every = list(range(len(pairs)))
    for numbers in (every, every[::-1], [1], [len(pairs) - 1, 0, 0]):
        batch = ds[numbers]
        expected, offsets = joined(values, pairs, numbers, axis)
        same(batch[name], expected)
        same(batch.offsets[name], offsets)
        for sample, number in zip(ds.__getitems__(numbers), numbers):
            same(sample[name], np.take(values, range(*pairs[number]), axis=axis))
    for shuffle in ("none", "full", "block"):
        for batch in ds.loader(batch_size=2, shuffle=shuffle, seed=3):
            expected, offsets = joined(values, pairs, batch.indices, axis)
            same(batch[name], expected)
            same(batch.offsets[name], offsets)


@pytest.mark.parametrize("rows", [1, 2, 3, 12, 24])
def test_so_many_rows_are_a_sample(make: Make, rows: int) -> None:
    ds = forebay.open(make(x=(VALUES, {"chunks": (5, 2)})), ["x"], samples=Fixed(rows))
    expected = VALUES.reshape(24 // rows, rows, 3) if rows > 1 else VALUES
    assert len(ds) == 24 // rows
    same(ds[:]["x"], expected)
    same(ds[[0, -1]]["x"], expected[[0, -1]])


def test_rows_that_are_no_whole_number_of_samples_are_refused(make: Make) -> None:
    with pytest.raises(forebay.InvalidError, match=r"a\.h5.*'/?x'.*24 rows are no whole number of samples of 7"):
        forebay.open(make(x=VALUES), ["x"], samples=Fixed(7))
    with pytest.raises(forebay.InvalidError, match="0 rows"):
        forebay.open(make(x=VALUES), ["x"], samples=Fixed(0))


@pytest.mark.parametrize("layout", [{}, {"chunks": (4, 2), "compression": "gzip"}], ids=["contiguous", "chunked"])
@pytest.mark.parametrize(
    "samples",
    [
        Ragged(offsets="ptr"),
        Ragged(offsets="pairs"),
        Ragged(offsets=("begin", "end")),
        Ragged(lengths="lengths"),
        Ragged(offsets=OFFSETS),
        Ragged(offsets=PAIRS.astype(np.uint16)),
        Ragged(offsets=np.concatenate([np.zeros((5, 1), int), PAIRS], axis=1)),
        Ragged(offsets={"x": "ptr"}),
        Ragged(offsets={"x": OFFSETS.tolist()}),
        Ragged(lengths={"x": "lengths"}),
    ],
    ids=[
        "offsets",
        "pairs",
        "begin-end",
        "lengths",
        "array",
        "array-pairs",
        "triples",
        "dict",
        "dict-list",
        "dict-lengths",
    ],
)
def test_every_way_to_say_where_samples_end(make: Make, samples: Ragged, layout: dict[str, Any]) -> None:
    tables = {"ptr": OFFSETS, "pairs": PAIRS, "begin": PAIRS[:, 0], "end": PAIRS[:, 1], "lengths": np.diff(OFFSETS)}
    ds = forebay.open(make(x=(VALUES, layout), **tables), ["x"], samples=samples)
    assert ds.describe()["fields"]["x"]["shape"] == (None, 3)
    check_ragged(ds, "x", VALUES, PAIRS)


def test_samples_may_overlap_leave_gaps_and_come_in_any_order(make: Make) -> None:
    pairs = np.array([[20, 24], [0, 5], [3, 9], [9, 9], [2, 4]])
    ds = forebay.open(make(x=(VALUES, {"chunks": (6, 3)})), ["x"], samples=Ragged(offsets=pairs))
    check_ragged(ds, "x", VALUES, pairs)


@pytest.mark.parametrize("layout", [{}, {"chunks": (2, 5)}], ids=["contiguous", "chunked"])
def test_samples_along_another_axis(make: Make, layout: dict[str, Any]) -> None:
    values = np.ascontiguousarray(VALUES.T)
    ds = forebay.open(make(x=(values, layout), ptr=OFFSETS), ["x"], samples=Ragged(offsets="ptr", axis=1))
    check_ragged(ds, "x", values, PAIRS, axis=1)


@pytest.mark.parametrize("layout", [{}, {"chunks": (2, 1, 5), "compression": "gzip"}], ids=["contiguous", "one chunked"])
@pytest.mark.parametrize("kind", ["<i8", ">i4"])
@pytest.mark.parametrize("dtype", [None, "float32"])
def test_samples_along_an_inner_axis_of_several_files(
    make: Make, layout: dict[str, Any], kind: str, dtype: str | None
) -> None:
    values = np.arange(2 * 3 * 24 * 2, dtype=kind).reshape(2, 3, 24, 2)
    make("a.h5", x=values[:, :, :, 0], ptr=OFFSETS)
    make("b.h5", x=(values[:, :, :, 1], layout), ptr=OFFSETS)
    field = Field("x", dtype=dtype) if dtype else "x"
    ds = forebay.open(make("c.h5").parent / "[ab].h5", [field], samples=Ragged(offsets="ptr", axis=2))
    both = np.concatenate([values[:, :, :, 0], values[:, :, :, 1]], axis=2).astype(dtype or values.dtype.newbyteorder("="))
    check_ragged(ds, "x", both, np.concatenate([PAIRS, PAIRS + 24]), axis=2)


def test_samples_along_an_inner_axis_of_a_tall_array(make: Make) -> None:
    values = np.arange(3000 * 24.0).reshape(3000, 24)
    ds = forebay.open(make("tall.h5", x=values, ptr=OFFSETS), ["x"], samples=Ragged(offsets="ptr", axis=1))
    check_ragged(ds, "x", values, PAIRS, axis=1)


def test_axes_of_equal_length_are_not_mistaken_for_each_other(make: Make) -> None:
    values = np.arange(16.0).reshape(4, 4)
    ds = forebay.open(make(x=values, ptr=[0, 1, 4]), ["x"], samples=Ragged(offsets="ptr", axis=1))
    check_ragged(ds, "x", values, [[0, 1], [1, 4]], axis=1)


def test_fields_have_offsets_of_their_own_and_others_one_row(make: Make) -> None:
    edges = np.arange(14).reshape(2, 7)
    edge_ptr = np.array([0, 1, 1, 4, 5, 7])
    path = make(x=VALUES, ptr=OFFSETS, edges=edges, edge_ptr=edge_ptr, y=np.arange(5))
    samples = Ragged(offsets={"x": "ptr", "edges": "edge_ptr"}, axis={"edges": 1})
    ds = forebay.open(path, ["x", "edges", "y"], samples=samples)
    check_ragged(ds, "x", VALUES, PAIRS)
    check_ragged(ds, "edges", edges, np.stack([edge_ptr[:-1], edge_ptr[1:]], 1), axis=1)
    same(ds[[4, 1]]["y"], np.array([4, 1]))


def test_ragged_samples_of_several_files_follow_each_other(make: Make) -> None:
    make("a.h5", x=VALUES, ptr=OFFSETS)
    make("b.h5", x=VALUES + 1, ptr=np.array([0, 20, 24]))
    ds = forebay.open(make("c.h5", x=VALUES).parent / "[ab].h5", ["x"], samples=Ragged(offsets="ptr"))
    pairs = np.concatenate([PAIRS, [[24, 44], [44, 48]]])
    check_ragged(ds, "x", np.concatenate([VALUES, VALUES + 1]), pairs)


@pytest.mark.parametrize(
    "samples",
    [Ragged(offsets=OFFSETS), Ragged(offsets=PAIRS), Ragged(lengths=np.diff(OFFSETS)), Centres([[5], [7]], [3])],
    ids=["offsets", "pairs", "lengths", "centres"],
)
def test_an_array_that_does_not_say_which_file_is_meant_is_refused_for_several(make: Make, samples: Any) -> None:
    paths = [make(f"{number}.h5", x=VALUES) for number in range(2)]
    with pytest.raises(forebay.InvalidError, match="for 2 files does not say which file each sample is in"):
        forebay.open(paths, ["x"], samples=samples)
    assert len(forebay.open(paths[:1], ["x"], samples=samples)) > 0
    triples = np.concatenate([np.zeros_like(PAIRS[:, :1]), PAIRS], axis=1)
    assert len(forebay.open(paths, ["x"], samples=Ragged(offsets=triples))) == len(PAIRS)


@pytest.mark.parametrize(
    ("samples", "message"),
    [
        (Ragged(offsets=[0, 9, 5]), "begins at 9 and ends at 5"),
        (Ragged(offsets="falling"), "must not fall"),
        (Ragged(offsets=[0, 30]), "ends at 30, the axis is 24 long"),
        (Ragged(offsets="negative"), "whole numbers from 0 up"),
        (Ragged(offsets="x"), "whole numbers|not integers|offsets 'x'"),
        (Ragged(offsets="missing"), "missing"),
        (Ragged(offsets=[0, 2], axis=2), "no axis 2"),
    ],
)
def test_offsets_that_cannot_be_are_refused(make: Make, samples: Ragged, message: str) -> None:
    path = make(x=VALUES, falling=[0, 9, 5], negative=[-1, 5])
    with pytest.raises(forebay.ForebayError, match=message) as caught:
        forebay.open(path, ["x"], samples=samples)
    assert caught.value.kind in ("invalid", "not_found")


def test_ragged_needs_either_offsets_or_lengths(make: Make) -> None:
    for samples in (Ragged(), Ragged(offsets="a", lengths="b")):
        with pytest.raises(ValueError, match="either offsets or lengths"):
            forebay.open(make(x=VALUES), ["x"], samples=samples)


def test_whole_files_of_one_length_are_stacked(make: Make) -> None:
    paths = [make(f"{number}.h5", x=VALUES + number) for number in range(3)]
    ds = forebay.open(paths, ["x"], samples=Whole())
    assert len(ds) == 3
    same(ds[1]["x"], VALUES + 1)
    same(ds[[2, 0]]["x"], np.stack([VALUES + 2, VALUES]))
    assert ds[:].offsets == {}


def test_whole_files_of_different_lengths_are_joined(make: Make) -> None:
    lengths = [5, 1, 7]
    parts = [VALUES[:length] * (number + 1) for number, length in enumerate(lengths)]
    paths = [make(f"{number}.h5", x=part) for number, part in enumerate(parts)]
    ds = forebay.open(paths, ["x"], samples=Whole())
    ends = np.cumsum(lengths)
    check_ragged(ds, "x", np.concatenate(parts), np.stack([ends - lengths, ends], 1))


def windows(values: Any, size: Any, stride: Any, step: Any) -> list[Any]:
    """The reference: boxes at regular places, last axis fastest."""
    starts = []
    for axis, length in enumerate(values.shape):
        reach = (size[axis] - 1) * step[axis] + 1
        starts.append(range(0, length - reach + 1, stride[axis]))
    found = []
    for at in np.ndindex(*map(len, starts)):
        box = tuple(
            slice(starts[axis][index], starts[axis][index] + (size[axis] - 1) * step[axis] + 1, step[axis])
            for axis, index in enumerate(at)
        )
        found.append(values[box])
    return found


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(asked=st.data())
def test_windows_of_any_size_stride_and_step(tmp_path: Path, asked: st.DataObject) -> None:
    shape = asked.draw(st.lists(st.integers(1, 9), min_size=1, max_size=3))
    values = np.arange(np.prod(shape), dtype=">i4").reshape(shape)
    chunks = asked.draw(st.none() | st.tuples(*(st.integers(1, length) for length in shape)))
    path = tmp_path / "windows.h5"
    with h5py.File(path, "w") as file:
        file.create_dataset("x", data=values, chunks=chunks)
    size, stride, step = [], [], []
    for length in shape:
        step.append(asked.draw(st.integers(1, 3)))
        size.append(asked.draw(st.integers(1, (length - 1) // step[-1] + 1)))
        stride.append(asked.draw(st.integers(1, length)))
    ds = forebay.open(path, ["x"], samples=Windows(size, stride, step))
    expected = windows(values, size, stride, step)
    assert len(ds) == len(expected)
    numbers = asked.draw(st.lists(st.integers(0, len(expected) - 1), min_size=1, max_size=6))
    same(ds[numbers]["x"], np.stack([expected[number] for number in numbers]))


def test_windows_touch_by_default_and_leave_the_rest_out(make: Make) -> None:
    values = np.arange(70).reshape(10, 7)
    ds = forebay.open(make(x=(values, {"chunks": (3, 3)})), ["x"], samples=Windows({0: 4, 1: 3}))
    assert len(ds) == 4
    same(ds[:]["x"], np.stack(windows(values, [4, 3], [4, 3], [1, 1])))
    ds = forebay.open(make(x=values), ["x"], samples=Windows({0: 4}))
    same(ds[:]["x"], np.stack([values[:4], values[4:8]]))


def test_axes_go_by_the_names_the_file_gives_them(tmp_path: Path) -> None:
    values = np.arange(60).reshape(12, 5)
    path = tmp_path / "named.h5"
    with h5py.File(path, "w") as file:
        made = file.create_dataset("x", data=values)
        made.dims[0].label, made.dims[1].label = "time", "station"
    ds = forebay.open(path, ["x"], samples=Windows({"time": 4}, {"time": 2}))
    same(ds[:]["x"], np.stack([values[at : at + 4] for at in range(0, 9, 2)]))
    ds = forebay.open(path, ["x"], samples=Windows({"station": 2}))
    same(ds[:]["x"], np.stack([values[:, 0:2], values[:, 2:4]]))
    with pytest.raises(forebay.InvalidError, match="no axis called 'depth'.*time, station"):
        forebay.open(path, ["x"], samples=Windows({"depth": 2}))


def test_windows_larger_than_the_array_are_refused(make: Make) -> None:
    with pytest.raises(forebay.InvalidError, match="reach over 25 elements of axis 0, which has 24"):
        forebay.open(make(x=VALUES), ["x"], samples=Windows(25))


@pytest.mark.parametrize("listed", [True, False], ids=["listed", "variable"])
def test_boxes_around_centres(make: Make, listed: bool) -> None:
    values = np.random.default_rng(0).random((9, 8, 3))
    at = np.array([[4, 4], [2, 1], [6, 7], [4, 4]])
    path = make(x=(values, {"chunks": (4, 4, 2)}), at=at)
    ds = forebay.open(path, ["x"], samples=Centres(at if listed else "at", {0: 5, 1: 2}))
    expected = np.stack([values[a - 2 : a + 3, b - 1 : b + 1] for a, b in at])
    same(ds[:]["x"], expected)
    same(ds[[3, 1]]["x"], expected[[3, 1]])


def test_centres_may_lie_in_several_files(make: Make) -> None:
    paths = [make(f"{number}.h5", x=np.arange(10) + 10 * number) for number in range(2)]
    ds = forebay.open(paths, ["x"], samples=Centres([[0, 5], [1, 1], [1, 8]], [3]))
    same(ds[:]["x"], np.array([[4, 5, 6], [10, 11, 12], [17, 18, 19]]))


def test_a_box_that_leaves_the_array_is_refused(make: Make) -> None:
    with pytest.raises(forebay.InvalidError, match="around index 0 of axis 0"):
        forebay.open(make(x=VALUES), ["x"], samples=Centres([[0]], [3]))


def test_labels_come_from_other_files(make: Make) -> None:
    data = [make(f"data{number}.h5", x=VALUES + number) for number in range(2)]
    labels = [make("labels0.h5", y=np.arange(40)), make("labels1.h5", y=np.arange(40, 48))]
    ds = forebay.open(data, ["x"], label=Field("y", files=labels))
    assert ds.label == "y" and ds.fields == ["x", "y"] and len(ds.files) == 4
    batch = ds[[0, 23, 24, 47]]
    same(batch["y"], np.array([0, 23, 24, 47]))
    same(batch["x"], np.stack([VALUES[0], VALUES[23], VALUES[0] + 1, VALUES[23] + 1]))


def test_fields_that_disagree_on_the_number_of_samples_are_refused(make: Make) -> None:
    with pytest.raises(forebay.InvalidError, match="'?y'?.*23.*24|24.*23"):
        forebay.open(make(x=VALUES, y=np.arange(23)), ["x", "y"])


def test_files_that_disagree_on_type_or_shape_are_refused(make: Make) -> None:
    first = make("a.h5", x=VALUES)
    for number, other in enumerate([VALUES.astype(np.float64), VALUES[:, :2], VALUES.reshape(24, 3, 1)]):
        with pytest.raises(forebay.InvalidError, match=rf"b{number}\.h5.*'/?x'.*first file"):
            forebay.open([first, make(f"b{number}.h5", x=other)], ["x"])


@pytest.mark.parametrize("dtype", [None, "float64", "int16"])
def test_sparse_rows_become_whole(make: Make, dtype: str | None) -> None:
    random = np.random.default_rng(2)
    dense = np.where(random.random((9, 12)) < 0.3, random.integers(1, 99, (9, 12)), 0).astype(np.float32)
    dense[4] = 0
    rows, columns = np.nonzero(dense)
    indptr = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=9))])
    path = make(data=(dense[rows, columns], {"chunks": (5,)}), indices=columns.astype(np.int32), indptr=indptr)
    field = Field("data", name="x", sparse=Sparse("indices", 12), dtype=dtype)
    ds = forebay.open(path, [field], samples=Ragged(offsets="indptr"))
    expected = dense if dtype is None else dense.astype(dtype)
    same(ds[:]["x"], expected)
    same(ds[4]["x"], expected[4])
    for batch in ds.loader(batch_size=4, shuffle="full"):
        same(batch["x"], expected[batch.indices])
    with pytest.raises(forebay.CorruptError, match=r"a\.h5.*sample \d+: column \d+ of 3.*`columns`"):
        forebay.open(path, [Field("data", sparse=Sparse("indices", 3))], samples=Ragged(offsets="indptr"))[:]


def matrix(path: Path, dense: Any, kind: str, old: bool = False) -> Path:
    """A sparse matrix as AnnData writes it, by rows (csr) or by columns (csc)."""
    turned = dense if kind == "csr" else dense.T
    major, minor = np.nonzero(turned)
    with h5py.File(path, "w") as file:
        group = file.create_group("X")
        group.attrs["h5sparse_format" if old else "encoding-type"] = kind if old else f"{kind}_matrix"
        group.attrs["h5sparse_shape" if old else "shape"] = dense.shape
        group["data"] = turned[major, minor]
        group["indices"] = minor.astype("i4")
        group["indptr"] = np.concatenate([[0], np.cumsum(np.bincount(major, minlength=len(turned)))]).astype("i4")
    return path


SPARSE = np.where(np.random.default_rng(7).random((6, 6)) < 0.5, np.arange(1, 37).reshape(6, 6), 0).astype("f4")


@pytest.mark.parametrize("old", [False, True])
def test_a_matrix_of_anndata_says_its_columns_and_by_columns_it_is_refused(tmp_path: Path, old: bool) -> None:
    field = Field("X/data", name="x", sparse=Sparse("X/indices"))
    by_rows = matrix(tmp_path / "rows.h5ad", SPARSE, "csr", old)
    ds = forebay.open(by_rows, [field], samples=Ragged(offsets="X/indptr"))
    same(ds[:]["x"], SPARSE)
    assert ds.describe()["fields"]["x"]["shape"] == (6,)
    by_columns = matrix(tmp_path / "columns.h5ad", SPARSE, "csc", old)
    for sparse in (Sparse("X/indices"), Sparse("X/indices", 6)):
        with pytest.raises(forebay.UnsupportedError, match=r"columns\.h5ad.*by columns \(CSC\).*tocsr"):
            forebay.open(by_columns, [Field("X/data", sparse=sparse)], samples=Ragged(offsets="X/indptr"))


def test_columns_that_files_do_not_agree_on_are_refused(make: Make, tmp_path: Path) -> None:
    def ragged(files: Any, columns: int | None) -> Any:
        field = Field("X/data", name="x", sparse=Sparse("X/indices", columns))
        return forebay.open(files, [field], samples=Ragged(offsets="X/indptr"))

    both = [matrix(tmp_path / "a.h5ad", SPARSE, "csr"), matrix(tmp_path / "b.h5ad", SPARSE[:, :4], "csr")]
    with pytest.raises(forebay.InvalidError, match=r"b\.h5ad.*4 columns, those of .*a\.h5ad 6"):
        ragged(both, None)
    same(ragged(both, 6)[:]["x"], np.concatenate([SPARSE, np.pad(SPARSE[:, :4], ((0, 0), (0, 2)))]))
    with pytest.raises(forebay.InvalidError, match=r"a\.h5ad.*6 columns, columns=5"):
        ragged(both[0], 5)
    bare = make("bare.h5", data=np.ones(2, "f4"), indices=np.zeros(2, "i4"), indptr=np.array([0, 1, 2]))
    with pytest.raises(forebay.InvalidError, match="how many columns.*give columns"):
        forebay.open(bare, [Field("data", sparse=Sparse("indices"))], samples=Ragged(offsets="indptr"))


@pytest.mark.parametrize("options", [{}, {"chunks": (5, 3), "compression": "gzip"}])
def test_numbers_of_different_widths_are_one_set_once_they_are_cast(make: Make, options: dict[str, Any]) -> None:
    kinds = ["f4", "f8", ">i2", "u1"]
    parts = [(VALUES * 100).astype(kind) for kind in kinds]
    files = [make(f"{at}.h5", x=(part, options), n=[24]) for at, part in enumerate(parts)]
    expected = np.concatenate([part.astype("f4") for part in parts])
    for axes in (None, (0,)):
        ds = forebay.open(files, [Field("x", dtype="float32", axes=axes)])
        same(ds[:]["x"], expected)
        for batch in ds.loader(batch_size=7, shuffle="full"):
            same(batch["x"], expected[batch.indices])
    turned = forebay.open(files, [Field("x", dtype="float32", samples=Fixed(2), axes=(1, 0))])
    same(turned[:]["x"], expected.reshape(48, 2, 3).transpose(0, 2, 1))
    ragged = forebay.open(files, [Field("x", dtype="float32", samples=Ragged(lengths="n"))])[:1]
    same(ragged["x"], expected[:24])
    scaled = forebay.open(files, [Field("x", dtype="float64", scale=0.5, offset=1.0)])
    same(scaled[:]["x"], np.concatenate([part.astype("f8") * 0.5 + 1.0 for part in parts]))
    with pytest.raises(forebay.InvalidError, match=r"1\.h5.*<f8.*<f4.*dtype="):
        forebay.open(files, ["x"])


@pytest.mark.parametrize("shuffle", ["none", "full", "block"])
def test_a_scalar_of_each_file_is_the_label_of_the_whole_of_it(make: Make, shuffle: str) -> None:
    energies = [1.5, -2.25, 3.0, 4.5]
    files = [make(f"{at}.h5", x=VALUES + at, energy=np.float64(energy)) for at, energy in enumerate(energies)]
    ds = forebay.open(files, ["x"], label="energy", samples=Whole())
    same(ds[:]["energy"], np.array(energies))
    same(ds[2]["energy"], np.float64(3.0))
    assert ds.describe()["fields"]["energy"]["shape"] == ()
    for batch in ds.loader(batch_size=3, shuffle=shuffle):
        same(batch["energy"], np.array(energies)[batch.indices])
        same(batch["x"], np.stack([VALUES + int(at) for at in batch.indices]))
    cast = forebay.open(files, [Field("energy", dtype="float32")], samples=Whole())
    same(cast[:]["energy"], np.array(energies, "f4"))
    with pytest.raises(forebay.InvalidError, match=r"0\.h5.*'energy'.*scalar.*Whole\(\)"):
        forebay.open(files, ["energy"])


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(asked=st.data())
def test_ragged_batches_are_those_of_the_reference(tmp_path: Path, asked: st.DataObject) -> None:
    lengths = asked.draw(st.lists(st.integers(0, 6), min_size=1, max_size=12))
    shape = [sum(lengths), *asked.draw(st.lists(st.integers(1, 3), max_size=2))]
    axis = asked.draw(st.integers(0, len(shape) - 1))
    shape[0], shape[axis] = shape[axis], shape[0]
    values = np.arange(np.prod(shape), dtype=np.int32).reshape(shape)
    can_chunk = values.size > 0
    chunks = asked.draw(st.tuples(*(st.integers(1, length) for length in shape))) if can_chunk else None
    path = tmp_path / "ragged.h5"
    with h5py.File(path, "w") as file:
        file.create_dataset("x", data=values, chunks=chunks)
        file["lengths"] = lengths
    dtype = asked.draw(st.sampled_from([None, "float64"]))
    ds = forebay.open(path, [Field("x", dtype=dtype)], samples=Ragged(lengths="lengths", axis=axis))
    ends = np.cumsum(lengths)
    pairs = np.stack([ends - lengths, ends], 1)
    numbers = asked.draw(st.lists(st.integers(0, len(lengths) - 1), min_size=1, max_size=8))
    expected, offsets = joined(values, pairs, numbers, axis)
    batch = ds[numbers]
    same(batch["x"], expected if dtype is None else expected.astype(dtype))
    same(batch.offsets["x"], offsets)


def test_a_label_of_ragged_samples_has_one_row(make: Make) -> None:
    path = make(x=np.arange(6), ptr=np.array([0, 2, 2, 6]), y=np.array([7, 8, 9]))
    for samples in (forebay.Ragged(offsets="ptr"), forebay.Ragged(lengths=[2, 0, 4])):
        batch = forebay.open(path, ["x"], label="y", samples=samples)[[2, 0]]
        assert batch["y"].tolist() == [9, 7] and batch["x"].tolist() == [2, 3, 4, 5, 0, 1]


def test_a_label_that_is_among_the_fields_otherwise_is_refused(make: Make) -> None:
    path = make(x=np.arange(6), y=np.arange(6))
    with pytest.raises(ValueError, match="label=.*float16.*fields have another 'y'"):
        forebay.open(path, ["x", "y"], label=Field("y", dtype="float16"))
    for label in ("y", Field("y")):
        assert forebay.open(path, ["x", "y"], label=label).label == "y"
    both = forebay.open(path, ["x", "y"], label=Field("y", dtype="float16", name="target"))
    assert both[3]["target"].dtype == np.float16 and both[3]["y"].dtype == np.int64
