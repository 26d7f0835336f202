"""NPY and NPZ files and folders of them, held against NumPy."""

from __future__ import annotations

import os
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

DTYPES = ["<f8", ">f4", "<f2", "|i1", ">i2", "<i4", ">u8", "|b1", "<c8", ">c16", "|S5", "<U3", ">U2", "<M8[ns]", "|V3"]
SHAPES: list[tuple[int, ...]] = [(), (1,), (7,), (3, 4), (2, 3, 4), (0,), (3, 0, 2), (1, 5, 1)]


def values(dtype: Any, shape: tuple[int, ...]) -> np.ndarray:
    dtype = np.dtype(dtype)
    rng = np.random.default_rng(len(shape) + dtype.itemsize)
    count = int(np.prod(shape))
    if dtype.kind == "b":
        return rng.integers(0, 2, count).astype(dtype).reshape(shape)
    if dtype.kind in "SU":
        return np.array(["abcde"[: n % 5] for n in range(count)], dtype).reshape(shape)
    if dtype.kind in "fc":
        return rng.normal(size=count).astype(dtype).reshape(shape)
    return np.frombuffer(rng.bytes(count * dtype.itemsize), dtype).reshape(shape).copy()


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_type_and_shape_in_both_orders(forebay_command: Any, tmp_path: Path, dtype: str) -> None:
    for shape in SHAPES:
        array = values(dtype, shape)
        for order in "CF":
            path = tmp_path / f"{len(shape)}_{order}.npy"
            np.save(path, np.asarray(array, order=order))  # type: ignore[call-overload]
            little = array.astype(array.dtype.newbyteorder("<")).tobytes()
            assert forebay_command.dump(path, "data") == little, (shape, order)


def test_shapes_are_numpys_own(forebay_command: Any, tmp_path: Path) -> None:
    for order in "CF":
        array = np.asarray(np.arange(60, dtype=">i4").reshape(3, 4, 5), order=order)  # type: ignore[call-overload]
        np.save(tmp_path / "a.npy", array)
        forebay_command.same(tmp_path / "a.npy", "data", array)


def test_large_fortran_order_is_cut_along_its_last_axis(forebay_command: Any, tmp_path: Path) -> None:
    array = np.asfortranarray(np.arange(3 * 700_000 * 2, dtype="<f8").reshape(3, 700_000, 2))
    np.save(tmp_path / "a.npy", array)
    forebay_command.same(tmp_path / "a.npy", "data", array)
    flat = np.asfortranarray(np.arange(4_000_000, dtype="<i4").reshape(2_000_000, 2))
    np.save(tmp_path / "b.npy", flat)
    forebay_command.same(tmp_path / "b.npy", "data", flat)


@pytest.mark.parametrize("version", [(1, 0), (2, 0), (3, 0)])
def test_every_version(forebay_command: Any, tmp_path: Path, version: tuple[int, int]) -> None:
    array = np.arange(5, dtype="<i8")
    with open(tmp_path / "a.npy", "wb") as file:
        np.lib.format.write_array(file, array, version)
    forebay_command.same(tmp_path / "a.npy", "data", array)


def test_structured_types(forebay_command: Any, tmp_path: Path) -> None:
    packed = np.dtype([("a", "<i2"), ("b", ">f8", (2, 3)), ("c", "|S3"), ("d", [("x", "|u1"), ("y", "<f4")])])
    array = np.frombuffer(np.random.default_rng(1).bytes(4 * packed.itemsize), packed)
    np.save(tmp_path / "a.npy", array)
    forebay_command.same(tmp_path / "a.npy", "data", array)
    aligned = np.zeros(3, np.dtype([("a", "|i1"), ("b", "<f8")], align=True))
    aligned["a"], aligned["b"] = [1, 2, 3], [0.5, 1.5, 2.5]
    np.save(tmp_path / "b.npy", aligned)
    repacked = np.array([tuple(row) for row in aligned.tolist()], [("a", "|i1"), ("b", "<f8")])
    assert forebay_command.dump(tmp_path / "b.npy", "data") == repacked.tobytes()


def test_names_beyond_ascii(forebay_command: Any, tmp_path: Path) -> None:
    array = np.zeros(2, [("größe", "<f4"), ("名", "<i4")])
    with pytest.warns(UserWarning):
        np.save(tmp_path / "a.npy", array)
    forebay_command.same(tmp_path / "a.npy", "data", array)


