"""Ranks with parallel HDF5: the same values with the connector as without, and what was flushed survives a kill of all ranks."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from pathlib import Path

import h5py
import pytest

from emulated_hosts import emulated_hosts
from hdf5_programs import LIMIT, plain
from hdf5_ranks import compiled, connector, parallel, ranks, ranks_on_hosts

@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compiled("parallel_cases", tmp_path_factory.mktemp("program"))


def values(path: Path) -> dict[str, bytes]:
    with h5py.File(path) as file:
        return {name: file[name][...].tobytes() for name in file}


def counters(folder: Path) -> list[list[int]]:
    """Staged writes, their bytes, writes of HDF5, collective reads served and left to HDF5, settled; by rank."""
    lines = (folder / "counters").read_text().splitlines()
    return [[int(word) for word in line.split()[1:7]] for line in lines]


@pytest.fixture
def files(tmp_path: Path) -> Path:
    (tmp_path / "files").mkdir()
    return tmp_path / "files"


# Four ranks on two processors take a minute each to wait for each other.
COUNTS = [1, 2, 4] if os.environ.get("FOREBAY_LONG") else [1, 2]


@pytest.mark.parametrize("case", ["writes", "resize"])
@pytest.mark.parametrize("count", COUNTS)
def test_ranks_write_the_same_file_and_read_the_same_values(
    count: int, case: str, program: Path, files: Path, tmp_path: Path
) -> None:
    native = ranks(count, plain(), program, case, tmp_path / "native.h5")
    assert ranks(count, connector(files), program, case, files / "ours.h5") == native
    assert values(files / "ours.h5") == values(tmp_path / "native.h5")
    for staged, _, passed, _, _, settled in counters(tmp_path):
        # Filtered data sets, which only one of the cases has, are left to HDF5.
        assert staged > 0 and settled > 0 and (passed > 0) >= (case == "writes")
    assert not list((tmp_path / "fast").rglob("p-*"))


@pytest.mark.parametrize("how", ["read", "write"])
@pytest.mark.parametrize("count", COUNTS)
def test_ranks_read_the_same_values_from_their_caches_however_often_each_reads(
    count: int, how: str, program: Path, files: Path, tmp_path: Path
) -> None:
    for path in [files / "ours.h5", tmp_path / "native.h5"]:
        ranks(count, plain(), program, "writes", path)
    native = ranks(count, plain(), program, "reads", tmp_path / "native.h5", how)
    assert ranks(count, connector(files), program, "reads", files / "ours.h5", how) == native
    if how == "read":
        assert all(served > 0 for _, _, _, served, _, _ in counters(tmp_path))
    else:
        assert values(files / "ours.h5") == values(tmp_path / "native.h5")


def test_what_ranks_have_flushed_is_in_the_file_after_a_kill_of_all_and_recover(
    program: Path, files: Path, tmp_path: Path
) -> None:
    rounds = 3
    words = [str(parallel()[1]), "-n", "4", str(program), "rounds", str(files / "ours.h5"), str(rounds)]
    running = subprocess.Popen(
        words, env=connector(files), stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    assert running.stdout is not None
    for _ in range(4):
        assert running.stdout.readline().endswith("flushed\n")
    time.sleep(0.2)
    own = subprocess.run(["ps", "-ww", "-eo", "pid,args"], stdout=subprocess.PIPE, text=True, check=True).stdout
    for line in own.splitlines():
        pid, _, arguments = line.strip().partition(" ")
        if arguments.startswith(str(program)):
            # The launcher ends the others once it misses one.
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(pid), signal.SIGKILL)
    running.wait(LIMIT)
    recovered = subprocess.run(
        [os.environ["FOREBAY_BIN"], "recover", str(tmp_path / "fast")], stdout=subprocess.PIPE, text=True
    )
    assert recovered.returncode == 0, recovered.stdout
    # Every rank goes on after the flush by itself: its rows are those of some round from the last flushed one on.
    with h5py.File(files / "ours.h5") as file:
        found = file["values"][...]
    assert found.shape == (256, 4096) and (found != 7).any()
    assert not list((tmp_path / "fast").rglob("*.journal"))


#: What each case says without the connector; the place of a data set is HDF5's choice.
ORDER = {
    "flush": ["flushed by a data set: 0 wrong"],
    "unlinked": ["fill value: 0 wrong", "the place is the same"],
    "twice": ["fill value: 0 wrong", "the place is the same"],
    "group": ["fill value: 0 wrong", "the place is the same"],
    "anonymous": ["written by all: 0 wrong"],
    "serial": ["made by rank 0: 0 wrong", "written by all: 0 wrong"],
    "late": ["read together after a write: 0 wrong"],
    "alone": ["flushed alone: 0 wrong"],
    "weak": ["read after the file's handle is gone: 0 wrong"],
    "async": ["the later write: 0 wrong"],
    "plain": ["written: 0 wrong"],
}


@pytest.fixture(scope="module")
def order(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compiled("parallel_order", tmp_path_factory.mktemp("order"))


@pytest.mark.parametrize("case", ORDER)
def test_what_ranks_do_one_after_the_other_is_seen_in_that_order(case: str, order: Path, files: Path) -> None:
    # Slow enough that what is staged would come too late.
    slowly = connector(files, FOREBAY_STAGE_BANDWIDTH="2MB/s", FOREBAY_HDF5_UNIT="64KiB", FOREBAY_DELAY_CLOSE="1")
    assert ranks(2, slowly, order, case, files / "ours.h5") == ORDER[case]


def test_ranks_wait_for_what_the_file_driver_has_staged_in_memory(order: Path, files: Path) -> None:
    slowly = connector(files, FOREBAY_STAGE="memory", FOREBAY_STAGE_BANDWIDTH="2MB/s", FOREBAY_DELAY_CLOSE="1")
    assert ranks(2, slowly, order, "serial", files / "ours.h5") == ORDER["serial"]


def test_a_staging_area_that_cannot_be_used_is_passed_by(order: Path, files: Path, tmp_path: Path) -> None:
    (tmp_path / "plain").write_text("no folder")
    nowhere = connector(files, FOREBAY_STAGE=tmp_path / "plain/area")
    assert ranks(2, nowhere, order, "plain", files / "ours.h5") == ORDER["plain"]


@pytest.mark.skipif(os.geteuid() != 0, reason="a small file system is made by root")
def test_a_file_system_that_fills_up_costs_no_more_than_what_did_not_fit(order: Path, files: Path, tmp_path: Path) -> None:
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", files], capture_output=True)
    if mounted.returncode:
        pytest.skip("no file system can be mounted here")
    try:
        assert ranks(2, connector(files), order, "full", files / "ours.h5") == ["closed: -1"]
        subprocess.run(["mount", "-o", "remount,size=64m", files], check=True)
        subprocess.run([os.environ["FOREBAY_BIN"], "recover", tmp_path / "fast"], stdout=subprocess.DEVNULL, check=True)
        with h5py.File(files / "ours.h5") as file:
            assert (file["good"][...] == 3).all() and (file["large"][...] == 0).all()
    finally:
        subprocess.run(["umount", files], check=True)


@pytest.mark.parametrize("case", ["flush", "unlinked", "late", "weak"] if os.environ.get("FOREBAY_LONG") else ["late"])
def test_ranks_of_several_hosts_see_what_others_did_before(case: str, order: Path, files: Path, tmp_path: Path) -> None:
    slowly = connector(files, FOREBAY_STAGE_BANDWIDTH="2MB/s", FOREBAY_HDF5_UNIT="64KiB")
    with emulated_hosts(2, tmp_path) as hosts:
        assert ranks_on_hosts(hosts, 1, slowly, order, case, files / "ours.h5") == ORDER[case]
