"""The stubs and the annotations say what there is."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import forebay
import pytest

PACKAGE = Path(forebay.__file__).parent


def run(*command: str, folder: Path) -> None:
    done = subprocess.run([sys.executable, "-m", *command], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_stubs_are_those_of_the_compiled_part(tmp_path: Path) -> None:
    run("mypy.stubtest", "forebay._forebay", folder=tmp_path)


@pytest.mark.timeout(600)
def test_the_package_is_typed_throughout(tmp_path: Path) -> None:
    # What is known of PyTorch is kept beside it: to look through it takes most of the time.
    kept = Path(sys.prefix, "mypy-cache") if os.access(sys.prefix, os.W_OK) else tmp_path
    # Parts of PyTorch are not typed.
    options = ["--strict", "--allow-untyped-calls", "--python-version=3.11", f"--cache-dir={kept}"]
    run("mypy", *options, "-p", "forebay", folder=tmp_path)


def test_the_package_says_that_it_is_typed() -> None:
    assert (PACKAGE / "py.typed").exists() and (PACKAGE / "_forebay.pyi").exists()
