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
    first, _ = twice(origin, "sha256sum", *sorted(path for path in origin.rglob("*") if path.is_file()))
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
    twice(origin, *python(READERS, origin))


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


SQL = "select count(*), sum(length(s)) from t; select s from t where i = 1234;"


def test_a_data_base_is_read_and_written_at_its_place(origin: Path, tmp_path: Path) -> None:
    if not shutil.which("sqlite3"):
        pytest.skip("no sqlite3")
    with tier_folder() as folder:
        tiers = [f"{folder}:64MiB:free=0:keep"]
        for _ in range(2):
            assert run(origin, "sqlite3", origin / "a.sqlite", SQL, tiers=tiers).out == plain("sqlite3", origin / "a.sqlite", SQL)
        own = tmp_path / "own"
        own.mkdir()
        shutil.copy(origin / "a.sqlite", own / "b.sqlite")
        change = "update t set s = 'changed' where i < 10; select s from t where i = 9;"
        ran = run(own, "sqlite3", own / "b.sqlite", change, tiers=tiers)
        assert ran.out == b"changed\n"
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


def test_a_killed_process_leaves_the_others_right(origin: Path) -> None:
    source = """
        import hashlib, os, random, signal, sys, time
        path, count = sys.argv[1], int(sys.argv[2])
        whole = hashlib.sha256(open(path, "rb").read()).hexdigest()
        for number in range(count):
            children = []
            for _ in range(2):
                child = os.fork()
                if child == 0:
                    while True:
                        with open(path, "rb") as file:
                            file.seek(random.randrange(1 << 20))
                            file.read(random.randrange(1 << 20))
                children.append(child)
            time.sleep(random.random() / 20)
            os.kill(children[0], signal.SIGKILL)
            assert hashlib.sha256(open(path, "rb").read()).hexdigest() == whole
            os.kill(children[1], signal.SIGKILL)
            for child in children:
                os.waitpid(child, 0)
        print("right")
    """
    with tier_folder() as folder:
        tiers = [f"{folder}:64MiB:free=0"]
        ran = run(origin, *python(source, origin / "large.bin", 100 if LONG else 5), tiers=tiers)
    assert ran.out == b"right\n"
