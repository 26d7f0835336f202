"""What ``forebay convert`` writes, as zarr-python and NumPy read it."""

from __future__ import annotations

import json
import signal
import subprocess
import time
import warnings
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import zarr

RNG = np.random.default_rng(5)
CUBE = RNG.normal(size=(37, 11, 13)).astype("<f4")
TYPES = ["|b1", "|i1", "<i2", ">i4", "<i8", "|u1", ">u2", "<u4", "<u8", "<f2", "<f4", ">f8", "<c8", ">c16", "S7"]

# Elements that are arrays themselves: the shape of the variable, of an element, of a chunk.
ARRAYS: list[tuple[str, tuple[int, ...], tuple[int, ...], tuple[int, ...] | None]] = [
    ("plain", (3,), (2,), None),
    ("chunked", (6,), (2, 3), (4,)),
    ("square", (4, 3), (2,), (2, 2)),
]

warnings.filterwarnings("ignore", module="zarr")


def values(dtype: str, shape: tuple[int, ...]) -> Any:
    count = int(np.prod(shape))
    if np.dtype(dtype).kind in "fc":
        return RNG.normal(size=shape).astype(dtype)
    if dtype == "S7":
        return np.array([b"x" * (at % 8) for at in range(count)], dtype).reshape(shape)
    return (RNG.integers(0, 1 << 62, shape) % (2 if dtype == "|b1" else 1 << 62)).astype(dtype)


def bits(array: Any) -> bytes:
    array = np.asarray(array)
    return array.astype(array.dtype.newbyteorder("<")).tobytes()


@pytest.fixture(scope="module")
def source(made: Path) -> Path:
    path = made / "convert.h5"
    with h5py.File(path, "w") as file:
        file.attrs["title"] = "a set"
        cube = file.create_dataset("group/cube", data=CUBE, chunks=(8, 11, 5), compression="gzip")
        cube.attrs["units"] = "K"
        cube.attrs["range"] = np.array([[1, 2], [3, 4]])
        cube.attrs["odd"] = np.float64("nan")
        for axis, name in enumerate(("time", "y", "x")):
            file["dims/" + name] = np.arange(CUBE.shape[axis], dtype="f8")
            file["dims/" + name].make_scale(name)
            cube.dims[axis].attach_scale(file["dims/" + name])
        for dtype in TYPES:
            file["types/" + dtype.strip("<>|")] = values(dtype, (5, 4))
        file["scalar"] = np.float64(2.5)
        file["empty"] = np.empty((0, 3), "i4")
        file["text"] = np.array([["a", "grüße", ""], ["b", "long " * 50, "c"]], dtype=h5py.string_dtype())
        file["pairs"] = np.zeros(6, np.dtype({"names": ["a", "b"], "formats": ["u1", ("<f4", (2,))], "offsets": [0, 4]}))
        file["rows"] = np.arange(24, dtype="<i4").reshape(6, 4).view([("v", "<i4", 4)])["v"].reshape(6, 4)
        for name, shape, inner, chunks in ARRAYS:
            count = int(np.prod(shape + inner))
            made_of = file.create_dataset(f"arrays/{name}", shape, np.dtype(("<i2", inner)), chunks=chunks)
            made_of[...] = np.arange(1, count + 1).reshape(shape + inner)
        file.create_dataset("sparse", (1000, 10), "<f8", chunks=(10, 10), fillvalue=-1.5)[500:510] = 3
        file.create_dataset("nan", (20,), "<f4", chunks=(5,), fillvalue=np.nan)[:5] = 1
        file.create_dataset("negative", (20,), "<i2", chunks=(7,), fillvalue=-9)
    return path


def theirs(path: Path, name: str) -> Any:
    with h5py.File(path) as file:
        return file[name][()]


def names(path: Path) -> list[str]:
    found: list[str] = []
    with h5py.File(path) as file:
        file.visititems(lambda name, item: found.append(name) if isinstance(item, h5py.Dataset) else None)
    return found


