"""What forebay reads is what h5py reads."""

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

COUNT = 13


def random_of(dtype: np.dtype[Any], shape: tuple[int, ...] = (COUNT, 4), seed: int = 1) -> np.ndarray[Any, Any]:
    """Any bits at all, where the type allows."""
    random = np.random.default_rng(seed)
    if dtype.kind == "b":
        return random.integers(0, 2, shape).astype(bool)
    if dtype.names is not None:
        array = np.zeros(shape, dtype)
        for name in dtype.names:
            array[name] = random_of(array[name].dtype, array[name].shape, seed + 1)
        return array
    count = int(np.prod(shape)) * dtype.itemsize
    return random.integers(0, 256, count, np.uint8).view(dtype).reshape(shape)


NUMBERS = [
    order + kind for kind in ("i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8") for order in "<>"
]
KINDS = [
    *NUMBERS, "?", "<c8", ">c8", "<c16", ">c16", "S1", "S7", "V5",
    [("a", "<i4"), ("b", ">f8"), ("c", "S3")],
    [("one", "u1"), ("many", "<f4", (2, 3)), ("inner", [("x", ">i2"), ("y", "?")])],
]  # fmt: skip
LAYOUTS: dict[str, dict[str, Any]] = {
    "contiguous": {},
    "chunked": {"chunks": (4, 4)},
    "cut": {"chunks": (5, 3)},
    "gzip": {"chunks": (3, 4), "compression": "gzip", "shuffle": True},
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_every_type_in_every_layout_is_read_as_h5py_reads_it(make: Make, kind: Any, layout: str) -> None:
    path = make(x=(random_of(np.dtype(kind)), LAYOUTS[layout]))
    ds = forebay.open(path, ["x"])
    with h5py.File(path) as file:
        theirs = file["x"][:]
    same(ds[:]["x"], theirs)
    same(ds[[7, 2, 2, 12]]["x"], theirs[[7, 2, 2, 12]])
    same(np.asarray(ds[3]["x"]), theirs[3])
    loaded = np.concatenate([batch["x"] for batch in ds.loader(batch_size=5)])
    same(loaded, theirs)


def test_an_enumeration_is_its_integers(make: Make) -> None:
    colours = h5py.enum_dtype({"red": 0, "green": 1, "blue": 70000}, basetype=">i4")
    path = make(x=(np.array([0, 70000, 1]), {"dtype": colours}))
    same(forebay.open(path, ["x"])[:]["x"], np.array([0, 70000, 1], np.int32))


def test_an_array_type_adds_its_axes(make: Make, tmp_path: Path) -> None:
    values = np.arange(5 * 2 * 3, dtype=">f4").reshape(5, 2, 3)
    path = tmp_path / "array.h5"
    with h5py.File(path, "w") as file:
        file.create_dataset("x", (5,), np.dtype((">f4", (2, 3))))[:] = values
    ds = forebay.open(path, ["x"])
    assert ds.describe()["fields"]["x"]["shape"] == (2, 3)
    same(ds[:]["x"], values)


def test_complex_halves_are_pairs(make: Make) -> None:
    pairs = random_of(np.dtype([("r", "<f2"), ("i", "<f2")]))
    same(forebay.open(make(x=pairs), ["x"])[:]["x"], pairs)


def test_what_was_never_written_is_the_fill_value(tmp_path: Path) -> None:
    path = tmp_path / "fill.h5"
    with h5py.File(path, "w") as file:
        file.create_dataset("none", (6, 2), "<i2", chunks=(4, 2), fillvalue=-7)
        some = file.create_dataset("some", (6, 2), "<f4", chunks=(2, 2), fillvalue=0.5)
        some[2:4] = 3
        file.create_dataset("late", (6,), "u1")
    batch = forebay.open(path, ["none", "some", "late"])[:]
    with h5py.File(path) as file:
        for name in batch:
            same(batch[name], file[name][:])
    assert batch["none"][0, 0] == -7 and batch["some"][0, 0] == 0.5


@pytest.mark.parametrize("dtype", [">i2", ">f8"])
def test_the_fill_value_is_in_native_order(tmp_path: Path, dtype: str) -> None:
    path = tmp_path / "fill.h5"
    with h5py.File(path, "w") as file:
        file.create_dataset("x", (6, 2), dtype, chunks=(4, 2), fillvalue=-7)[2] = 5
    with h5py.File(path) as file:
        same(forebay.open(path, ["x"])[:]["x"], file["x"][:])


def test_a_virtual_variable_is_read_through(tmp_path: Path) -> None:
    parts = [np.random.default_rng(number).random((4, 3)) for number in range(3)]
    layout = h5py.VirtualLayout((14, 3), "<f8")
    for number, part in enumerate(parts):
        with h5py.File(tmp_path / f"part{number}.h5", "w") as file:
            file.create_dataset("x", data=part, chunks=(3, 2), compression="gzip")
        layout[number * 4 : number * 4 + 4] = h5py.VirtualSource(f"part{number}.h5", "x", (4, 3))
    path = tmp_path / "virtual.h5"
    with h5py.File(path, "w") as file:
        file.create_virtual_dataset("x", layout, fillvalue=-1)
    with h5py.File(path) as file:
        theirs = file["x"][:]
    ds = forebay.open(path, ["x"])
    same(ds[:]["x"], theirs)
    same(ds[[13, 5, 0]]["x"], theirs[[13, 5, 0]])


def test_external_storage_is_read(tmp_path: Path) -> None:
    values = np.arange(40, dtype="<i4").reshape(10, 4)
    (tmp_path / "raw.bin").write_bytes(b"\xff" * 8 + values.tobytes())
    path = tmp_path / "external.h5"
    with h5py.File(path, "w") as file:
        file.create_dataset("x", (10, 4), "<i4", external=[("raw.bin", 8, 160)])
    same(forebay.open(path, ["x"])[:]["x"], values)


def test_a_scalar_is_refused_and_named(make: Make) -> None:
    path = make(x=3.5)
    with pytest.raises(forebay.InvalidError, match=r"a\.h5.*'/?x'.*a scalar has no samples"):
        forebay.open(path, ["x"])


VARIABLE_PAIR = np.dtype([("name", h5py.string_dtype()), ("x", "<i4")])


@pytest.mark.parametrize("kind", [VARIABLE_PAIR, h5py.vlen_dtype(h5py.string_dtype())], ids=["compound", "texts"])
def test_elements_of_different_lengths_are_refused_and_named(tmp_path: Path, kind: Any) -> None:
    path = tmp_path / "vlen.h5"
    with h5py.File(path, "w") as file:
        file.create_dataset("x", (3,), kind)
    with pytest.raises(forebay.UnsupportedError, match=r"vlen\.h5.*'/?x'.*differ in length") as caught:
        forebay.open(path, ["x"])
    assert caught.value.kind == "unsupported"


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(asked=st.data())
def test_any_shape_and_chunks_give_any_samples(tmp_path: Path, asked: st.DataObject) -> None:
    shape = tuple(asked.draw(st.lists(st.integers(1, 9), min_size=1, max_size=4)))
    chunks = asked.draw(st.none() | st.tuples(*(st.integers(1, length) for length in shape)))
    filters = asked.draw(st.sampled_from([{}, {"compression": "gzip"}, {"shuffle": True}, {"fletcher32": True}]))
    dtype = np.dtype(asked.draw(st.sampled_from(NUMBERS)))
    values = random_of(dtype, shape)
    path = tmp_path / "any.h5"
    with h5py.File(path, "w") as file:
        file.create_dataset("x", data=values, chunks=chunks, **(filters if chunks else {}))
    ds = forebay.open(path, ["x"])
    numbers = asked.draw(st.lists(st.integers(0, shape[0] - 1), min_size=1, max_size=12))
    same(ds[numbers]["x"], values[numbers])
    size = asked.draw(st.integers(1, 4))
    loader = ds.loader(batch_size=size, shuffle=asked.draw(st.sampled_from(["none", "full", "block"])))
    for batch in loader:
        same(batch["x"], values[batch.indices])
