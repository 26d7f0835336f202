"""Where values lie and what stands where none were written: allocation, fill values, edges, masks, external files."""

import zlib

import numpy as np
from h5py import h5d, h5s, h5t

from . import native
from .make import BOUNDS, LIBVERS, NUMBERS, create, dcpl, label, size_label, values, write

ALLOCATIONS = {"early": h5d.ALLOC_TIME_EARLY, "late": h5d.ALLOC_TIME_LATE, "incremental": h5d.ALLOC_TIME_INCR}
FILL_TIMES = {"ifset": h5d.FILL_TIME_IFSET, "alloc": h5d.FILL_TIME_ALLOC, "never": h5d.FILL_TIME_NEVER}
FILLS = ["default", "user", "undefined"]


def set_fill(plist, fill, dtype):
    if fill == "user":
        plist.set_fill_value(np.array(42, dtype))
    elif fill == "undefined":
        kind = h5t.py_create(np.dtype(dtype))
        native.call("H5Pset_fill_value", plist.id, kind.id, None)


def fills(matrix):
    """Contiguous and chunked data sets, unwritten or half written, under every fill and allocation rule."""
    for libver in ("earliest", "v110", "latest"):
        with matrix.file(f"fills_{libver}.h5", libver) as file:
            for dtype in ("<i4", ">f8"):
                for fill in FILLS:
                    for when in FILL_TIMES:
                        for how in ALLOCATIONS:
                            _fill_pair(file, dtype, fill, when, how)


def _fill_pair(file, dtype, fill, when, how):
    # libhdf5 itself refuses to fill at allocation with a value that is said to be undefined.
    if fill == "undefined" and when == "alloc":
        return
    for chunks in (None, (4, 3)):
        if chunks is None and how == "incremental":
            continue
        for written in ("none", "part"):
            if _nobody_chose(fill, when, how, written):
                continue
            plist = dcpl(chunks=chunks, fill_time=FILL_TIMES[when], alloc_time=ALLOCATIONS[how])
            set_fill(plist, fill, dtype)
            kind = "chunked" if chunks else "contiguous"
            name = f"{kind}_{label(dtype)}_{fill}_{when}_{how}_{written}"
            create(file, name, dtype, (9, 7), plist)
            if written == "part":
                file[name][2:5, 1:4] = values(dtype, (3, 3), name)


def _nobody_chose(fill, when, how, written):
    """Whether the bytes would be left to chance (a partial write without fill), or libhdf5 would not read at all."""
    if written == "part":
        return fill == "undefined" or when == "never"
    return fill == "undefined" and when == "ifset" and how != "early"


def fill_types(matrix):
    """A user fill value of every type, in chunks that are missing."""
    for libver in ("earliest", "latest"):
        with matrix.file(f"fill_types_{libver}.h5", libver) as file:
            for dtype in NUMBERS + ["?", "S5", "<c16", "V4"]:
                for shape, chunks in (((11,), (4,)), ((6, 5), (4, 4)), ((6, 5), None)):
                    fill = values(dtype, (3,), f"fill{dtype}")[2]
                    name = f"{label(dtype)}_{size_label(shape)}_{'chunked' if chunks else 'contiguous'}"
                    dataset = file.create_dataset(name, shape, dtype, chunks=chunks, fillvalue=fill)
                    if chunks:
                        dataset[: chunks[0] - 1] = values(dtype, dataset[: chunks[0] - 1].shape, name)
            record = np.array((7, -2.5), [("a", ">i2"), ("b", "<f8")])
            dataset = file.create_dataset("record", (9,), record.dtype, chunks=(4,), fillvalue=record)
            dataset[4:6] = np.array([(1, 2.0), (3, 4.0)], record.dtype)
            file.create_dataset("record_unwritten", (9,), record.dtype, fillvalue=record)


def edges(matrix):
    """Chunks that overhang, chunks larger than the shape, one-element chunks."""
    cases = [((37,), (10,)), ((37,), (37,)), ((13, 11), (5, 4)), ((13, 11), (13, 1)), ((5, 7, 9), (2, 3, 4)),
             ((5, 7, 9), (5, 7, 9)), ((1, 1, 1), (1, 1, 1)), ((2, 3, 2, 3), (1, 2, 2, 2)), ((6, 6), (3, 3))]
    for libver in LIBVERS:
        with matrix.file(f"edges_{libver}.h5", libver) as file:
            for shape, chunks in cases:
                for dtype in ("<i2", ">f4", "|u1"):
                    for packed in (None, "gzip"):
                        name = f"{label(dtype)}_{size_label(shape)}_by_{size_label(chunks)}_{packed or 'plain'}"
                        data = values(dtype, shape, name)
                        file.create_dataset(name, data=data, chunks=chunks, compression=packed)
            for shape, chunks in (((3,), (50,)), ((3, 2), (8, 8)), ((2, 9), (16, 4))):
                name = f"wide_chunk_{size_label(shape)}_by_{size_label(chunks)}"
                for unlimited in range(1, len(shape) + 1):
                    limits = (None,) * unlimited + shape[unlimited:]
                    if any(c > m for c, m in zip(chunks, limits) if m):
                        continue
                    file.create_dataset(f"{name}_{unlimited}", data=values("<i4", shape, name), chunks=chunks,
                                        maxshape=limits, compression="gzip")


