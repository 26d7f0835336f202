"""A program of the demo: trains for a while, and writes what it has learnt to an HDF5 file. It knows nothing of forebay."""

import json
import sys
import time

import h5py
import numpy as np

ROUNDS, COUNT, COMPUTE_S = 4, 6 << 20, 0.6


def weights(number):
    return np.float32(number) + np.arange(COUNT, dtype=np.float32) % 1021


def train(path):
    in_write, began = 0.0, time.perf_counter()
    with h5py.File(path, "w") as file:
        for number in range(ROUNDS):
            learnt = weights(number)
            time.sleep(COMPUTE_S)
            start = time.perf_counter()
            file[f"step{number}"] = learnt
            in_write += time.perf_counter() - start
    return {"waited_s": in_write, "total_s": time.perf_counter() - began}


def check(path):
    with h5py.File(path) as file:
        wrong = [int((file[f"step{number}"][:] != weights(number)).sum()) for number in range(ROUNDS)]
    return {"values": ROUNDS * COUNT, "wrong": sum(wrong)}


print(json.dumps(check(sys.argv[2]) if sys.argv[1] == "check" else train(sys.argv[1])))
