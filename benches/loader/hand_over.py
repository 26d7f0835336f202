"""How long the consumer is inside ``next`` while finished batches wait for it: what a batch costs on the way to Python.

    python benches/loader/hand_over.py [--count 100000] [--json out.json]

Two dense fields, or one whose samples differ in length and a label; tensors and arrays. Before each call the program waits until
the batch is there for certain; only the call itself is measured. The median counts: a thread of the loader that wakes takes the
processor for a moment.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import h5py
import numpy as np

import forebay
import forebay.torch

ROWS, BATCH = 4096, 32


def make_sets(folder: Path) -> dict[str, forebay.Dataset]:
    dense, ragged = folder / "dense.h5", folder / "ragged.h5"
    offsets = np.concatenate([[0], np.cumsum(np.arange(ROWS) % 9 + 1)])
    with h5py.File(dense, "w") as file:
        file["x"], file["label"] = np.zeros((ROWS, 64), "f4"), np.arange(ROWS)
    with h5py.File(ragged, "w") as file:
        file["x"], file["label"], file["ptr"] = np.zeros((offsets[-1], 3), "f4"), np.arange(ROWS), offsets
    by_offsets = forebay.Ragged(offsets={"x": "ptr"})
    return {
        "dense": forebay.open(dense, ["x", "label"]),
        "ragged": forebay.open(ragged, ["x", "label"], samples=by_offsets),
    }


def hand_over(loader: Any, count: int) -> dict[str, float]:
    """Microseconds inside ``next`` over ``count`` batches, each of which was finished before."""
    clock = time.perf_counter_ns
    batches = loader.steps(count + 100)
    for _ in range(100):
        next(batches)
    took = []
    for _ in range(count):
        pause = clock() + 60_000
        while clock() < pause:
            pass
        began = clock()
        batch = next(batches)
        took.append(clock() - began)
        del batch
    took.sort()
    return {"median_us": statistics.median(took) / 1000, "p90_us": took[len(took) * 9 // 10] / 1000}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=100_000, help="batches that are timed")
    parser.add_argument("--json", type=Path, help="write the results there")
    args = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for kind, ds in make_sets(Path(folder)).items():
            for what, loader_of in (("tensors", forebay.torch.Loader), ("arrays", forebay.Loader)):
                loader = loader_of(ds, batch_size=BATCH, shuffle="full", read_threads=1, prefetch=8)
                row = {"batch": kind, "of": what, **hand_over(loader, args.count)}
                loader.close()
                rows.append(row)
                print(f"{kind:7} {what:8} {row['median_us']:6.2f} us (nine of ten below {row['p90_us']:.2f})", flush=True)
    if args.json:
        args.json.write_text(json.dumps(rows, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
