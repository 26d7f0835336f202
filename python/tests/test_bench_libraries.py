"""The libhdf5 that the benchmark loads, with what lies beside it."""

from __future__ import annotations

import shutil
import struct
from pathlib import Path

import h5py
import pytest

from bench_runs import bench, process, suite

SET = {
    "generate-data": True, "train": True, "record-length": 4096, "num-files-train": 2, "num-files-eval": 0,
    "num-samples-per-file": 2, "epochs": 1, "computation-time": 0.0, "read-threads": 0,
}  # fmt: skip


def without_run_path(path: Path) -> None:
    """Has the linker look for what a library needs in its own folders alone, not beside the library."""
    image = bytearray(path.read_bytes())
    (sections,) = struct.unpack_from("<Q", image, 0x20)
    size, count = struct.unpack_from("<HH", image, 0x36)
    for number in range(count):
        (kind,) = struct.unpack_from("<I", image, sections + number * size)
        (offset,) = struct.unpack_from("<Q", image, sections + number * size + 8)
        if kind != 2:
            continue
        # The dynamic section: DT_RPATH and DT_RUNPATH become DT_DEBUG, which nobody reads.
        while (tag := struct.unpack_from("<Q", image, offset)[0]) != 0:
            if tag in (15, 29):
                struct.pack_into("<Q", image, offset, 21)
            offset += 16
    path.write_bytes(image)


@pytest.fixture()
def library(tmp_path: Path) -> Path:
    """A copy of h5py's libhdf5 that does not say where what it needs lies."""
    beside = tmp_path / "h5py.libs"
    shutil.copytree(Path(h5py.__file__).parent.parent / "h5py.libs", beside)
    for path in beside.iterdir():
        path.chmod(0o755)
        without_run_path(path)
    return next(beside.glob("libhdf5-*"))


def test_what_a_libhdf5_needs_is_found_beside_it(library: Path, tmp_path: Path) -> None:
    answer = bench(suite(tmp_path, SET), "--output", tmp_path / "out", library=library)
    assert str(library) in answer["runs"][0]["reads_with"]


def test_a_library_that_is_missing_is_named(library: Path, tmp_path: Path) -> None:
    (missing,) = library.parent.glob("libsz-*")
    missing.unlink()
    done = process(suite(tmp_path, SET), "--output", tmp_path / "out", library=library)
    assert done.returncode != 0 and missing.name in done.stderr, done.stderr