@pytest.mark.parametrize("codec", ["zstd:3", "gzip:4", "none", "zstd", "gzip:0"])
def test_zarr_python_reads_every_variable(forebay_command: Any, source: Path, tmp_path: Path, codec: str) -> None:
    out = tmp_path / "a.zarr"
    said = json.loads(forebay_command("convert", source, out, "--filter", codec, "--json").stdout)
    assert [one["name"] for one in said["left_out"]] == ["pairs"]
    store = zarr.open_group(out, mode="r")
    written = {one["name"]: one for one in said["variables"]}
    assert set(written) == set(names(source)) - {"pairs"}
    for name, one in written.items():
        array, expected = store[name], theirs(source, name)
        assert list(array.shape) == one["shape"] == list(np.shape(expected)), name
        ours = array[...]
        if name == "text":
            assert ours.tolist() == [[text.decode() for text in row] for row in expected]
        else:
            assert ours.dtype == np.asarray(expected).dtype.newbyteorder("="), name
            assert bits(ours) == bits(expected), name
    assert list(tmp_path.iterdir()) == [out]


def test_attributes_and_names_of_axes_are_kept(forebay_command: Any, source: Path, tmp_path: Path) -> None:
    out = tmp_path / "a.zarr"
    forebay_command("convert", source, out, "--variable", "group/cube")
    store = zarr.open_group(out, mode="r")
    assert dict(store.attrs) == {"title": "a set"} and list(store["group"].array_keys()) == ["cube"]
    cube = store["group/cube"]
    assert cube.chunks == (8, 11, 5) and cube.attrs["units"] == "K" and cube.attrs["range"] == [[1, 2], [3, 4]]
    assert cube.attrs["odd"] == "NaN"
    said = forebay_command.inspect(source)["variables"]["group/cube"]
    if said.get("dimensions"):
        assert cube.metadata.dimension_names == tuple(said["dimensions"])


@pytest.mark.parametrize("chunk", ["64,256,256", "1,1,1", "5,4,13", "37,11,13", "10,11,13", "7,3,2"])
def test_chunks_are_of_the_shape_asked_for(forebay_command: Any, source: Path, tmp_path: Path, chunk: str) -> None:
    out = tmp_path / "a.zarr"
    forebay_command("convert", source, out, "-v", "group/cube", "-v", "scalar", "--chunk", chunk)
    store = zarr.open_group(out, mode="r")
    asked = tuple(min(int(one), length) for one, length in zip(chunk.split(","), CUBE.shape))
    assert store["group/cube"].chunks == asked
    assert bits(store["group/cube"][...]) == bits(CUBE) and store["scalar"][()] == 2.5


def test_what_was_never_written_stays_away(forebay_command: Any, source: Path, tmp_path: Path) -> None:
    out = tmp_path / "a.zarr"
    forebay_command("convert", source, out, "-v", "sparse", "-v", "nan", "-v", "negative")
    assert len(list((out / "sparse/c").iterdir())) == 1 and not (out / "negative/c").exists()
    store = zarr.open_group(out, mode="r")
    assert store["sparse"].fill_value == -1.5 and np.isnan(store["nan"].fill_value)
    assert store["negative"][...].tolist() == [-9] * 20


@pytest.mark.parametrize("name", ["group/cube", "scalar", "empty", "pairs", *("types/" + one.strip("<>|") for one in TYPES)])
def test_numpy_loads_what_is_written(forebay_command: Any, source: Path, tmp_path: Path, name: str) -> None:
    out = tmp_path / "a.npy"
    forebay_command("convert", source, out, "--variable", name)
    ours, expected = np.load(out), theirs(source, name)
    assert ours.shape == np.shape(expected) and ours.dtype == np.asarray(expected).dtype.newbyteorder("=")
    assert out.stat().st_size % 64 == ours.nbytes % 64
    if ours.dtype.names is None:
        assert bits(ours) == bits(expected)
    else:
        assert all((ours[field] == expected[field]).all() for field in ours.dtype.names)


