"""Every chunk index, small and large, with chunks missing, with shapes that grew and shrank."""

import numpy as np
from h5py import h5p

from . import native
from .make import LIBVERS, create, dcpl, label, size_label, values, write

INF = None
# What the newer library bounds make of them; the older ones make a version 1 B-tree of all.
INDEXES = {
    "single": ((13, 11), None, (13, 11)),
    "single_room": ((13, 11), (13, 11), (13, 11)),
    "fixed": ((13, 11), None, (4, 3)),
    "fixed_room": ((13, 11), (29, 40), (4, 3)),
    "fixed_room_first": ((13, 11), (29, 11), (4, 3)),
    "extensible_first": ((13, 11), (INF, 11), (4, 3)),
    "extensible_first_room": ((13, 11), (INF, 40), (4, 3)),
    "extensible_last": ((13, 11), (13, INF), (4, 3)),
    "extensible_last_room": ((13, 11), (40, INF), (4, 3)),
    "extensible_middle": ((5, 7, 9), (5, INF, 9), (2, 3, 4)),
    "tree2": ((13, 11), (INF, INF), (4, 3)),
    "tree2_3d": ((5, 7, 9), (INF, 7, INF), (2, 3, 4)),
    "one_dim": ((37,), (INF,), (5,)),
}
WRITTEN = ["all", "none", "some"]


def kinds(matrix):
    for libver in LIBVERS:
        with matrix.file(f"indexes_{libver}.h5", libver) as file:
            for index, (shape, limits, chunks) in INDEXES.items():
                for packed in (False, True):
                    for written in WRITTEN:
                        plist = dcpl(chunks=chunks)
                        if packed:
                            plist.set_shuffle()
                            plist.set_deflate(3)
                        plist.set_fill_value(np.array(-7, "<i4"))
                        name = f"{index}_{'deflate' if packed else 'plain'}_{written}"
                        _fill_in(file, name, create(file, name, "<i4", shape, plist, limits), written)


def _fill_in(file, name, dataset, written):
    data = values("<i4", dataset.shape, name)
    if written == "all":
        write(dataset, data)
    elif written == "some":
        for corner in (0, 6):
            part = tuple(slice(corner, corner + 2) for _ in dataset.shape)
            file[name][part] = data[part]


def implicit(matrix):
    """No index at all: chunks in order, allocated when the data set is made."""
    for libver in ("v110", "v114", "latest"):
        with matrix.file(f"implicit_{libver}.h5", libver) as file:
            for shape, chunks in (((37,), (10,)), ((13, 11), (4, 3)), ((5, 7, 9), (2, 3, 4)), ((1000,), (1,))):
                for limits in (None, tuple(n * 2 for n in shape)):
                    for dtype in ("<i4", ">f8"):
                        for written in WRITTEN[:2]:
                            plist = dcpl(chunks=chunks, early=True)
                            plist.set_fill_value(np.array(9, dtype))
                            name = f"{label(dtype)}_{size_label(shape)}_{'room' if limits else 'fixed'}_{written}"
                            dataset = create(file, name, dtype, shape, plist, limits)
                            if written == "all":
                                write(dataset, values(dtype, shape, name))


def _step(file, name, shape, limits, chunks, packed=False, dtype="<i4"):
    plist = dcpl(chunks=chunks)
    if packed:
        plist.set_deflate(1)
    plist.set_fill_value(np.array(-1, dtype))
    create(file, name, dtype, shape, plist, limits)
    return file[name]


def resized(matrix):
    """Growing, shrinking, and growing again over what was cut off."""
    for libver in ("earliest", "v110", "latest"):
        with matrix.file(f"resized_{libver}.h5", libver) as file:
            for name, limits in {"first": (INF, 12), "last": (30, INF), "both": (INF, INF), "room": (40, 40)}.items():
                for packed in (False, True):
                    for end in ("grown", "shrunk", "regrown", "row_by_row", "to_zero"):
                        _resize(_step(file, f"{name}_{end}{'_deflate' * packed}", (6, 6), limits, (4, 5), packed), end)


