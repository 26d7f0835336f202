"""What the tests of formats share: values as the command reads them, held against the library that wrote the file."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest


class Command:
    """``forebay`` as a user calls it; the program is ``$FOREBAY_BIN`` or the one on the path."""

    def __init__(self, program: str) -> None:
        self.program = program

    def __call__(self, *arguments: object, check: bool = True) -> subprocess.CompletedProcess[bytes]:
        command = [self.program, *map(str, arguments)]
        done = subprocess.run(command, capture_output=True, timeout=300)
        # A signal, or the code of a panic: never an answer, whatever the file.
        assert 0 <= done.returncode < 100, (command, done.returncode, done.stderr.decode())
        if check:
            assert done.returncode == 0, (command, done.stderr.decode())
        return done

    def inspect(self, path: object) -> dict[str, Any]:
        """What ``inspect --json`` says; variables by name."""
        said = json.loads(self("inspect", path, "--json").stdout)
        said["variables"] = {variable["name"]: variable for variable in said["variables"]}
        return said

    def dump(self, path: object, variable: str) -> bytes:
        """The values as little-endian bytes in C order."""
        with tempfile.TemporaryDirectory() as folder:
            out = Path(folder) / "values"
            self("dump", path, variable, "--raw", out)
            return out.read_bytes()

    def same(self, path: object, variable: str, expected: Any) -> None:
        """The variable has the values of ``expected``, bit for bit, and its shape."""
        expected = np.asarray(expected)
        little = expected.astype(expected.dtype.newbyteorder("<"), copy=False)
        assert self.dump(path, variable) == little.tobytes(), (path, variable)
        said = json.loads(self("inspect", path, variable, "--json").stdout)["variables"]
        assert said[0]["shape"] == list(expected.shape), (path, variable)

    def refuses(self, path: object, variable: str = "/") -> str:
        """The error for something that cannot be read."""
        done = self("dump", path, variable, "--sha256", check=False)
        assert done.returncode != 0, (path, variable)
        return done.stderr.decode()


@pytest.fixture(scope="session")
def forebay_command() -> Command:
    program = os.environ.get("FOREBAY_BIN") or shutil.which("forebay")
    assert program, "set FOREBAY_BIN to the forebay command"
    return Command(program)


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for files that several tests read."""
    return tmp_path_factory.mktemp("formats")
