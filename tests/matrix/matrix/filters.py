"""The filters libhdf5 and h5py bring: deflate, shuffle, fletcher32, szip, nbit, scale-offset, lzf."""

import zlib

import numpy as np
from h5py import h5t, h5z

from . import native
from .make import create, dcpl, label, plain, size_label, values, write
from .types import ODD_FLOATS, ODD_INTS, RECORDS, odd_float, odd_int

GRIDS = [((37,), (10,)), ((13, 11), (5, 4)), ((5, 7, 9), (2, 7, 4))]
NUMERIC = ["|i1", "<u2", ">i4", "<i8", "<f2", "<f4", ">f8"]
ANY = NUMERIC + ["S5", "?", "<c8", "records"]
GENERAL = {
    "deflate0": {"compression": "gzip", "compression_opts": 0},
    "deflate1": {"compression": "gzip", "compression_opts": 1},
    "deflate6": {"compression": "gzip", "compression_opts": 6},
    "deflate9": {"compression": "gzip", "compression_opts": 9},
    "shuffle": {"shuffle": True},
    "fletcher32": {"fletcher32": True},
    "shuffle_deflate": {"shuffle": True, "compression": "gzip"},
    "shuffle_fletcher32": {"shuffle": True, "fletcher32": True},
    "shuffle_deflate_fletcher32": {"shuffle": True, "compression": "gzip", "fletcher32": True},
    "lzf": {"compression": "lzf"},
    "shuffle_lzf": {"shuffle": True, "compression": "lzf"},
    "shuffle_lzf_fletcher32": {"shuffle": True, "compression": "lzf", "fletcher32": True},
}
LARGE = (40000,)


def put(group, dtype, shape, chunks, options, make=values):
    """One filtered data set named by its type and shape."""
    name = f"{dtype if dtype == 'records' else label(dtype)}_{size_label(shape)}"
    kind = RECORDS["nested"] if dtype == "records" else dtype
    data = make(kind, shape, f"{group.name}{name}")
    return group.create_dataset(name, data=data, chunks=chunks, **options)


def general(matrix):
    for libver in ("earliest", "latest"):
        with matrix.file(f"filters_{libver}.h5", libver) as file:
            for word, options in GENERAL.items():
                group = file.create_group(word)
                for dtype in ANY:
                    for shape, chunks in GRIDS:
                        put(group, dtype, shape, chunks, options)
                put(group, "<f4", LARGE, (30000,), options)
                grown = put(group, "<i4", (23, 5), (4, 3), {**options, "maxshape": (None, None)})
                grown.resize((30, 9))


def szip(matrix):
    for libver in ("earliest", "latest"):
        with matrix.file(f"szip_{libver}.h5", libver) as file:
            for coding in ("nn", "ec"):
                for pixels in (4, 8, 16, 32):
                    for shuffle in (False, True):
                        group = file.create_group(f"{coding}{pixels}{'_shuffle' * shuffle}")
                        options = {"compression": "szip", "compression_opts": (coding, pixels), "shuffle": shuffle}
                        for dtype in ("|u1", "<i2", ">i4", "<u8", "<f4", ">f8"):
                            for shape, chunks in (((133,), (40,)), ((13, 40), (5, 32)), ((5, 7, 36), (2, 3, 36))):
                                put(group, dtype, shape, chunks, options)
            put(file, "<i4", LARGE, (30000,), {"compression": "szip"})


def scale_offset(matrix):
    for libver in ("earliest", "latest"):
        with matrix.file(f"scaleoffset_{libver}.h5", libver) as file:
            for dtype in ("|i1", "|u1", "<i2", ">i2", "<u4", ">i4", "<i8", ">u8"):
                for bits in (0, 5, 7):
                    for fill in (None, 3):
                        for shape, chunks in GRIDS:
                            _integers(file, f"{label(dtype)}_{bits}_{fill}_{size_label(shape)}", dtype, shape,
                                      {"chunks": chunks, "scaleoffset": bits, "fillvalue": fill})
            for dtype in ("<f4", ">f4", "<f8", ">f8"):
                for digits in (0, 1, 3):
                    for fill in (None, 2.5):
                        name = f"{label(dtype)}_{digits}_{fill}"
                        dataset = file.create_dataset(name, (13, 11), dtype, chunks=(5, 4), scaleoffset=digits,
                                                      fillvalue=fill)
                        dataset[:11] = plain(dtype, (11, 11), name)
            for dtype in ("<i4", ">i8"):
                data = np.full((20,), -5, dtype)
                file.create_dataset(f"constant_{label(dtype)}", data=data, chunks=(8,), scaleoffset=0)
                wide = values(dtype, (20,), dtype)
                file.create_dataset(f"full_width_{label(dtype)}", data=wide, chunks=(8,), scaleoffset=0)
                file.create_dataset(f"deflate_{label(dtype)}", data=wide % 100, chunks=(8,), scaleoffset=0,
                                    shuffle=True, compression="gzip", fletcher32=False)


