#!/usr/bin/env python3
"""Tries the installed package: try_wheel.py make FILE | load FILE

`make` writes a small HDF5 file with h5py. `load`, in an environment of nothing but NumPy and forebay, reads every sample of
it and looks at what came with the package.
"""

import importlib.metadata
import importlib.util
import platform
import sys

import numpy as np

VALUES = np.arange(1200).reshape(100, 12)


def make(path):
    import h5py

    with h5py.File(path, "w") as file:
        file.create_dataset("x", data=VALUES, chunks=(7, 12), compression="gzip", shuffle=True)


def load(path):
    import forebay

    for absent in ("torch", "h5py", "ml_dtypes"):
        assert importlib.util.find_spec(absent) is None, f"{absent} is there, so nothing is shown"
    loader = forebay.open(path, ["x"]).loader(batch_size=10, shuffle="full")
    for batch in loader:
        assert (batch["x"] == VALUES[batch.indices]).all()
    assert loader.stats()["samples"] == 100, loader.stats()
    try:
        forebay.torch
    except ModuleNotFoundError as error:
        assert error.name == "torch"
    wheel = importlib.metadata.distribution("forebay")
    names = {file.name for file in wheel.files}
    assert {"LICENSE-MIT", "LICENSE-APACHE", "THIRD-PARTY.txt", "_forebay.pyi", "py.typed"} <= names, names
    if sys.platform == "linux":
        assert {"libforebay_vfd.so", "libforebay_vol.so", "libforebay_preload.so"} <= names, names
    assert [need.split()[0].split(">")[0] for need in wheel.requires if "extra" not in need] == ["numpy"]
    libc = " ".join(platform.libc_ver())
    print(f"forebay {forebay.__version__}: {loader.stats()['samples']} samples, NumPy {np.__version__} alone, {libc}")


if __name__ == "__main__":
    {"make": make, "load": load}[sys.argv[1]](sys.argv[2])