def test_pickles_are_refused(forebay_command: Any, tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.array([{}, None], object), allow_pickle=True)
    assert "pickle" in forebay_command.refuses(tmp_path / "a.npy", "data")
    np.savez(tmp_path / "b.npz", a=np.array([None], object), b=np.arange(3))
    assert "pickle" in forebay_command.refuses(tmp_path / "b.npz", "a")
    forebay_command.same(tmp_path / "b.npz", "b", np.arange(3))


def test_a_file_that_was_cut_is_refused(forebay_command: Any, tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.arange(100))
    whole = (tmp_path / "a.npy").read_bytes()
    (tmp_path / "a.npy").write_bytes(whole[:-1])
    error = forebay_command.refuses(tmp_path / "a.npy", "data")
    assert "past the end" in error and "a.npy" in error


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_zip_files(forebay_command: Any, tmp_path: Path, save: Any) -> None:
    arrays = {
        "x": np.arange(5000, dtype="<f4").reshape(50, 100),
        "turned": np.asfortranarray(np.arange(24, dtype=">i8").reshape(2, 3, 4)),
        "group/y": np.array(True),
        "text": np.array(["a", "bcd"]),
        "empty": np.zeros((0, 3)),
        "noise": np.random.default_rng(3).integers(0, 256, 100_000, dtype="u1"),
    }
    save(tmp_path / "a.npz", **arrays)
    for name, array in arrays.items():
        little = array.astype(array.dtype.newbyteorder("<")).tobytes()
        assert forebay_command.dump(tmp_path / "a.npz", name) == little, name
    variables = forebay_command.inspect(tmp_path / "a.npz")["variables"]
    assert variables["x"]["shape"] == [50, 100]


def test_zip64_and_comments(forebay_command: Any, tmp_path: Path) -> None:
    array = np.arange(1000, dtype="<i4")
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as file:
        file.comment = b"PK\x05\x06 is not the end"
        with file.open("x.npy", "w", force_zip64=True) as member:
            np.save(member, array)
    forebay_command.same(tmp_path / "a.npz", "x", array)


def test_a_damaged_member_is_refused(forebay_command: Any, tmp_path: Path) -> None:
    np.savez_compressed(tmp_path / "a.npz", x=np.random.default_rng(0).normal(size=2000))
    whole = bytearray((tmp_path / "a.npz").read_bytes())
    whole[len(whole) // 2] ^= 1
    (tmp_path / "a.npz").write_bytes(whole)
    forebay_command.refuses(tmp_path / "a.npz", "x")
    (tmp_path / "a.npz").write_bytes(whole[:-30])
    assert "directory" in forebay_command.refuses(tmp_path / "a.npz", "x")


@pytest.mark.parametrize("count", [3, 1001])
@pytest.mark.parametrize("order", ["C", "F"])
def test_folders_of_samples(forebay_command: Any, tmp_path: Path, count: int, order: str) -> None:
    samples = np.arange(count * 12, dtype="<f4").reshape(count, 3, 4)
    for index, sample in enumerate(samples):
        np.save(tmp_path / f"{index:05}.npy", np.asarray(sample, order=order))  # type: ignore[call-overload]
    assert forebay_command.inspect(tmp_path)["format"] == "npy-folder"
    forebay_command.same(tmp_path, "data", samples)
    # One of another type but of the same length.
    np.save(tmp_path / f"{count // 2:05}.npy", samples[0].view("<i4"))
    error = forebay_command.refuses(tmp_path, "data")
    assert f"{count // 2:05}.npy" in error and "shape" in error, error


def test_a_sample_of_another_length_is_named(forebay_command: Any, tmp_path: Path) -> None:
    for index in range(3):
        np.save(tmp_path / f"{index}.npy", np.zeros(4 if index == 1 else 3))
    error = forebay_command.refuses(tmp_path, "data")
    assert "1.npy" in error and "*.npy" in error


def test_files_of_different_shapes_are_files(forebay_command: Any, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.zeros((4, 2)))
    np.save(tmp_path / "y.npy", np.zeros(4))
    done = forebay_command("inspect", tmp_path, check=False)
    assert done.returncode != 0 or b"npy-folder" not in done.stdout
    assert os.listdir(tmp_path)
