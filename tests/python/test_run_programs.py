"""Programs of other people under ``forebay run``: the same output as without it, and the second run without the origin's data."""

from __future__ import annotations

import hashlib
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import h5py
import numpy as np
import pytest
from run_programs import LIBRARY, LIMIT, LONG, command, environment, hits, plain, python, run, tier_folder, twice

pytestmark = pytest.mark.skipif(not LIBRARY.is_file(), reason="the package has no library to preload")
long = pytest.mark.skipif(not LONG, reason="FOREBAY_LONG=1 runs it, as make deep-run does")


def noise(count: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, count, np.uint8)


@pytest.fixture(scope="module")
def origin(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Files of many kinds, on a disk, old enough to be copied."""
    folder = tmp_path_factory.mktemp("origin").resolve()
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


# What follows takes its time: `make deep-run`.


@long
def test_what_other_libraries_read(origin: Path, tmp_path: Path) -> None:
    own = tmp_path.resolve() / "own"
    own.mkdir()
    source = ["import sys, numpy as np"]
    netcdf = pytest.importorskip("netCDF4")
    with netcdf.Dataset(own / "a.nc", "w") as file:
        file.createDimension("x", 50_000)
        file.createVariable("v", "f4", ("x",), compression="zlib")[:] = np.arange(50_000)
    source.append("import netCDF4; print(netCDF4.Dataset(sys.argv[1] + '/a.nc')['v'][100:30000].sum())")
    try:
        import PIL.Image

        PIL.Image.fromarray(noise(300 * 200 * 3, 7).reshape(300, 200, 3)).save(own / "a.png")
        source.append("import PIL.Image; print(np.asarray(PIL.Image.open(sys.argv[1] + '/a.png')).sum())")
    except ImportError:
        pass
    try:
        import pyarrow
        import pyarrow.parquet

        pyarrow.parquet.write_table(pyarrow.table({"x": np.arange(100_000)}), own / "a.parquet")
        source.append("import pyarrow.parquet as parquet; print(parquet.read_table(sys.argv[1] + '/a.parquet')['x'].to_numpy().sum())")
    except ImportError:
        pass
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


@long
@pytest.mark.parametrize(("workers", "way"), [(0, "none"), (2, "fork"), (4, "fork"), (2, "spawn"), (4, "spawn")])
def test_a_data_loader_of_torch_with_workers(origin: Path, tmp_path: Path, workers: int, way: str) -> None:
    import textwrap

    script = tmp_path / "train.py"
    script.write_text(textwrap.dedent(TORCH))
    twice(origin, sys.executable, script, origin / "a.h5", workers, way)


@long
def test_tf_data_over_tfrecords(tmp_path: Path) -> None:
    """By FOREBAY_TF_PYTHON, an interpreter of an environment that has TensorFlow: it does not go with PyTorch in one process."""
    interpreter = os.environ.get("FOREBAY_TF_PYTHON")
    if not interpreter:
        pytest.skip("FOREBAY_TF_PYTHON names no Python with TensorFlow")
    own = tmp_path.resolve() / "own"
    own.mkdir()
    make = """
        import sys, tensorflow as tf
        for number in range(4):
            with tf.io.TFRecordWriter(f"{sys.argv[1]}/{number}.tfrecord") as writer:
                for row in range(500): writer.write(bytes([number, row % 256]) * 1000)
    """
    plain(interpreter, *python(make, own)[1:])
    time.sleep(2.1)
    read = """
        import hashlib, sys, tensorflow as tf
        files = sorted(tf.io.gfile.glob(sys.argv[1] + "/*.tfrecord"))
        data = tf.data.TFRecordDataset(files, num_parallel_reads=2).shuffle(100, seed=1).batch(32).prefetch(2)
        total = hashlib.sha256(b"".join(sorted(row for batch in data for row in batch.numpy())))
        print(total.hexdigest())
    """
    twice(own, interpreter, *python(read, own)[1:])


@long
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


@long
@pytest.mark.parametrize("engine", ["sync", "psync", "mmap", "pvsync", "libaio", "io_uring"])
def test_fio_verifies_what_it_reads(tmp_path: Path, engine: str) -> None:
    if not shutil.which("fio"):
        pytest.skip("no fio")
    own = tmp_path.resolve() / "own"
    own.mkdir()
    job = ["--name=a", f"--directory={own}", "--size=8M", "--bs=4k", "--verify=crc32c", "--output-format=terse"]
    plain("fio", *job, "--rw=write", "--do_verify=0", cwd=tmp_path)
    time.sleep(2.1)
    with tier_folder() as folder:
        for _ in range(2):
            words = ["fio", *job, "--rw=randread", "--verify_only", f"--ioengine={engine}"]
            run(own, *words, tiers=[f"{folder}:64MiB:keep:free=0"], cwd=tmp_path)


@long
def test_ranks_of_mpirun_share_one_placement_in_either_order(origin: Path) -> None:
    launcher = shutil.which("mpirun")
    if not launcher:
        pytest.skip("no mpirun")
    ranks = [launcher, "--allow-run-as-root", "--oversubscribe", "-n", "4"]
    reader = ["sha256sum", origin / "large.bin"]
    size = (origin / "large.bin").stat().st_size
    with tier_folder() as folder:
        tiers = [f"{folder}:64MiB:free=0"]
        inside = run(origin, *ranks, *reader, tiers=tiers)
        words = [*map(str, ranks), *command(origin, *reader, tiers=tiers)]
        outside = subprocess.run(words, capture_output=True, timeout=LIMIT, env=environment())
    assert inside.out == outside.stdout == plain(*reader) * 4
    assert inside.count("origin_bytes") <= 1.05 * size, inside.said
    assert outside.stderr.count(b'{"program"') == 1, outside.stderr.decode()


@long
def test_the_suite_of_h5py_passes_under_the_prefix(tmp_path: Path) -> None:
    """Its files lie under the prefix: TMPDIR does."""
    own = tmp_path.resolve()
    (own / "temporary").mkdir()
    words = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-p", "no:xdist", "-q", "-rfE", "--tb=short", "--no-header"]
    words += [f"--basetemp={own / 'temporary' / 'pytest'}", "--pyargs", "h5py"]
    outcomes = []
    for tiers in ([], ["mem:256MiB"]):
        shutil.rmtree(own / "temporary", ignore_errors=True)
        (own / "temporary").mkdir()
        told = environment(TMPDIR=str(own / "temporary"))
        program = command(own, *words, tiers=tiers) if tiers else words
        done = subprocess.run(program, capture_output=True, text=True, timeout=3000, cwd=own, env=told)
        # A test that fails says why behind a dash, with names that differ.
        outcomes.append({line.split(" - ")[0] for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))})
    assert outcomes[0] == outcomes[1]


@long
def test_interrupted_readers_end_by_the_signal(origin: Path) -> None:
    source = """
        import sys
        print("ready", flush=True)
        while True: open(sys.argv[1], "rb").read()
    """
    with tier_folder() as folder:
        for number in (signal.SIGINT, signal.SIGTERM):
            words = command(origin, *python(source, origin / "large.bin"), tiers=[f"{folder}:64MiB:free=0"])
            process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment())
            assert process.stdout is not None and process.stdout.readline() == b"ready\n"
            process.send_signal(number)
            process.communicate(timeout=LIMIT)
            assert process.returncode in (-number, 1)
