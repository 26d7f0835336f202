"""Staged writes to HDF5 files that a process leaves: forked and ended by `_exit`."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from hdf5_programs import LIMIT, driver, plain, run


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
