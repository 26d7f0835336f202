"""One variable of one file, and what is in a file: held against h5py."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from conftest import Make, images, same

import forebay

CUBE = np.arange(4 * 5 * 6, dtype=">i4").reshape(4, 5, 6)

SELECTIONS: list[Any] = [
    None,
    (),
    "",
    2,
    -1,
    np.int64(1),
    np.s_[1:3],
    np.s_[::2, 1],
    np.s_[1, 2, 3],
    np.s_[..., 2],
    np.s_[0, ..., ::3],
    np.s_[-3:, 2:100, -1],
    np.s_[3:1],
    np.s_[...],
]


@pytest.fixture
def path(make: Make) -> Path:
    return make("a.h5", cube=(CUBE, {"chunks": (2, 5, 4), "compression": "gzip"}), flat=np.arange(7.0))


@pytest.mark.parametrize("selection", SELECTIONS, ids=str)
def test_parts_are_chosen_as_numpy_chooses_them(path: Path, selection: Any) -> None:
    expected = CUBE if selection in (None, "") else CUBE[selection]
    ours = forebay.read(path, "cube", selection)
    same(ours, expected)


@pytest.mark.parametrize("text", ["0", "1:3", "::2, 1", "..., 2", "0, ..., ::3", "-3:, 2:100, -1", " 1 , 2 "])
def test_text_says_the_same_as_a_tuple(path: Path, text: str) -> None:
    same(forebay.read(path, "cube", text), eval(f"CUBE[{text}]"))


@pytest.mark.parametrize("dtype", ["<f2", ">f4", "<f8", "|u1", ">u8", "<c8", "|b1", "S5", [("a", "<i2"), ("b", ">f8", 3)]])
@pytest.mark.parametrize("shape", [(), (3,), (0, 4), (2, 3)])
def test_types_are_those_of_h5py(make: Make, dtype: Any, shape: tuple[int, ...]) -> None:
    values = np.frombuffer(np.random.default_rng(1).bytes(999), np.uint8) % 2
    count = int(np.prod(shape))
    made = np.resize(values, count * np.dtype(dtype).itemsize).view(dtype)[:count].reshape(shape)
    with h5py.File(make(x=made)) as file:
        theirs = file["x"][()]
    ours = forebay.read(make(x=made), "x")
    same(np.asarray(ours), theirs)


def test_what_is_read_may_be_written_to(path: Path) -> None:
    ours = forebay.read(path, "flat")
    ours += 1
    assert ours.tolist() == list(np.arange(7.0) + 1) and forebay.read(path, "flat")[0] == 0


def test_elements_that_differ_in_length_are_objects(tmp_path: Path) -> None:
    path = tmp_path / "v.h5"
    pair = np.dtype([("n", "<i2"), ("s", h5py.string_dtype())])
    with h5py.File(path, "w") as file:
        file["text"] = np.array([["a", "grüße"], ["", "long " * 99]], dtype=h5py.string_dtype())
        numbers = file.create_dataset("numbers", (3,), h5py.vlen_dtype("<f4"))
        numbers[0], numbers[2] = [1, 2, 3], [4]
        file["pairs"] = np.array([(1, "one"), (2, "")], dtype=pair)
    text = forebay.read(path, "text")
    assert text.shape == (2, 2) and text[0].tolist() == ["a", "grüße"] and text[1, 1] == "long " * 99
    assert forebay.read(path, "text", np.s_[0, 1]) == "grüße"
    numbers = forebay.read(path, "numbers")
    assert [one.tolist() for one in numbers] == [[1, 2, 3], [], [4]] and numbers[0].dtype == np.float32
    assert forebay.read(path, "pairs").tolist() == [{"n": 1, "s": "one"}, {"n": 2, "s": ""}]


@pytest.mark.parametrize("selection", [np.s_[::-1], "0, 0, 0, 0", 4, "x", "1:2:3:4", True, [0, 1], 1.5, (..., ...), "0,,1"])
def test_what_is_no_selection_is_refused(path: Path, selection: Any) -> None:
    with pytest.raises((forebay.InvalidError, ValueError, TypeError)):
        forebay.read(path, "cube", selection)


def test_errors_name_file_and_variable(path: Path) -> None:
    with pytest.raises(forebay.NotFoundError, match=r"a\.h5: no variable 'cub'; did you mean 'cube'"):
        forebay.read(path, "cub")
    with pytest.raises(forebay.InvalidError, match=r"a\.h5: variable 'cube': index 9 is outside"):
        forebay.read(path, "cube", 9)
    with pytest.raises(forebay.NotFoundError, match=r"none\.h5"):
        forebay.read(path.with_name("none.h5"), "cube")


def test_inspect_says_what_there_is(tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        file.attrs["title"] = "a set"
        file.attrs["names"] = ["one", "two"]
        cube = file.create_dataset("group/cube", data=CUBE, chunks=(2, 5, 4), compression="gzip", maxshape=(None, 5, 6))
        cube.attrs["units"] = np.bytes_("K")
        cube.attrs["scale"] = np.float32(0.5)
        cube.attrs["range"] = np.arange(3)
        file["texts"] = np.array(["a"], dtype=h5py.string_dtype())
        file["again"] = h5py.SoftLink("/group/cube")
    said = forebay.inspect(path)
    assert (said["format"], said["bytes"], said["source_count"]) == ("hdf5", path.stat().st_size, 1)
    assert said["groups"][""]["attributes"] == {"title": "a set", "names": ["one", "two"]}
    assert said["aliases"] == {"again": "group/cube"} and said["refused"] == {}
    cube = said["variables"]["group/cube"]
    assert cube["dtype"] == ">i4" and cube["numpy"] == np.dtype("<i4")
    assert cube["shape"] == (4, 5, 6) and cube["max_shape"] == (None, 5, 6)
    assert cube["chunks"] == {"shape": [2, 5, 4], "written_count": 4, "count": 4}
    assert cube["filters"] == ["gzip-4"]
    attributes = cube["attributes"]
    assert (attributes["units"], attributes["scale"]) == ("K", 0.5) and attributes["range"].tolist() == [0, 1, 2]
    assert cube["row"]["used_bytes"] == 120
    assert said["variables"]["texts"]["numpy"] is None


def test_inspect_says_what_the_command_says(path: Path) -> None:
    program = os.environ.get("FOREBAY_BIN") or shutil.which("forebay")
    if program is None:
        pytest.skip("no forebay command")
    told = subprocess.run([program, "inspect", str(path), "--json"], capture_output=True, check=True)
    theirs = {one["name"]: one for one in json.loads(told.stdout)["variables"]}
    ours = forebay.inspect(path)["variables"]
    assert ours.keys() == theirs.keys()
    for name, variable in ours.items():
        for key in ("dtype", "layout", "chunks", "filters", "logical_bytes", "stored_bytes", "unreadable"):
            assert variable[key] == theirs[name][key], (name, key)
        assert list(variable["shape"]) == theirs[name]["shape"]


def test_a_file_of_no_format_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("no array")
    with pytest.raises(forebay.UnsupportedError, match=r"a\.txt: not a file of a format this build reads"):
        forebay.inspect(tmp_path / "a.txt")


def test_images_are_read_whole(make: Make) -> None:
    path = make(image=(images(200), {"chunks": (16, 6, 5, 3), "compression": "gzip"}))
    same(forebay.read(path, "image"), images(200))


def test_ctrl_c_does_not_wait_for_a_read(tmp_path: Path, program: Callable[..., Any]) -> None:
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        file.create_dataset("x", (1 << 25,), "u1", chunks=(1 << 22,), compression="gzip")[:] = 1
    source = f"""
        import os, signal, threading, time
        import forebay
        signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job ignores it
        threading.Timer(0.05, os.kill, (os.getpid(), signal.{signal.SIGINT.name})).start()
        began = time.monotonic()
        try:
            while True:
                forebay.read({str(path)!r}, "x")
        except KeyboardInterrupt:
            assert time.monotonic() - began < 20
            os._exit(7)
    """
    assert program(source, check=False).returncode == 7
