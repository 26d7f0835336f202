"""Files that are staged: what they hold, when they are durable, and who may use them."""

from __future__ import annotations

import array
import asyncio
import concurrent.futures
import gc
import io
import os
import pickle
import subprocess
import sys
import threading
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import h5py
import hypothesis
import hypothesis.strategies as st
import numpy as np
import pytest

import forebay
import forebay.stage

# Waits that only guard against hanging.
LONG = 300


def area_in(folder: Path, **options: Any) -> forebay.stage.Area:
    # No disk of a test machine has to have 1 GiB free.
    return forebay.stage.Area(folder, **{"free_floor": 0, **options})


@pytest.fixture
def area(tmp_path: Path) -> Iterator[forebay.stage.Area]:
    with area_in(tmp_path / "fast") as area:
        yield area


@pytest.fixture
def slow(tmp_path: Path) -> Path:
    """The folder of the destinations."""
    folder = tmp_path / "slow"
    folder.mkdir()
    return folder


def test_a_file_is_there_once_it_is_durable_and_not_before(area: forebay.stage.Area, slow: Path) -> None:
    path = slow / "a.bin"
    area.pause()
    with forebay.stage.open(path, "wb", area=area) as file:
        assert file.write(b"hello ") == 6 and file.write(b"world") == 5
        assert not path.exists()
    assert file.closed and file.name == str(path)
    assert file.staged.result(LONG) == str(path)
    assert not file.durable.done() and not path.exists()
    with pytest.raises(concurrent.futures.TimeoutError):
        file.durable.result(0.05)
    assert [(item["destination"], item["state"], item["pid"]) for item in area.items()] == [
        (str(path), "sealed", os.getpid())
    ]
    area.resume()
    assert file.durable.result(LONG) == str(path)
    assert path.read_bytes() == b"hello world"
    area.drain()
    assert area.items() == []


def test_the_old_file_stays_whole_until_the_new_one_is_durable(area: forebay.stage.Area, slow: Path) -> None:
    path = slow / "a.bin"
    path.write_bytes(b"old")
    path.chmod(0o640)
    with area.paused():
        file = forebay.stage.open(path, area=area)
        file.write(b"new one")
        file.close()
        assert path.read_bytes() == b"old"
    file.durable.result(LONG)
    assert path.read_bytes() == b"new one" and path.stat().st_mode & 0o777 == 0o640


def test_an_exception_inside_with_abandons_the_file(area: forebay.stage.Area, slow: Path) -> None:
    path = slow / "a.bin"
    path.write_bytes(b"old")
    with pytest.raises(ZeroDivisionError), forebay.stage.open(path, "wb", area=area) as file:
        file.write(bytes(1 << 20))
        1 / 0
    assert file.closed and file.staged.cancelled() and file.durable.cancelled() and file.durable.done()
    with pytest.raises(concurrent.futures.CancelledError):
        file.durable.result()
    with pytest.raises(ZeroDivisionError), forebay.stage.open(path, "w", area=area) as text:
        text.write("half")
        1 / 0
    area.drain()
    assert path.read_bytes() == b"old" and area.items() == [] and os.listdir(slow) == ["a.bin"]


@pytest.mark.parametrize("mode", ["wb", "w"])
def test_a_file_that_is_dropped_without_being_closed_is_abandoned(
    area: forebay.stage.Area, slow: Path, mode: str
) -> None:
    file = forebay.stage.open(slow / "a", mode, area=area)
    file.write(b"half" if "b" in mode else "half")
    with pytest.warns(ResourceWarning, match="neither closed nor abandoned"):
        del file
        gc.collect()
    area.drain()
    assert os.listdir(slow) == []


ACTIONS = st.one_of(
    st.tuples(st.just("write"), st.binary(max_size=300)),
    st.tuples(st.just("write"), st.integers(1, 3).map(lambda n: bytes([n]) * (n * 70_000))),
    st.tuples(st.just("read"), st.integers(-1, 400)),
    st.tuples(st.just("readinto"), st.integers(0, 400)),
    st.tuples(st.just("set"), st.integers(0, 5000)),
    st.tuples(st.just("current"), st.integers(-300, 300)),
    st.tuples(st.just("end"), st.integers(-300, 300)),
    st.tuples(st.just("truncate"), st.none() | st.integers(0, 300_000)),
    st.tuples(st.just("flush"), st.none()),
    st.tuples(st.just("readline"), st.none()),
    st.tuples(st.just("peek"), st.none()),
)


