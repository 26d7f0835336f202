"""Batches of a store through Python, beside plain copies from memory that the same processes share.

    python benches/store/python_batches.py [--ranks 2] [--seconds 1] [--turns 5] [--json]

All ranks read at once, in turns: 128 random samples of 8 KiB by ``Store.get_batch``, by the store's loader, and by numpy from an
array that is mapped from a file in memory (one ``memcpy`` per sample, as ``numpy.take`` does it).
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

SAMPLE, BATCH = 8192, 128
SHARD = 64 << 20
BOUND = 0.7


def rank_main(shared: str, seconds: float, turns: int) -> None:
    import forebay

    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    each = SHARD // SAMPLE
    count = each * world
    random = np.random.default_rng(rank)
    with forebay.Store() as store:
        store.add("x", np.random.default_rng(rank + 100).integers(0, 255, (each, SAMPLE), np.uint8))
        barrier = store._comm.barrier
        whole = np.memmap(shared, np.uint8, "r+", shape=(count, SAMPLE))
        whole[rank * each : (rank + 1) * each] = store.get_batch(range(rank * each, (rank + 1) * each))["x"]
        barrier()
        into = np.empty((BATCH, SAMPLE), np.uint8)

        def timed(read: Callable[[Any], Any]) -> float:
            """The median time of a batch in microseconds."""
            barrier()
            times, end = [], time.perf_counter() + seconds
            while time.perf_counter() < end:
                samples = random.integers(0, count, BATCH)
                began = time.perf_counter()
                read(samples)
                times.append(time.perf_counter() - began)
            return statistics.median(times) * 1e6

        def epochs() -> float:
            barrier()
            began, batches = time.perf_counter(), 0
            while time.perf_counter() < began + seconds:
                batches += sum(1 for _ in store.loader(batch_size=BATCH, shuffle="full", seed=batches, tail="drop"))
            return (time.perf_counter() - began) / batches * 1e6

        samples = random.integers(0, count, BATCH)
        np.testing.assert_array_equal(store.get_batch(samples)["x"], whole[samples])
        figures: dict[str, list[float]] = {"get_batch": [], "loader": [], "copies": []}
        for _ in range(turns):
            figures["get_batch"].append(timed(store.get_batch))
            figures["loader"].append(epochs())
            figures["copies"].append(timed(lambda samples: np.take(whole, samples, axis=0, out=into)))
        told = [json.loads(one) for one in store._comm.all_gather(json.dumps(figures).encode())]
    if rank == 0:
        means = {name: [statistics.mean(one[name][turn] for one in told) for turn in range(turns)] for name in figures}
        print(json.dumps({name: statistics.median(values) for name, values in means.items()}))


def main() -> None:
    parser = argparse.ArgumentParser(description="Batches of a store through Python, beside plain copies.")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--rank-of", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.rank_of:
        rank_main(given.rank_of, given.seconds, given.turns)
        return
    with tempfile.TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as folder:
        shared = Path(folder) / "shared"
        with shared.open("wb") as file:
            file.truncate(SHARD * given.ranks)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        command = [sys.executable, __file__, "--rank-of", str(shared), "--seconds", str(given.seconds), "--turns", str(given.turns)]
        world = {"WORLD_SIZE": str(given.ranks), "LOCAL_WORLD_SIZE": str(given.ranks), "MASTER_PORT": str(port)}
        place = {**os.environ, "MASTER_ADDR": "127.0.0.1", "OMP_NUM_THREADS": "1", **world}
        ranks = [
            subprocess.Popen(command, env={**place, "RANK": str(rank)}, stdout=subprocess.PIPE, text=True)
            for rank in range(given.ranks)
        ]
        outs = [one.communicate()[0] for one in ranks]
        if any(one.returncode for one in ranks):
            raise SystemExit("a rank failed")
    figures = json.loads(outs[0])
    ratios = {name: figures["copies"] / figures[name] for name in ("get_batch", "loader")}
    if given.json:
        print(json.dumps({"us": figures, "of_copies": ratios, "wanted": BOUND}))
        return
    for name, ratio in ratios.items():
        verdict = "reached" if ratio >= BOUND else "missed"
        print(f"batch of {BATCH} x 8 KiB through Python, us: {name:<10} {figures[name]:8.1f}, copies {figures['copies']:8.1f}   "
              f"{ratio:5.2f} of {BOUND} {verdict}")  # fmt: skip


if __name__ == "__main__":
    main()
