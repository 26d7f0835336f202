"""``forebay run --stage-writes`` and the room of its area: what does not fit goes on at its destination, whole."""

from __future__ import annotations

import os
import shutil
import subprocess
import threading
import time
from contextlib import suppress
from pathlib import Path

import pytest
from run_programs import LIBRARY, LIMIT, Ran, disk, python, run, tier_folder

pytestmark = pytest.mark.skipif(not LIBRARY.is_file(), reason="the package has no library to preload")

MIB = 1 << 20
PIECES = 40


@pytest.fixture
def origin(tmp_path: Path) -> Path:
    folder = tmp_path.resolve() / "set"
    folder.mkdir()
    return folder


@pytest.fixture(scope="module")
def writer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("there is no C compiler")
    program = tmp_path_factory.mktemp("writer") / "writes"
    source = Path(__file__).with_name("staged_writes.c")
    subprocess.run([compiler, "-O2", "-o", program, source], check=True, timeout=LIMIT)
    return program


def staged(origin: Path, area: Path, *program: object, **more: str) -> Ran:
    settings = {"FOREBAY_STAGE_FREE_FLOOR": "0", **more}
    return run(origin, *program, tiers=[], flags=["--stage-writes", "--stage", area], **settings)


class Watch:
    """The most bytes that files in an area had at once."""

    def __init__(self, area: Path) -> None:
        self.most = 0
        self._area, self._is_over = area, threading.Event()
        self._thread = threading.Thread(target=self._look)

    def _look(self) -> None:
        before: dict[str, int] = {}
        while not self._is_over.is_set():
            found = self._files()
            # Files are looked at one after the other: only what two looks have seen was there at one moment.
            self.most = max(self.most, sum(min(used, before.get(name, 0)) for name, used in found.items()))
            before = found
            time.sleep(0.002)

    def _files(self) -> dict[str, int]:
        found = {}
        for folder, _, names in os.walk(self._area):
            for name in names:
                path = os.path.join(folder, name)
                with suppress(FileNotFoundError):
                    found[path] = os.stat(path).st_blocks * 512
        return found

    def __enter__(self) -> Watch:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()