def act(file: Any, action: str, value: Any) -> Any:
    if action in ("set", "current", "end"):
        try:
            return file.seek(value, ["set", "current", "end"].index(action))
        except (OSError, ValueError, forebay.InvalidError):
            return "before the begin"
    if action == "readinto":
        into = bytearray(value)
        return file.readinto(into), into
    if action == "peek":
        # How much it gives is free.
        return file.peek()[:1]
    if action == "truncate":
        return file.truncate(value)
    if value is None:
        return getattr(file, action)()
    return getattr(file, action)(value), file.tell()


@hypothesis.settings(max_examples=60, deadline=None, suppress_health_check=list(hypothesis.HealthCheck))
@hypothesis.given(actions=st.lists(ACTIONS, max_size=30))
def test_any_sequence_of_calls_does_what_a_plain_file_does(
    tmp_path_factory: pytest.TempPathFactory, actions: list[tuple[str, Any]]
) -> None:
    folder = tmp_path_factory.mktemp("model")
    with area_in(folder / "fast") as area, open(folder / "plain", "w+b") as plain:
        with forebay.stage.open(folder / "staged", "w+b", area=area) as staged:
            for action, value in actions:
                assert act(staged, action, value) == act(plain, action, value)
        plain.flush()
        staged.durable.result(LONG)
        assert (folder / "staged").read_bytes() == (folder / "plain").read_bytes()


def test_whatever_has_a_contiguous_buffer_can_be_written(area: forebay.stage.Area, slow: Path) -> None:
    numbers = np.arange(100_000, dtype="<f8").reshape(100, 1000)
    parts: list[Any] = [
        b"bytes",
        bytearray(b"bytearray"),
        memoryview(b"a view of a part")[2:6],
        array.array("i", [1, 2, 3]),
        numbers,
        numbers[3],
        np.float32(2.5),
        numbers[:0],
        memoryview(numbers),
    ]
    with forebay.stage.open(slow / "a", "wb", area=area) as file:
        for part in parts:
            assert file.write(part) == memoryview(part).nbytes
        with pytest.raises(BufferError, match="not C-contiguous"):
            file.write(numbers[:, ::2])
        with pytest.raises(TypeError):
            file.write("text")  # type: ignore[arg-type]
        # A buffer is free at return: it may be resized, and used for something else.
        lent = bytearray(bytes(range(256)) * 4096)
        file.write(lent)
        expected = bytes(lent)
        lent[:] = b"gone"
    file.durable.result(LONG)
    assert (slow / "a").read_bytes() == b"".join(memoryview(part).tobytes() for part in parts) + expected


def test_what_a_mode_does_not_allow_is_refused_as_python_does(area: forebay.stage.Area, slow: Path) -> None:
    path = slow / "a"
    for mode in ("", "rw", "wbt", "q", "wwb", "ab", "r+b", "a"):
        with pytest.raises(ValueError, match="mode"):
            forebay.stage.open(path, mode, area=area)
    with pytest.raises(ValueError, match="encoding"):
        forebay.stage.open(path, "wb", area=area, encoding="utf-8")  # type: ignore[call-overload]
    with forebay.stage.open(path, "xb", area=area) as file:
        assert file.writable() and file.seekable() and not file.readable() and not file.isatty()
        with pytest.raises(io.UnsupportedOperation):
            file.read()
        with pytest.raises(io.UnsupportedOperation):
            file.fileno()
        with pytest.raises(TypeError, match="pickled"):
            pickle.dumps(file)
    for call in (file.tell, file.flush, file.writable, lambda: file.write(b""), lambda: file.seek(0)):
        with pytest.raises(ValueError, match="closed"):
            call()
    file.close()
    with pytest.raises(FileExistsError):
        forebay.stage.open(path, "xb", area=area)
    file.durable.result(LONG)
    with pytest.raises(FileExistsError):
        forebay.stage.open(path, "x", area=area)
    with pytest.raises(FileNotFoundError):
        with forebay.stage.open(slow / "missing" / "a", "wb", area=area) as file:
            pass
        file.durable.result(LONG)


