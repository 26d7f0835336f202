"""A program that reads a data set with h5py in shuffled blocks, again and again, and knows nothing of forebay.

Prints one line of JSON: seconds of each epoch, and how many values were wrong.
"""

import argparse
import json
import os
import time

import h5py
import numpy as np

MIB = 1 << 20
KINDS = {"contiguous": {}, "chunked": {"chunks": True}, "gzip": {"chunks": True, "compression": "gzip", "compression_opts": 1}}


def values(start, count):
    """The values of samples `start` and on, 64 KiB each."""
    numbers = np.arange(start * 16384, (start + count) * 16384, dtype=np.uint64)
    return (numbers % 65521).astype(np.float32).reshape(count, 128, 128)


def make(args):
    options = dict(KINDS[args.kind])
    if options:
        options["chunks"] = (16, 128, 128)
    count = args.mib * 16
    with h5py.File(args.file, "w") as file:
        made = file.create_dataset("x", shape=(count, 128, 128), dtype="f4", **options)
        for start in range(0, count, 256):
            made[start : start + 256] = values(start, min(256, count - start))
    return {"bytes": os.path.getsize(args.file)}


def read(args):
    random, seconds, wrong = np.random.default_rng(7), [], 0
    opened = time.perf_counter()
    with h5py.File(args.file) as file:
        data = file["x"]
        starts = np.arange(0, len(data), args.block)
        into = np.empty((args.block, *data.shape[1:]), data.dtype)
        opened = time.perf_counter() - opened
        for epoch in range(args.epochs):
            random.shuffle(starts)
            began, checking = time.perf_counter(), 0.0
            for start in starts:
                data.read_direct(into, np.s_[start : start + args.block])
                pause = time.perf_counter()
                # All of the first and the last epoch is compared, and a value of each block in between.
                if epoch in (0, args.epochs - 1):
                    wrong += int((into != values(start, args.block)).sum())
                else:
                    wrong += int((into[0, 0, :8] != values(start, 1)[0, 0, :8]).sum())
                checking += time.perf_counter() - pause
            seconds.append(time.perf_counter() - began - checking)
    seconds[0] += opened
    return {"epochs_s": seconds, "wrong": wrong}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file")
    parser.add_argument("--make", action="store_true", help="write the file instead")
    parser.add_argument("--kind", choices=KINDS, default="contiguous")
    parser.add_argument("--mib", type=int, default=128)
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--block", type=int, default=16, help="samples of 64 KiB that are read at once")
    args = parser.parse_args()
    print(json.dumps(make(args) if args.make else read(args)))


if __name__ == "__main__":
    main()