@pytest.mark.parametrize(
    "arguments, code, text",
    [
        (["a.npy"], 2, "which holds one"),
        (["a.npy", "-v", "text"], 5, "NPY has no type"),
        (["a.npy", "-v", "scalar", "--chunk", "1"], 2, "neither chunks nor filters"),
        (["a.zarr", "-v", "pairs"], 5, "variable 'pairs': Zarr has no type"),
        (["a.zarr", "-v", "none"], 3, "no variable 'none'"),
        (["a.zarr", "-v", "scalar", "--chunk", "1,1"], 2, "chunks of 2 axes, which no variable has"),
        (["a.zarr", "--chunk", "0,1,1"], 2, "0 is not in"),
        (["a.zarr", "--filter", "lz4"], 2, "zstd:LEVEL"),
        (["a.bin"], 2, "give --to zarr or --to npy"),
        (["none/a.zarr"], 3, "none/a.zarr"),
    ],
)
def test_what_cannot_be_is_refused(
    forebay_command: Any, source: Path, tmp_path: Path, arguments: list[str], code: int, text: str
) -> None:
    done = forebay_command("convert", source, tmp_path / arguments[0], *arguments[1:], check=False)
    assert done.returncode == code and text in done.stderr.decode(), done.stderr
    assert not list(tmp_path.iterdir())


def test_what_is_there_is_not_replaced(forebay_command: Any, source: Path, tmp_path: Path) -> None:
    for out in (tmp_path / "a.zarr", tmp_path / "a.npy"):
        out.write_text("mine")
        done = forebay_command("convert", source, out, "-v", "scalar", check=False)
        assert done.returncode == 2 and "is there already" in done.stderr.decode() and out.read_text() == "mine"


@pytest.mark.parametrize("name", ["a.zarr", "a.npy"])
def test_an_interrupt_leaves_nothing(forebay_command: Any, tmp_path: Path, name: str) -> None:
    path = tmp_path / "large.h5"
    with h5py.File(path, "w") as file:
        file.create_dataset("x", (1 << 31,), "u1", chunks=(1 << 20,), fillvalue=1)[:1] = 2
    (tmp_path / "out").mkdir()
    command = [forebay_command.program, "convert", path, tmp_path / "out" / name, "--filter", "zstd:19"]
    running = subprocess.Popen(command if name == "a.zarr" else command[:-2], stderr=subprocess.DEVNULL)
    until = time.monotonic() + 20
    while not list((tmp_path / "out").iterdir()) and time.monotonic() < until:
        time.sleep(0.01)
    running.send_signal(signal.SIGINT)
    code = running.wait(20)
    # A machine may be faster than the signal.
    assert code == 130 or (code == 0 and (tmp_path / "out" / name).exists())
    assert code == 0 or not list((tmp_path / "out").iterdir())


def test_a_damaged_file_leaves_nothing(forebay_command: Any, source: Path, tmp_path: Path) -> None:
    bad = tmp_path / "bad.h5"
    data = bytearray(source.read_bytes())
    with h5py.File(source) as file:
        where = file["group/cube"].id.get_chunk_info(3).byte_offset
    data[where : where + 20] = bytes(20)
    bad.write_bytes(data)
    for out in (tmp_path / "a.zarr", tmp_path / "a.npy"):
        done = forebay_command("convert", bad, out, "-v", "group/cube", check=False)
        assert done.returncode == 4 and b"variable 'group/cube': chunk" in done.stderr
    assert list(tmp_path.iterdir()) == [bad]


def test_wide_characters_become_numbers_that_are_all_there(forebay_command: Any, tmp_path: Path) -> None:
    texts = np.array([["ab", "grüße"], ["", "x"]])
    np.save(tmp_path / "texts.npy", texts)
    forebay_command("convert", tmp_path / "texts.npy", tmp_path / "texts.zarr")
    written = zarr.open_group(tmp_path / "texts.zarr", mode="r")["data"][...]
    assert bits(written) == texts.tobytes() and written.shape == (2, 2, 5)