def test_of_those_that_create_a_file_exclusively_only_the_first_has_it(
    area: forebay.stage.Area, tmp_path: Path, slow: Path
) -> None:
    path = slow / "claim"
    program = (
        "import sys, forebay.stage\n"
        "area = forebay.stage.Area(sys.argv[1], free_floor=0)\n"
        "try:\n    forebay.stage.open(sys.argv[2], 'xb', area=area)\n"
        "except FileExistsError as error:\n    print(error.filename)\n"
    )

    def refused() -> str:
        command = [sys.executable, "-c", program, str(tmp_path / "fast"), str(path)]
        return subprocess.run(command, check=True, capture_output=True, text=True, timeout=LONG).stdout.strip()

    with forebay.stage.open(path, "xb", area=area) as file:
        file.write(b"mine")
        assert refused() == str(path)
        with pytest.raises(FileExistsError):
            forebay.stage.open(path, "x", area=area)
        with pytest.raises(FileExistsError):
            path.open("xb")
    file.durable.result(LONG)
    assert refused() == str(path) and path.read_bytes() == b"mine"
    with pytest.raises(ZeroDivisionError), forebay.stage.open(slow / "given up", "xb", area=area):
        raise ZeroDivisionError
    with forebay.stage.open(slow / "given up", "xb", area=area) as file:
        file.write(b"again")
    file.durable.result(LONG)


def test_text_is_text(area: forebay.stage.Area, slow: Path) -> None:
    with forebay.stage.open(slow / "a.csv", "w", area=area, encoding="latin-1", newline="\r\n") as file:
        file.write("größe\n")
        print(1, 2, sep=",", file=file)
    file.durable.result(LONG)
    assert (slow / "a.csv").read_bytes() == "größe\r\n1,2\r\n".encode("latin-1")
    with forebay.stage.open(slow / "b.txt", "w+", area=area) as file:
        file.write("one\ntwo\n")
        file.seek(0)
        assert file.readlines() == ["one\n", "two\n"]


def test_what_is_staged_is_read_on_this_node_before_it_is_durable(area: forebay.stage.Area, slow: Path) -> None:
    path = slow / "a"
    path.write_bytes(b"old")
    with area.paused():
        with forebay.stage.open(path, "wb", area=area) as file:
            file.write(b"new")
        for _ in range(20):
            with forebay.stage.open(path, "wb", area=area) as file:
                file.write(b"new")
            with forebay.stage.open(path, "rb", area=area) as read:
                assert read.read() == b"new"
        assert path.read_bytes() == b"old"
    file.durable.result(LONG)
    with forebay.stage.open(path, "r", area=area) as read:
        assert read.read() == "new"
    with pytest.raises(FileNotFoundError):
        forebay.stage.open(slow / "none", "rb", area=area)


# Libraries that write to file objects.


def test_numpy_pickle_and_zipfile_write_to_it(area: forebay.stage.Area, slow: Path) -> None:
    values = np.random.default_rng(0).random((300, 400))
    with forebay.stage.open(slow / "a.npy", area=area) as file:
        np.save(file, values)
    with forebay.stage.open(slow / "a.npz", area=area) as file:
        np.savez_compressed(file, x=values, y=values[0])
    with forebay.stage.open(slow / "a.pickle", area=area) as file:
        pickle.dump({"x": values, "names": [str(n) for n in range(10_000)]}, file, protocol=5)
    with forebay.stage.open(slow / "a.zip", area=area) as file, zipfile.ZipFile(file, "w") as archive:
        archive.writestr("one", b"1" * 100_000)
    area.drain()
    np.testing.assert_array_equal(np.load(slow / "a.npy"), values)
    np.testing.assert_array_equal(np.load(slow / "a.npz")["y"], values[0])
    loaded = pickle.loads((slow / "a.pickle").read_bytes())
    assert loaded["names"][-1] == "9999" and (loaded["x"] == values).all()
    assert zipfile.ZipFile(slow / "a.zip").read("one") == b"1" * 100_000


