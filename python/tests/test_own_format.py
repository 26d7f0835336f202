"""A user's own format, written in Python: described, read, loaded, forked, and refused when it is wrong."""

from __future__ import annotations

import struct
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import in_fork, same

import forebay

MAGIC = b"FRAMES01"
HEAD = struct.Struct("<8sQQQ")
FRAMES = np.random.default_rng(3).integers(0, 1 << 16, (50, 6, 8), np.uint16)


def probe(path: str, head: bytes) -> bool:
    return head.startswith(MAGIC)


def describe(file: Any) -> list[forebay.Variable]:
    _, count, height, width = HEAD.unpack(file.read(0, HEAD.size))
    frame_len = 2 * height * width
    offsets = [HEAD.size + number * (frame_len + 8) for number in range(count)]

    def reversed_frames(selection: tuple[slice, ...]) -> Any:
        rows = [np.frombuffer(file.read(at, frame_len), "<u2") for at in offsets[selection[0]]]
        return (65535 - np.reshape(rows, (-1, height, width)))[(slice(None), *selection[1:])].astype("<u2")

    return [
        forebay.Variable(
            "frames/raw",
            "<u2",
            (count, height, width),
            chunks=(1, height, width),
            extents=[(at, frame_len) for at in offsets],
            dimensions=("time", "y", "x"),
            attributes={"units": "counts", "gain": 0.5, "names": ["a", "bc"], "window": np.arange(3)},
        ),
        forebay.Variable("frames/negative", "<u2", (count, height, width), read=reversed_frames),
        forebay.Variable(
            "stamp", ">i8", (count,), chunks=(1,), extents=[(at + frame_len, 8) for at in offsets], fill=-1
        ),
        forebay.Variable("label", "i4", (count,), values=np.arange(count) % 3),
    ]


def write(path: Path, frames: Any = FRAMES) -> Path:
    parts = [HEAD.pack(MAGIC, *frames.shape)]
    for number, frame in enumerate(frames):
        parts += [frame.astype("<u2").tobytes(), struct.pack(">q", number * 10)]
    path.write_bytes(b"".join(parts))
    return path


@pytest.fixture
def path(tmp_path: Path) -> Iterator[Path]:
    forebay.register_format("frames", probe, describe)
    yield write(tmp_path / "run.frm")


def named(kind: str, **variable: Any) -> Callable[[Any], list[forebay.Variable]]:
    return lambda file: [forebay.Variable(**{"name": "x", "dtype": "u1", "shape": (4,), **variable})]


def test_it_is_described_and_read_as_any_other(path: Path) -> None:
    said = forebay.inspect(path)
    assert said["format"] == "frames" and list(said["groups"]) == ["", "frames"]
    raw = said["variables"]["frames/raw"]
    assert raw["dimensions"] == ("time", "y", "x") and raw["shape"] == FRAMES.shape
    attributes = raw["attributes"]
    assert (attributes["units"], attributes["gain"], attributes["names"]) == ("counts", 0.5, ["a", "bc"])
    assert attributes["window"].tolist() == [0, 1, 2]
    assert said["variables"]["frames/negative"]["library"]["name"] == "python:frames"
    same(forebay.read(path, "frames/raw"), FRAMES)
    same(forebay.read(path, "frames/raw", np.s_[3:9:2, 1]), FRAMES[3:9:2, 1])
    same(forebay.read(path, "frames/negative"), 65535 - FRAMES)
    same(forebay.read(path, "frames/negative", np.s_[4::5, ::2, -3:]), (65535 - FRAMES)[4::5, ::2, -3:])
    same(forebay.read(path, "stamp"), np.arange(50, dtype=">i8") * 10)
    same(forebay.read(path, "label"), np.arange(50, dtype="i4") % 3)


@pytest.mark.parametrize("field", ["frames/raw", "frames/negative"])
@pytest.mark.parametrize("shuffle", ["none", "full", "block"])
def test_threads_of_a_loader_read_it(path: Path, tmp_path: Path, field: str, shuffle: str) -> None:
    other = write(tmp_path / "two.frm", FRAMES[::-1])
    whole = np.concatenate([FRAMES, FRAMES[::-1]])
    whole = whole if field == "frames/raw" else 65535 - whole
    ds = forebay.open([path, other], {"frame": field}, label="label")
    seen = []
    for batch in ds.loader(batch_size=7, shuffle=shuffle, read_threads=4):
        assert (batch["frame"] == whole[batch.indices]).all()
        assert (batch["label"] == batch.indices % 50 % 3).all()
        seen += batch.indices.tolist()
    assert sorted(seen) == list(range(100))
    same(ds[[99, 0, 0]]["frame"], whole[[99, 0, 0]])


