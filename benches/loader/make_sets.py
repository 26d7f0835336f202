"""Makes the files of the workloads by h5py, and the zarr copy of W3 by tensorstore, unless they are there."""

import importlib.util
import os
import shutil

import h5py
import numpy as np

SLAB = 32 << 20
# Raised when a set is made in another way: older ones are made again.
VERSION = "3"


def _slabs(count, row_len):
    step = max(SLAB // row_len, 1)
    return [(start, min(start + step, count)) for start in range(0, count, step)]


def _values(random, shape):
    return random.random(shape, "<f4")


def _contiguous(workload, path, random):
    count, shape = workload.samples_per_file, workload.sample_shape
    with h5py.File(path, "w") as file:
        x = file.create_dataset("x", (count, *shape), "<f4")
        for start, end in _slabs(count, 4 * int(np.prod(shape))):
            x[start:end] = _values(random, (end - start, *shape))
        if workload.label:
            file[workload.label] = random.integers(0, 1000, count, "<i8")


def _whole(workload, path, random):
    with h5py.File(path, "w") as file:
        file["x"] = _values(random, workload.sample_shape)


def smooth(workload, start, end, random):
    """Smooth fields with noise, rounded to 12 bits below the point, as simulation output is before it is archived."""
    line = np.linspace(0, 6, workload.sample_shape[0], dtype="<f4")
    phase = random.random((end - start, 1, 1), "<f4") * 6
    field = np.sin(line[:, None] + phase) * np.cos(line[None, :] * 2 + phase) + 2
    field += random.normal(0, 2e-3, field.shape).astype("<f4")
    return np.round(field * 4096) / np.float32(4096)


def _compressed(workload, path, random):
    shape = (workload.sample_count, *workload.sample_shape)
    chunks = (workload.samples_per_chunk, *workload.sample_shape)
    with h5py.File(path, "w") as file:
        x = file.create_dataset("x", shape, "<f4", chunks=chunks, compression="gzip", compression_opts=4, shuffle=True)
        for start, end in _slabs(shape[0], 4 * int(np.prod(workload.sample_shape))):
            x[start:end] = smooth(workload, start, end, random)


def _ragged(workload, path, random):
    """Graphs laid end to end as PyTorch Geometric has them: features and place of each node, and the two ends of each
    edge as two lines; as bonds of molecules, counted both ways, edges are about twice as many as nodes."""
    nodes = random.integers(5, 72, workload.sample_count)
    edges = 2 * nodes - random.integers(0, 5, workload.sample_count)
    node_ptr, edge_ptr = (np.concatenate([[0], np.cumsum(counts)]).astype("<i8") for counts in (nodes, edges))
    node_count, edge_count = int(node_ptr[-1]), int(edge_ptr[-1])
    with h5py.File(path, "w") as file:
        file["node_ptr"], file["edge_ptr"] = node_ptr, edge_ptr
        x = file.create_dataset("x", (node_count, *workload.sample_shape), "<f4")
        pos = file.create_dataset("pos", (node_count, 3), "<f4")
        edge_index = file.create_dataset("edge_index", (2, edge_count), "<i8")
        for start, end in _slabs(node_count, 64):
            x[start:end] = _values(random, (end - start, *workload.sample_shape))
            pos[start:end] = _values(random, (end - start, 3))
        for start, end in _slabs(edge_count, 16):
            edge_index[:, start:end] = random.integers(0, 71, (2, end - start), "<i8")


def open_zarr(workload, cache_len=0, **how):
    """The zarr copy of a workload; shuffle and deflate come as one codec, the only such pair tensorstore reads."""
    import tensorstore

    blosc = {"cname": "zlib", "clevel": 4, "shuffle": "shuffle", "typesize": 4}
    metadata = {
        "shape": [workload.sample_count, *workload.sample_shape],
        "data_type": "float32",
        "chunk_grid": {"name": "regular", "configuration": {
            "chunk_shape": [workload.samples_per_chunk, *workload.sample_shape]}},
        "codecs": [{"name": "bytes", "configuration": {"endian": "little"}},
                   {"name": "blosc", "configuration": blosc}],
    }
    spec = {"driver": "zarr3", "kvstore": {"driver": "file", "path": f"{workload.zarr}/"}, "metadata": metadata}
    context = tensorstore.Context({"cache_pool": {"total_bytes_limit": cache_len}})
    return tensorstore.open(spec, context=context, **how).result()


def _copy_to_zarr(workload):
    store = open_zarr(workload, create=True, delete_existing=True)
    with h5py.File(workload.paths[0]) as file:
        for start, end in _slabs(workload.sample_count, 4 * int(np.prod(workload.sample_shape))):
            store[start:end].write(file["x"][start:end]).result()


def make(workload, say):
    """Makes the set of a workload; a folder with the right mark in it is whole."""
    mark = workload.folder / "made"
    if mark.exists() and mark.read_text() == VERSION:
        return
    shutil.rmtree(workload.folder, ignore_errors=True)
    workload.folder.mkdir(parents=True)
    say(f"making {workload.name} in {workload.folder}")
    random = np.random.default_rng(int(workload.name[1:]))
    kind = _contiguous
    if workload.whole:
        kind = _whole
    elif workload.ragged:
        kind = _ragged
    elif workload.samples_per_chunk:
        kind = _compressed
    for path in workload.paths:
        kind(workload, path, random)
    if workload.samples_per_chunk:
        if importlib.util.find_spec("tensorstore"):
            _copy_to_zarr(workload)
        with h5py.File(workload.paths[0]) as file:
            x = file["x"]
            say(f"{workload.name}: gzip + shuffle make it {x.nbytes / x.id.get_storage_size():.2f} times smaller")
    mark.write_text(VERSION)


def warm(workload):
    """Reads every file once, so that all contestants find it in the page cache."""
    read = bytearray(4 << 20)
    for folder, _, names in os.walk(workload.folder):
        for name in names:
            with open(os.path.join(folder, name), "rb", buffering=0) as file:
                while file.readinto(read):
                    pass
