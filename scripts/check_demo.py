#!/usr/bin/env python3
"""Holds every value forebay reads against h5py's: check_demo.py FOREBAY FOLDER

Prints a table of SHA-256 sums and the time both take to read all values; exit code 1 where a sum differs.
"""

import glob
import hashlib
import os
import subprocess
import sys
import time

import h5py
import numpy as np


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


def sum_of_forebay(forebay, path, name):
    done = subprocess.run([forebay, "dump", path, name, "--sha256"], stdout=subprocess.PIPE, text=True, check=False)
    return done.stdout.split()[0] if done.returncode == 0 and done.stdout else "refused"


def time_of_h5py(work):
    started = time.perf_counter()
    for path, name in work:
        sum_of_h5py(path, name)
    return time.perf_counter() - started


def time_of_forebay(forebay, work):
    started = time.perf_counter()
    for path in sorted({path for path, _ in work}):
        subprocess.run([forebay, "dump", path, "--all", "--sha256"], stdout=subprocess.DEVNULL, check=True)
    return time.perf_counter() - started


def size_of(path, name):
    with h5py.File(path, "r") as file:
        return file[name].nbytes


def main(forebay, folder):
    os.chdir(folder)
    work = [(path, name) for path in sorted(glob.glob("*.h5")) for name in datasets(path)]
    differences = 0
    print(f"{'file':<12} {'variable':<10} {'h5py':<14} {'forebay':<14}")
    for path, name in work:
        theirs, ours = sum_of_h5py(path, name), sum_of_forebay(forebay, path, name)
        differences += theirs != ours
        print(f"{path:<12} {name:<10} {theirs[:12]:<14} {ours[:12]:<14} {'same' if theirs == ours else 'DIFFERENT'}")
    if differences:
        sys.exit(f"{differences} of {len(work)} differ")
    mebibytes = sum(size_of(*item) for item in work) / 2**20
    theirs = min(time_of_h5py(work) for _ in range(3))
    ours = min(time_of_forebay(forebay, work) for _ in range(3))
    print(f"\n{mebibytes:.0f} MiB of values read and summed in {ours:.2f} s by forebay (a process per file, start included),"
          f" {theirs:.2f} s by h5py (start not counted); best of 3, page cache warm")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(os.path.abspath(sys.argv[1]), sys.argv[2])
