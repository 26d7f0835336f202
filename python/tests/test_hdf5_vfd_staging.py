"""Files that the HDF5 file driver closed before they were drained, and files of killed programs."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import h5py
import numpy as np
import pytest

from hdf5_programs import LIMIT, driver, plain, run, start

IS_LONG = bool(os.environ.get("FOREBAY_LONG"))


@pytest.fixture
def files(tmp_path: Path) -> Path:
    folder = tmp_path / "files"
    folder.mkdir()
    return folder

def command(*arguments: object) -> subprocess.CompletedProcess[str]:
    program = os.environ.get("FOREBAY_BIN") or shutil.which("forebay")
    assert program, "set FOREBAY_BIN to the forebay command"
    return subprocess.run([program, *map(str, arguments)], env=plain(), capture_output=True, text=True, timeout=LIMIT)


def test_a_file_that_is_closed_before_it_is_drained_is_whole_for_who_opens_it_next(tmp_path: Path, files: Path) -> None:
    source = """
        import sys, json, subprocess, time, h5py, numpy as np
        path, read = sys.argv[1:]
        start = time.monotonic()
        with h5py.File(path, "w") as file:
            file["x"] = np.arange(1_500_000)
        closed = time.monotonic() - start
        # Another process first, then this one.
        other = json.loads(subprocess.run([sys.executable, "-c", read, path], capture_output=True, check=True).stdout)
        with h5py.File(path, "r+") as file:
            own = int(file["x"][:].sum())
            file["x"][0] = 9
            file["y"] = np.arange(1_500_000)
        with h5py.File(path) as file:
            print(json.dumps([other, own, int(file["x"][0]), int(file["y"][-1]), closed]))
    """
    read = "import sys, h5py; print(int(h5py.File(sys.argv[1])['x'][:].sum()))"
    # 12 MB at 8 MB a second: the close does not wait for that, the opens do.
    slow = {"FOREBAY_DELAY_CLOSE": 1, "FOREBAY_STAGE_BANDWIDTH": "8MB"}
    said, err = run(source, driver(files, tmp_path / "fast", **slow), files / "a.h5", read)
    assert err == "" and said[:4] == [1_124_999_250_000, 1_124_999_250_000, 9, 1_499_999]
    # The process has ended: all is in the file.
    with h5py.File(files / "a.h5") as file:
        assert (file["y"][:] == np.arange(1_500_000)).all()
    assert not command("stage", "ls", tmp_path / "fast").stderr


def test_a_wait_for_a_file_on_its_way_ends_with_a_signal(tmp_path: Path, files: Path) -> None:
    path = files / "a.h5"
    slow = driver(files, tmp_path / "fast", FOREBAY_DELAY_CLOSE=1, FOREBAY_STAGE_BANDWIDTH="500KB")
    source = """
        import sys, h5py, numpy as np
        with h5py.File(sys.argv[1], "w") as file:
            file["x"] = np.arange(1_500_000)
        print("closed", flush=True)
        sys.stdin.read()
    """
    writer = start(source, slow, path)
    assert writer.stdout and writer.stdout.readline() == "closed\n"
    wait = """
        import signal, sys, h5py
        signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job ignores it
        print("waits", flush=True)
        h5py.File(sys.argv[1])
    """
    reader = start(wait, slow, path)
    assert reader.stdout and reader.stdout.readline() == "waits\n"
    time.sleep(0.5)
    assert reader.poll() is None
    reader.send_signal(signal.SIGINT)
    assert "KeyboardInterrupt" in reader.communicate(timeout=LIMIT)[1]
    writer.kill()
    writer.communicate(timeout=LIMIT)


KILLED = """
    import sys, os, signal, h5py, numpy as np
    path, last = sys.argv[1], int(sys.argv[2])
    file = h5py.File(path, "w")
    data = file.create_dataset("x", shape=(40, 50_000), chunks=(1, 50_000), dtype="i4")
    for step in range(40):
        data[step] = step + 1
        file.flush()
        print(step, flush=True)
        if step == last:
            data[39] = 77
            os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize("delayed", (False, True))
def test_after_a_kill_and_recover_a_file_has_all_that_was_flushed(tmp_path: Path, files: Path, delayed: bool) -> None:
    fast = tmp_path / "fast"
    slow = {"FOREBAY_STAGE_BANDWIDTH": "2MB"} if delayed else {}
    environment = driver(files, fast, FOREBAY_DELAY_CLOSE=int(delayed), **slow)
    for last in range(0, 20, 1 if IS_LONG else 7):
        path = files / f"{last}.h5"
        writer = start(KILLED, environment, path, last)
        out, _ = writer.communicate(timeout=LIMIT)
        flushed = int(out.split()[-1])
        assert writer.returncode == -signal.SIGKILL and flushed == last
        recovered = command("recover", fast)
        assert recovered.returncode == 0, recovered.stderr
        with h5py.File(path) as file:
            rows = file["x"][:39, :]
        assert all((rows[step] == step + 1).all() for step in range(flushed + 1))
        assert not rows[flushed + 1 :].any()
    again = command("recover", fast)
    assert again.returncode == 0, again.stderr
