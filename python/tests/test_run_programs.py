"""Programs of other people under ``forebay run``: the same output as without it, and the second run without the origin's data."""

from __future__ import annotations

import hashlib
import os
import shutil
import sqlite3
import time
from pathlib import Path

import pytest
from run_programs import LIBRARY, LONG, hits, make_origin, plain, python, run, tier_folder, twice

pytestmark = pytest.mark.skipif(not LIBRARY.is_file(), reason="the package has no library to preload")


@pytest.fixture(scope="module")
def origin(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_origin(tmp_path_factory.mktemp("origin"))


def digest(folder: Path) -> dict[str, str]:
    """Every file below a folder, by its name, with its content and mode."""
    found = {}
    for path in sorted(folder.rglob("*")):
        content = os.readlink(path) if path.is_symlink() else path.read_bytes() if path.is_file() else b""
        content = content.encode() if isinstance(content, str) else content
        found[str(path.relative_to(folder))] = f"{path.lstat().st_mode:o} {hashlib.sha256(content).hexdigest()}"
    return found


def test_checksums_are_those_of_plain_runs_and_the_second_run_reads_tiers_alone(origin: Path) -> None:
    # One of them is empty, and copied nowhere.
    first, _ = twice(origin, "sha256sum", *sorted(path for path in origin.rglob("*") if path.is_file()), left=1)
    size = sum(path.stat().st_size for path in origin.rglob("*") if path.is_file() and not path.is_symlink())
    assert first.count("origin_bytes") <= 1.05 * size, first.said


def test_cp_copies_all_that_there_is(origin: Path, tmp_path: Path) -> None:
    with tier_folder() as folder:
        for number in range(2):
            ran = run(origin, "cp", "-a", origin, tmp_path / str(number), tiers=[f"{folder}:64MiB:keep:free=0"])
            assert digest(tmp_path / str(number)) == digest(origin)
    assert hits(ran) > 0 and ran.count("origin_bytes") == 0, ran.said


def test_tar_makes_the_same_archive(origin: Path) -> None:
    twice(origin, "tar", "--sort=name", "-cf", "-", "-C", origin.parent, origin.name)


def test_scripts_relative_paths_and_double_slashes(origin: Path) -> None:
    twice(origin, "bash", origin / "script.sh", origin)
    twice(origin, "bash", "./script.sh", ".", cwd=origin)
    twice(origin, "cat", f"{origin}//sub/../sub//2.txt", f"/{origin}/a.npy", "sub/3.txt", cwd=origin)


READERS = """
    import hashlib, mmap, os, sys
    import numpy as np
    folder = sys.argv[1]
    def say(name, content): print(name, hashlib.sha256(bytes(content)).hexdigest())
    with open(f"{folder}/large.bin", "rb") as file:
        say("open", file.read())
        file.seek(12345)
        say("seek", file.read(77777))
        say("mmap", mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)[:])
        say("pread", os.pread(file.fileno(), 1 << 20, 99))
        say("stat", repr((os.fstat(file.fileno())[:9], os.stat(file.name)[:9])).encode())
    with open(f"{folder}/sub/4.txt", "rb", buffering=0) as file:
        say("raw", b"".join(iter(lambda: file.read(100), b"")))
    say("memmap", np.memmap(f"{folder}/a.npy", mode="r")[1000:])
    say("load", np.load(f"{folder}/a.npy").tobytes())
    say("mapped", np.load(f"{folder}/a.npy", mmap_mode="r")[5:].tobytes())
    with np.load(f"{folder}/a.npz") as archive:
        say("npz", archive["x"].tobytes() + archive["y"].tobytes())
    say("fromfile", np.fromfile(f"{folder}/a.npy", "u1", 1000, offset=9))
    say("empty", open(f"{folder}/empty", "rb").read())
    say("list", repr(sorted(os.listdir(folder))).encode())
"""


def test_what_python_and_numpy_read(origin: Path) -> None:
    # One file is empty, and copied nowhere.
    twice(origin, *python(READERS, origin), left=1)


HDF5 = """
    import sys, h5py
    with h5py.File(sys.argv[1] + "/a.h5") as file:
        print(file["x"][()].sum(), file["x"][17, 3:9], file["z"][5000:7000].sum(), list(file))
"""


def test_what_h5py_reads_with_and_without_the_plugins(origin: Path) -> None:
    _, again = twice(origin, *python(HDF5, origin))
    # HDF5 locks what it opens, and locks are the origin's: the bytes are not.
    assert again.count("tier_bytes") >= 0.9 * (400_000 * 4), again.said
    size = (origin / "a.h5").stat().st_size
    with tier_folder() as folder:
        ran = run(origin, *python(HDF5, origin), tiers=[f"{folder}:64MiB:free=0:keep"], flags=["--hdf5"])
        held = sum(path.stat().st_blocks * 512 for path in folder.rglob("*.bytes"))
    assert ran.out == plain(*python(HDF5, origin))
    assert ran.count("origin_bytes") <= 1.05 * size, ran.said
    assert held <= 1.05 * size, "each byte is placed once"


SQL = """
    import sqlite3, sys
    with sqlite3.connect(sys.argv[1], uri=True) as base:
        print(base.execute("select count(*), sum(length(s)) from t").fetchall(), base.execute("select s from t where i = 1234").fetchall())
        if len(sys.argv) > 2: print(base.execute(sys.argv[2]).rowcount)
    base.close()
"""


@pytest.mark.parametrize("way", ["mode=ro", "mode=ro&immutable=1", "mode=rw"])
def test_a_data_base_is_read_from_the_tier_unless_it_is_opened_for_writing(origin: Path, way: str) -> None:
    # SQLite locks what it reads unless it is told that nobody writes.
    program = python(SQL, f"file:{origin}/a.sqlite?{way}")
    if way != "mode=rw":
        twice(origin, *program)
        return
    # As SQLite opens its files where nothing is said: a file that is open for writing is the origin's.
    with tier_folder() as folder:
        ran = run(origin, *program, tiers=[f"{folder}:64MiB:free=0"])
    assert ran.out == plain(*program)
    assert (ran.count("opens_left"), ran.count("opens_managed")) == (1, 0), ran.said


def test_a_data_base_is_written_at_its_place(origin: Path, tmp_path: Path) -> None:
    own = tmp_path / "own"
    own.mkdir()
    shutil.copy(origin / "a.sqlite", own / "b.sqlite")
    time.sleep(2.1)
    read = python(SQL, f"file:{own}/b.sqlite?mode=ro")
    with tier_folder() as folder:
        tiers = [f"{folder}:64MiB:free=0:keep"]
        before = run(own, *read, tiers=tiers)
        assert before.out == plain(*read)
        change = "update t set s = 'changed' where i < 10 or i = 1234"
        assert run(own, *python(SQL, own / "b.sqlite", change), tiers=tiers).out.endswith(b"\n11\n")
        after = run(own, *read, tiers=tiers)
        assert b"changed" in after.out and after.out == plain(*read) != before.out
    with sqlite3.connect(own / "b.sqlite") as base:
        assert base.execute("select s from t where i = 3").fetchone() == ("changed",)
        assert base.execute("pragma integrity_check").fetchone() == ("ok",)
    base.close()


def test_writes_growth_and_changes_from_outside_are_seen(origin: Path, tmp_path: Path) -> None:
    own = tmp_path / "own"
    own.mkdir()
    (own / "a").write_bytes(b"a" * 100_000)
    time.sleep(2.1)
    source = """
        import os, subprocess, sys
        path = sys.argv[1]
        read = lambda: open(path, "rb").read()
        first, second = open(path, "rb"), open(path, "rb")
        assert first.read(10) == b"a" * 10 and second.tell() == 0 and second.read() == b"a" * 100_000
        assert read() == b"a" * 100_000
        subprocess.run(["sh", "-c", 'env -u LD_PRELOAD sh -c "printf bbb >> $0"', path], check=True)
        assert read() == b"a" * 100_000 + b"bbb", "growth from outside is seen at the next open"
        with open(path, "r+b") as file:
            file.write(b"own")
        assert read()[:4] == b"owna", "own writes are seen"
        with open(path + ".new", "wb") as file:
            file.write(b"new" * 1000)
        assert open(path + ".new", "rb").read() == b"new" * 1000
        os.rename(path + ".new", path)
        assert read() == b"new" * 1000
        os.truncate(path, 5)
        assert read() == b"newne"
        if os.fork() == 0:
            os._exit(read() != b"newne")
        assert os.waitstatus_to_exitcode(os.wait()[1]) == 0
        os.unlink(path)
        assert not os.path.exists(path)
        print("right")
    """
    with tier_folder() as folder:
        assert run(own, *python(source, own / "a"), tiers=[f"{folder}:64MiB:free=0"]).out == b"right\n"
    assert list(own.iterdir()) == []


def test_the_tier_may_be_removed_under_a_running_program(origin: Path) -> None:
    source = """
        import hashlib, os, shutil, sys
        path, tier = sys.argv[1:]
        whole = open(path, "rb").read()
        file = open(path, "rb")
        file.read(1000)
        shutil.rmtree(tier)
        assert file.read() == whole[1000:] and open(path, "rb").read() == whole
        print("right")
    """
    with tier_folder() as folder:
        tier = folder / "tier"
        tier.mkdir()
        assert run(origin, *python(source, origin / "large.bin", tier), tiers=[f"{tier}:64MiB:free=0"]).out == b"right\n"


KILLED = """
    import hashlib, os, signal, sys, time
    folder, tier, count, size = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])

    def placed():
        "How much of each file the tier holds: the files of a tier are sparse."
        found = {}
        for at, _, names in os.walk(tier):
            for name in names:
                if name.endswith(".bytes"): found[name] = os.stat(f"{at}/{name}").st_blocks * 512
        return found

    def is_right(number):
        with open(f"{folder}/{number}", "rb") as file:
            return file.read() == hashlib.shake_128(str(number).encode()).digest(size)

    def start(work):
        child = os.fork()
        if child == 0: os._exit(not work())
        return child

    while_placing = 0
    for number in range(count):
        before = placed()
        killed, other = start(lambda: is_right(number)), start(lambda: is_right(number))
        until = time.monotonic() + 60
        # The kill comes at another point of the placing each time.
        while sum(placed().values()) - sum(before.values()) <= size * number // count and time.monotonic() < until: pass
        os.kill(killed, signal.SIGKILL)
        held = sum(placed().values()) - sum(before.values())
        assert os.waitstatus_to_exitcode(os.waitpid(killed, 0)[1]) in (0, -signal.SIGKILL)
        while_placing += 0 < held < size
        assert is_right(number), "the one that goes on"
        assert os.waitstatus_to_exitcode(os.waitpid(other, 0)[1]) == 0, "the one beside it"
        assert is_right(number), "a later one"
    print(while_placing)
"""


def test_a_process_that_is_killed_while_it_places_a_file_leaves_the_others_right(tmp_path: Path) -> None:
    count, size = (100, 8 << 20) if LONG else (5, 8 << 20)
    own = tmp_path.resolve() / "own"
    own.mkdir()
    for number in range(count):
        (own / str(number)).write_bytes(hashlib.shake_128(str(number).encode()).digest(size))
    time.sleep(2.1)
    with tier_folder() as folder:
        tiers = [f"{folder}:1GiB:free=0:keep"]
        ran = run(own, *python(KILLED, own, folder, count, size), tiers=tiers)
        again = run(own, "sh", "-c", 'cat "$0"/*', own, tiers=tiers)
    assert int(ran.out) >= count // 2, f"{ran.out!r}: most of the kills come while a file is being placed"
    assert again.out == plain("sh", "-c", 'cat "$0"/*', own), "what killed processes have placed"
    assert hits(again) > 0, again.said