def test_h5py_writes_and_reads_back_through_it(area: forebay.stage.Area, slow: Path) -> None:
    values = np.random.default_rng(0).integers(0, 9, (500, 300))
    with forebay.stage.open(slow / "a.h5", "w+b", area=area) as file, h5py.File(file, "w") as made:
        made.create_dataset("packed", data=values, chunks=(50, 300), compression="gzip")
        made["plain"] = values
        made["packed"].attrs["unit"] = "K"
        made["plain"][7] = 77
        assert (made["packed"][3:9] == values[3:9]).all() and (made["plain"][7] == 77).all()
    file.durable.result(LONG)
    with h5py.File(slow / "a.h5") as read:
        assert (read["packed"][:] == values).all() and read["packed"].attrs["unit"] == "K"
        assert (read["plain"][7] == 77).all()


def test_save_chooses_by_the_object_and_refuses_what_would_be_pickled(area: forebay.stage.Area, slow: Path) -> None:
    values = np.arange(12.0).reshape(3, 4)
    saved = [
        forebay.stage.save(values, slow / "a.npy", area=area),
        forebay.stage.save({"x": values, "file": values[1]}, slow / "a.npz", area=area),
        forebay.stage.save(b"as it is", slow / "a.bin", area=area),
        forebay.stage.save(memoryview(values), slow / "b.bin", area=area),
    ]
    assert all(file.closed and file.durable.result(LONG) == file.name for file in saved)
    np.testing.assert_array_equal(np.load(slow / "a.npy"), values)
    with np.load(slow / "a.npz") as read:
        assert sorted(read) == ["file", "x"] and (read["file"] == values[1]).all()
    assert (slow / "a.bin").read_bytes() == b"as it is" and (slow / "b.bin").read_bytes() == values.tobytes()
    for refused in ({1, 2}, {"x": object()}, "text", object(), {}):
        with pytest.raises(TypeError, match="none of bytes, array"):
            forebay.stage.save(refused, slow / "c", area=area)
    with pytest.raises(ValueError, match="[Oo]bject arrays"):
        forebay.stage.save(np.array([object()]), slow / "c", area=area)
    with pytest.raises(ValueError, match="it is one of 'torch'"):
        forebay.stage.save(values, slow / "c", area=area, format="hdf5")
    area.drain()
    assert not (slow / "c").exists()


def test_safetensors_of_arrays(area: forebay.stage.Area, slow: Path) -> None:
    safetensors = pytest.importorskip("safetensors.numpy")
    tensors = {"a": np.arange(6, dtype=np.float32).reshape(2, 3), "b": np.ones(3, np.int64)}
    with forebay.stage.open(slow / "a.safetensors", area=area) as file:
        file.write(safetensors.save(tensors))
    forebay.stage.save(tensors, slow / "b.safetensors", area=area)
    area.drain()
    for name in ("a", "b"):
        read = safetensors.load_file(slow / f"{name}.safetensors")
        assert (read["a"] == tensors["a"]).all() and (read["b"] == tensors["b"]).all()


# Futures.


def test_futures_are_those_of_python(area: forebay.stage.Area, slow: Path) -> None:
    called: list[Any] = []
    told = threading.Event()
    area.pause()
    with forebay.stage.open(slow / "a", area=area) as file:
        file.write(b"x")
        file.durable.add_done_callback(lambda future: (called.append(future), told.set()))
    assert not file.durable.cancel() and not file.durable.cancelled()
    done, waiting = concurrent.futures.wait([file.staged, file.durable], 0.2, concurrent.futures.FIRST_COMPLETED)
    assert done == {file.staged} and waiting == {file.durable}
    area.resume()
    done, waiting = concurrent.futures.wait([file.staged, file.durable], LONG)
    assert not waiting and told.wait(LONG) and called == [file.durable]
    assert file.durable.exception() is None and file.durable.done() and not file.durable.running()
    assert "durable" in repr(file.durable) and "done" in repr(file.durable)


def test_futures_can_be_awaited(area: forebay.stage.Area, slow: Path) -> None:
    async def write() -> list[str]:
        files = [forebay.stage.save(bytes([n]) * 1000, slow / f"{n}", area=area) for n in range(5)]
        return [await asyncio.wait_for(file.durable, LONG) for file in files]

    assert asyncio.run(write()) == [str(slow / f"{n}") for n in range(5)]
    assert all((slow / f"{n}").read_bytes() == bytes([n]) * 1000 for n in range(5))


