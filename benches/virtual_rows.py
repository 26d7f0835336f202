"""What a row of a virtual data set of many sources costs: forebay beside h5py, one row at a time and in batches.

    python benches/virtual_rows.py [--sources 10000] [--rows 200]
"""

import argparse
import tempfile
import time
from pathlib import Path

import h5py
import numpy as np

import forebay


def make(folder, count):
    layout = h5py.VirtualLayout(shape=(count, 64, 64), dtype="u2")
    for number in range(count):
        with h5py.File(folder / f"{number}.h5", "w", libver="latest") as file:
            file["frame"] = np.full((64, 64), number, "u2")
        layout[number] = h5py.VirtualSource(f"{number}.h5", "frame", shape=(64, 64))
    with h5py.File(folder / "all.h5", "w", libver="latest") as file:
        file.create_virtual_dataset("frames", layout)
    return folder / "all.h5"


def per_second(count, work):
    began = time.perf_counter()
    work()
    return count / (time.perf_counter() - began)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sources", type=int, default=10_000)
    parser.add_argument("--rows", type=int, default=200)
    args = parser.parse_args()
    rows = np.random.default_rng(0).choice(args.sources, args.rows, replace=False)
    with tempfile.TemporaryDirectory() as folder:
        path = make(Path(folder), args.sources)
        with forebay.File(path) as file:
            file["frames"][0]
            ours = per_second(args.rows, lambda: [file["frames"][int(row)] for row in rows])
        samples = forebay.open(path, fields=["frames"])
        samples[0]
        batches = per_second(args.rows, lambda: [samples[rows[at:at + 50]] for at in range(0, args.rows, 50)])
        for at in range(0, args.rows, 50):
            assert (samples[rows[at:at + 50]]["frames"][:, 0, 0] == rows[at:at + 50]).all()
        with h5py.File(path) as file:
            file["frames"][0]
            theirs = per_second(args.rows, lambda: [file["frames"][int(row)] for row in rows])
            order = [np.sort(rows[at:at + 50]) for at in range(0, args.rows, 50)]
            their_batches = per_second(args.rows, lambda: [file["frames"][chosen] for chosen in order])
    print(f"{args.sources} sources, rows/s: one at a time forebay.File {ours:.0f}, h5py {theirs:.0f}, {ours / theirs:.1f}x; "
          f"in batches of 50 forebay {batches:.0f}, h5py {their_batches:.0f}, {batches / their_batches:.1f}x")


if __name__ == "__main__":
    main()