def _resize(dataset, end):
    data = values("<i4", (30, 12), dataset.name)
    dataset[...] = data[:6, :6]
    if end == "row_by_row":
        for rows in range(7, 24, 3):
            dataset.resize(rows, axis=0)
            dataset[rows - 1] = data[rows - 1, :6]
        return
    dataset.resize((21, 12))
    dataset[...] = data[:21]
    if end in ("shrunk", "regrown"):
        dataset.resize((5, 3))
    if end == "regrown":
        dataset.resize((30, 12))
        dataset[25:27, 4:9] = data[25:27, 4:9]
    if end == "to_zero":
        dataset.resize((0, 12))


def large(matrix):
    """Enough chunks for pages, secondary blocks and inner nodes."""
    for libver in ("earliest", "v110", "latest"):
        with matrix.file(f"large_{libver}.h5", libver) as file:
            for packed in (False, True):
                tail = "_deflate" * packed
                data = values("<i4", (20000,), "large")
                _step(file, f"fixed_paged{tail}", (3000,), None, (1,), packed)[...] = data[:3000]
                _step(file, f"fixed_paged_room{tail}", (40, 50), (60, 70), (1, 1), packed)[...] = \
                    data[:2000].reshape(40, 50)
                sparse = _step(file, f"fixed_sparse_pages{tail}", (9000,), None, (1,), packed)
                for index in (0, 1, 1024, 5000, 8999):
                    sparse[index] = index
                _step(file, f"extensible_sparse{tail}", (0,), (INF,), (1,), packed)
                _sparse(file[f"extensible_sparse{tail}"], 40000, (0, 3, 4, 70, 5000, 32768, 39999))
                _step(file, f"extensible_last{tail}", (3, 1500), (3, INF), (1, 1), packed)[...] = \
                    data[:4500].reshape(3, 1500)
                _step(file, f"extensible_middle{tail}", (3, 300, 2), (5, INF, 4), (1, 1, 1), packed)[...] = \
                    data[:1800].reshape(3, 300, 2)
                _step(file, f"tree2{tail}", (70, 70), (INF, INF), (1, 1), packed)[...] = data[:4900].reshape(70, 70)
                both = _step(file, f"tree2_sparse{tail}", (5000, 5000), (INF, INF), (100, 100), packed, "|i1")
                for index in range(0, 5000, 700):
                    both[index, 4999 - index] = 5
            file["tree2_sparse"].resize((50, 5000))
            file["tree2_sparse_deflate"].resize((1500, 100))
            _step(file, "extensible", (20000,), (INF,), (1,))[...] = values("<i4", (20000,), "ea")
            _step(file, "extensible_deflate", (8000,), (INF,), (2,), True)[...] = values("<i4", (8000,), "ea2")
            _step(file, "extensible_shrunk", (9000,), (INF,), (1,))[...] = values("<i4", (9000,), "ea3")
            file["extensible_shrunk"].resize((1234,))


def _sparse(dataset, count, at):
    dataset.resize((count,))
    for index in at:
        dataset[index] = index + 1


def deep_tree1(matrix):
    """A version 1 B-tree of small nodes, so that few chunks make many levels; superblock version 1."""
    fcpl = h5p.create(h5p.FILE_CREATE)
    native.call("H5Pset_istore_k", fcpl.id, 2)
    with matrix.file_from("deep_tree1.h5", fcpl) as file:
        for shape, chunks in (((700,), (1,)), ((40, 30), (2, 3)), ((9, 9, 9), (2, 2, 2))):
            for packed in (False, True):
                name = f"i4_{size_label(shape)}{'_deflate' * packed}"
                _step(file, name, shape, (INF,) * len(shape), chunks, packed)[...] = values("<i4", shape, name)
        sparse = _step(file, "sparse", (500, 500), (INF, INF), (3, 3))
        for index in range(0, 500, 11):
            sparse[index, (index * 7) % 500] = index


SUBJECTS = [kinds, implicit, resized, large, deep_tree1]
