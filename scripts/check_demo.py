#!/usr/bin/env python3
"""Holds every value forebay reads against h5py's: check_demo.py COMMAND FOLDER

Prints a table of SHA-256 sums, ours by the command, and the time both libraries take to read all values; exit code 1 where
a sum differs.
"""

import glob
import hashlib
import os
import subprocess
import sys
import time

import h5py
import numpy as np

import forebay


def datasets(path):
    """The names of a file's data sets, sorted."""
    names = []
    with h5py.File(path, "r") as file:
        file.visititems(lambda name, item: names.append(name) if isinstance(item, h5py.Dataset) else None)
    return sorted(names)


def sum_of_h5py(path, name):
    with h5py.File(path, "r") as file:
        values = file[name][...]
    return hashlib.sha256(np.ascontiguousarray(values.astype(values.dtype.newbyteorder("<")))).hexdigest()


def sum_of_forebay(command, path, name):
    done = subprocess.run([command, "dump", path, name, "--sha256"], stdout=subprocess.PIPE, text=True, check=False)
    return done.stdout.split()[0] if done.returncode == 0 and done.stdout else "refused"


def time_of(library, work):
    """Seconds that `library.File`, which h5py and forebay both have, takes for all values."""
    started = time.perf_counter()
    for path, name in work:
        with library.File(path) as file:
            hashlib.sha256(np.ascontiguousarray(file[name][...])).hexdigest()
    return time.perf_counter() - started


def size_of(path, name):
    with h5py.File(path, "r") as file:
        return file[name].nbytes


def main(command, folder):
    os.chdir(folder)
    work = [(path, name) for path in sorted(glob.glob("*.h5")) for name in datasets(path)]
    differences = 0
    print(f"{'file':<12} {'variable':<10} {'h5py':<14} {'forebay':<14}")
    for path, name in work:
        theirs, ours = sum_of_h5py(path, name), sum_of_forebay(command, path, name)
        differences += theirs != ours
        print(f"{path:<12} {name:<10} {theirs[:12]:<14} {ours[:12]:<14} {'same' if theirs == ours else 'DIFFERENT'}")
    if differences:
        sys.exit(f"{differences} of {len(work)} differ")
    mebibytes = sum(size_of(*item) for item in work) / 2**20
    theirs, ours = (min(time_of(library, work) for _ in range(3)) for library in (h5py, forebay))
    print(f"\n{mebibytes:.0f} MiB of values read and summed in {ours:.2f} s through forebay.File, {theirs:.2f} s through h5py.File;"
          " best of 3, page cache warm")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(os.path.abspath(sys.argv[1]), sys.argv[2])
