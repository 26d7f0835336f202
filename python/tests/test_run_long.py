"""Programs of other people under ``forebay run`` that take their time: ``make deep-run``."""

from __future__ import annotations

import json
import re
import shutil
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import netCDF4
import numpy as np
import PIL.Image
import pyarrow
import pytest
from pyarrow import parquet
from run_programs import LIBRARY, LIMIT, LONG, Ran, command, environment, hits, make_origin, noise, plain, python, run, tier_folder, twice

pytestmark = [
    pytest.mark.skipif(not LIBRARY.is_file(), reason="the package has no library to preload"),
    pytest.mark.skipif(not LONG, reason="FOREBAY_LONG=1 runs it, as make deep-run does"),
]


@pytest.fixture(scope="module")
def origin(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_origin(tmp_path_factory.mktemp("origin"))


def test_what_other_libraries_read(origin: Path, tmp_path: Path) -> None:
    own = tmp_path.resolve() / "own"
    own.mkdir()
    source = ["import sys, numpy as np"]
    with netCDF4.Dataset(own / "a.nc", "w") as file:
        file.createDimension("x", 50_000)
        file.createVariable("v", "f4", ("x",), compression="zlib")[:] = np.arange(50_000)
    source.append("import netCDF4; print(netCDF4.Dataset(sys.argv[1] + '/a.nc')['v'][100:30000].sum())")
    PIL.Image.fromarray(noise(300 * 200 * 3, 7).reshape(300, 200, 3)).save(own / "a.png")
    source.append("import PIL.Image; print(np.asarray(PIL.Image.open(sys.argv[1] + '/a.png')).sum())")
    parquet.write_table(pyarrow.table({"x": np.arange(100_000)}), own / "a.parquet")
    source.append("import pyarrow.parquet as parquet; print(parquet.read_table(sys.argv[1] + '/a.parquet')['x'].to_numpy().sum())")
    time.sleep(2.1)
    twice(own, *python("\n".join(source), own))


TORCH = """
    import hashlib, sys
    import numpy as np, torch
    from torch.utils.data import DataLoader, Dataset

    class Rows(Dataset):
        def __init__(self, path): self.path = path
        def __len__(self): return 4000
        def __getitem__(self, index):
            import h5py
            if not hasattr(self, "file"): self.file = h5py.File(self.path)["x"]
            return self.file[index]

    if __name__ == "__main__":
        torch.set_num_threads(1)
        path, workers, way = sys.argv[1], int(sys.argv[2]), sys.argv[3]
        loader = DataLoader(Rows(path), batch_size=64, shuffle=True, generator=torch.Generator().manual_seed(1),
                            num_workers=workers, multiprocessing_context=way if workers else None)
        digest = hashlib.sha256()
        for epoch in range(2):
            for batch in loader: digest.update(batch.numpy().tobytes())
        print(digest.hexdigest())
"""


@pytest.mark.parametrize(("workers", "way"), [(0, "none"), (2, "fork"), (4, "fork"), (2, "spawn"), (4, "spawn")])
def test_a_data_loader_of_torch_with_workers(origin: Path, tmp_path: Path, workers: int, way: str) -> None:
    script = tmp_path / "train.py"
    script.write_text(textwrap.dedent(TORCH))
    twice(origin, sys.executable, script, origin / "a.h5", workers, way)


def test_git_clones_a_repository_that_lies_there(tmp_path: Path) -> None:
    own = tmp_path.resolve() / "own"
    source = own / "repository"
    source.mkdir(parents=True)
    identity = ["-c", "user.name=a", "-c", "user.email=a@b"]
    plain("git", "init", "-q", cwd=source)
    for number in range(20):
        (source / f"{number}.txt").write_bytes(noise(5000, number).tobytes())
        plain("git", "add", "-A", cwd=source)
        plain("git", *identity, "commit", "-q", "-m", str(number), cwd=source)
    plain("git", "gc", "-q", cwd=source)
    time.sleep(2.1)
    with tier_folder() as folder:
        for number in range(2):
            to = tmp_path / f"clone{number}"
            ran = run(own, "git", "clone", "-q", "--no-hardlinks", source, to, tiers=[f"{folder}:64MiB:keep:free=0"])
            plain("git", "fsck", "--full", cwd=to)
            assert plain("git", "rev-parse", "HEAD", cwd=to) == plain("git", "rev-parse", "HEAD", cwd=source)
            assert {path.name: path.read_bytes() for path in to.glob("*.txt")} == {
                path.name: path.read_bytes() for path in source.glob("*.txt")
            }
    assert hits(ran) > 0 and ran.count("origin_bytes") == 0, ran.said


@pytest.mark.parametrize("engine", ["sync", "psync", "mmap", "pvsync", "libaio", "io_uring"])
def test_fio_verifies_what_it_reads(tmp_path: Path, engine: str) -> None:
    own, size = tmp_path.resolve() / "own", 8 << 20
    own.mkdir()
    job = ["fio", "--name=a", f"--directory={own}", f"--size={size}", "--bs=4k", "--verify=crc32c", "--output-format=json"]
    plain(*job, "--rw=write", "--do_verify=0", cwd=tmp_path)
    time.sleep(2.1)
    words = [*job, "--rw=randread", "--verify_only", f"--ioengine={engine}"]
    with tier_folder() as folder:
        tiers = [f"{folder}:64MiB:keep:free=0"]

        def verify() -> Ran:
            ran = run(own, *words, tiers=tiers, cwd=tmp_path)
            (verified,) = json.loads(ran.out)["jobs"]
            assert (verified["error"], verified["read"]["io_bytes"]) == (0, size), ran.out
            assert (ran.count("opens_left"), ran.count("opens_managed")) == (0, 1), ran.said
            return ran

        verify()
        if engine in ("libaio", "io_uring"):
            # Their queues are the kernel's, past the library: the file is placed once another program reads it.
            run(own, "cat", own / "a.0.0", tiers=tiers)
        # A run may end before the file is placed.
        for _ in range(20):
            ran = verify()
            if ran.count("opens_on_copy") == 1:
                break
    assert (ran.count("opens_on_copy"), ran.count("origin_bytes"), ran.count("fallbacks")) == (1, 0, 0), ran.said


def test_fio_finds_what_is_wrong(tmp_path: Path) -> None:
    """What the test above would see if bytes were others."""
    own = tmp_path.resolve() / "own"
    own.mkdir()
    job = ["fio", "--name=a", f"--directory={own}", "--size=1M", "--bs=4k", "--verify=crc32c", "--output-format=json"]
    plain(*job, "--rw=write", "--do_verify=0", cwd=tmp_path)
    with open(own / "a.0.0", "r+b") as file:
        file.seek(300_000)
        file.write(b"others")
    time.sleep(2.1)
    with tier_folder() as folder:
        ran = run(own, *job, "--rw=randread", "--verify_only", tiers=[f"{folder}:64MiB:free=0"], cwd=tmp_path, check=False)
    assert ran.code != 0, ran.out


# More than h5py 3.16 has of them where it lacks parallel HDF5.
SUITE_AT_LEAST = 800


def test_the_suite_of_h5py_passes_under_the_prefix(tmp_path: Path) -> None:
    """Its files lie under the prefix: TMPDIR does."""
    own = tmp_path.resolve()
    words = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-p", "no:xdist", "-q", "-rfE", "--tb=short", "--no-header"]
    words += [f"--basetemp={own / 'temporary' / 'pytest'}", "--pyargs", "h5py"]
    outcomes = []
    for tiers in ([], ["mem:256MiB"]):
        shutil.rmtree(own / "temporary", ignore_errors=True)
        (own / "temporary").mkdir()
        told = environment(TMPDIR=str(own / "temporary"))
        program = command(own, *words, tiers=tiers) if tiers else words
        done = subprocess.run(program, capture_output=True, text=True, timeout=3000, cwd=own, env=told)
        counts = {name: int(count) for count, name in re.findall(r"(\d+) (\w+)", done.stdout.splitlines()[-1].rpartition(" in ")[0])}
        # A test that fails says why behind a dash, with names that differ.
        failed = {line.split(" - ")[0] for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))}
        # Ended by its own count of failures, not by a signal or before its tests.
        assert done.returncode == (1 if failed else 0), done.stdout[-3000:] + done.stderr[-3000:]
        assert counts["passed"] > SUITE_AT_LEAST, counts
        outcomes.append((failed, {name: count for name, count in counts.items() if not name.startswith("warning")}))
    assert outcomes[0] == outcomes[1]


def test_interrupted_readers_end_by_the_signal(origin: Path) -> None:
    # A job in the background of a shell has SIGINT ignored, and so have its children. Python drops the interrupt that comes while it closes a file
    # that nobody holds any more: `open(path).read()` alone goes on after one in three of them, without forebay too.
    source = """
        import signal, sys
        signal.signal(signal.SIGINT, signal.default_int_handler)
        print("ready", flush=True)
        while True:
            with open(sys.argv[1], "rb") as file: file.read()
    """
    with tier_folder() as folder:
        for number in (signal.SIGINT, signal.SIGTERM):
            words = command(origin, *python(source, origin / "large.bin"), tiers=[f"{folder}:64MiB:free=0"])
            process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment())
            assert process.stdout is not None and process.stdout.readline() == b"ready\n"
            process.send_signal(number)
            try:
                process.communicate(timeout=LIMIT)
            finally:
                process.kill()
            assert process.returncode in (-number, 1)
