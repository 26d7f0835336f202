"""The h5py side of the HDF5 benchmark: makes the files, then answers jobs with the seconds they took.

    peer.py make DIR      files that are not there yet
    peer.py serve DIR     one job per line of standard input, one number per line of standard output
"""

import pathlib
import sys
import time

import h5py
import numpy as np

ROW_COUNT, ROW_LEN = 32768, 8192
SAMPLE_COUNT, SIDE, PER_CHUNK = 4096, 64, 16
CHUNK_COUNT = 100_000


def whole(path, write, libver="latest"):
    """Writes a file under a temporary name first, so that one that is there is whole."""
    if path.exists():
        return
    temporary = path.with_suffix(".part")
    with h5py.File(temporary, "w", libver=libver) as file:
        write(file)
    temporary.rename(path)


def rows(file):
    file.create_dataset("x", data=np.random.default_rng(1).integers(0, 256, (ROW_COUNT, ROW_LEN), "u1"))


def samples(file):
    """Smooth fields with noise in the low bits: deflate halves them, as it does real simulation output."""
    random = np.random.default_rng(2)
    x = file.create_dataset("x", (SAMPLE_COUNT, SIDE, SIDE), "<f4", chunks=(PER_CHUNK, SIDE, SIDE), compression="gzip",
                            compression_opts=4, shuffle=True)
    line = np.linspace(0, 6, SIDE, dtype="<f4")
    for start in range(0, SAMPLE_COUNT, PER_CHUNK):
        phase = random.random((PER_CHUNK, 1, 1), "<f4") * 6
        field = np.sin(line[:, None] + phase) * np.cos(line[None, :] * 2 + phase)
        x[start:start + PER_CHUNK] = field + random.random(field.shape, "<f4") * 1e-3


def chunks(maxshape):
    def write(file):
        x = file.create_dataset("x", (CHUNK_COUNT, 4), "<i4", chunks=(1, 4), maxshape=maxshape)
        x[...] = np.arange(CHUNK_COUNT * 4, dtype="<i4").reshape(-1, 4)

    return write


def variables(file):
    random = np.random.default_rng(4)
    for number in range(20):
        data = (random.random((256, SIDE, SIDE)) * 1000).astype("<i4")
        file.create_dataset(f"x{number}", data=data, chunks=(4, SIDE, SIDE), compression="gzip", shuffle=True)


def make(folder):
    folder.mkdir(parents=True, exist_ok=True)
    whole(folder / "rows.h5", rows)
    whole(folder / "samples.h5", samples)
    whole(folder / "variables.h5", variables)
    whole(folder / "tree1.h5", chunks((CHUNK_COUNT, 4)), "earliest")
    whole(folder / "fixed.h5", chunks((CHUNK_COUNT, 4)))
    whole(folder / "extensible.h5", chunks((None, 4)))
    whole(folder / "tree2.h5", chunks((None, None)))


def serve(folder):
    rows_file = h5py.File(folder / "rows.h5")
    samples_file = h5py.File(folder / "samples.h5", rdcc_nbytes=0)
    x, z = rows_file["x"], samples_file["x"]
    out = np.empty(z.shape, z.dtype)
    row = np.empty(ROW_LEN, "u1")
    for line in sys.stdin:
        job, *numbers = line.split()
        start = time.perf_counter()
        if job == "rows":
            for index in np.random.default_rng(3).integers(0, ROW_COUNT, int(numbers[0])):
                x.read_direct(row, np.s_[index])
        elif job == "samples":
            z.read_direct(out)
        elif job == "table":
            with h5py.File(folder / numbers[0]) as file:
                found = []
                file["x"].id.chunk_iter(found.append)
        print(time.perf_counter() - start, flush=True)


if __name__ == "__main__":
    {"make": make, "serve": serve}[sys.argv[1]](pathlib.Path(sys.argv[2]))
