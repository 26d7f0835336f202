"""What the tests share: files made by h5py, and programs that run by themselves."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

# Saved indexes of another build must not answer for this one.
os.environ.setdefault("FOREBAY_CACHE", tempfile.mkdtemp(prefix="forebay-index-"))
# Threads of PyTorch that wait for each other by turning take the cores from those that work.
os.environ.setdefault("OMP_NUM_THREADS", "1")

Make = Callable[..., Path]


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

    def program(source: str, *arguments: object, timeout: float = 60, check: bool = True) -> Any:
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
