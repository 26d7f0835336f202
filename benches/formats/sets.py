"""The sets of the formats benchmark: one table of rows in each format, and one of images in Zarr chunks of four sizes."""

from __future__ import annotations

import dataclasses
import pathlib
import shutil
import subprocess
import sys

import numpy as np

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "loader"))

# Raised when a set is made in another way: older ones are made again.
VERSION = "1"
ROW = 2048
SLAB = 4096
SAMPLES_PER_CHUNK = (1, 4, 16, 32)


@dataclasses.dataclass(frozen=True)
class Set:
    """One table of samples in one format."""

    name: str
    path: pathlib.Path
    sample_count: int
    field: str
    batch: int = 64
    epochs: int = 2
    samples_per_chunk: int | None = None


def sets(folder, scale):
    """All sets, smaller or larger by `scale`."""
    folder = pathlib.Path(folder) / f"formats-{scale:g}"
    rows = max(round(131072 * scale / SLAB), 1) * SLAB
    images = max(round(16384 * scale / 256), 1) * 256
    found = [
        Set("raw", folder / "raw.bin", rows, ""),
        Set("netcdf", folder / "rows.nc", rows, "x"),
        Set("bp4", folder / "rows.bp", rows, "x"),
        Set("silo", folder / "rows.silo", rows, "x"),
        Set("zarr", folder / "rows.zarr", rows, "x"),
    ]
    found += [
        Set(f"zarr-{count}", folder / f"images-{count}.zarr", images, ".", epochs=1, samples_per_chunk=count)
        for count in SAMPLES_PER_CHUNK
    ]
    return found


def slab(start, end):
    """Rows `start` to `end` of the table: the same whoever asks."""
    return np.random.default_rng(start).random((end - start, ROW), "<f4")


def slabs(count):
    return [(start, min(start + SLAB, count)) for start in range(0, count, SLAB)]


def _make_raw(one):
    with open(one.path, "wb") as file:
        for start, end in slabs(one.sample_count):
            file.write(slab(start, end).tobytes())


def _make_netcdf(one):
    """Two record variables, so that records are interleaved, as models write them."""
    import netCDF4

    with netCDF4.Dataset(one.path, "w", format="NETCDF3_64BIT_DATA") as file:
        file.createDimension("sample", None)
        file.createDimension("feature", ROW)
        file.set_fill_off()
        x = file.createVariable("x", "f4", ("sample", "feature"))
        label = file.createVariable("label", "i8", ("sample",))
        for start, end in slabs(one.sample_count):
            x[start:end] = slab(start, end)
            label[start:end] = np.arange(start, end)


def _make_bp4(one):
    import adios2

    with adios2.Stream(str(one.path), "w") as _:
        pass
    shutil.rmtree(one.path, ignore_errors=True)
    adios = adios2.Adios()
    io = adios.declare_io("rows")
    io.set_engine("BP4")
    with adios2.Stream(io, str(one.path), "w") as stream:
        stream.begin_step()
        for start, end in slabs(one.sample_count):
            stream.write("x", slab(start, end), [one.sample_count, ROW], [start, 0], [end - start, ROW])
        stream.end_step()


def _make_silo(one):
    program = one.path.with_suffix(".writer")
    raw = one.path.with_name("raw.bin")
    subprocess.run(["cc", "-O2", HERE / "silo_rows.c", "-o", program, "-lsiloh5", "-l:libstdc++.so.6"], check=True)
    subprocess.run([program, raw, one.path, str(one.sample_count), str(ROW)], check=True)
    program.unlink()


def _make_zarr(one):
    import zarr

    group = zarr.open_group(one.path, mode="w", zarr_format=3)
    x = group.create_array("x", shape=(one.sample_count, ROW), chunks=(64, ROW), dtype="f4", compressors=None)
    for start, end in slabs(one.sample_count):
        x[start:end] = slab(start, end)


def open_images(one, cache_len=0, **how):
    """The images of a set by tensorstore; shuffle and deflate come as one codec, the only such pair it reads."""
    import tensorstore

    blosc = {"cname": "zlib", "clevel": 4, "shuffle": "shuffle", "typesize": 4}
    metadata = {
        "shape": [one.sample_count, 64, 64],
        "data_type": "float32",
        "chunk_grid": {
            "name": "regular",
            "configuration": {"chunk_shape": [one.samples_per_chunk, 64, 64]},
        },
        "codecs": [
            {"name": "bytes", "configuration": {"endian": "little"}},
            {"name": "blosc", "configuration": blosc},
        ],
    }
    spec = {"driver": "zarr3", "kvstore": {"driver": "file", "path": f"{one.path}/"}, "metadata": metadata}
    context = tensorstore.Context({"cache_pool": {"total_bytes_limit": cache_len}})
    return tensorstore.open(spec, context=context, **how).result()


def _make_images(one):
    from make_sets import smooth

    shape = dataclasses.make_dataclass("Shape", ["sample_shape"])((64, 64))
    store = open_images(one, create=True, delete_existing=True)
    random = np.random.default_rng(0)
    for start in range(0, one.sample_count, 256):
        store[start:start + 256].write(smooth(shape, start, start + 256, random)).result()


MAKERS = {"raw": _make_raw, "netcdf": _make_netcdf, "bp4": _make_bp4, "silo": _make_silo, "zarr": _make_zarr}


def make(one):
    """Makes the files of a set, unless they are there."""
    made = one.path.with_name(one.path.name + f".made-{VERSION}")
    if made.exists():
        return
    one.path.parent.mkdir(parents=True, exist_ok=True)
    if one.path.is_dir():
        shutil.rmtree(one.path)
    else:
        one.path.unlink(missing_ok=True)
    MAKERS.get(one.name, _make_images)(one)
    made.touch()
