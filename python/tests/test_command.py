"""The ``forebay`` command as the Python package brings it."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from conftest import PROMPT, Make


def run(*arguments: object, **options: Any) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "forebay", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, **options)


def test_it_says_what_the_program_says(make: Make, tmp_path: Path) -> None:
    path = make("a.h5", x=np.arange(10.0))
    done = run("inspect", "--json", path)
    assert done.returncode == 0 and json.loads(done.stdout)["variables"][0]["shape"] == [10]
    assert run("--version").stdout.startswith("forebay ")
    missing = run("inspect", tmp_path / "none.h5")
    assert missing.returncode == 3 and "none.h5" in missing.stderr
    wrong = run("inspect", "--no-such-flag")
    assert wrong.returncode == 2 and "Usage" in wrong.stderr


def test_ctrl_c_ends_it_at_once(make: Make) -> None:
    path = make("a.h5", x=np.zeros((64, 16)))
    command = [sys.executable, "-m", "forebay", "load", path, "--field", "x", "--epochs", "1000000", "--json"]
    child = subprocess.Popen([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    time.sleep(2)
    began = time.monotonic()
    child.send_signal(signal.SIGINT)
    out, _ = child.communicate(timeout=300)
    assert child.returncode == 130 and time.monotonic() - began < PROMPT
    assert json.loads(out.splitlines()[-1])["epochs"]
