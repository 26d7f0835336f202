"""The sets of the papers at the size of one machine, made once and kept in the cache folder.

Stimulus: 32 K samples of 8 KiB, side by side, in each of its five formats; 128 KiB are 16 of them. CosmoFlow-like HDF5 files of
one sample each. MONARCH: TFRecord files of pictures' size.
"""

import json
import pathlib
import subprocess
import sys
import time

import numpy as np

HERE = pathlib.Path(__file__).parent
for other in ("formats", "tiers"):
    sys.path.append(str(HERE.parent / other))

import make_set  # noqa: E402  of the benchmark of tiers
import sets as format_sets  # noqa: E402  of the benchmark of formats

#: Raised when a set is made in another way: older ones are made again.
VERSION = "1"
ROW_BYTES = 4 * format_sets.ROW
COSMOFLOW_SHAPE = (128, 128, 128, 4)


def folder(name):
    path = make_set.cache() / "bench" / f"papers-{VERSION}" / name
    path.mkdir(parents=True, exist_ok=True)
    return path


def make_once(path, make):
    """Makes what lies at `path` unless it is there; it is whole or absent."""
    done = path.with_name(f".{path.name}.made")
    if not done.exists():
        make(path)
        done.touch()
        # Files that changed a moment ago are not copied to tiers.
        time.sleep(3)
    return path


def rows_of(rows):
    for start, end in format_sets.slabs(rows):
        yield start, end, format_sets.slab(start, end)


def _hdf5(path, rows):
    import h5py

    with h5py.File(path, "w") as file:
        x = file.create_dataset("x", (rows, format_sets.ROW), "<f4")
        for start, end, values in rows_of(rows):
            x[start:end] = values


def _netcdf(path, rows, kind):
    """PnetCDF's format is CDF-5; what we take GNCF to be, gridded NetCDF with CF conventions, comes as NetCDF-4."""
    import netCDF4

    with netCDF4.Dataset(path, "w", format=kind) as file:
        file.createDimension("sample", rows)
        file.createDimension("feature", format_sets.ROW)
        file.set_fill_off()
        x = file.createVariable("x", "f4", ("sample", "feature"))
        if kind == "NETCDF4":
            file.Conventions = "CF-1.8"
            x.standard_name, x.units = "air_temperature", "K"
            file.createVariable("sample", "i4", ("sample",))[:] = np.arange(rows)
        for start, end, values in rows_of(rows):
            x[start:end] = values


def stimulus(rows):
    """Path of each format's file, under the name of its front; `raw` has the same bytes and nothing else."""
    place = folder(f"stimulus-{rows}")

    def of_formats(name):
        return lambda path: format_sets.MAKERS[name](format_sets.Set(name, path, rows, "x"))

    makers = {
        "raw": ("raw.bin", of_formats("raw")),
        "HDF5": ("rows.h5", lambda path: _hdf5(path, rows)),
        "ADIOS2": ("rows.bp", of_formats("bp4")),
        "Silo": ("rows.silo", of_formats("silo")),
        "NetCDF": ("rows.nc", lambda path: _netcdf(path, rows, "NETCDF3_64BIT_DATA")),
        "GNCF": ("gridded.nc", lambda path: _netcdf(path, rows, "NETCDF4")),
    }
    return {name: make_once(place / file, make) for name, (file, make) in makers.items()}


def cosmoflow(files):
    """HDF5 files of one sample of 128 x 128 x 128 x 4 numbers of 2 bytes, 16 MiB each, with four labels."""
    import h5py

    def make(place):
        place.mkdir(exist_ok=True)
        for number in range(files):
            random = np.random.default_rng([7, number])
            with h5py.File(place / f"univ_{number:03}.h5", "w") as file:
                file["x"] = random.integers(0, 400, (1, *COSMOFLOW_SHAPE), "<u2")
                file["y"] = random.random((1, 4), "<f4")

    return make_once(folder("cosmoflow") / f"set-{files}", make)


def monarch(forebay, files, records, record_bytes):
    """TFRecord files, by `forebay bench`."""

    def make(place):
        place.mkdir(exist_ok=True)
        config = place / "workload.yaml"
        dataset = {"data_folder": str(place), "format": "tfrecord", "num_files_train": files, "num_files_eval": 0,
                   "num_samples_per_file": records, "record_length_bytes": record_bytes}
        sections = {"framework": "tensorflow", "workflow": {"generate_data": True, "train": False}, "dataset": dataset,
                    "output": {"folder": str(place / "output")}}
        config.write_text(json.dumps(sections))
        subprocess.run([forebay, "bench", config], check=True, stdout=subprocess.DEVNULL)

    return make_once(folder("monarch") / f"set-{files}x{records}x{record_bytes}", make) / "train"