def pieces() -> bytes:
    one = bytes((at * 7) % 256 for at in range(256)) * (MIB // 256)
    return b"".join(bytes((byte + piece) % 256 for byte in one[:256]) * (MIB // 256) for piece in range(PIECES))


@pytest.mark.parametrize("how", ["write", "pwrite", "writev", "pwritev", "pwritev2", "pwritev2 at the position"])
def test_a_write_that_fills_the_disk_is_finished_at_the_destination(origin: Path, tmp_path: Path, writer: Path, how: str) -> None:
    """Programs that write whole buffers and look at no count lose nothing."""
    with disk(tmp_path / "small", "20m") as area:
        ran = staged(origin, area, writer, how, origin / "a", FOREBAY_STAGE_QUOTA="1GiB")
    assert ran.out.decode() == f"{PIECES * MIB}\n", ran.said
    assert (origin / "a").read_bytes() == pieces()
    assert (ran.count("staged_opens"), ran.count("staged_files")) == (1, 0), ran.said


@pytest.mark.parametrize("files", [1, 6])
def test_files_that_grow_past_the_quota_go_on_at_their_destinations(origin: Path, writer: Path, files: int) -> None:
    names = [origin / str(number) for number in range(files)]
    with tier_folder() as area, Watch(area) as watch:
        ran = staged(origin, area, writer, "write", *names, FOREBAY_STAGE_QUOTA="10MiB")
    assert ran.out.decode() == f"{PIECES * MIB}\n" * files, ran.said
    for name in names:
        assert name.read_bytes() == pieces()
    assert ran.count("staged_opens") >= 1
    assert 0 < watch.most <= 15 * MIB, watch.most


def test_what_is_to_stay_free_on_the_disk_stays_free(origin: Path, tmp_path: Path, writer: Path) -> None:
    with disk(tmp_path / "disk", "100m") as area, Watch(area) as watch:
        ran = staged(origin, area, writer, "pwrite", origin / "a", FOREBAY_STAGE_FREE_FLOOR="80MiB")
    assert ran.out.decode() == f"{PIECES * MIB}\n", ran.said
    assert (origin / "a").read_bytes() == pieces()
    assert 0 < watch.most <= 30 * MIB, watch.most


def test_a_disk_that_is_smaller_than_what_is_to_stay_free_takes_nothing_and_that_is_said(origin: Path, tmp_path: Path) -> None:
    with disk(tmp_path / "small", "20m") as area:
        ran = staged(origin, area, "sh", "-c", f"echo text > {origin}/a", FOREBAY_STAGE_FREE_FLOOR="1GiB")
    assert (ran.count("staged_opens"), (origin / "a").read_text()) == (0, "text\n")
    assert "nothing is staged" in ran.said, ran.said


def test_a_small_quota_takes_small_files(origin: Path) -> None:
    source = """
        import sys
        for number in range(4):
            with open(f"{sys.argv[1]}/{number}", "wb") as file:
                file.write(bytes(100_000))
    """
    with tier_folder() as area:
        ran = staged(origin, area, *python(source, origin), FOREBAY_STAGE_QUOTA="1MiB")
    assert ran.count("staged_files") == 4, ran.said


def test_a_file_that_is_written_over_and_over_takes_its_room_once(origin: Path) -> None:
    source = """
        import os, sys
        fd = os.open(sys.argv[1], os.O_CREAT | os.O_TRUNC | os.O_WRONLY)
        for number in range(200):
            assert os.pwrite(fd, bytes([number]) * (1 << 20), 0) == 1 << 20
    """
    with tier_folder() as area:
        ran = staged(origin, area, *python(source, origin / "a"), FOREBAY_STAGE_QUOTA="8MiB")
    assert (ran.count("staged_files"), (origin / "a").read_bytes()) == (1, bytes([199]) * MIB), ran.said


def test_a_file_of_two_descriptors_stays_where_it_is_and_is_whole(origin: Path) -> None:
    """It cannot go on elsewhere: it takes more than the quota, and nothing is lost."""
    source = """
        import os, sys
        fd = os.open(sys.argv[1], os.O_CREAT | os.O_TRUNC | os.O_WRONLY)
        other = os.dup(fd)
        for number in range(20):
            assert os.write(fd if number % 2 else other, bytes([number]) * (1 << 20)) == 1 << 20
    """
    with tier_folder() as area:
        ran = staged(origin, area, *python(source, origin / "a"), FOREBAY_STAGE_QUOTA="8MiB")
    assert (origin / "a").read_bytes() == b"".join(bytes([number]) * MIB for number in range(20))
    assert ran.count("staged_files") == 1, ran.said


def test_files_that_a_kernel_copies_stay_within_the_quota(origin: Path, tmp_path: Path) -> None:
    (tmp_path / "from").write_bytes(pieces())
    source = """
        import os, sys
        source, made = os.open(sys.argv[1], os.O_RDONLY), os.open(sys.argv[2], os.O_CREAT | os.O_TRUNC | os.O_WRONLY)
        while os.sendfile(made, source, None, 1 << 30):
            pass
    """
    with tier_folder() as area, Watch(area) as watch:
        staged(origin, area, *python(source, tmp_path / "from", origin / "a"), FOREBAY_STAGE_QUOTA="10MiB")
        staged(origin, area, "cp", tmp_path / "from", origin / "b", FOREBAY_STAGE_QUOTA="10MiB")
    assert (origin / "a").read_bytes() == pieces() == (origin / "b").read_bytes()
    assert 0 < watch.most <= 15 * MIB, watch.most


def test_threads_that_write_one_file_lose_nothing_when_it_goes_to_its_destination(origin: Path) -> None:
    source = """
        import os, sys, threading
        fd = os.open(sys.argv[1], os.O_CREAT | os.O_TRUNC | os.O_WRONLY)
        def write(first):
            for piece in range(first, 960, 4):
                assert os.pwrite(fd, piece.to_bytes(2) * 16384, piece * 32768) == 32768
        threads = [threading.Thread(target=write, args=(first,)) for first in range(4)]
        for thread in threads: thread.start()
        for thread in threads: thread.join()
    """
    wanted = b"".join(piece.to_bytes(2) * 16384 for piece in range(960))
    for _ in range(4):
        with tier_folder() as area:
            ran = staged(origin, area, *python(source, origin / "a"), FOREBAY_STAGE_QUOTA="10MiB")
        assert (origin / "a").read_bytes() == wanted
        assert (ran.count("staged_opens"), ran.count("staged_files")) == (1, 0), ran.said
        (origin / "a").unlink()


def test_a_file_that_went_to_its_destination_is_read_as_it_is_written(origin: Path) -> None:
    source = f"""
        import sys, time
        file = open(sys.argv[1], "wb")
        file.write(bytes({8 * MIB}))
        file.flush()
        time.sleep(2.5)
        for _ in range(3):
            reader = open(sys.argv[1], "rb")
            assert len(reader.read()) == {8 * MIB}
            time.sleep(0.3)
        file.seek(0)
        file.write(b"written")
        file.flush()
        reader.seek(0)
        print(reader.read(7), open(sys.argv[1], "rb").read(7))
    """
    settings = {"FOREBAY_STAGE_FREE_FLOOR": "0", "FOREBAY_STAGE_QUOTA": "4MiB"}
    with tier_folder() as area:
        flags = ["--stage-writes", "--stage", area]
        ran = run(origin, *python(source, origin / "a"), tiers=["mem:64MiB"], flags=flags, **settings)
    assert ran.out == b"b'written' b'written'\n"
    assert (origin / "a").read_bytes() == b"written" + bytes(8 * MIB - 7)


def test_a_file_that_is_locked_stays_where_its_lock_is(origin: Path) -> None:
    other = "import fcntl, sys; fcntl.flock(open(sys.argv[1]), fcntl.LOCK_EX | fcntl.LOCK_NB)"
    source = f"""
        import fcntl, os, subprocess, sys
        os.chdir(os.path.dirname(sys.argv[1]))
        with open("a", "wb") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            file.write(bytes({8 * MIB}))
            file.flush()
            print(subprocess.run([sys.executable, "-c", {other!r}, "a"], stderr=subprocess.PIPE).stderr.split(b":")[-3:-1])
        print(subprocess.run([sys.executable, "-c", {other!r}, "a"]).returncode, os.path.getsize("a"))
    """
    with tier_folder() as area:
        ran = staged(origin, area, *python(source, origin / "a"), FOREBAY_STAGE_QUOTA="4MiB")
    told = ran.out.decode().splitlines()
    assert "BlockingIOError" in told[0] and told[1] == f"0 {8 * MIB}", told
    assert (origin / "a").stat().st_size == 8 * MIB
