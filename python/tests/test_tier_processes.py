"""Processes of a node over one disk tier: each block is fetched from the origin by one of them, however many ask for it at once."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from counting_server import serving

COUNT = 1024
LIMIT = 120

READER = """
import json, sys

import forebay

url, tier, number, options = *sys.argv[1:4], json.loads(sys.argv[4])
if "world" in options:
    options |= {"rank": int(number), "tail": "drop", "check_ranks": False}
tier = {"path": tier, "quota": "256MiB", "free": 0, "keep": options.pop("keep")}
ds = forebay.open(url, ["x", "y"], tiers=[tier], tier_block="64KiB")
loader = ds.loader(batch_size=16, read_threads=2, seed=int("world" not in options and number), **options)
# All begin at once: a process that is first would have read all before the others come.
print("ready", flush=True)
sys.stdin.readline()
seen = []
for batch in loader:
    assert (batch["x"] == batch["y"][:, None]).all()
    seen += batch["y"].tolist()
print(json.dumps(seen))
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A set of 16 MiB whose chunks are half as long as a block."""
    made = tmp_path / "origin"
    made.mkdir()
    numbers = np.arange(COUNT, dtype="i4")
    with h5py.File(made / "a.h5", "w", libver="latest") as file:
        file["y"] = numbers
        file.create_dataset("x", data=np.broadcast_to(numbers[:, None], (COUNT, 4096)), chunks=(2, 4096))
    return made


VARIANTS: dict[str, tuple[int, dict[str, Any]]] = {
    "in one order": (4, {"keep": True}),
    "in orders of their own": (4, {"keep": False, "shuffle": "full"}),
    "a share each": (3, {"keep": True, "shuffle": "full", "world": 3}),
}


@pytest.mark.parametrize("variant", [pytest.param("in one order", marks=pytest.mark.slow), "in orders of their own", "a share each"])
def test_processes_that_read_a_set_at_once_fetch_each_block_once(tmp_path: Path, folder: Path, variant: str) -> None:
    processes, options = VARIANTS[variant]
    with serving(folder) as origin:
        command = [sys.executable, "-c", READER, f"{origin.url}/a.h5", str(tmp_path / "tier")]
        pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        started = [subprocess.Popen([*command, str(number), json.dumps(options)], **pipes) for number in range(processes)]
        for process in started:
            assert process.stdout is not None and process.stdout.readline() == "ready\n", process.communicate()
        outputs = [process.communicate("\n", timeout=LIMIT) for process in started]
    seen: list[list[int]] = []
    for process, (output, errors) in zip(started, outputs):
        assert process.returncode == 0, errors
        seen.append(json.loads(output))
    if "world" in options:
        seen = [[number for one in seen for number in one]]
        # The last samples fill no batch of every rank.
        assert len(set(seen[0])) == len(seen[0]) >= COUNT - 48
    else:
        assert all(sorted(one) == list(range(COUNT)) for one in seen)
    # All processes together, what each read to open the set included.
    assert 0.9 * origin.stored <= origin.given <= 1.05 * origin.stored, (origin.given, origin.stored)
