"""A program that writes checkpoints with h5py, and knows nothing of forebay: rounds of values, compute in between.

Prints one line of JSON: seconds in H5Dwrite, in H5Fclose, and from the open to the end of the close without the compute.
"""

import argparse
import json
import time

import h5py
import numpy as np

MIB = 1 << 20


def values(round_number, count):
    """What a round writes: the same wherever it is asked for, and another in each round."""
    start = np.float32(round_number * 1000)
    return start + (np.arange(count, dtype=np.uint32) % 9973).astype(np.float32)


def write(args):
    count = args.mib * MIB // args.rounds // 4
    # Made before the clock runs: the model has its values already.
    rounds = [values(number, count) for number in range(args.rounds)]
    in_write, computed = [], 0.0
    began = time.perf_counter()
    with h5py.File(args.file, "w") as file:
        for number, data in enumerate(rounds):
            if number:
                start = time.perf_counter()
                time.sleep(args.compute_s)
                computed += time.perf_counter() - start
            target = file.create_dataset(f"round{number}", shape=data.shape, dtype=data.dtype)
            start = time.perf_counter()
            target.id.write(h5py.h5s.ALL, h5py.h5s.ALL, data)
            in_write.append(time.perf_counter() - start)
            # The buffer is the program's again as soon as the call returns.
            data[:] = -1
        start = time.perf_counter()
    ended = time.perf_counter()
    return {"write_s": sum(in_write), "writes_s": in_write, "close_s": ended - start,
            "durable_s": ended - began - computed, "total_s": ended - began}


def small_writes(args):
    """`rows` writes of 4 KiB, each of which HDF5 hands to its driver as it comes: a chunk each, and no chunk cache."""
    rows = values(1, args.rows * 1024).reshape(args.rows, 1024)
    began = time.perf_counter()
    with h5py.File(args.file, "w", rdcc_nbytes=0) as file:
        target = file.create_dataset("rows", shape=rows.shape, dtype=rows.dtype, chunks=(1, 1024))
        start = time.perf_counter()
        for number in range(args.rows):
            target[number] = rows[number]
        wrote = time.perf_counter()
    ended = time.perf_counter()
    return {"write_s": wrote - start, "close_s": ended - wrote, "durable_s": ended - began}


def check(args):
    """The number of values that are not those written."""
    wrong = 0
    with h5py.File(args.file) as file:
        if args.rows:
            return int((file["rows"][:].ravel() != values(1, args.rows * 1024)).sum())
        for number in range(args.rounds):
            found = file[f"round{number}"][:]
            wrong += int((found != values(number, args.mib * MIB // args.rounds // 4)).sum())
    return wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file")
    parser.add_argument("--mib", type=int, default=128, help="MiB of all rounds together")
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--compute-s", type=float, default=1.0, help="seconds between two rounds")
    parser.add_argument("--rows", type=int, default=0, help="write this many rows of 4 KiB instead")
    parser.add_argument("--check", action="store_true", help="only compare what is in the file")
    args = parser.parse_args()
    if args.check:
        print(json.dumps({"wrong": check(args)}))
        return
    print(json.dumps(small_writes(args) if args.rows else write(args)))


if __name__ == "__main__":
    main()
