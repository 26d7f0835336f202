"""What the tests share: files made by h5py, and programs that run by themselves."""

from __future__ import annotations

import atexit
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

import forebay

# Saved indexes of another build must not answer for this one.
if "FOREBAY_CACHE" not in os.environ:
    os.environ["FOREBAY_CACHE"] = own_index = tempfile.mkdtemp(prefix="forebay-index-")
    # Not at the end of processes that tests fork.
    atexit.register(lambda owner: owner == os.getpid() and shutil.rmtree(own_index, ignore_errors=True), os.getpid())
# Threads of PyTorch that wait for each other by turning take the cores from those that work.
os.environ.setdefault("OMP_NUM_THREADS", "1")

if "FOREBAY_RUN" in os.environ:
    # Inside `forebay run` (`make deep-run`): its library reads the settings with the first file, before a test sets others.
    with tempfile.TemporaryDirectory() as folder:
        first = Path(folder) / "first"
        first.write_bytes(b"first")
        first.read_bytes()

Make = Callable[..., Path]

# What is promised within a second ends within these, on a busy machine too; what the tests interrupt would last longer.
PROMPT = 8.0


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leaves variants that only take time to `make deep-tests`."""
    if not os.environ.get("FOREBAY_SLOW"):
        leave_out = pytest.mark.skip(reason="FOREBAY_SLOW=1 runs it, as make deep-compat and make deep-tests do")
        for item in items:
            if item.get_closest_marker("slow"):
                item.add_marker(leave_out)


@pytest.fixture(autouse=True)
def variables_of_the_tests_before() -> Iterator[None]:
    """Frameworks that run in this process leave variables behind (``MASTER_PORT``), which name a job to the next test."""
    before = dict(os.environ)
    yield
    # Only what differs: threads that frameworks leave behind read the environment meanwhile.
    for name in os.environ.keys() - before.keys() - {"PYTEST_CURRENT_TEST"}:
        del os.environ[name]
    for name, value in before.items():
        if os.environ.get(name) != value and name != "PYTEST_CURRENT_TEST":
            os.environ[name] = value


@pytest.fixture
def no_tiers(monkeypatch: pytest.MonkeyPatch) -> None:
    """For tests that say which origin and tiers there are: those of `forebay run`, where they run inside it, are the preloaded library's alone."""
    if "FOREBAY_RUN" in os.environ:
        for name in ("FOREBAY_TIERS", "FOREBAY_CONFIG", "FOREBAY_ORIGIN"):
            monkeypatch.delenv(name, raising=False)


@pytest.fixture
def make(tmp_path: Path) -> Make:
    """Makes a file of variables: ``make("a.h5", x=array, y=(array, {"chunks": (4,)}))``."""

    def make(name: str = "a.h5", /, **variables: Any) -> Path:
        path = tmp_path / name
        with h5py.File(path, "w") as file:
            for variable, value in variables.items():
                array, options = value if isinstance(value, tuple) else (value, {})
                file.create_dataset(variable, data=array, **options)
        return path

    return make


@pytest.fixture
def program(tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Runs Python source as a program of its own, which must end in time and without an error."""

    def program(source: str, *arguments: object, timeout: float = 300, check: bool = True) -> Any:
        script = tmp_path / "program.py"
        script.write_text(textwrap.dedent(source))
        command = [sys.executable, str(script), *map(str, arguments)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=timeout)
        if check:
            assert done.returncode == 0, done.stdout + done.stderr
        return done

    return program


def native(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The type in the byte order of this machine."""
    return dtype.newbyteorder("=")


def same(ours: Any, theirs: Any) -> None:
    """Two arrays have the same shape, type and bits."""
    theirs = np.asarray(theirs)
    assert ours.shape == theirs.shape
    if theirs.dtype.names is not None:
        assert ours.dtype.names == theirs.dtype.names
        for name in theirs.dtype.names:
            same(ours[name], theirs[name])
        return
    assert ours.dtype == native(theirs.dtype)
    assert ours.tobytes() == theirs.astype(native(theirs.dtype)).tobytes()


def images(count: int = 20, seed: int = 0) -> np.ndarray[Any, Any]:
    """Small images, each different."""
    return np.random.default_rng(seed).integers(0, 255, (count, 6, 5, 3), np.uint8)


def in_fork(work: Callable[[], None], timeout: float = 30) -> None:
    """Does ``work`` in a forked child, which must end well and in time."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            work()
            code = 0
        finally:
            os._exit(code)
    until = time.monotonic() + timeout
    while time.monotonic() < until:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            assert os.waitstatus_to_exitcode(status) == 0
            return
        time.sleep(0.01)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    pytest.fail("the child hangs")


# Sets that are read through tiers.
COUNT = 256
FILES = 4
OFFSETS = np.concatenate([[0], np.cumsum(np.arange(COUNT) % 7)])
# No disk of a test machine has to have 5 % free.
FREE = {"free": 0}


def image_of(number: Any) -> Any:
    """Samples of 4 KiB, each different."""
    return np.asarray(number, np.int32)[..., None] * np.ones(1024, np.int32)


@pytest.fixture(scope="session")
def origin() -> Iterator[Path]:
    """Files on another device than the tiers, older than the grain of the clock."""
    far = Path("/dev/shm")
    if not far.is_dir() or far.stat().st_dev == Path(tempfile.gettempdir()).stat().st_dev:
        pytest.skip("no second device to copy from")
    folder = Path(tempfile.mkdtemp(prefix="forebay-test-", dir=far))
    for number in range(FILES):
        with h5py.File(folder / f"plain{number}.h5", "w") as file:
            file["x"] = image_of(np.arange(number * COUNT, (number + 1) * COUNT))
    with h5py.File(folder / "packed.h5", "w") as file:
        file.create_dataset("x", data=images(COUNT), chunks=(16, 6, 5, 3), compression="gzip")
        file["y"] = np.arange(COUNT)
    with h5py.File(folder / "ragged.h5", "w") as file:
        file["x"] = np.arange(OFFSETS[-1] * 512).reshape(-1, 512)
        file["ptr"] = OFFSETS
    time.sleep(2.2)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def disk(tmp_path: Path) -> dict[str, Any]:
    """A disk tier that goes with the job."""
    return {"path": tmp_path / "tier", "quota": "64MiB", **FREE}


def plain(origin: Path, **options: Any) -> forebay.Dataset:
    return forebay.open(origin / "plain*.h5", ["x"], **options)