def test_a_destination_that_is_gone_fails_its_future_and_loses_nothing(area: forebay.stage.Area, slow: Path) -> None:
    folder = slow / "run"
    folder.mkdir()
    area.pause()
    file = forebay.stage.save(b"precious", folder / "a", area=area)
    folder.rmdir()
    area.resume()
    error = file.durable.exception(LONG)
    assert isinstance(error, forebay.ForebayError) and str(folder / "a") in str(error), error
    with pytest.raises(type(error)):
        file.durable.result()
    (item,) = area.items()
    assert item["destination"] == str(folder / "a") and item["error"] and item["bytes"] >= 8
    folder.mkdir()
    # What the destination takes by now is published when the area is drained again.
    area.drain()
    assert (folder / "a").read_bytes() == b"precious"


def test_files_of_higher_priority_are_durable_first(tmp_path: Path, slow: Path) -> None:
    order: list[str] = []
    with area_in(tmp_path / "fast", drainers=1, paused=True) as area:
        files = [
            forebay.stage.save(bytes(100), slow / name, area=area, priority=priority)
            for name, priority in (("low", -1), ("middle", 0), ("high", 5))
        ]
        area.resume()
        times = {}
        for file in files:
            file.durable.result(LONG)
            times[os.path.basename(file.name)] = os.stat(file.name).st_ctime_ns
        order = sorted(times, key=lambda name: times[name])
    assert order == ["high", "middle", "low"]


def test_latest_leads_to_the_newest_durable_file(area: forebay.stage.Area, slow: Path) -> None:
    first = forebay.stage.save(b"1", slow / "step-1", area=area, latest="latest")
    first.durable.result(LONG)
    assert (slow / "latest").is_symlink() and (slow / "latest").read_bytes() == b"1"
    with area.paused():
        second = forebay.stage.save(b"2", slow / "step-2", area=area, latest=slow / "latest")
        assert (slow / "latest").read_bytes() == b"1"
    second.durable.result(LONG)
    assert (slow / "latest").read_bytes() == b"2" and (slow / "step-1").read_bytes() == b"1"


# Areas.


@pytest.mark.parametrize("options", [{"quota": 0}, {"quota": "1MiB"}, {"quota": "1MiB", "paused": True}])
def test_a_full_area_fails_nothing(tmp_path: Path, slow: Path, options: dict[str, Any]) -> None:
    blocks = [np.full(1 << 18, n, np.uint8) for n in range(16)]
    with area_in(tmp_path / "fast", **options) as area:
        with forebay.stage.open(slow / "a", "w+b", area=area) as file:
            for block in blocks:
                file.write(block)
            file.seek(3 << 18)
            assert file.read(1 << 18) == blocks[3].tobytes()
        area.resume()
        file.durable.result(LONG)
        assert (slow / "a").read_bytes() == b"".join(block.tobytes() for block in blocks)
        assert area.stats()["passed_through_bytes"] > 0


def test_memory_is_an_area_too(slow: Path) -> None:
    with forebay.stage.Area("memory", memory="64MiB") as area:
        assert area.path is None and "memory" in repr(area)
        with forebay.stage.open(slow / "a", "w+b", area=area) as file:
            file.write(bytes(range(256)) * 1000)
            file.seek(256)
            assert file.read(2) == b"\0\1"
        file.durable.result(LONG)
    assert (slow / "a").read_bytes() == bytes(range(256)) * 1000


def test_an_area_tells_what_is_in_it_and_what_it_did(tmp_path: Path, slow: Path) -> None:
    told: list[dict[str, Any]] = []
    with area_in(tmp_path / "fast", paused=True) as area:
        assert area.path == str(tmp_path / "fast") and not area.closed
        for n in range(3):
            forebay.stage.save(bytes(1000), slow / f"{n}", area=area)
        items = area.items()
        assert {item["destination"] for item in items} == {str(slow / f"{n}") for n in range(3)}
        assert {item["kind"] for item in items} == {"create"} and not any(item["is_deserted"] for item in items)
        assert all(item["bytes"] >= 1000 and item["error"] is None and item["since"] > 1e9 for item in items)
        area.resume()
        area.drain(told.append)
        assert told and told[-1]["files"] == 0 and told[-1]["bytes"] == 0
        stats = area.stats()
        assert stats["sealed_files"] == 3 and stats["published_files"] == 3 and stats["drained_bytes"] >= 3000
    assert area.closed
    area.close()
    with pytest.raises(forebay.InvalidError, match="closed"):
        forebay.stage.open(slow / "b", area=area)


