"""``forebay run`` with tiers that are full, slow, read-only or broken: they cost time, and neither bytes nor the program's exit code."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from run_programs import COMMAND, LIBRARY, LIMIT, LONG, Ran, command, disk, environment, hits, noise, plain, run, run_words, tier_folder

pytestmark = pytest.mark.skipif(not LIBRARY.is_file(), reason="the package has no library to preload")

READ = 'cat "$0"/*.bin "$0"/*.bin | sha256sum'


@pytest.fixture(scope="module")
def origin(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("origin").resolve()
    for number in range(2):
        (folder / f"{number}.bin").write_bytes(noise(3 << 20, number).tobytes())
    time.sleep(2.1)
    return folder


def reads(origin: Path, between: str = "true") -> tuple[str, ...]:
    """A program that reads all, twice, and ends with 7."""
    return ("sh", "-c", f"{READ}; {between}; {READ}; exit 7", str(origin))


def is_right(ran: Ran, origin: Path) -> None:
    assert ran.out == plain("sh", "-c", READ, origin) * 2, ran.said
    assert (ran.code, ran.count("fallbacks")) == (7, 0), ran.said


@pytest.mark.parametrize("size", ["64k", "1m", "2m"])
def test_a_tier_that_is_full_keeps_what_fits(origin: Path, tmp_path: Path, size: str) -> None:
    with disk(tmp_path / "small", size) as small:
        ran = run(origin, *reads(origin), tiers=[f"{small}:64MiB:free=0"], check=False)
    is_right(ran, origin)
    assert ran.summary["tiers"][0]["used"] <= 2 << 20, ran.said
    with tier_folder() as folder:
        ran = run(origin, *reads(origin), tiers=[f"{folder}:{size}:free=0"], check=False)
    is_right(ran, origin)
    assert ran.summary["tiers"][0]["used"] <= 2 << 20, ran.said


def test_a_tier_without_any_room_is_told_and_the_next_one_serves(origin: Path, tmp_path: Path) -> None:
    with disk(tmp_path / "small", "1m") as small, tier_folder() as folder:
        subprocess.run(["dd", "if=/dev/zero", f"of={small}/fill", "bs=4k"], capture_output=True)
        tiers = [f"{small}:64MiB:free=0", f"{folder}:64MiB:free=0"]
        alone = run(origin, *reads(origin), tiers=tiers[:1], check=False)
        both = run(origin, *reads(origin), tiers=tiers, check=False)
    is_right(alone, origin)
    assert hits(alone) == 0 and "has no room" in alone.said, alone.said
    is_right(both, origin)
    assert hits(both) > 0, both.said


def test_a_tier_that_cannot_be_written_is_left_out_and_the_next_one_serves(origin: Path, tmp_path: Path) -> None:
    with disk(tmp_path / "small", "64m") as small, tier_folder() as folder:
        subprocess.run(["mount", "-o", "remount,ro", small], check=True)
        tiers = [f"{small}:64MiB:free=0", f"{folder}:64MiB:free=0"]
        alone = run(origin, *reads(origin), tiers=tiers[:1], check=False)
        both = run(origin, *reads(origin), tiers=tiers, check=False)
    for ran in (alone, both):
        is_right(ran, origin)
        assert "a tier is left out" in ran.said and "Read-only" in ran.summary["tiers"][0]["left_out"], ran.said
    assert hits(alone) == 0 and hits(both) > 0, both.said


def test_a_tier_for_which_the_rights_are_missing_is_left_out(origin: Path) -> None:
    with tier_folder() as folder:
        folder.chmod(0o500)
        # Root is let in by its capabilities alone.
        words = ["setpriv", "--bounding-set=-dac_override,-dac_read_search"] if os.geteuid() == 0 else []
        ran = run_words([*words, *command(origin, *reads(origin), tiers=[f"{folder}:64MiB:free=0"])], check=False)
        assert list(folder.iterdir()) == []
    is_right(ran, origin)
    assert "Permission denied" in ran.summary["tiers"][0]["left_out"], ran.said


@pytest.mark.parametrize("below", ["", "/below"])
def test_a_file_in_place_of_a_folder_is_told_before_the_program_runs(origin: Path, tmp_path: Path, below: str) -> None:
    (tmp_path / "file").write_text("mine")
    ran = run(origin, "echo", "ran", tiers=[f"{tmp_path}/file{below}:64MiB:free=0"], check=False)
    assert ran.code == 2 and b"ran" not in ran.out and "is not a folder" in ran.said, ran.said
    assert (tmp_path / "file").read_text() == "mine"


@pytest.mark.parametrize(
    "trouble",
    [
        "mount -o remount,ro {tier}",
        "dd if=/dev/zero of={tier}/fill bs=64k 2>/dev/null",
        "umount -l {tier}",
        "find {tier} -type f -exec truncate -s 0 {{}} +",
        "mount -t tmpfs tmpfs {tier}",
    ],
    ids=["read-only", "full", "unmounted", "cut", "hidden"],
)
@pytest.mark.parametrize("when", ["while it is placed", "placed"])
def test_a_tier_that_breaks_while_the_program_runs_takes_nothing_from_it(origin: Path, tmp_path: Path, trouble: str, when: str) -> None:
    with disk(tmp_path / "small", "64m") as small:
        waits = "sleep 0.5; " if when == "placed" else ""
        program = reads(origin, f"{waits}{trouble.format(tier=small)}")
        ran = run(origin, *program, tiers=[f"{small}:64MiB:free=0"], check=False)
        if "umount" in trouble:
            subprocess.run(["mount", "-t", "tmpfs", "tmpfs", small], check=True)
        if "mount -t" in trouble:
            subprocess.run(["umount", small], check=True)
    is_right(ran, origin)


@contextmanager
def slow_disk(folder: Path) -> Iterator[Path]:
    """A folder that is written and read at the pace of a bad disk."""
    behind, shown = folder / "behind", folder / "slow"
    behind.mkdir()
    shown.mkdir()
    pace = ["--writable", "--latency", "5ms", "--bandwidth", "40MiB/s"]
    words = [*COMMAND, "simulate", str(behind), str(shown), *pace]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment()) as process:
        until = time.monotonic() + LIMIT
        while not (shown / ".forebay-slow").exists():
            if process.poll() is not None:
                pytest.skip(f"FUSE cannot be used here: {process.communicate()[1].decode()}")
            assert time.monotonic() < until
            time.sleep(0.02)
        try:
            yield shown
        finally:
            process.send_signal(signal.SIGINT)
            process.wait(LIMIT)
    shutil.rmtree(behind)


@pytest.mark.parametrize("line", ["normal", "read-only", "full"] if LONG else ["normal"])
def test_a_slow_tier_costs_time_and_may_break_too(origin: Path, tmp_path: Path, line: str) -> None:
    with slow_disk(tmp_path) as slow:
        # As a disk that is not of this machine it is a tier where that is asked for.
        program = reads(origin, f"echo {line} > {slow}/.forebay-slow/control")
        ran = run(origin, *program, tiers=[f"{slow}:64MiB:free=0:network"], check=False)
        (slow / ".forebay-slow/control").write_text("normal\n")
    is_right(ran, origin)
    assert hits(ran) > 0, ran.said
