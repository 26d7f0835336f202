"""Runs of ``forebay bench``, alone and by ranks of an MPI job with a parallel HDF5."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import hdf5_ranks
from hdf5_programs import LIMIT, plain
from hdf5_ranks import PATIENT


def parallel() -> tuple[Path, Path]:
    """A libhdf5 that is parallel, thread safe and has subfiling, and the launcher of its MPI."""
    prefix, launcher = hdf5_ranks.parallel()
    return prefix / "lib/libhdf5.so", launcher


def suite(folder: Path, configuration: dict[str, Any] | list[dict[str, Any]], **more: Any) -> Path:
    """A file in h5bench's form, of one ``dlio`` entry or of the entries that are given."""
    benchmarks = configuration
    if isinstance(configuration, dict):
        benchmarks = [{"benchmark": "dlio", "configuration": configuration}]
    path = folder / "suite.json"
    path.write_text(json.dumps({"directory": str(folder), "benchmarks": benchmarks} | more))
    return path


def bench(*arguments: object, ranks: int = 0, library: Path | None = None, **variables: object) -> dict[str, Any]:
    """The answer of a run that must succeed; by ``ranks`` of an MPI job, or with none in a process alone."""
    done = process(*arguments, ranks=ranks, library=library, **variables)
    assert done.returncode == 0, done.stderr
    (answer,) = [line for line in done.stdout.splitlines() if line.startswith("{")]
    return json.loads(answer) | {"stderr": done.stderr}


def command(*arguments: object, ranks: int = 0, library: Path | None = None, **variables: object) -> tuple[list[str], dict[str, str]]:
    """The words and the environment of a run."""
    words = [os.environ["FOREBAY_BIN"], "bench", *map(str, arguments), "--json"]
    environment = plain() | {name: str(value) for name, value in variables.items()}
    if ranks:
        found, launcher = parallel()
        library = library or found
        words = [str(launcher), "-n", str(ranks), *words]
        environment |= PATIENT
    if library:
        environment["FOREBAY_LIBHDF5"] = str(library)
    return words, environment


def process(
    *arguments: object, ranks: int = 0, library: Path | None = None, **variables: object
) -> subprocess.CompletedProcess[str]:
    """The same, however it ends."""
    words, environment = command(*arguments, ranks=ranks, library=library, **variables)
    return subprocess.run(words, env=environment, capture_output=True, text=True, timeout=LIMIT)


def epochs(answer: dict[str, Any]) -> list[tuple[int, int]]:
    """Samples and bytes of each epoch of the first run, evaluation included."""
    found = []
    for epoch in answer["runs"][0]["epochs"]:
        parts = [part for part in (epoch["train"], epoch["evaluation"]) if part]
        found.append((sum(part["samples"] for part in parts), sum(part["bytes"] for part in parts)))
    return found


def digest(answer: dict[str, Any], run: int = 0) -> str:
    """The checksum of all that was read."""
    return answer["runs"][run]["reads_with"].rpartition("digest ")[2]