def _integers(file, name, dtype, shape, options):
    count = int(np.prod(shape))
    start = zlib.crc32(name.encode()) % 40
    data = (start + np.arange(count) * 7 % 29).astype(dtype).reshape(shape)
    dataset = file.create_dataset(name, shape, dtype, **options)
    dataset[: shape[0] - 1] = data[: shape[0] - 1]


def nbit(matrix):
    for libver in ("earliest", "latest"):
        with matrix.file(f"nbit_{libver}.h5", libver) as file:
            for order, end in ((h5t.ORDER_LE, "le"), (h5t.ORDER_BE, "be")):
                for size, precision, offset in ODD_INTS:
                    for sign in "iu":
                        whole = {1: 8, 2: 16, 3: 32, 4: 32, 5: 64, 8: 64}[size]
                        kind = odd_int(getattr(h5t, f"STD_{sign.upper()}{whole}LE"), size, precision, offset)
                        kind.set_order(order)
                        _nbit_pair(file, f"{sign}{size}_{precision}at{offset}_{end}", kind, sign)
                for name, (size, fields, bias) in ODD_FLOATS.items():
                    _nbit_one(file, f"{name}_{end}", odd_float(size, fields, bias, order), plain("f4", (37,), name), None)
            _nbit_records(file)


def _nbit_pair(file, name, kind, sign):
    array = values(f"<{sign}8", (45,), name) >> (64 - kind.get_precision())
    memory = h5t.STD_I64LE if sign == "i" else h5t.STD_U64LE
    _nbit_one(file, name, kind, array, memory)
    _nbit_one(file, f"{name}_2d", kind, array.reshape(9, 5), memory)


def _nbit_one(file, name, kind, array, memory):
    plist = dcpl(chunks=tuple(max(1, n // 2) for n in array.shape))
    native.call("H5Pset_nbit", plist.id)
    write(create(file, name, kind, array.shape, plist), array, memory)


def _nbit_records(file):
    narrow = odd_int(h5t.STD_I32LE, 4, 20, 5)
    kind = h5t.create(h5t.COMPOUND, 24)
    kind.insert(b"n", 0, narrow)
    kind.insert(b"f", 8, h5t.IEEE_F64BE)
    kind.insert(b"a", 16, h5t.array_create(odd_int(h5t.STD_U16LE, 2, 9, 3), (3,)))
    array = values([("n", "<i2"), ("f", ">f8"), ("a", "u1", (3,))], (21,), "nbit")
    _nbit_one(file, "records", kind, array.astype([("n", "<i4"), ("f", ">f8"), ("a", "<u2", (3,))]), None)
    items = h5t.array_create(narrow, (2, 3))
    plist = dcpl(chunks=(4,))
    native.call("H5Pset_nbit", plist.id)
    data = values("<i2", (9, 2, 3), "nbit").astype("<i4")
    write(create(file, "arrays", items, (9,), plist), data, h5t.array_create(h5t.STD_I32LE, (2, 3)))
    for dtype in ("<i4", ">f8", "|u1", "S5"):
        _nbit_one(file, f"whole_{label(dtype)}", h5t.py_create(np.dtype(dtype)), values(dtype, (21,), dtype), None)


def unknown(matrix):
    """A filter nobody knows: left out of a chunk by its mask, or needed."""
    for libver in ("earliest", "latest"):
        with matrix.file(f"unknown_filter_{libver}.h5", libver) as file:
            data = values("<i4", (12,), "unknown")
            for name, mask in (("left_out", 1), ("needed", 0)):
                plist = dcpl(chunks=(6,))
                plist.set_filter(4242, h5z.FLAG_OPTIONAL, (1, 2, 3))
                dataset = create(file, name, "<i4", (12,), plist)
                for start in (0, 6):
                    dataset.write_direct_chunk((start,), data[start:start + 6].tobytes(), mask)
            plist = dcpl(chunks=(6,))
            plist.set_filter(4242, h5z.FLAG_OPTIONAL)
            create(file, "never_met", "<i4", (12,), plist)
            matrix.refuse(file["needed"], "filter")


SUBJECTS = [general, szip, scale_offset, nbit, unknown]
