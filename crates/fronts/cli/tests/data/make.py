#!/usr/bin/env python3
"""Makes the HDF5 files beside it, with h5py: `python make.py`."""

import pathlib

import h5py
import numpy

HERE = pathlib.Path(__file__).parent


def create(name):
    return h5py.File(HERE / name, "w", libver="latest", meta_block_size=256)


def tree():
    """Groups, attributes, chunks, links."""
    with create("tree.h5") as file:
        file.attrs["title"] = numpy.bytes_("a small file")
        file.attrs["levels"] = numpy.arange(20, dtype="<i2")
        images = file.create_dataset(
            "images", data=numpy.arange(12 * 4 * 4, dtype="u1").reshape(12, 4, 4),
            chunks=(4, 4, 4), maxshape=(None, 4, 4), shuffle=True, compression="gzip", compression_opts=6)
        images.attrs["units"] = numpy.bytes_("counts")
        images.attrs["scale"] = numpy.float32(0.1)
        grid = file.create_group("grid")
        grid.attrs["kind"] = numpy.bytes_("regular")
        grid["lat"] = numpy.array([-45.0, 0.0, 45.5], dtype=">f8")
        grid.create_dataset("never", shape=(4, 2), chunks=(2, 2), dtype="<i4", fillvalue=7)
        file["scalar"] = numpy.int64(-3)
        file.create_dataset("wide", shape=(512, 512), chunks=(512, 512), dtype="<f8", compression="gzip",
                            compression_opts=9)[:] = 0
        file["second"] = file["grid/lat"]
        file["soft"] = h5py.SoftLink("/grid/lat")
        file["gone"] = h5py.SoftLink("/nowhere")
        file["line\nfeed"] = numpy.uint8(1)


def kinds():
    """Every kind of element of fixed length."""
    with create("kinds.h5") as file:
        file["bool"] = numpy.array([True, False])
        colour = h5py.enum_dtype({"RED": 1, "GREEN": 2}, basetype="i1")
        file.create_dataset("enum", data=numpy.array([2, 1, 9], dtype="i1"), dtype=colour)
        file["half"] = numpy.array([0.1, 1, numpy.inf, -65504], dtype="<f2")
        file["single"] = numpy.array([[0.1, numpy.nan], [1e-10, -numpy.inf]], dtype="<f4")
        file["unsigned"] = numpy.array([2**64 - 1], dtype="<u8")
        file["complex"] = numpy.array([1 + 2j, 0.5 - 1j], dtype="<c8")
        file["fixed"] = numpy.array([b"ab", b"c"], dtype="S4")
        file.create_dataset("opaque", data=numpy.array([b"\x01\x02", b"\xff\x00"], dtype="V2"))
        record = numpy.dtype({"names": ["a", "b", "c"], "formats": ["<i4", "S3", ("<f8", (2,))], "offsets": [0, 4, 16]})
        file["record"] = numpy.array([(1, b"x", [0.5, 2]), (2, b"yz", [3, 4])], dtype=record)
        file["cube"] = numpy.arange(12, dtype="<i2").reshape(2, 2, 3)
        file.create_dataset("empty", shape=(0, 3), dtype="<i4")


def varying():
    """Elements of variable length."""
    with create("varying.h5") as file:
        file.attrs["title"] = "a text of any length"
        file.create_dataset("text", data=["plain", 'a "quote"\n', "straße"], dtype=h5py.string_dtype())
        sequence = file.create_dataset("sequence", shape=(3,), dtype=h5py.vlen_dtype("<i4"))
        sequence[0], sequence[1] = [1, 2, 3], [4]
        mixed = numpy.dtype([("n", "<u2"), ("s", h5py.string_dtype())])
        file["mixed"] = numpy.array([(1, "one"), (2, "")], dtype=mixed)


def unread():
    """What is there but cannot be read: references, a filter nobody has."""
    with create("unread.h5") as file:
        file["here"] = numpy.int8(1)
        file.create_dataset("pointer", data=file["here"].ref, dtype=h5py.ref_dtype)
        plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        plist.set_chunk((4,))
        plist.set_filter(305, h5py.h5z.FLAG_OPTIONAL, (1,))
        space, kind = h5py.h5s.create_simple((8,)), h5py.h5t.NATIVE_INT32
        h5py.h5d.create(file.id, b"strange", kind, space, plist)


def unknown_filter():
    """A filter nobody knows: left out of a chunk by its mask, needed, or never met."""
    with create("unknown_filter.h5") as file:
        values = numpy.arange(12, dtype="<i4")
        for name, mask in (("left_out", 1), ("needed", 0), ("never_met", None)):
            plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
            plist.set_chunk((6,))
            plist.set_filter(4242, h5py.h5z.FLAG_OPTIONAL, (1, 2, 3))
            made = h5py.h5d.create(file.id, name.encode(), h5py.h5t.STD_I32LE, h5py.h5s.create_simple((12,)), plist)
            for start in (0, 6) if mask is not None else ():
                made.write_direct_chunk((start,), values[start : start + 6].tobytes(), mask)


if __name__ == "__main__":
    tree()
    kinds()
    varying()
    unread()
    unknown_filter()
