#!/usr/bin/env python3
"""Makes the fuzzer's first files: `make_seeds.py [DIR]`, one small HDF5 file per structure the reader knows.

The corpus in `corpus/hdf5` is these files and what fuzzing found beyond them, kept small by `cargo fuzz cmin`.
Those of Silo go to `corpus/silo`, where libsilo is installed.
"""

import pathlib
import shutil
import subprocess
import sys
import tempfile

import h5py
import hdf5plugin
import numpy as np

folder = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parent / "corpus" / "hdf5")
folder.mkdir(parents=True, exist_ok=True)
small = np.arange(12, dtype="<i4").reshape(3, 4)


def seed(name, libver="latest", **options):
    """A decorator: writes a file called `name` by the function below it."""

    def write(function):
        path = folder / f"seed_{name}"
        with h5py.File(path, "w", libver=libver, **options) as file:
            function(file)

    return write


for bounds in ("earliest", "latest"):
    seed(f"plain_{bounds}", bounds)(lambda f: f.create_dataset("x", data=small))
    seed(f"btree_{bounds}", bounds)(lambda f: f.create_dataset("x", data=small, chunks=(2, 2), compression="gzip", shuffle=True))
    seed(f"text_{bounds}", bounds)(lambda f: f.create_dataset("x", data=["a", "bcd"], dtype=h5py.string_dtype()))
    seed(f"ragged_{bounds}", bounds)(lambda f: f.create_dataset("x", (2,), dtype=h5py.vlen_dtype("<f4")).__setitem__(0, [1, 2]))
    seed(f"groups_{bounds}", bounds)(lambda f: [f.create_group(f"g{i}/h") for i in range(3)])
    seed(f"links_{bounds}", bounds)(lambda f: f.update({"a": small[0], "s": h5py.SoftLink("/a"), "e": h5py.ExternalLink("o.h5", "/a")}))
    seed(f"compound_{bounds}", bounds)(lambda f: f.create_dataset("x", data=np.zeros(2, [("a", "<i2"), ("b", ">f8", (2,)), ("c", "S3")])))
    seed(f"attributes_{bounds}", bounds)(lambda f: f.attrs.update({"a": 1, "b": "text", "c": [1.0, 2.0]}))

seed("fixed")(lambda f: f.create_dataset("x", data=small, chunks=(2, 2)))
seed("fixed_wider")(lambda f: f.create_dataset("x", data=small, chunks=(1, 2), maxshape=(5, 8), fletcher32=True))
seed("extensible")(lambda f: f.create_dataset("x", data=np.arange(40, dtype="u1"), chunks=(1,), maxshape=(None,)))
seed("extensible_second")(lambda f: f.create_dataset("x", data=small, chunks=(2, 1), maxshape=(3, None), compression="lzf"))
seed("tree2")(lambda f: f.create_dataset("x", data=small, chunks=(2, 2), maxshape=(None, None)))
seed("single")(lambda f: f.create_dataset("x", data=small, chunks=(3, 4), compression="gzip"))
seed("paged")(lambda f: f.create_dataset("x", data=np.zeros(1100, "u1"), chunks=(1,)))
seed("scaleoffset")(lambda f: f.create_dataset("x", data=small, chunks=(3, 4), scaleoffset=0))
seed("szip")(lambda f: f.create_dataset("x", data=small, chunks=(3, 4), compression="szip"))
seed("userblock", userblock_size=512)(lambda f: f.create_dataset("x", data=small))
seed("enum")(lambda f: f.create_dataset("x", data=np.array([True, False])))
seed("dense_attributes")(lambda f: [f.attrs.__setitem__(f"a{i}", i) for i in range(10)])
seed("dense_links")(lambda f: [f.create_group(f"g{i}") for i in range(10)])
for name, codec in {
    "zstd": hdf5plugin.Zstd(), "lz4": hdf5plugin.LZ4(), "blosc": hdf5plugin.Blosc(), "blosc2": hdf5plugin.Blosc2(),
    "bitshuffle": hdf5plugin.Bitshuffle(), "bzip2": hdf5plugin.BZip2(), "zfp": hdf5plugin.Zfp(reversible=True),
}.items():
    seed(name)(lambda f, codec=codec: f.create_dataset("x", data=np.arange(64, dtype="<i4"), chunks=(32,), **codec))


@seed("virtual")
def _(file):
    file["source"] = small
    layout = h5py.VirtualLayout((6, 4), "<i4")
    layout[::2] = h5py.VirtualSource(".", "source", (3, 4))
    file.create_virtual_dataset("x", layout, fillvalue=7)


@seed("external")
def _(file):
    file.create_dataset("x", (4,), "<i4", external=[("raw.bin", 0, 16)])


def silo_seeds(to):
    """Files as libsilo writes them, by the program of the tests."""
    writer = pathlib.Path(__file__).parents[1] / "tests/python/formats/silo_writer.c"
    to.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as made:
        made = pathlib.Path(made)
        program = made / "silo_writer"
        subprocess.run(["cc", "-w", "-o", program, writer, "-lsiloh5", "-l:libstdc++.so.6"], check=True)
        for driver in ("pdb", "sun", "cray", "hdf5", "gzip"):
            (made / driver).mkdir()
            subprocess.run([program, driver, made / driver], check=True)
            part = next((made / driver).glob("*_part0.silo"))
            shutil.copy(part, to / f"seed_{driver}")
        for name, file in {"cells": "cells", "materials": "materials", "blocks": "multi"}.items():
            shutil.copy(made / "pdb" / f"{file}.silo", to / f"seed_pdb_{name}")


if pathlib.Path("/usr/include/silo.h").exists():
    silo_seeds(folder.parent / "silo")