def test_a_drain_draws_a_bar(area: forebay.stage.Area, slow: Path, capsys: pytest.CaptureFixture[str]) -> None:
    area.drain(progress=True)
    assert capsys.readouterr().err == "", "there was nothing to show"
    area.pause()
    forebay.stage.save(bytes(100_000), slow / "a", area=area)
    area.drain(progress=True)
    told = capsys.readouterr().err
    assert told.startswith("\rdraining [") and "100 %  0 files, 0 MB left" in told and told.endswith("\n"), told
    forebay.stage.save(b"x", slow / "b", area=area)
    forebay.stage.drain(progress=False)
    assert capsys.readouterr().err == ""


def test_what_progress_raises_ends_the_wait(area: forebay.stage.Area, slow: Path) -> None:
    def progress(left: dict[str, Any]) -> None:
        raise ZeroDivisionError

    area.pause()
    file = forebay.stage.save(b"x", slow / "a", area=area)
    with pytest.raises(ZeroDivisionError):
        area.drain(progress)
    area.resume()
    file.durable.result(LONG)


def test_what_makes_no_sense_of_an_area_is_refused(tmp_path: Path) -> None:
    for options in ({"quota": "a lot"}, {"quota": -1}, {"drainers": -1}, {"memory": 1.5}):
        with pytest.raises((TypeError, ValueError, forebay.InvalidError)):
            forebay.stage.Area(tmp_path, **options)  # type: ignore[arg-type]
    file = tmp_path / "file"
    file.touch()
    with pytest.raises(forebay.ForebayError, match="file"):
        with forebay.stage.Area(file) as area:
            forebay.stage.save(b"x", tmp_path / "a", area=area)


def test_one_folder_is_one_area_by_its_name(tmp_path: Path, slow: Path) -> None:
    fast = tmp_path / "fast"
    first = forebay.stage.save(b"1", slow / "1", area=fast)
    second = forebay.stage.save(b"2", slow / "2", area=str(fast))
    assert first.area is second.area and first.area in forebay.stage.areas()
    forebay.stage.drain()
    assert (slow / "1").read_bytes() == b"1" and (slow / "2").read_bytes() == b"2"
    first.area.close()
    assert first.area not in forebay.stage.areas()


def test_threads_write_whole_blocks_into_one_file(area: forebay.stage.Area, slow: Path) -> None:
    # Longer than what looks for signals at a time, and shorter than what is put together.
    lengths = [20 << 20, 1000]
    with forebay.stage.open(slow / "a", area=area) as file, concurrent.futures.ThreadPoolExecutor(4) as pool:
        blocks = [np.full(lengths[n % 2], n, np.uint8) for n in range(8)]
        list(pool.map(file.write, blocks))
    file.durable.result(LONG)
    written = np.fromfile(slow / "a", np.uint8)
    assert written.size == sum(lengths) * 4
    turns = np.flatnonzero(np.diff(written))
    assert turns.size == 7, "what one call wrote was cut in two"


def test_many_small_files(area: forebay.stage.Area, slow: Path) -> None:
    files = [forebay.stage.save(str(n).encode(), slow / f"{n}", area=area) for n in range(200)]
    area.drain()
    assert all(file.durable.done() for file in files)
    assert all((slow / f"{n}").read_bytes() == str(n).encode() for n in range(200))


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"quota": "-5GB"}, "quota"),
        ({"quota": "ten"}, "quota"),
        ({"bandwidth": "fast"}, "bandwidth"),
        ({"drainers": 5000}, "drainers"),
        ({"path": ""}, "path"),
    ],
)
def test_a_wrong_argument_of_an_area_is_named(tmp_path: Path, given: dict[str, Any], named: str) -> None:
    with pytest.raises(ValueError, match=f"{named}="):
        forebay.stage.Area(**{"path": tmp_path / "fast", **given})


def test_a_bandwidth_is_written_as_in_the_configuration(tmp_path: Path) -> None:
    with forebay.stage.Area(tmp_path / "fast", bandwidth="200MB/s", quota="50%", free_floor=0) as area:
        forebay.stage.save(b"bytes", tmp_path / "file", area=area).durable.result(300)
    assert (tmp_path / "file").read_bytes() == b"bytes"
