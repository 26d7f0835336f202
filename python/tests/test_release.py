"""What `make release` checks by, checked: the newest glibc that a library asks for, and the machine it is for."""

from __future__ import annotations

import platform
import subprocess
import sys
import zipfile
from pathlib import Path

import forebay._forebay

CHECK = Path(__file__).parents[2] / "scripts" / "check_glibc.py"
LIBRARY = Path(forebay._forebay.__file__)


def check(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, CHECK, *arguments], capture_output=True, text=True, check=False)


def test_a_library_that_asks_for_no_newer_glibc_than_allowed_passes() -> None:
    here = platform.libc_ver()[1]
    done = check("--most", here, LIBRARY)
    assert done.returncode == 0, done.stderr
    assert "needs" in done.stdout and "libc.so.6" in done.stdout


def test_a_library_that_asks_for_a_newer_glibc_is_refused_inside_a_wheel_too(tmp_path: Path) -> None:
    wheel = tmp_path / "forebay-1-cp310-abi3-linux.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.write(LIBRARY, "forebay/_forebay.abi3.so")
    for path in (LIBRARY, wheel):
        done = check("--most", "2.2", path)
        assert done.returncode == 1
        assert "_forebay.abi3.so asks for GLIBC_2." in done.stderr and "newer than 2.2" in done.stderr


def test_a_library_for_another_machine_is_refused() -> None:
    ours, other = ("X86-64", "AArch64") if platform.machine() == "x86_64" else ("AArch64", "X86-64")
    assert check("--most", "99.0", "--machine", ours, LIBRARY).returncode == 0
    done = check("--most", "99.0", "--machine", other, LIBRARY)
    assert done.returncode == 1 and "is for" in done.stderr


def test_an_archive_without_a_library_is_refused(tmp_path: Path) -> None:
    wheel = tmp_path / "empty.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("forebay/__init__.py", "")
    done = check(wheel)
    assert done.returncode == 1 and "holds no program and no library" in done.stderr
