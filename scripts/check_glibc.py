#!/usr/bin/env python3
"""Looks whether programs and libraries run on an old system: check_glibc.py [--most 2.28] [--machine NAME] FILE...

A FILE is an ELF file, a wheel or a .tar.gz; every ELF file in it counts. Prints the newest glibc each one asks for; exit
code 1 where it is newer than `--most`, where one is for another machine than `--machine` (as `readelf` spells it, such as
AArch64), or where a FILE has none in it.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

ELF = b"\x7fELF"
# Libraries that manylinux promises on every system besides glibc's own; no other may be asked for.
PROMISED = {"libgcc_s.so.1", "libc.so.6", "libm.so.6", "libpthread.so.0", "libdl.so.2", "librt.so.1", "libutil.so.1"}


def members(path: Path) -> Iterator[tuple[str, bytes]]:
    """Name and bytes of each ELF file that `path` is or holds."""
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            found = [(name, archive.read(name)) for name in archive.namelist()]
    elif tarfile.is_tarfile(path):
        with tarfile.open(path) as archive:
            files = [member for member in archive if member.isfile()]
            found = [(member.name, archive.extractfile(member).read()) for member in files]
    else:
        found = [(path.name, path.read_bytes())]
    yield from (item for item in found if item[1].startswith(ELF))


def as_numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))


def readelf(path: str) -> str:
    command = ["readelf", "--wide", "--file-header", "--dynamic", "--version-info", path]
    return subprocess.run(command, check=True, capture_output=True, text=True, env={"PATH": "/usr/bin:/bin", "LC_ALL": "C"}).stdout


def faults(name: str, content: bytes, most: str, machine: str | None) -> list[str]:
    """What is wrong with one ELF file; prints what it asks for."""
    with tempfile.NamedTemporaryFile() as copy:
        copy.write(content)
        copy.flush()
        text = readelf(copy.name)
    built_for = re.search(r"Machine: +(.*)", text)[1].strip()
    versions = set(re.findall(r"Name: GLIBC_([0-9.]+)", text))
    libraries = set(re.findall(r"\(NEEDED\) +Shared library: \[(.*)\]", text))
    newest = max(versions, key=as_numbers, default="0")
    print(f"{name}: {built_for}, glibc {newest}, needs {', '.join(sorted(libraries)) or 'no library'}")
    wrong = [f"asks for GLIBC_{newest}, newer than {most}"] if as_numbers(newest) > as_numbers(most) else []
    wrong += [f"needs {library}" for library in libraries - PROMISED if not library.startswith("ld-linux")]
    if machine and machine not in built_for:
        wrong.append(f"is for {built_for}")
    return wrong


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--most", default="2.28", help="the newest glibc that may be asked for")
    parser.add_argument("--machine", help="the machine all must be for")
    parser.add_argument("files", nargs="+", type=Path)
    asked = parser.parse_args()
    code = 0
    for path in asked.files:
        found = list(members(path))
        wrong = [] if found else ["holds no program and no library"]
        for name, content in found:
            wrong += [f"{name} {fault}" for fault in faults(name, content, asked.most, asked.machine)]
        for fault in sorted(wrong):
            print(f"error: {path}: {fault}", file=sys.stderr)
            code = 1
    return code


if __name__ == "__main__":
    sys.exit(main())
