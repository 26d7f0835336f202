"""What one read of a small variable costs in an open file of 12,000 variables: forebay.File beside h5py.

    python benches/file_calls.py [--variables 12000] [--rounds 5]
"""

import argparse
import random
import tempfile
import time
from pathlib import Path

import h5py
import numpy as np

import forebay


def make(path, count):
    with h5py.File(path, "w", libver="latest") as file:
        for number in range(count):
            file.create_dataset(f"group_{number % 40}/v{number}", data=np.full(16, number, "f4"))


def microseconds(file, names):
    began = time.perf_counter()
    for name in names:
        file[name][...]
    return (time.perf_counter() - began) / len(names) * 1e6


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--variables", type=int, default=12_000)
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "many.h5")
        make(path, args.variables)
        names = [f"group_{number % 40}/v{number}" for number in range(args.variables)]
        random.Random(0).shuffle(names)
        ours, theirs = [], []
        for _ in range(args.rounds):
            with forebay.File(path) as file:
                ours.append(microseconds(file, names))
            with h5py.File(path) as file:
                theirs.append(microseconds(file, names))
        print(f"{args.variables} variables, a read of each in random order, best of {args.rounds}: "
              f"forebay.File {min(ours):.1f} us, h5py {min(theirs):.1f} us, ratio {min(theirs) / min(ours):.2f}")


if __name__ == "__main__":
    main()
