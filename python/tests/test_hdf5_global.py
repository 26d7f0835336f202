"""A cache and a staging area in a folder that several nodes see (`hdf5.scope = global`): hosts are emulated by their names.

A host is told from another by its start (`boot_id`) and its name, so a mount namespace with another `boot_id` is one. Locks work
between the emulated hosts, as they do on a file system that is mounted with them.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from hdf5_programs import LIMIT, connector, driver, plain

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="hosts are emulated by namespaces, which takes root")

ENTER = 'hostname "$1" && mount --bind "$2" /proc/sys/kernel/random/boot_id && shift 2 && exec "$@"'
MIB = 1 << 20


class Host:
    """A machine of its own, as far as forebay can tell."""

    def __init__(self, folder: Path, number: int) -> None:
        self.name = f"node{number}"
        self.boot = folder / f"boot-{number}"
        self.boot.write_text(f"{number:08x}-0000-4000-8000-{number:012x}\n")

    def start(self, command: list[object], environment: dict[str, str]) -> subprocess.Popen[str]:
        words = ["unshare", "--mount", "--uts", "sh", "-c", ENTER, "sh", self.name, str(self.boot), *map(str, command)]
        pipe = subprocess.PIPE
        return subprocess.Popen(words, env=environment, stdin=pipe, stdout=pipe, stderr=pipe, text=True)

    def python(self, source: str, environment: dict[str, str], *arguments: object) -> subprocess.Popen[str]:
        return self.start([sys.executable, "-c", textwrap.dedent(source), *arguments], environment)


def told(process: subprocess.Popen[str]) -> Any:
    out, err = process.communicate(timeout=LIMIT)
    assert process.returncode == 0 and err == "", out + err
    return json.loads(out.splitlines()[-1])


@pytest.fixture
def hosts(tmp_path: Path) -> list[Host]:
    return [Host(tmp_path, number) for number in (1, 2, 3)]


@pytest.fixture
def files(tmp_path: Path) -> Path:
    folder = tmp_path / "files"
    folder.mkdir()
    with h5py.File(folder / "a.h5", "w") as file:
        data = np.arange(400 * 64 * 32, dtype="f4").reshape(400, 64, 32)
        file["rows"] = data
        file.create_dataset("chunks", data=data, chunks=(16, 64, 32), compression="gzip")
    os.utime(folder / "a.h5", (1_600_000_000,) * 2)
    return folder


READ = """
    import json, sys, time, h5py, numpy as np, forebay.hdf5
    time.sleep(0.05)
    expected = np.arange(400 * 64 * 32, dtype="f4").reshape(400, 64, 32)
    with h5py.File(sys.argv[1]) as file:
        for name in ("rows", "chunks"):
            # Parts of samples first, in an order of this host's own.
            for at in np.random.default_rng(int(sys.argv[2])).permutation(400)[:40]:
                assert (file[name][at, 5:50:3, 7:] == expected[at, 5:50:3, 7:]).all()
            assert (file[name][...] == expected).all()
    assert forebay.hdf5.wait(300)
    print(json.dumps(forebay.hdf5.stats()), flush=True)
