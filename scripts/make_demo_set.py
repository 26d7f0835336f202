#!/usr/bin/env python3
"""Makes a small set of HDF5 files as training sets are made: make_demo_set.py OUT_DIR

train_0.h5, train_1.h5: images in compressed chunks, and their labels; climate.h5: fields on a grid, contiguous.
The same call gives the same values.
"""

import os
import sys

import h5py
import numpy as np

IMAGES, SIDE, CHUNK = 1024, 64, 16


def images(rng, count):
    """Smooth pictures with some noise, which compress about as well as measured ones, and a label for each."""
    axis = np.linspace(0, 2 * np.pi, SIDE, dtype="f4")
    phase = rng.uniform(0, 6, (count, 2)).astype("f4")
    wave = np.sin(axis[None, :, None] + phase[:, 0, None, None]) * np.cos(axis[None, None, :] + phase[:, 1, None, None])
    noise = rng.normal(0, 0.05, (count, SIDE, SIDE)).astype("f4")
    # Which way the waves lean is what a model can learn.
    return np.round((wave + noise) * 512) / 512, np.cos(phase).prod(axis=1) > 0


def train(path, seed):
    rng = np.random.default_rng(seed)
    with h5py.File(path, "w") as file:
        pictures, lean = images(rng, IMAGES)
        image = file.create_dataset("image", data=pictures, chunks=(CHUNK, SIDE, SIDE),
                                    compression="gzip", compression_opts=4, shuffle=True)
        image.attrs["units"] = "1"
        file.create_dataset("label", data=lean.astype("i8"))


def climate(path):
    rng = np.random.default_rng(7)
    latitude, longitude = np.linspace(90, -90, 181, dtype="f4"), np.arange(0, 360, 1, dtype="f4")
    with h5py.File(path, "w") as file:
        file.create_dataset("lat", data=latitude)
        file.create_dataset("lon", data=longitude)
        warmth = 288 - 40 * np.abs(np.sin(np.radians(latitude)))[None, :, None]
        shape = (48, latitude.size, longitude.size)
        t2m = file.create_dataset("t2m", data=(warmth + rng.normal(0, 2, shape)).astype("f4"))
        t2m.attrs["units"] = "K"
        file.create_dataset("wind/u10", data=rng.normal(0, 8, shape).astype(">f4"))


def main(out):
    os.makedirs(out, exist_ok=True)
    train(os.path.join(out, "train_0.h5"), 0)
    train(os.path.join(out, "train_1.h5"), 1)
    climate(os.path.join(out, "climate.h5"))


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(sys.argv[1])
