"""Staged writes to HDF5 files that a process leaves: killed, forked and ended by `_exit`, or with a paused area."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
from pathlib import Path

import h5py
import numpy as np
import pytest

from hdf5_programs import LIMIT, driver, plain, run, start

COUNT = 300_000


@pytest.fixture
def files(tmp_path: Path) -> Path:
    folder = tmp_path / "files"
    folder.mkdir()
    return folder


def recover(area: Path, *flags: str) -> dict[str, int]:
    """How many items `forebay recover` finished, discarded and refused."""
    program = os.environ.get("FOREBAY_BIN") or shutil.which("forebay")
    assert program, "set FOREBAY_BIN to the forebay command"
    command = [program, "recover", "--json", *flags, str(area)]
    done = subprocess.run(command, env=plain(), capture_output=True, text=True, timeout=LIMIT)
    found = json.loads(done.stdout)
    return {name: len(found[name]) for name in ("finished", "discarded", "refused")}


NOTHING = {"finished": 0, "discarded": 0, "refused": 0}
ONE_FINISHED = {"finished": 1, "discarded": 0, "refused": 0}


def left_by_a_killed_process(tmp_path: Path, path: Path, userblock: int = 0) -> dict[str, str]:
    """Makes a file of zeros, over which a killed process has flushed sevens that are in the staging area alone; the environment of
    programs that use that area."""
    with h5py.File(path, "w", userblock_size=userblock) as file:
        file["x"] = np.zeros(COUNT)
    environment = driver(path.parent, tmp_path / "fast", FOREBAY_DELAY_CLOSE=1)
    source = """
        import sys, os, signal, h5py
        file = h5py.File(sys.argv[1], "r+")
        file["x"][:] = 7
        file.flush()
        os.kill(os.getpid(), signal.SIGKILL)
    """
    writer = start(source, environment | {"FOREBAY_STAGE_PAUSED": "true"}, path)
    writer.communicate(timeout=LIMIT)
    assert writer.returncode == -signal.SIGKILL
    assert values(path) == {0}, "nothing is in the file yet"
    return environment


def values(path: Path) -> set[float]:
    """The values in the file itself, whatever is staged for it."""
    with h5py.File(path, locking=False) as file:
        return set(file["x"][:])


OPEN = """
    import sys, json, h5py
    path, mode = sys.argv[1:]
    try:
        with h5py.File(path, mode) as file:
            print(json.dumps(["opened", len(file)]))
    except OSError as error:
        print(json.dumps([type(error).__name__, str(error)]))