def masks(matrix):
    """Chunks whose filter mask says that some filters were left out."""
    data = values("<i4", (6, 8), "mask")
    for libver in ("earliest", "v110", "latest"):
        with matrix.file(f"masks_{libver}.h5", libver) as file:
            for limits in ((6, 8), (None, 8), (None, None)):
                for check in (False, True):
                    name = f"mask_{'x'.join('inf' if m is None else str(m) for m in limits)}{'_fletcher' * check}"
                    dataset = file.create_dataset(name, (6, 8), "<i4", maxshape=limits, chunks=(2, 4), shuffle=True,
                                                  compression="gzip", fletcher32=check)
                    dataset[...] = data
                    for index, mask in enumerate((1, 2, 3)):
                        block = np.ascontiguousarray(data[2 * index:2 * index + 2, 4:])
                        dataset.id.write_direct_chunk((2 * index, 4), _filtered(block, mask, check), mask | 4 * check)


def _filtered(block, mask, check):
    raw = block.tobytes()
    if not mask & 1:
        raw = np.frombuffer(raw, "u1").reshape(-1, 4).T.tobytes()
    return raw if mask & 2 else zlib.compress(raw)


def unfiltered_edges(matrix):
    """Partial edge chunks stored without their filters."""
    for libver in ("v110", "v112", "latest"):
        with matrix.file(f"unfiltered_edges_{libver}.h5", libver) as file:
            for shape, limits in (((13, 11), None), ((13, 11), (20, 20)), ((13, 11), (None, 11)), ((13, 11), (13, None)),
                                  ((13, 11), (None, None)), ((3, 3), None), ((10, 8), None)):
                for dtype in ("<i4", ">f8"):
                    plist = dcpl(chunks=(5, 4) if shape != (3, 3) else (3, 2))
                    plist.set_shuffle()
                    plist.set_deflate(6)
                    native.call("H5Pset_chunk_opts", plist.id, native.DONT_FILTER_PARTIAL_CHUNKS)
                    word = "fixed" if limits is None else "x".join("inf" if m is None else str(m) for m in limits)
                    name = f"{label(dtype)}_{size_label(shape)}_{word}"
                    dataset = create(file, name, dtype, shape, plist, limits)
                    write(dataset, values(dtype, shape, name))
                    if limits and limits[0] is None:
                        file[name].resize(17, axis=0)


def compact_and_versions(matrix):
    """Compact, contiguous and chunked under every pair of library bounds."""
    for libver in BOUNDS:
        with matrix.file(f"bounds_{libver}.h5", libver) as file:
            for dtype in ("|u1", ">i4", "<f8", "S7"):
                for shape in ((37,), (13, 11), ()):
                    name = f"{label(dtype)}_{size_label(shape)}"
                    data = values(dtype, shape, name)
                    plist = dcpl()
                    plist.set_layout(h5d.COMPACT)
                    write(create(file, f"compact_{name}", dtype, shape, plist), data)
                    file.create_dataset(f"contiguous_{name}", data=data)
                    if shape:
                        file.create_dataset(f"chunked_{name}", data=data, chunks=tuple(n // 2 for n in shape))
            plist = dcpl()
            plist.set_layout(h5d.COMPACT)
            set_fill(plist, "user", "<i4")
            create(file, "compact_unwritten", "<i4", (9,), plist)


def external(matrix):
    """Values in other files: in pieces, at offsets, from a file that is too short, from none."""
    data = values("<i4", (30,), "external")
    raw = data.tobytes()
    for name, content in (("external_a.bin", b"JUNK" * 4 + raw[:60]), ("external_b.bin", raw[60:]),
                          ("external_short.bin", raw[:50]), ("external_all.bin", raw)):
        with open(name, "wb") as out:
            out.write(content)
    cases = {
        "whole": [("external_all.bin", 0, 120)],
        "pieces": [("external_a.bin", 16, 60), ("external_b.bin", 0, 60)],
        "swapped": [("external_b.bin", 0, 60), ("external_a.bin", 16, 60)],
        "unlimited": [("external_all.bin", 0, h5s.UNLIMITED)],
        "too_short": [("external_short.bin", 0, 120)],
        "short_then_more": [("external_short.bin", 0, 60), ("external_b.bin", 0, 60)],
        "odd_pieces": [("external_all.bin", 3, 7), ("external_all.bin", 11, 50), ("external_a.bin", 1, 63)],
        "missing": [("external_missing.bin", 0, 120)],
    }
    for libver in ("earliest", "latest"):
        with matrix.file(f"external_{libver}.h5", libver) as file:
            for name, segments in cases.items():
                for dtype, shape in (("<i4", (30,)), (">i2", (6, 10)), ("<f8", (3, 5))):
                    plist = dcpl()
                    for segment, offset, size in segments:
                        plist.set_external(segment.encode(), offset, size)
                    create(file, f"{name}_{label(dtype)}", dtype, shape, plist)
                    if name == "missing":
                        matrix.refuse(file[f"{name}_{label(dtype)}"], "external file missing")


SUBJECTS = [fills, fill_types, edges, masks, unfiltered_edges, compact_and_versions, external]
