"""`forebay mount`: real programs on a folder that is shown through tiers. Where FUSE is not permitted, it is said and skipped."""

from __future__ import annotations

import contextlib
import hashlib
import json
import mmap
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

FOREBAY = [sys.executable, "-m", "forebay"]
PATIENCE = 300.0


class Mounted:
    """A `forebay mount` that runs, and what it says at its end."""

    def __init__(self, origin: Path, folder: Path) -> None:
        self.origin, self.place, self.tier = origin, folder / "mnt", folder / "tier"
        self.place.mkdir(exist_ok=True)
        self.start()

    def start(self) -> None:
        tier = f"disk:{self.tier}:64MiB"
        command = [*FOREBAY, "mount", str(self.origin), str(self.place), "--tier", tier, "--json", "--config", "none"]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        until = time.monotonic() + PATIENCE
        while not self.is_shown():
            if self.process.poll() is not None:
                said = self.process.communicate()[1]
                if "fuse3" in said:
                    pytest.skip(f"FUSE cannot be used here: {said}")
                raise AssertionError(said)
            assert time.monotonic() < until
            time.sleep(0.02)

    def is_shown(self) -> bool:
        """False also where the mount of a program that died stands there, whose names the kernel knows for a second more."""
        try:
            with open(self.place / "plain0.h5", "rb"):
                return True
        except OSError:
            return False

    def end(self, by: int = signal.SIGTERM) -> dict[str, Any]:
        self.process.send_signal(by)
        out, errors = self.process.communicate(timeout=PATIENCE)
        assert self.process.returncode == 0, errors
        found: dict[str, Any] = json.loads(out)
        return found

    def placed(self, count: int) -> None:
        """Waits until so many files are whole on the tier."""
        until = time.monotonic() + PATIENCE
        while sum(1 for path in self.tier.rglob("*.bytes")) < count:
            assert time.monotonic() < until
            time.sleep(0.05)


@pytest.fixture
def mounted(origin: Path, tmp_path: Path) -> Iterator[Mounted]:
    mounted = Mounted(origin, tmp_path)
    yield mounted
    if mounted.process.poll() is None:
        mounted.process.kill()
    mounted.process.wait()
    with contextlib.suppress(OSError):
        subprocess.run([*FOREBAY, "mount", "--unmount", str(mounted.place)], capture_output=True)


def digests(folder: Path) -> str:
    listed = sorted(str(path.relative_to(folder)) for path in folder.iterdir())
    return subprocess.run(["sha256sum", *listed], cwd=folder, check=True, capture_output=True, text=True).stdout


def test_real_programs_read_the_origins_bytes_and_the_second_time_from_the_tier(mounted: Mounted, tmp_path: Path) -> None:
    origin, place = mounted.origin, mounted.place
    assert digests(place) == digests(origin)
    mounted.placed(len(list(origin.iterdir())))
    subprocess.run(["cp", "-r", str(place), str(tmp_path / "copy")], check=True)
    assert digests(tmp_path / "copy") == digests(origin)
    archives = [subprocess.run(["tar", "-c", "--sort=name", "."], cwd=at, check=True, capture_output=True).stdout for at in (place, origin)]
    assert hashlib.sha256(archives[0]).digest() == hashlib.sha256(archives[1]).digest()
    with h5py.File(place / "packed.h5") as ours, h5py.File(origin / "packed.h5") as theirs:
        assert (ours["x"][:] == theirs["x"][:]).all()
    with open(place / "plain0.h5", "rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as mapped:
        assert mapped[:] == (origin / "plain0.h5").read_bytes()
    assert np.memmap(place / "plain1.h5", mode="r").tobytes() == (origin / "plain1.h5").read_bytes()
    stats = mounted.end()
    once = sum(path.stat().st_size for path in origin.iterdir())
    assert stats["tiers"]["origin"]["bytes"] <= once + (1 << 20)
    assert stats["fallbacks"] == 0 and stats["opens"] >= 3
    assert not os.path.ismount(place)


def test_a_static_program_is_served(mounted: Mounted, tmp_path: Path) -> None:
    source, program = tmp_path / "sum.c", tmp_path / "sum"
    source.write_text(
        "#include <stdio.h>\n#include <fcntl.h>\n#include <unistd.h>\n"
        "int main(int n, char **a) { static unsigned char b[65536]; unsigned long s = 0; long got; int f = open(a[1], O_RDONLY);\n"
        "  if (f < 0) return 1;\n"
        "  while ((got = read(f, b, sizeof b)) > 0) for (long i = 0; i < got; i++) s = s * 31 + b[i];\n"
        '  printf("%lu\\n", s); return got != 0; }\n'
    )
    built = shutil.which("cc") and subprocess.run(["cc", "-O1", "-static", "-o", str(program), str(source)], capture_output=True)
    if not built or built.returncode:
        pytest.skip("no static program can be linked here")

    def sums(folder: Path) -> str:
        return subprocess.run([str(program), str(folder / "plain0.h5")], check=True, capture_output=True, text=True).stdout

    assert sums(mounted.place) == sums(mounted.origin)
    mounted.placed(1)
    assert sums(mounted.place) == sums(mounted.origin)
    assert mounted.end(signal.SIGINT)["tiers"]["placed_bytes"] > 0


def test_a_killed_mount_is_repaired_by_the_next_command(mounted: Mounted) -> None:
    mounted.process.kill()
    mounted.process.communicate()
    with pytest.raises(OSError, match="not connected"):
        os.listdir(mounted.place)
    mounted.start()
    assert (mounted.place / "plain0.h5").read_bytes() == (mounted.origin / "plain0.h5").read_bytes()
    mounted.process.kill()
    assert "took away a mount" in mounted.process.communicate()[1]
    subprocess.run([*FOREBAY, "mount", "--unmount", str(mounted.place)], check=True)
    assert list(mounted.place.iterdir()) == []


def test_a_mount_in_the_background_ends_by_unmount(mounted: Mounted, tmp_path: Path) -> None:
    place = tmp_path / "behind"
    place.mkdir()
    command = [*FOREBAY, "mount", str(mounted.origin), str(place), "--tier", "memory:8MiB", "--daemon"]
    said = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    process = int(said.split()[1])
    assert (place / "plain0.h5").read_bytes() == (mounted.origin / "plain0.h5").read_bytes()
    again = subprocess.run(command, capture_output=True, text=True)
    assert again.returncode and "another `forebay mount` stands here" in again.stderr
    subprocess.run([*FOREBAY, "mount", "--unmount", str(place)], check=True)
    until = time.monotonic() + PATIENCE
    while Path(f"/proc/{process}").exists() and "Z" not in Path(f"/proc/{process}/stat").read_text().split(")")[1][:4]:
        assert time.monotonic() < until
        time.sleep(0.05)