"""


def test_a_node_reads_what_another_has_cached_and_a_local_cache_is_its_own(files: Path, hosts: list[Host], tmp_path: Path) -> None:
    for scope in ("global", "local"):
        shared = connector(files, tmp_path / scope, FOREBAY_HDF5_SCOPE=scope)
        first = told(hosts[0].python(READ, shared, files / "a.h5", 1))
        assert first["kept"] > 0 and first["filled"] + first["passed"] > 0
        second = told(hosts[1].python(READ, shared, files / "a.h5", 2))
        misses = second["filled"] + second["passed"]
        assert (misses == 0) == (scope == "global"), second
    # A change is seen by all of them.
    with h5py.File(files / "a.h5", "r+") as file:
        file["rows"][3] += 0
    third = told(hosts[2].python(READ, connector(files, tmp_path / "global", FOREBAY_HDF5_SCOPE="global"), files / "a.h5", 3))
    assert third["filled"] + third["passed"] > 0, "the old version is not used"


def test_nodes_that_fill_one_cache_at_once_read_right_and_stay_within_its_quota(
    files: Path, hosts: list[Host], tmp_path: Path
) -> None:
    for quota in ("1MiB", "64MiB"):
        shared = connector(files, tmp_path / quota, FOREBAY_HDF5_SCOPE="global", FOREBAY_HDF5_CACHE_QUOTA=quota)
        running = [host.python(READ, shared, files / "a.h5", number) for number, host in enumerate(hosts)]
        for stats in map(told, running):
            assert stats["used"] <= stats["quota"]
    assert told(hosts[0].python(READ, shared, files / "a.h5", 7))["hit"] > 0


def test_what_waits_for_the_shared_folder_takes_no_more_memory_than_is_said(hosts: list[Host], tmp_path: Path) -> None:
    files = tmp_path / "files"
    files.mkdir()
    with h5py.File(files / "large.h5", "w") as file:
        data = file.create_dataset("x", shape=(192, 1 << 18), dtype="f4")
        for at in range(192):
            data[at] = at
    os.utime(files / "large.h5", (1_600_000_000,) * 2)
    source = """
        import json, resource, sys, time, h5py, numpy as np
        time.sleep(0.05)
        into = np.empty((1, 1 << 18), "f4")
        with h5py.File(sys.argv[1]) as file:
            for at in range(192):
                file["x"].read_direct(into, np.s_[at : at + 1])
                assert (into == at).all()
        print(json.dumps(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10))
    """
    most = {}
    for read in (0, 1):
        shared = {"FOREBAY_HDF5_SCOPE": "global", "FOREBAY_HDF5_UNIT": "1MiB", "FOREBAY_HDF5_READ": read}
        most[read] = told(hosts[0].python(source, connector(files, tmp_path / "fast", **shared), files / "large.h5"))
    assert most[1] - most[0] <= (64 + 16) * MIB, "64 MiB, and what threads and files of the cache take"


WRITE = """
    import sys, time, h5py, numpy as np
    file = h5py.File(sys.argv[1], "w")
    file["x"] = np.arange(1_000_000)
    file.flush()
    print("flushed", flush=True)
    sys.stdin.read()
"""


def command(*words: object) -> list[object]:
    program = os.environ.get("FOREBAY_BIN")
    assert program, "set FOREBAY_BIN to the forebay command"
    return [program, *words]


def test_what_a_lost_node_has_staged_is_recovered_by_another_once_it_is_named(
    hosts: list[Host], tmp_path: Path
) -> None:
    files, area = tmp_path / "files", tmp_path / "area"
    files.mkdir()
    more = {"FOREBAY_HDF5_SCOPE": "global", "FOREBAY_DELAY_CLOSE": 1, "FOREBAY_STAGE_PAUSED": 1}
    writer = hosts[0].python(WRITE, driver(files, area, **more), files / "a.h5")
    assert writer.stdout and writer.stdout.readline() == "flushed\n"
    def recover(*words: object) -> str:
        other = hosts[1].start(command("recover", *words, area), plain())
        out, err = other.communicate(timeout=LIMIT)
        assert other.returncode == 0, out + err
        return str(out + err)

    recover()
    assert os.path.getsize(files / "a.h5") < 1_000_000, "a process that runs keeps what is its own"
    writer.send_signal(signal.SIGKILL)
    writer.communicate(timeout=LIMIT)
    # Whether the other node still runs only the user knows.
    said = recover()
    assert "--host node1" in said and os.path.getsize(files / "a.h5") < 1_000_000, said
    recover("--host", "node1")
    with h5py.File(files / "a.h5") as file:
        assert (file["x"][:] == np.arange(1_000_000)).all()
