"""What every subject uses to make its files: names, values, low-level creation, remarks for the manifest."""

import zlib

import h5py
import numpy as np
from h5py import h5d, h5f, h5p, h5s, h5t

LIBVERS = ["earliest", "v108", "v110", "v112", "v114", "latest"]
BOUNDS = {name: name if name in ("earliest", "latest") else (name, name) for name in LIBVERS}
BOUNDS["wide"] = ("earliest", "latest")
BOUNDS["v200"] = ("v200", "v200")
NUMBERS = ["|i1", "|u1"] + [o + k for k in ("i2", "i4", "i8", "u2", "u4", "u8", "f2", "f4", "f8") for o in "<>"]
SHAPES = [(37,), (13, 11), (5, 7, 9), (), (0,), (1, 1, 1)]


def label(dtype):
    """A dtype as part of a name: `be_i4`."""
    text = np.dtype(dtype).str
    return {"<": "le_", ">": "be_", "|": ""}[text[0]] + text[1:]


def size_label(shape):
    return "x".join(map(str, shape)) or "scalar"


def values(dtype, shape, seed):
    """The same values for the same seed: half regular, half noise, with the extremes of the type among them."""
    dtype = np.dtype(dtype)
    rng = np.random.default_rng(zlib.crc32(str(seed).encode()))
    count = int(np.prod(shape))
    if dtype.kind == "b":
        flat = rng.integers(0, 2, count).astype(bool)
    elif dtype.kind in "iu":
        limits = np.iinfo(dtype)
        flat = (np.arange(count) % 119).astype(dtype)
        noisy = rng.random(count) < 0.3
        flat[noisy] = rng.integers(limits.min, limits.max, int(noisy.sum()), dtype.newbyteorder("="), endpoint=True)
        flat[:2] = [limits.min, limits.max][:count]
    elif dtype.kind == "f":
        flat = (np.sin(np.arange(count) / 5) * 100 + rng.integers(0, 3, count)).astype(dtype)
        flat[1:5] = [np.inf, -0.0, np.nan, -np.inf][: max(count - 1, 0)]
    elif dtype.kind == "c":
        flat = (rng.integers(-99, 99, count) + 1j * rng.integers(-99, 99, count)).astype(dtype)
    elif dtype.kind == "S":
        letters = rng.integers(97, 123, (count, dtype.itemsize)).astype("u1")
        letters[np.arange(dtype.itemsize) >= rng.integers(0, dtype.itemsize + 1, count)[:, None]] = 0
        flat = np.frombuffer(letters.tobytes(), dtype)
    elif dtype.kind == "V" and dtype.names is None and dtype.subdtype is None:
        flat = np.frombuffer(rng.bytes(count * dtype.itemsize), dtype)
    else:
        return _records(dtype, shape, seed)
    return flat.astype(dtype).reshape(shape)


def _records(dtype, shape, seed):
    array = np.zeros(shape, dtype)
    for name in dtype.names:
        field = array[name]
        field[...] = values(dtype[name].base, field.shape, f"{seed}/{name}")
    return array


def plain(dtype, shape, seed):
    """Finite, smooth values for lossy filters."""
    count = int(np.prod(shape))
    start = zlib.crc32(str(seed).encode()) % 50
    return (np.sin(np.arange(start, start + count) / 7) * 50 + 60).astype(dtype).reshape(shape)


def runs(dtype, shape, seed):
    """Each value fifty times over: data that every codec makes smaller."""
    count = int(np.prod(shape))
    return np.repeat(values(dtype, (count // 50 + 1,), seed), 50)[:count].reshape(shape)


class Matrix:
    """The files made so far and what must be said about their data sets."""

    def __init__(self):
        self.files = []
        self.remarks = {}
        self.extra = []

    def file(self, name, libver="earliest", **options):
        self.files.append(name)
        return h5py.File(name, "w", libver=BOUNDS.get(libver, libver), **options)

    def file_from(self, name, fcpl, libver="earliest"):
        """A file whose creation properties were set by hand."""
        self.files.append(name)
        fapl = h5p.create(h5p.FILE_ACCESS)
        bounds = {"earliest": h5f.LIBVER_EARLIEST, "v108": h5f.LIBVER_V18, "v110": h5f.LIBVER_V110}
        fapl.set_libver_bounds(bounds.get(libver, h5f.LIBVER_LATEST), h5f.LIBVER_LATEST)
        fapl.set_fclose_degree(h5f.CLOSE_STRONG)
        fcpl.set_obj_track_times(False)
        return h5py.File(h5f.create(name.encode(), h5f.ACC_TRUNC, fcpl, fapl))

    def note(self, item, text):
        """`item` is a h5py data set or (file, variable)."""
        self._remark(item)["note"].append(text)

    def refuse(self, item, reason):
        self._remark(item)["kind"] = f"refuse:{reason}"

    def by_name(self, file, variable, note):
        """A path that a listing need not show, but that must open."""
        self.extra.append((file, variable, note))

    def _remark(self, item):
        key = item if isinstance(item, tuple) else (item.file.filename, item.name)
        return self.remarks.setdefault(key, {"kind": "value", "note": []})


def dcpl(chunks=None, early=False, fill_time=None, alloc_time=None):
    plist = h5p.create(h5p.DATASET_CREATE)
    plist.set_obj_track_times(False)
    if chunks:
        plist.set_chunk(chunks)
    if early:
        plist.set_alloc_time(h5d.ALLOC_TIME_EARLY)
    if alloc_time is not None:
        plist.set_alloc_time(alloc_time)
    if fill_time is not None:
        plist.set_fill_time(fill_time)
    return plist


def space(shape, maxshape=None):
    if shape is None:
        return h5s.create(h5s.NULL)
    if shape == ():
        return h5s.create(h5s.SCALAR)
    limits = None if maxshape is None else tuple(h5s.UNLIMITED if m is None else m for m in maxshape)
    return h5s.create_simple(shape, limits)


def create(group, name, kind, shape, plist=None, maxshape=None):
    """A data set of a low-level type (or of a numpy one)."""
    kind = kind if isinstance(kind, h5t.TypeID) else h5t.py_create(np.dtype(kind), logical=True)
    return h5d.create(group.id, name.encode(), kind, space(shape, maxshape), plist or dcpl())


def write(dataset, array, memory=None):
    array = np.ascontiguousarray(array)
    dataset.write(h5s.ALL, h5s.ALL, array, mtype=memory or h5t.py_create(array.dtype))
