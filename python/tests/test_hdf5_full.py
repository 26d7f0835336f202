"""HDF5 programs on disks that are full or read-only, on either side of the plug-ins: clear errors, and nothing is lost."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import h5py
import numpy as np
import pytest

from hdf5_programs import LIMIT, connector, driver, plain, run

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="mounts small file systems, which takes root")

# No room is left free, and the quota is more than the disk has: it is the disk itself that refuses.
NO_FLOOR = {"FOREBAY_STAGE_FREE_FLOOR": "0", "FOREBAY_STAGE_QUOTA": "1GiB"}
VALUES = 1_000_000

WRITE = """
    import sys, json, h5py, numpy as np
    path, count, told = sys.argv[1], int(sys.argv[2]), []
    def tell(step, call):
        try:
            call()
        except Exception as error:
            told.append([step, type(error).__name__, error.errno if isinstance(error, OSError) else None, str(error)[:200]])
    file = h5py.File(path, "w")
    data = file.create_dataset("x", shape=(count,), dtype="i8")
    def write():
        for start in range(0, count, 100_000):
            data[start : start + 100_000] = np.arange(start, min(start + 100_000, count))
    tell("write", write)
    tell("flush", file.flush)
    tell("close", file.close)
    print(json.dumps(told))
"""


class SmallDisk:
    """A file system of its own, of a few MiB."""

    def __init__(self, folder: Path, size: str) -> None:
        folder.mkdir()
        self.folder = folder
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", folder], check=True, timeout=LIMIT)

    def remount(self, option: str) -> None:
        subprocess.run(["mount", "-o", f"remount,{option}", self.folder], check=True, timeout=LIMIT)

    def unmount(self) -> None:
        subprocess.run(["umount", "-l", self.folder], check=True, timeout=LIMIT)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    made = SmallDisk(tmp_path / "disk", "4m")
    yield made
    made.unmount()


def command(*arguments: object) -> subprocess.CompletedProcess[str]:
    program = os.environ.get("FOREBAY_BIN") or shutil.which("forebay")
    assert program, "set FOREBAY_BIN to the forebay command"
    return subprocess.run([program, *map(str, arguments)], env=plain(), capture_output=True, text=True, timeout=LIMIT)


def is_whole(path: Path) -> bool:
    with h5py.File(path) as file:
        return bool((file["x"][:] == np.arange(VALUES)).all())


@pytest.mark.parametrize("delayed", (0, 1))
def test_a_full_staging_area_costs_time_and_no_bytes(tmp_path: Path, disk: SmallDisk, delayed: int) -> None:
    files = tmp_path / "files"
    files.mkdir()
    environment = driver(files, disk.folder, FOREBAY_DELAY_CLOSE=delayed, **NO_FLOOR)
    told, err = run(WRITE, environment, files / "a.h5", VALUES)
    assert told == [], err
    assert is_whole(files / "a.h5")
    again = command("recover", disk.folder)
    assert again.returncode == 0 and is_whole(files / "a.h5"), again.stderr


def test_a_full_cache_gives_the_same_values(tmp_path: Path, disk: SmallDisk) -> None:
    files = tmp_path / "files"
    files.mkdir()
    with h5py.File(files / "a.h5", "w") as file:
        file["x"] = np.arange(VALUES)
    os.utime(files / "a.h5", (1_600_000_000,) * 2)
    source = """
        import sys, json, time, h5py, numpy as np
        time.sleep(0.05)
        for _ in range(3):
            with h5py.File(sys.argv[1]) as file:
                assert (file["x"][:] == np.arange(len(file["x"]))).all()
    """
    (disk.folder / "fills").write_bytes(bytes(3 << 20))
    _, err = run(source, connector(files, disk.folder), files / "a.h5")
    assert err == ""


def test_a_full_destination_is_told_as_natively_and_what_was_staged_is_kept(tmp_path: Path, disk: SmallDisk) -> None:
    native, _ = run(WRITE, plain(), disk.folder / "native.h5", VALUES)
    (disk.folder / "native.h5").unlink()
    told, _ = run(WRITE, driver(disk.folder, tmp_path / "stage"), disk.folder / "a.h5", VALUES)
    # The error comes later than natively, as writes do not wait for the disk, and is the same.
    assert native and told and {kind for _, kind, *_ in told} <= {"OSError", "RuntimeError"}, (native, told)
    assert any("No space left" in what for *_, what in told), told
    listed = command("stage", "ls", tmp_path / "stage")
    assert "a.h5" in listed.stdout, listed.stdout + listed.stderr
    refused = command("recover", tmp_path / "stage")
    assert refused.returncode != 0 and "No space left" in refused.stdout + refused.stderr, refused
    disk.remount("size=64m")
    recovered = command("recover", tmp_path / "stage")
    assert recovered.returncode == 0, recovered.stdout + recovered.stderr
    assert is_whole(disk.folder / "a.h5")


def test_a_full_destination_of_a_delayed_close_is_told_at_the_end_and_recovered(tmp_path: Path, disk: SmallDisk) -> None:
    environment = driver(disk.folder, tmp_path / "stage", FOREBAY_DELAY_CLOSE=1)
    told, err = run(WRITE, environment, disk.folder / "a.h5", VALUES)
    assert told == [] and "No space left" in err and "forebay recover" in err
    disk.remount("size=64m")
    recovered = command("recover", tmp_path / "stage")
    assert recovered.returncode == 0, recovered.stdout + recovered.stderr
    assert is_whole(disk.folder / "a.h5")


def test_a_read_only_destination_gives_the_errors_of_plain_hdf5(tmp_path: Path, disk: SmallDisk) -> None:
    with h5py.File(disk.folder / "there.h5", "w") as file:
        file["x"] = np.arange(50_000)
    os.utime(disk.folder / "there.h5", (1_600_000_000,) * 2)
    disk.remount("ro")
    source = """
        import sys, json, h5py
        told = []
        for name in ("there.h5", "absent.h5"):
            for mode in ("r", "r+", "w", "x"):
                try:
                    with h5py.File(f"{sys.argv[1]}/{name}", mode) as file:
                        told.append(int(file["x"][:].sum()))
                except OSError as error:
                    told.append([type(error).__name__, error.errno, str(error)])
        print(json.dumps(told))
    """
    native = run(source, plain(), disk.folder)[0]
    assert native[0] == 1_249_975_000 and native[1][1] == 30
    stage = {"FOREBAY_STAGE": tmp_path / "stage"}
    for environment in (driver(disk.folder, tmp_path / "stage"), connector(disk.folder, "memory", **stage)):
        told, err = run(source, environment, disk.folder)
        assert told == native and err == ""
