#!/usr/bin/env python3
"""Makes the fuzzer's first files: `make_seeds.py [DIR]`, one small file per structure the readers know.

The corpus in `corpus` is these files and, in the archives beside them (`pack_corpus.sh`), what fuzzing found beyond them, kept
small by `cargo fuzz cmin`. `DIR` stands for `corpus/hdf5`; the files of other formats are beside it, in directories named by their
fuzz targets.
Those of Silo are made where libsilo is installed; those of ADIOS have a program of their own, `make_adios_seeds.py`.
"""

import pathlib
import shutil
import subprocess
import sys
import tempfile

import h5py
import hdf5plugin
import numcodecs
import netCDF4
import numpy as np
import zarr

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


# Zarr stores, as the fuzz target takes them apart: the number of a key, the length as two bytes, the file.
ZARR_KEYS = ["zarr.json", ".zarray", ".zgroup", ".zattrs", ".zmetadata", "c/0", "c/0/0", "0", "0.0", "a/zarr.json", "a/.zarray", "a/0"]
zarr_folder = folder.parent / "zarr"
zarr_folder.mkdir(parents=True, exist_ok=True)


def zarr_seed(name, make):
    """Writes the store that `make` makes in a folder as one file called `name`."""
    with tempfile.TemporaryDirectory() as store:
        make(store)
        files = [(key, pathlib.Path(store, key)) for key in ZARR_KEYS]
        parts = [bytes([ZARR_KEYS.index(key)]) + len(file := path.read_bytes()).to_bytes(2, "little") + file for key, path in files if path.is_file()]
        (zarr_folder / f"seed_{name}").write_bytes(b"".join(parts))


def zarr_array(**options):
    def make(store):
        options.setdefault("dtype", "<i4")
        array = zarr.create_array(store, shape=(3, 4), **options)
        array[...] = np.arange(12).reshape(3, 4).astype(array.dtype)

    return make


def zarr_group(version):
    def make(store):
        root = zarr.open_group(store, mode="w", zarr_format=version)
        root.create_array("a", shape=(2,), dtype="|u1", chunks=(2,), compressors=None)[...] = 1
        zarr.consolidate_metadata(store)

    return make


for version in (2, 3):
    zarr_seed(f"plain{version}", zarr_array(chunks=(3, 4), zarr_format=version, compressors=None))
    zarr_seed(f"zstd{version}", zarr_array(chunks=(2, 4), zarr_format=version))
    zarr_seed(f"group{version}", zarr_group(version))
    zarr_seed(f"text{version}", zarr_array(chunks=(3, 4), zarr_format=version, dtype="string", compressors=None))
zarr_seed("shards", zarr_array(chunks=(1, 2), shards=(3, 4), compressors=None))
zarr_seed("filters", zarr_array(chunks=(3, 4), zarr_format=2, order="F", filters=[numcodecs.Delta("<i4")], compressors=numcodecs.Blosc()))
def classic(name, flavour, *variables):
    """A classic NetCDF file: each variable is a name, a type and the names of its axes."""
    beside = folder.parent / "netcdf3"
    beside.mkdir(parents=True, exist_ok=True)
    with netCDF4.Dataset(beside / f"seed_{name}", "w", format=flavour) as file:
        file.title = "seed"
        file.createDimension("t", None)
        file.createDimension("x", 3)
        for variable, kind, axes in variables:
            made = file.createVariable(variable, kind, axes, fill_value=False)
            made.units = "1"
            made[...] = np.arange(2 * 3).astype(kind)[: 6 if len(axes) == 2 else 2 if "t" in axes else 3].reshape(
                [2 if axis == "t" else 3 for axis in axes]
            )
CDF = {"cdf1": "NETCDF3_CLASSIC", "cdf2": "NETCDF3_64BIT_OFFSET", "cdf5": "NETCDF3_64BIT_DATA"}
for short, flavour in CDF.items():
    classic(f"{short}_fixed", flavour, ("a", "i2", ("x",)), ("b", "f8", ("x",)))
    classic(f"{short}_records", flavour, ("a", "i1", ("t", "x")), ("b", "f4", ("t",)), ("c", "i4", ("x",)))
    classic(f"{short}_only_record", flavour, ("a", "i2", ("t", "x")))
def silo_seeds(to):
    """Files as libsilo writes them, by the program of the tests."""
    writer = pathlib.Path(__file__).parents[1] / "python/tests/formats/silo_writer.c"
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