"""


def test_what_was_flushed_outlives_an_open_for_replacing_that_fails(tmp_path: Path, files: Path) -> None:
    path = files / "a.h5"
    program = shutil.which("sleep")
    assert program
    environment = left_by_a_killed_process(tmp_path, path, userblock=1 << 20)
    # A file that runs cannot be opened for writing, by root either: its user block is a program.
    with open(path, "r+b") as file:
        kept = path.stat()
        file.write(Path(program).read_bytes())
    os.utime(path, ns=(kept.st_atime_ns, kept.st_mtime_ns))
    path.chmod(0o755)
    running = subprocess.Popen([path, "300"])
    try:
        said, _ = run(OPEN, environment, path, "w")
    finally:
        running.kill()
        running.wait()
    assert said[0] == "OSError" and "Text file busy" in said[1], said
    assert sum(recover(tmp_path / "fast", "--dry-run").values()) == 1, "the writes are still there"


def test_what_was_flushed_outlives_a_delete_that_fails(tmp_path: Path, files: Path) -> None:
    path = files / "a.h5"
    environment = left_by_a_killed_process(tmp_path, path)
    delete = """
        import sys, ctypes, h5py
        hdf5 = ctypes.CDLL([line.split()[-1] for line in open("/proc/self/maps") if "/libhdf5-" in line][0])
        h5py.h5.get_libversion()
        hdf5.H5FDdelete.argtypes = [ctypes.c_char_p, ctypes.c_int64]
        print(hdf5.H5FDdelete(sys.argv[1].encode(), 0))
    """
    if subprocess.run(["chattr", "+i", path], capture_output=True).returncode == 0:
        try:
            assert run(delete, environment, path)[0] < 0
        finally:
            subprocess.run(["chattr", "-i", path], check=True)
        assert recover(tmp_path / "fast", "--dry-run") == ONE_FINISHED
    assert run(delete, environment, path)[0] == 0
    assert not path.exists() and recover(tmp_path / "fast") == NOTHING


def test_a_file_that_was_replaced_has_none_of_what_a_killed_process_flushed_before(tmp_path: Path, files: Path) -> None:
    path = files / "a.h5"
    environment = left_by_a_killed_process(tmp_path, path)
    replace = "import sys, h5py, numpy as np\nwith h5py.File(sys.argv[1], 'w') as file:\n    file['x'] = np.full(10, 3.0)"
    assert run(replace, environment, path)[1] == ""
    assert recover(tmp_path / "fast") == NOTHING
    assert values(path) == {3}


def test_a_file_with_writes_of_a_killed_process_is_not_read_before_recover(tmp_path: Path, files: Path) -> None:
    path = files / "a.h5"
    environment = left_by_a_killed_process(tmp_path, path)
    for mode in ("r", "r+"):
        said, err = run(OPEN, environment, path, mode)
        assert said[0] == "BlockingIOError" and f"forebay recover {tmp_path / 'fast'}" in said[1] + err, said
    swmr = OPEN.replace("h5py.File(path, mode)", "h5py.File(path, mode, libver='latest', swmr=True)")
    assert run(swmr, environment, path, "r")[0][0] == "BlockingIOError"
    # A program that knows of no staging area reads the file as it is.
    assert run(OPEN, driver(files), path, "r") == (["opened", 1], "")
    assert recover(tmp_path / "fast") == ONE_FINISHED
    assert run(OPEN, environment, path, "r") == (["opened", 1], "")
    assert values(path) == {7}


def test_a_process_with_a_paused_area_opens_its_own_closed_file_again_and_drains_no_other(tmp_path: Path, files: Path) -> None:
    source = """
        import sys, json, time, h5py, numpy as np
        folder = sys.argv[1]
        for name in ("a", "b"):
            with h5py.File(f"{folder}/{name}.h5", "w") as file:
                file["x"] = np.arange(300_000)
        start = time.monotonic()
        read = []
        for mode in ("r", "r+"):
            with h5py.File(f"{folder}/a.h5", mode) as file:
                read.append(bool((file["x"][:] == np.arange(300_000)).all()))
        with open(f"{folder}/b.h5", "rb") as other:
            print(json.dumps([read, time.monotonic() - start < 60, len(other.read()) < 1_000_000]))
    """
    paused = driver(files, tmp_path / "fast", FOREBAY_DELAY_CLOSE=1, FOREBAY_STAGE_PAUSED="true")
    assert run(source, paused, files) == ([[True, True], True, True], "")
    assert values(files / "b.h5") == set(range(300_000)), "drained by the end of the process"


WORKERS = """
    import json, multiprocessing, os, sys
    path, method, imports = sys.argv[1:]
    if imports == "before":
        import h5py

    def work():
        import h5py, numpy as np
        with h5py.File(path, "w") as file:
            file["x"] = np.arange(300_000)
            file.flush()
            file["y"] = np.arange(300_000)

    if method == "os.fork":
        child = os.fork()
        if child == 0:
            work()
            os._exit(0)
        code = os.waitpid(child, 0)[1]
    else:
        worker = multiprocessing.get_context(method).Process(target=work)
        worker.start()
        worker.join()
        code = worker.exitcode
    import h5py
    with h5py.File(path) as file:
        read = [int(file[name][-1]) for name in "xy"]
    with h5py.File(path, "a") as file:
        file["z"] = 1
    print(json.dumps([code, read]))
"""


@pytest.mark.parametrize("imports", ("before", "after"))
@pytest.mark.parametrize("method", ("os.fork", "fork"))
def test_a_file_that_a_forked_worker_closed_is_whole_though_closes_are_delayed(tmp_path: Path, files: Path, method: str, imports: str) -> None:
    slow = driver(files, tmp_path / "fast", FOREBAY_DELAY_CLOSE=1, FOREBAY_STAGE_BANDWIDTH="20MB")
    assert run(WORKERS, slow, files / "a.h5", method, imports) == ([0, [299_999, 299_999]], "")
    assert recover(tmp_path / "fast") == NOTHING


def test_a_file_that_a_worker_of_a_fork_server_closed_is_whole_though_closes_are_delayed(tmp_path: Path, files: Path) -> None:
    module = tmp_path / "work.py"
    module.write_text("import h5py, numpy as np\n\ndef work(path):\n    with h5py.File(path, 'w') as file:\n        file['x'] = np.arange(300_000)\n")
    source = """
        import multiprocessing, sys
        path, folder = sys.argv[1:]
        sys.path.insert(0, folder)
        from work import work
        worker = multiprocessing.get_context("forkserver").Process(target=work, args=(path,))
        worker.start()
        worker.join()
        import h5py
        with h5py.File(path) as file:
            print(int(file["x"][-1]))
    """
    slow = driver(files, tmp_path / "fast", FOREBAY_DELAY_CLOSE=1, FOREBAY_STAGE_BANDWIDTH="20MB")
    assert run(source, slow, files / "a.h5", tmp_path) == (299_999, "")
