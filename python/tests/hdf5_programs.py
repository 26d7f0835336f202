"""Programs that run with and without the HDF5 plug-ins."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

LIMIT = 300


def plugins() -> Path:
    """The folder with the plug-ins, ``vfd`` and ``vol``: that of the installed package, unless FOREBAY_PLUGINS names another."""
    named = os.environ.get("FOREBAY_PLUGINS")
    if named:
        return Path(named)
    import forebay

    return Path(forebay.__file__).parent / "hdf5"


def plain() -> dict[str, str]:
    """The environment without any variable of HDF5 or forebay."""
    own = ("HDF5_", "FOREBAY_")
    return {name: value for name, value in os.environ.items() if not name.startswith(own)}


def driver(paths: object = "", stage: object = "", **more: object) -> dict[str, str]:
    """The environment with the file driver: files under ``paths`` are managed, writes to them go through ``stage``."""
    variables = {"HDF5_PLUGIN_PATH": plugins() / "vfd", "HDF5_DRIVER": "forebay"}
    variables |= {"FOREBAY_HDF5_PATHS": paths, "FOREBAY_STAGE": stage} | more
    return plain() | {name: str(value) for name, value in variables.items() if str(value)}


# Small units and no least size, so that small files are cut into many; and the clock of local file systems, so that tests need
# not wait for seconds before a file is cached.
SMALL = {"FOREBAY_HDF5_UNIT": "8KiB", "FOREBAY_HDF5_LEAST": "1", "FOREBAY_HDF5_CLOCK_GRAIN_MS": "20"}


def connector(paths: object = "", cache: object = "", info: str = "", **more: object) -> dict[str, str]:
    """The environment with the connector: files under ``paths`` are managed, values are kept in ``cache``."""
    variables = {"HDF5_PLUGIN_PATH": plugins() / "vol", "HDF5_VOL_CONNECTOR": f"forebay {info}".strip()}
    variables |= {"FOREBAY_HDF5_PATHS": paths, "FOREBAY_HDF5_CACHE": cache} | SMALL | more
    return plain() | {name: str(value) for name, value in variables.items() if str(value)}


def start(source: str, environment: dict[str, str], *arguments: object) -> subprocess.Popen[str]:
    """Starts Python source as a program."""
    command = [sys.executable, "-c", textwrap.dedent(source), *map(str, arguments)]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, env=environment, stdin=pipe, stdout=pipe, stderr=pipe, text=True)


def run(source: str, environment: dict[str, str], *arguments: object) -> tuple[Any, str]:
    """Runs Python source that must succeed: the JSON value it printed last, and what it wrote to stderr."""
    process = start(source, environment, *arguments)
    out, err = process.communicate(timeout=LIMIT)
    assert process.returncode == 0, out + err
    return json.loads(out.splitlines()[-1]) if out.strip() else None, err


def both(source: str, native: dict[str, str], other: dict[str, str], *arguments: object) -> tuple[Any, Any]:
    """What Python source prints in either environment."""
    return run(source, native, *arguments)[0], run(source, other, *arguments)[0]


def h5py_outcomes(environment: dict[str, str], folder: Path, *selection: str) -> set[str]:
    """The outcome of each test of h5py's own suite, or of some of its modules; its files lie in ``folder``."""
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-p", "no:xdist", "-q", "-rA", "--no-header"]
    base = folder / "temporary"
    command += ["--tb=no", f"--basetemp={base / 'pytest'}", "--pyargs", *selection]
    base.mkdir(parents=True, exist_ok=True)
    environment = environment | {"TMPDIR": str(base)}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=1200)
    # A test that fails says why behind a dash, with names that differ.
    lines = [line.split(" - ")[0] for line in done.stdout.splitlines()]
    found = {line for line in lines if line.startswith(("PASSED", "FAILED", "ERROR", "XFAIL"))}
    assert found, done.stdout + done.stderr
    return found