def test_a_folder_of_such_files_is_a_set(path: Path) -> None:
    (path.parent / "notes.txt").write_text("not one of them")
    assert len(forebay.open(path.parent, ["frames/raw"])) == 50


def test_a_forked_process_has_what_its_parent_registered(path: Path) -> None:
    ds = forebay.open(path, ["frames/negative", "frames/raw"])
    same(ds[3]["frames/negative"], 65535 - FRAMES[3])

    def work() -> None:
        same(ds[7]["frames/negative"], 65535 - FRAMES[7])
        same(forebay.read(path, "frames/negative", 9), 65535 - FRAMES[9])
        for batch in ds.loader(batch_size=10, read_threads=2):
            assert (batch["frames/negative"] == 65535 - batch["frames/raw"]).all()

    in_fork(work)


def test_one_call_is_made_at_a_time(tmp_path: Path) -> None:
    path = tmp_path / "a.slow"
    path.write_bytes(b"SLOW")
    inside: list[int] = []
    most: list[int] = []

    def slow(selection: tuple[slice, ...]) -> Any:
        inside.append(1)
        most.append(len(inside))
        time.sleep(0.002)
        inside.pop()
        return np.zeros([len(range(*one.indices(64))) for one in selection], "u1")

    forebay.register_format("slow", lambda path, head: head == b"SLOW", named("slow", shape=(64, 2), read=slow))
    threads = [threading.Thread(target=lambda: [forebay.read(path, "x", at) for at in range(5)]) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert max(most) == 1 and len(most) == 20


def test_chunks_lie_in_other_files_and_may_be_missing(tmp_path: Path) -> None:
    values = np.arange(6 * 4, dtype="<f4").reshape(6, 4)
    (tmp_path / "a.bin").write_bytes(b"..." + values[:2].tobytes())
    (tmp_path / "b.bin").write_bytes(values[4:5].tobytes())
    index = tmp_path / "index.parts"
    index.write_text("PARTS")

    def describe(file: Any) -> list[forebay.Variable]:
        extents = [((0, 0), "a.bin", 3, 32), (2, "b.bin", 0, 16)]
        return [forebay.Variable("x", "<f4", (5, 4), chunks=(2, 4), extents=extents, fill=7)]

    forebay.register_format("parts", lambda path, head: head == b"PARTS", describe)
    expected = values[:5].copy()
    expected[2:4] = 7
    same(forebay.read(index, "x"), expected)
    assert forebay.inspect(index)["source_count"] == 3


def test_a_folder_may_be_one_container(tmp_path: Path) -> None:
    folder = tmp_path / "run.dir"
    folder.mkdir()
    (folder / "part0").write_bytes(bytes(range(8)))

    def describe(file: Any) -> list[forebay.Variable]:
        assert file.is_folder and file.size == 0
        read = lambda selection: np.frombuffer(Path(file.path, "part0").read_bytes(), "u1")[selection]
        return [
            forebay.Variable("x", "u1", (8,), extents=[(0, "part0", 0, 8)]),
            forebay.Variable("y", "u1", (8,), read=read),
        ]

    forebay.register_format("dirs", lambda path, head: path.endswith("run.dir"), describe)
    assert forebay.read(folder, "x").tolist() == forebay.read(folder, "y").tolist() == list(range(8))


RAISED: list[tuple[Any, Any, str]] = [
    (lambda file: 1 / 0, forebay.InvalidError, "ZeroDivisionError: division by zero"),
    (lambda file: struct.unpack("<Q", b""), forebay.CorruptError, "unpack requires"),
    (lambda file: file.read(0, 1 << 40), forebay.CorruptError, "reach past the end"),
    (lambda file: open("/nonexistent/file"), forebay.NotFoundError, "FileNotFoundError"),
    (lambda file: [3], forebay.InvalidError, "describe gives a list of forebay.Variable, not 3"),
    (lambda file: [forebay.Variable("x", "U3", (1,), values=["a"])], forebay.InvalidError, "NumPy's type"),
    (named("two", extents=[(0, 4)], read=id), forebay.CorruptError, "one of extents, read and values"),
    (named("none"), forebay.CorruptError, "one of extents, read and values"),
    (named("short", extents=[(0, 3)]), forebay.InvalidError, "3 bytes where 4 belong"),
    (named("past", extents=[(1 << 40, 4)]), forebay.CorruptError, "reach past the end"),
    (named("many", chunks=(2,), extents=[(0, 2)] * 3), forebay.InvalidError, "chunk 2 of 2"),
    (named("twice", chunks=(2,), extents=[(0, None, 0, 2)] * 2), forebay.CorruptError, "listed twice"),
    (named("axes", chunks=(2, 2), extents=[(0, 2)]), forebay.CorruptError, "chunks of 2 axes"),
    (named("huge", shape=(1 << 63, 1 << 63), extents=[(0, 1)]), forebay.InvalidError, "more bytes than can be counted"),
    (named("before", extents=[(-1, 4)]), forebay.CorruptError, "nothing lies before"),
    (named("names", dimensions=("a", "b"), extents=[(0, 4)]), forebay.CorruptError, "2 dimensions for a shape of 1"),
    (named("other", extents=[(0, "none", 0, 4)]), forebay.NotFoundError, "none"),
]


@pytest.mark.parametrize("wrong, kind, text", RAISED)
def test_what_describe_raises_names_file_and_format(tmp_path: Path, wrong: Any, kind: Any, text: str) -> None:
    path = tmp_path / "a.wrong"
    path.write_bytes(b"WRONG" * 9)
    forebay.register_format("wrong", lambda path, head: head.startswith(b"WRONG"), wrong)
    with pytest.raises(kind, match=rf"a\.wrong: describe of format 'wrong': .*{text}"):
        forebay.inspect(path)


def test_what_probe_and_read_raise_names_file_and_format(tmp_path: Path) -> None:
    path = tmp_path / "a.wrong"
    path.write_bytes(b"WRONG")

    def fails(*_: Any) -> Any:
        raise RuntimeError("no such luck")

    forebay.register_format("wrong", fails, describe)
    try:
        with pytest.raises(forebay.InvalidError, match=r"a\.wrong: probe of format 'wrong': RuntimeError: no such luck"):
            forebay.inspect(path)
    finally:
        forebay.register_format("wrong", lambda path, head: head.startswith(b"WRONG"), named("wrong", read=fails))
    with pytest.raises(forebay.InvalidError, match=r"a\.wrong: variable 'x': .*RuntimeError: no such luck") as caught:
        forebay.read(path, "x")
    assert isinstance(caught.value.__cause__, RuntimeError)
    for given, text in [(np.zeros(3, "u1"), "of shape"), (np.zeros(4, "f4"), "of float32 where uint8")]:
        wrong = named("wrong", read=lambda selection, given=given: given)
        forebay.register_format("wrong", lambda path, head: head.startswith(b"WRONG"), wrong)
        with pytest.raises(forebay.ForebayError, match=text):
            forebay.read(path, "x")
    ds = forebay.open(path, ["x"])
    with pytest.raises(forebay.ForebayError, match=r"a\.wrong"):
        list(ds.loader(batch_size=2, read_threads=2))


def test_a_file_that_changed_is_not_read_by_its_old_description(path: Path) -> None:
    ds = forebay.open(path, ["frames/negative"])
    time.sleep(0.01)
    write(path, FRAMES[:40])
    with pytest.raises(forebay.UnavailableError, match="changed since it was described"):
        ds[3]


def test_names_are_checked() -> None:
    with pytest.raises(forebay.InvalidError, match="'hdf5' is built in"):
        forebay.register_format("hdf5", probe, describe)
    with pytest.raises(ValueError, match="no name of a format"):
        forebay.register_format("a b", probe, describe)
    with pytest.raises(TypeError):
        forebay.register_format("ok", 3, describe)  # type: ignore[arg-type]


def test_many_chunks_are_described_anew_when_the_program_changes(tmp_path: Path) -> None:
    path = tmp_path / "many.frm"
    path.write_bytes(b"MANY" + bytes(4096))
    time.sleep(2.1)
    for name in ("first", "second"):
        many = named("many", name=name, shape=(2048,), chunks=(1,), extents=[(4 + at, 1) for at in range(2048)])
        forebay.register_format("many", lambda path, head: head.startswith(b"MANY"), many)
        assert list(forebay.inspect(path)["variables"]) == [name]


SPAWNED = """
    import multiprocessing, pathlib, sys
    import forebay, frames_module

    def check(ds):
        return int(ds[3]["x"][0])

    if __name__ == "__main__":
        ds = forebay.open(sys.argv[1], ["x"])
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            assert pool.apply(check, (ds,)) == 3
"""


def test_a_spawned_process_registers_by_importing_the_module(tmp_path: Path, program: Callable[..., Any]) -> None:
    (tmp_path / "frames_module.py").write_text(
        "import forebay\n"
        "describe = lambda file: [forebay.Variable('x', 'u1', (8, 1), extents=[(0, 8)])]\n"
        "forebay.register_format('bytes8', lambda path, head: path.endswith('.b8'), describe)\n"
    )
    (tmp_path / "a.b8").write_bytes(bytes(range(8)))
    program(SPAWNED, tmp_path / "a.b8")


@pytest.mark.parametrize("chunks", [(1, 64), (10, 64), (10, 16)])
def test_a_callable_is_asked_for_one_chunk_at_a_time_where_it_has_chunks(tmp_path: Path, chunks: tuple[int, int]) -> None:
    path = tmp_path / "a.records"
    path.write_bytes(b"RECORDS")
    values = np.arange(95 * 64, dtype="f4").reshape(95, 64)
    asked: list[tuple[slice, ...]] = []

    def read(selection: tuple[slice, ...]) -> Any:
        asked.append(selection)
        if selection[0].start <= 33 < selection[0].stop:
            raise ValueError("record 33 is damaged")
        return values[selection]

    describe = named("records", dtype="<f4", shape=(95, 64), chunks=chunks, read=read)
    forebay.register_format("records", lambda path, head: head == b"RECORDS", describe)
    ds = forebay.open(path, ["x"])
    same(ds[57]["x"], values[57])
    first = 57 // chunks[0] * chunks[0]
    columns = range(0, 64, chunks[1])
    assert sorted((rows.start, rows.stop, at.start, at.stop) for rows, at in asked) == [
        (first, first + chunks[0], column, column + chunks[1]) for column in columns
    ]
    bad = {number for number in range(95) if number // chunks[0] == 33 // chunks[0]}
    with pytest.raises(forebay.CorruptError, match="record 33 is damaged"):
        ds[33]
    loader = ds.loader(batch_size=32, on_error="skip")
    seen = []
    for batch in loader:
        same(batch["x"], values[batch.indices])
        seen += batch.indices.tolist()
    assert seen == [number for number in range(95) if number not in bad]
    assert loader.stats()["skipped"] == len(bad)


@pytest.mark.parametrize("filters", [["zlib"], ["shuffle", "zstd"], [("shuffle", [2]), "lz4"], [(2, (2,)), (1, (6,))]])
def test_chunks_that_were_filtered_are_undone_where_filters_say_so(tmp_path: Path, filters: list[Any]) -> None:
    numcodecs = pytest.importorskip("numcodecs")
    made = {"zlib": numcodecs.Zlib, "zstd": numcodecs.Zstd, "lz4": numcodecs.LZ4, 1: numcodecs.Zlib}
    values = np.arange(70, dtype="<u2").reshape(14, 5)
    path, extents = tmp_path / "a.packed", []
    with path.open("wb") as file:
        file.write(b"PACKED")
        for chunk in np.split(np.pad(values, ((0, 2), (0, 0))), 4):
            stored: Any = chunk.tobytes()
            for one in filters:
                name = one[0] if isinstance(one, tuple) else one
                codec = numcodecs.Shuffle(2) if name in ("shuffle", 2) else made[name]()
                stored = bytes(codec.encode(stored))
            extents.append((file.tell(), len(stored)))
            file.write(stored)

    def variables(file: Any) -> list[forebay.Variable]:
        return [forebay.Variable("x", "<u2", (14, 5), extents, chunks=(4, 5), filters=filters)]

    forebay.register_format("packed", lambda path, head: head.startswith(b"PACKED"), variables)
    same(forebay.read(path, "x"), values)
    same(forebay.open(path, ["x"])[[13, 0, 5]]["x"], values[[13, 0, 5]])
    assert len(forebay.inspect(path)["variables"]["x"]["filters"]) == len(filters)


def test_a_filter_nobody_knows_is_named(tmp_path: Path) -> None:
    path = tmp_path / "a.odd"
    path.write_bytes(b"ODD!")
    forebay.register_format("odd", lambda path, head: head == b"ODD!", named("", extents=[(0, 4)], filters=["rot13"]))
    with pytest.raises(forebay.ForebayError, match="filter 'rot13'; there are adler32"):
        forebay.read(path, "x")
