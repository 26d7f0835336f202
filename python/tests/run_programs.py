"""Programs run by ``forebay run``, twice, next to plain runs of them."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import textwrap
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

import forebay

LIMIT = 300
LONG = bool(os.environ.get("FOREBAY_LONG"))
PLUGINS = Path(os.environ.get("FOREBAY_PLUGINS") or Path(forebay.__file__).parent / "hdf5")
LIBRARY = PLUGINS / "preload" / "libforebay_preload.so"
# The program where it was built: it starts in a tenth of the time of the package's command.
COMMAND = [os.environ["FOREBAY_BIN"]] if os.environ.get("FOREBAY_BIN") else [sys.executable, "-m", "forebay"]


def environment(**more: str) -> dict[str, str]:
    """The environment without any variable that decides what ``forebay run`` does."""
    own = ("HDF5_", "FOREBAY_", "LD_PRELOAD", "SLURM_", "PBS_", "LSB_", "PMI", "TORCHELASTIC", "MASTER_")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(own)}
    return {**kept, "FOREBAY_CONFIG": "none", "FOREBAY_PLUGINS": str(PLUGINS), **more}


@contextmanager
def tier_folder() -> Iterator[Path]:
    """A folder in memory, which is another device than that of the files."""
    folder = Path(tempfile.mkdtemp(prefix="forebay-test-run-", dir="/dev/shm"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def disk(folder: Path, size: str) -> Iterator[Path]:
    """A small disk of its own."""
    folder.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", folder], capture_output=True)
    if mounted.returncode != 0:
        pytest.skip("nothing can be mounted here")
    try:
        yield folder
    finally:
        subprocess.run(["umount", folder], check=True)


@dataclass
class Ran:
    """What a program under ``forebay run`` left behind."""

    code: int
    out: bytes
    said: str
    summary: dict[str, Any] = field(default_factory=dict)
    process: int = 0

    def leftovers(self) -> list[str]:
        """What it left in memory. Folders are named by the command's process: other runs at the same time have theirs beside them."""
        user = os.geteuid()
        found = [name for name in os.listdir("/dev/shm") if name.startswith(f"forebay-run-{user}-{self.process}-")]
        with suppress(FileNotFoundError):
            found += [name for name in os.listdir(f"/dev/shm/forebay-tier-{user}") if name.startswith(f"job-{user}_{self.process}_")]
        return found

    def count(self, name: str) -> int:
        found: int = self.summary["counters"][name]
        return found


def command(origin: object, *program: object, tiers: list[str], flags: list[object] | None = None) -> list[str]:
    words = [*COMMAND, "run", "--json", "--origin", origin, *(flags or [])]
    for tier in tiers:
        words += ["--tier", tier]
    return [str(word) for word in [*words, "--", *program]]


def run(
    origin: object,
    *program: object,
    tiers: list[str],
    flags: list[object] | None = None,
    cwd: Path | None = None,
    check: bool = True,
    **more: str,
) -> Ran:
    """Runs a program with files under ``origin`` on ``tiers``."""
    return run_words(command(origin, *program, tiers=tiers, flags=flags), cwd=cwd, check=check, **more)


def summaries(said: str) -> list[dict[str, Any]]:
    """Every summary that was told."""
    return [json.loads(line) for line in said.splitlines() if line.startswith('{"program"')]


def run_words(words: list[str], cwd: Path | None = None, check: bool = True, **more: str) -> Ran:
    """Runs a command line of which ``forebay run`` is a part."""
    pipe = subprocess.PIPE
    with subprocess.Popen(words, stdout=pipe, stderr=pipe, env=environment(**more), cwd=cwd) as process:
        try:
            out, told = process.communicate(timeout=LIMIT)
        except BaseException:
            process.kill()
            raise
    said = told.decode(errors="replace")
    if check:
        assert process.returncode == 0, said
    found = summaries(said)
    return Ran(process.returncode, out, said, found[-1] if found else {}, process.pid)


def plain(*program: object, cwd: Path | None = None) -> bytes:
    """What a program prints without forebay."""
    words = [str(word) for word in program]
    done = subprocess.run(words, capture_output=True, timeout=LIMIT, env=environment(), cwd=cwd)
    assert done.returncode == 0, done.stderr.decode(errors="replace")
    return done.stdout


def twice(origin: Path, *program: object, cwd: Path | None = None, flags: list[object] | None = None, left: int = 0) -> list[Ran]:
    """Runs a program plainly and twice on a tier that is kept: the same output each time, the second time without the origin's data.

    A short program may end before all that it read is placed: the second time is then one of those that follow. ``left`` is how many opens
    are the origin's even then: those for writing, and of empty files.
    """
    expected = plain(*program, cwd=cwd)
    with tier_folder() as folder:
        runs = [run(origin, *program, tiers=[f"{folder}:1GiB:keep:free=0"], cwd=cwd, flags=flags) for _ in range(2)]
        for _ in range(20):
            if runs[1].count("origin_bytes") == 0:
                break
            assert runs[1].out == expected
            runs[1] = run(origin, *program, tiers=[f"{folder}:1GiB:keep:free=0"], cwd=cwd, flags=flags)
    for ran in runs:
        assert ran.out == expected
    assert hits(runs[1]) > 0, runs[1].said
    assert (runs[1].count("origin_reads"), runs[1].count("origin_bytes")) == (0, 0), runs[1].said
    assert (runs[1].count("opens_left"), runs[1].count("fallbacks")) == (left, 0), runs[1].said
    return runs


def hits(ran: Ran) -> int:
    """Reads and opens that a tier answered."""
    return ran.count("tier_reads") + ran.count("opens_on_copy")


def python(source: str, *arguments: object) -> list[object]:
    """Python source as a program."""
    return [sys.executable, "-c", textwrap.dedent(source), *arguments]


def noise(count: int, seed: int) -> np.ndarray[Any, Any]:
    """Bytes that nothing else has."""
    return np.random.default_rng(seed).integers(0, 256, count, np.uint8)


def make_origin(folder: Path) -> Path:
    """Makes files of many kinds in ``folder``, on a disk, old enough to be copied."""
    folder = folder.resolve()
    (folder / "sub" / "deeper").mkdir(parents=True)
    (folder / "large.bin").write_bytes(noise((3 << 20) + 12345, 1).tobytes())
    (folder / "empty").write_bytes(b"")
    for number in range(5):
        (folder / "sub" / f"{number}.txt").write_bytes(noise(1000 * number + 1, number).tobytes())
    (folder / "sub" / "deeper" / "link").symlink_to("../1.txt")
    np.save(folder / "a.npy", np.arange(300_000, dtype="<f4"))
    np.savez(folder / "a.npz", x=np.arange(1000), y=np.ones((3, 4)))
    with h5py.File(folder / "a.h5", "w") as file:
        file["x"] = np.arange(400_000, dtype="<i4").reshape(-1, 100)
        file.create_dataset("z", data=np.arange(100_000), chunks=(1000,), compression="gzip")
    with sqlite3.connect(folder / "a.sqlite") as base:
        base.execute("create table t (i integer primary key, s text)")
        base.executemany("insert into t values (?, ?)", ((i, f"row {i}" * 10) for i in range(2000)))
    base.close()
    (folder / "script.sh").write_text('for f in "$1"/sub/*.txt; do wc -c < "$f"; done\ncat "$1"/sub/2.txt | md5sum\n')
    time.sleep(2.1)
    return folder
