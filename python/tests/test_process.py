"""Processes and threads: forks, spawns, consumers that stop, Ctrl-C, exits."""

from __future__ import annotations

import gc
import multiprocessing
import signal
import subprocess
import sys
import threading
import time
import zlib
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from conftest import PROMPT, Make, in_fork

import forebay

COUNT = 200
# PyTorch and NumPy have threads: Python warns of a fork beside them, which is what is tested here.
pytestmark = [pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning"), pytest.mark.usefixtures("no_tiers")]


@pytest.fixture
def path(make: Make) -> Path:
    values = np.arange(COUNT)[:, None] * np.ones(16, np.int64)
    return make(x=(values, {"chunks": (7, 16), "compression": "gzip"}), plain=values)


def opened(path: Path) -> forebay.Dataset:
    return forebay.open(path, ["x", "plain"])


def check(ds: forebay.Dataset, seed: int = 0) -> None:
    """Reads samples and an epoch; all must be right."""
    numbers = np.random.default_rng(seed).permutation(COUNT)
    batch = ds[numbers]
    assert (batch["x"] == numbers[:, None]).all() and (batch["plain"] == numbers[:, None]).all()
    seen = []
    for batch in ds.loader(batch_size=16, shuffle="full", seed=seed, read_threads=3):
        assert (batch["x"] == batch.indices[:, None]).all() and (batch["plain"] == batch.indices[:, None]).all()
        seen += batch.indices.tolist()
    assert sorted(seen) == list(range(COUNT))


def test_a_set_that_is_open_may_be_forked(path: Path) -> None:
    ds = opened(path)
    check(ds)
    in_fork(lambda: check(ds, 1))
    check(ds, 2)


def test_children_and_parent_read_at_the_same_time(path: Path) -> None:
    ds = opened(path)
    check(ds)
    context = multiprocessing.get_context("fork")
    children = [context.Process(target=check, args=(ds, seed)) for seed in range(4)]
    for child in children:
        child.start()
    for seed in range(4):
        check(ds, seed + 10)
    for child in children:
        child.join(30)
        assert child.exitcode == 0


def test_a_child_of_a_child_reads_too(path: Path) -> None:
    ds = opened(path)

    def work() -> None:
        check(ds)
        in_fork(lambda: check(ds, 1))

    in_fork(work)


def test_a_spawned_process_opens_the_set_for_itself(path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    child = context.Process(target=check, args=(opened(path),))
    child.start()
    child.join(60)
    assert child.exitcode == 0


def test_a_fork_while_threads_load_harms_neither(path: Path) -> None:
    ds = opened(path)
    loader = ds.loader(batch_size=4, shuffle="full", read_threads=3, prefetch=8)
    run = iter(loader)
    seen = []
    for _ in range(5):
        batch = next(run)
        seen += batch.indices.tolist()
        kept = batch

        def work() -> None:
            check(ds)
            # The loader itself gives the whole of the epoch; where in it the parent is, is the parent's.
            mine = [n for batch in loader for n in batch.indices.tolist()]
            assert sorted(mine) == list(range(COUNT))
            assert (kept["x"] == kept.indices[:, None]).all()
            loader.close()

        in_fork(work)
    for batch in run:
        assert (batch["x"] == batch.indices[:, None]).all()
        seen += batch.indices.tolist()
    assert sorted(seen) == list(range(COUNT))


def test_a_child_that_drops_everything_does_not_hang(path: Path) -> None:
    ds = opened(path)
    loader = ds.loader(batch_size=4, read_threads=3)
    run = iter(loader)
    batch = next(run)

    def work() -> None:
        nonlocal ds, loader, run, batch
        del ds, loader, run, batch
        gc.collect()

    in_fork(work)
    assert len(list(run)) == COUNT // 4 - 1


def test_an_epoch_does_not_go_on_in_a_child(path: Path) -> None:
    run = iter(opened(path).loader(batch_size=4))
    next(run)

    def work() -> None:
        with pytest.raises(forebay.InvalidError, match="does not survive a fork"):
            next(run)

    in_fork(work)
    next(run)


def test_a_consumer_may_stop_at_any_time(path: Path) -> None:
    ds = opened(path)
    loader = ds.loader(batch_size=2, shuffle="full", read_threads=4)
    for _ in range(20):
        for batch in loader:
            break
        with pytest.raises(KeyError):
            for batch in loader:
                batch["missing"]
        run = iter(loader)
        next(run)
        del run
        iter(loader)
    del loader
    check(ds)


def test_two_runs_of_a_loader_follow_each_other(path: Path) -> None:
    loader = opened(path).loader(batch_size=50)
    first = iter(loader)
    next(first)
    second = iter(loader)
    assert next(second).epoch == 1
    with pytest.raises(forebay.InvalidError, match="ended by another"):
        next(first)
    assert len(list(second)) == 3


def test_closing_twice_is_closing_once(path: Path) -> None:
    loader = opened(path).loader(batch_size=4)
    with loader as entered:
        assert entered is loader
        run = iter(loader)
        next(run)
    loader.close()
    loader.close()
    assert list(run) == []
    assert len(list(loader)) == COUNT // 4


@pytest.mark.parametrize(
    "ending",
    [
        "",
        "break",
        pytest.param("raise SystemExit(0)", marks=pytest.mark.slow),
        pytest.param("del loader, ds; break", marks=pytest.mark.slow),
        "sys.exit(0)",
        "run = iter(loader); next(run); break",
    ],
)
def test_the_interpreter_ends_while_threads_load(program: Any, path: Path, ending: str) -> None:
    program(
        f"""
        import sys, forebay
        ds = forebay.open(sys.argv[1], ["x"])
        loader = ds.loader(batch_size=1, shuffle="full", read_threads=4, prefetch=16)
        for number, batch in enumerate(loader):
            if number == 7:
                {ending or "pass"}
        """,
        path,
    )


def test_threads_that_cannot_be_started_are_an_error_at_once(program: Any, path: Path) -> None:
    program(
        """
        import resource, sys, time, forebay
        ds = forebay.open(sys.argv[1], ["x"])
        loader = ds.loader(batch_size=1, read_threads=64, memory="256MiB")
        assert len(list(ds.loader(batch_size=1, read_threads=1))) > 0
        taken = next(int(line.split()[1]) << 10 for line in open("/proc/self/status") if line.startswith("VmSize"))
        resource.setrlimit(resource.RLIMIT_AS, (taken + (40 << 20), -1))
        began = time.monotonic()
        try:
            next(iter(loader))
        except forebay.FullError as error:
            assert "of 64 could not be started" in str(error) and "read_threads" in str(error), error
            assert time.monotonic() - began < 4, time.monotonic() - began
        else:
            raise SystemExit("64 stacks fit")
        """,
        path,
    )


def slow_file(path: Path, count: int = 1000) -> Path:
    """Chunks of 64 MiB that inflate from 64 KiB: one number of each costs the whole, all of them 22 s of two threads."""
    length = 8 << 20
    packed = zlib.compress(bytes(length * 8), 9)
    with h5py.File(path, "w") as file:
        made = file.create_dataset("x", (count, length), "<f8", chunks=(1, length), compression="gzip")
        for row in range(count):
            made.id.write_direct_chunk((row, 0), packed)
    return path


@pytest.mark.parametrize("how", ["loader", "index"])
def test_ctrl_c_ends_a_slow_read_within_a_second(tmp_path: Path, how: str) -> None:
    path = slow_file(tmp_path / "slow.h5")
    source = """
import signal, sys, forebay
# What runs in the background of a shell ignores it.
signal.signal(signal.SIGINT, signal.default_int_handler)
ds = forebay.open(sys.argv[1], ["x"], samples=forebay.Windows({0: 1, 1: 1}, {1: 8 << 20}))
print("ready", flush=True)
try:
    if sys.argv[2] == "loader":
        for batch in ds.loader(batch_size=200, memory="1GiB", spill_quota=0, read_threads=2): pass
    else:
        ds[:]
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""
    script = tmp_path / "slow.py"
    script.write_text(source)
    command = [sys.executable, str(script), str(path), how]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    try:
        assert child.stdout.readline() == "ready\n"
        time.sleep(1)
        assert child.poll() is None, "it was not slow"
        began = time.monotonic()
        child.send_signal(signal.SIGINT)
        assert child.stdout.readline() == "interrupted\n"
        child.wait(60)
        assert time.monotonic() - began < PROMPT
    finally:
        child.kill()
        child.wait()


@pytest.mark.parametrize("options", [{}, {"prefetch": 0}, {"map": lambda batch: batch}], ids=["ahead", "on demand", "mapped"])
def test_a_batch_that_a_signal_keeps_from_the_consumer_does_not_count(tmp_path: Path, options: dict[str, Any]) -> None:
    """A job whose time is over: what its handler raises comes while the consumer waits, and the state says what the consumer had."""

    class TimeIsOver(Exception):
        pass

    def end(number: int, frame: object) -> None:
        raise TimeIsOver

    before = signal.signal(signal.SIGALRM, end)
    try:
        ds = forebay.open(slow_file(tmp_path / "slow.h5", 60), ["x"], samples=forebay.Windows({0: 1, 1: 1}, {1: 8 << 20}))
        for _ in range(8):
            received: list[int] = []
            loader = ds.loader(batch_size=1, shuffle="full", seed=3, memory="512MiB", spill_quota=0, read_threads=1, **options)
            signal.setitimer(signal.ITIMER_REAL, 0.07)
            try:
                for batch in loader:
                    received.extend(batch.indices)
            except TimeIsOver:
                pass
            finally:
                signal.setitimer(signal.ITIMER_REAL, 0)
            assert loader.state_dict()["position"] == len(received) < len(ds)
            loader.close()
    finally:
        signal.signal(signal.SIGALRM, before)


def test_many_threads_may_read_one_set(path: Path) -> None:
    from concurrent.futures import ThreadPoolExecutor

    ds = opened(path)
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda seed: check(ds, seed), range(16)))


FILES = """
import os, resource, sys
import h5py, numpy as np, forebay
resource.setrlimit(resource.RLIMIT_NOFILE, (512, 512))
root = sys.argv[1]
def write(folder, count):
    os.makedirs(f"{root}/{folder}")
    for i in range(count):
        with h5py.File(f"{root}/{folder}/{i:04d}.h5", "w") as f:
            f["x"] = np.full((4, 8), i, "f4")
descriptors = lambda: len(os.listdir("/proc/self/fd"))
"""


def test_several_sets_leave_half_of_the_descriptors_to_the_program(program: Any, tmp_path: Path) -> None:
    program(
        FILES
        + """
held = []
for part in ("train", "val", "test"):
    write(part, 300)
    ds = forebay.open(f"{root}/{part}/*.h5", fields=["x"])
    held.append(ds)
    for epoch in range(2):
        assert sum(batch.size for batch in ds.loader(batch_size=64, shuffle="full")) == 1200
assert descriptors() < 300, descriptors()
theirs = [open(f"{root}/checkpoint{i}", "wb") for i in range(200)]
# With none left for anybody, what sets hold and do not use is given back.
try:
    while True: theirs.append(open("/dev/null"))
except OSError: pass
for ds in held: assert (ds[[0, 1199]]["x"][:, 0] == [0, 299]).all()
""",
        tmp_path,
    )


@pytest.mark.parametrize("strategy", ["file_descriptor", pytest.param("file_system", marks=pytest.mark.slow)])
def test_workers_of_a_set_of_many_files_do_not_run_out_of_descriptors(
    program: Any, tmp_path: Path, strategy: str
) -> None:
    pytest.importorskip("torch")
    program(
        FILES
        + """
import warnings, torch, forebay.torch
from torch.utils.data import DataLoader
warnings.simplefilter("ignore")
torch.multiprocessing.set_sharing_strategy(sys.argv[2])
write("set", 700)
ds = forebay.open(f"{root}/set/*.h5", fields=["x"])
for batch in ds.loader(batch_size=64): pass
class Opening(torch.utils.data.Dataset):
    # Samples as a user reads them who opens files of his own beside.
    inner = forebay.torch.Dataset(ds)
    def __len__(self): return len(self.inner)
    def __getitem__(self, index):
        sample = self.inner[index]
        for file in [open("/dev/null") for _ in range(120)]: file.close()
        return sample
# One sample of each file.
some = torch.utils.data.Subset(Opening(), range(0, len(ds), 4))
for workers in (0, 2):
    loader = DataLoader(some, batch_size=16, shuffle=True, num_workers=workers)
    assert sum(len(batch["x"]) for epoch in range(2) for batch in loader) == 1400
assert descriptors() < 300, descriptors()
""",
        tmp_path,
        strategy,
    )


class Stalling(BaseHTTPRequestHandler):
    """Serves one file by ranges, and answers no more once it was told to stall."""

    def _answer(self, with_body: bool) -> None:
        body, stalled = self.server.body, self.server.stalled  # type: ignore[attr-defined]
        if stalled.is_set():
            self.server.released.wait(30)  # type: ignore[attr-defined]
            return
        start, stop, status = 0, len(body), 200
        if asked := self.headers.get("Range"):
            first, last = asked.removeprefix("bytes=").split("-")
            start, stop, status = int(first), min(int(last) + 1, len(body)), 206
        self.send_response(status)
        self.send_header("Content-Length", str(stop - start))
        self.send_header("Content-Range", f"bytes {start}-{stop - 1}/{len(body)}")
        self.send_header("ETag", '"one"')
        self.end_headers()
        if with_body:
            self.wfile.write(body[start:stop])

    def do_GET(self) -> None:
        self._answer(True)

    def do_HEAD(self) -> None:
        self._answer(False)

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def stalling(make: Make) -> Iterator[Any]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Stalling)
    # Longer than what is read whole by one request and kept.
    values = np.random.default_rng(0).random((5000, 1024))
    server.body = make(x=(values, {"chunks": (1, 1024)})).read_bytes()  # type: ignore[attr-defined]
    server.stalled, server.released = threading.Event(), threading.Event()  # type: ignore[attr-defined]
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server
    server.released.set()  # type: ignore[attr-defined]
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize("how", ["open", "index"])
def test_ctrl_c_ends_a_wait_for_a_server_within_a_second(stalling: Any, tmp_path: Path, how: str) -> None:
    source = """
import signal, sys, forebay
signal.signal(signal.SIGINT, signal.default_int_handler)
ds = forebay.open(sys.argv[1], ["x"]) if sys.argv[2] == "index" else None
print("ready", flush=True)
sys.stdin.readline()
try:
    if ds is None:
        forebay.open(sys.argv[1], ["x"])
    else:
        ds[4321]
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""
    script = tmp_path / "waits.py"
    script.write_text(source)
    url = f"http://127.0.0.1:{stalling.server_address[1]}/a.h5"
    command = [sys.executable, str(script), url, how]
    child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None and child.stdin is not None
    try:
        assert child.stdout.readline() == "ready\n"
        stalling.stalled.set()
        print(file=child.stdin, flush=True)
        time.sleep(1)
        assert child.poll() is None, "it did not wait"
        began = time.monotonic()
        child.send_signal(signal.SIGINT)
        assert child.stdout.readline() == "interrupted\n"
        child.wait(60)
        assert time.monotonic() - began < PROMPT
    finally:
        child.kill()
        child.wait()
