"""Every type libhdf5 can store: numbers, odd numbers, strings, records, sequences, references."""

import h5py
import numpy as np
from h5py import h5s, h5t

from .make import BOUNDS, NUMBERS, SHAPES, create, dcpl, label, plain, size_label, values, write

STORAGES = ["contiguous", "compact", "chunked", "deflate"]
STRUCT = np.dtype({"names": ["a", "b", "c"], "formats": ["<i2", ">f8", "|u1"], "offsets": [0, 8, 20], "itemsize": 32})
NESTED = np.dtype([("id", "<u4"), ("at", [("x", "<f4"), ("y", ">f4")]), ("tail", "|i1")])
ARRAYS = np.dtype([("v", ">i2", (3,)), ("m", "<f8", (2, 2)), ("n", "|u1")])
TEXTS = np.dtype([("s", "S5"), ("i", ">i8"), ("t", "S3")], align=True)
DEEP = np.dtype([("p", STRUCT), ("q", NESTED, (2,)), ("z", "<c8")])
RECORDS = {"struct": STRUCT, "nested": NESTED, "arrays": ARRAYS, "texts": TEXTS, "deep": DEEP}


def _plist(storage, shape):
    if storage == "compact":
        plist = dcpl()
        plist.set_layout(h5py.h5d.COMPACT)
        return plist
    if storage == "contiguous" or not shape or 0 in shape:
        return dcpl()
    plist = dcpl(chunks=tuple(max(1, n // 2) for n in shape))
    if storage == "deflate":
        plist.set_shuffle()
        plist.set_deflate(4)
    return plist


def put(group, name, kind, array, storage="contiguous", memory=None):
    """One data set of `kind` with the values of `array`."""
    dataset = create(group, name, kind, array.shape, _plist(storage, array.shape))
    if array.size:
        write(dataset, array, memory)
    return group[name]


def numbers(matrix):
    for libver in ("earliest", "latest"):
        for storage in STORAGES:
            with matrix.file(f"numbers_{libver}_{storage}.h5", libver) as file:
                for dtype in NUMBERS:
                    for shape in SHAPES:
                        name = f"{label(dtype)}_{size_label(shape)}"
                        put(file, name, dtype, values(dtype, shape, name), storage)


def odd_float(size, fields, bias, order):
    kind = h5t.IEEE_F64LE.copy()
    kind.set_fields(*fields)
    kind.set_precision(fields[0] + 1)
    kind.set_ebias(bias)
    kind.set_size(size)
    kind.set_order(order)
    return kind


def odd_int(base, size, precision, offset):
    kind = base.copy()
    if size < kind.get_size():
        kind.set_precision(precision)
        kind.set_size(size)
    kind.set_precision(precision)
    kind.set_offset(offset)
    return kind


ODD_FLOATS = {
    "bfloat16": (2, (15, 7, 8, 0, 7), 127),
    "float8_e5m2": (1, (7, 2, 5, 0, 2), 15),
    "float8_e4m3": (1, (7, 3, 4, 0, 3), 7),
    "float24": (3, (23, 15, 8, 0, 15), 127),
    "tensorfloat32": (4, (18, 10, 8, 0, 10), 127),
    "float32_high_bits": (4, (31, 17, 8, 6, 11), 127),
    "float48": (6, (47, 36, 11, 0, 36), 1023),
}
ODD_INTS = [(4, 20, 5), (4, 20, 0), (2, 12, 4), (8, 48, 0), (8, 33, 31), (1, 5, 2), (3, 24, 0), (3, 17, 3), (5, 40, 0)]


def odd_numbers(matrix):
    for libver in ("earliest", "latest"):
        for storage in ("contiguous", "chunked", "deflate"):
            with matrix.file(f"odd_numbers_{libver}_{storage}.h5", libver) as file:
                for order, end in ((h5t.ORDER_LE, "le"), (h5t.ORDER_BE, "be")):
                    _odd_floats(file, order, end, storage)
                    _odd_ints(file, order, end, storage)
                _bitfields(file, storage)


def _odd_floats(file, order, end, storage):
    for name, (size, fields, bias) in ODD_FLOATS.items():
        for shape in ((37,), (5, 7, 9)):
            array = plain("f4", shape, name) - 60
            array.flat[:3] = [0, -0.0, 0.001]
            if name == "bfloat16":
                array.flat[3:6] = [np.inf, np.nan, 1e-39]
            put(file, f"{name}_{end}_{size_label(shape)}", odd_float(size, fields, bias, order), array, storage)


def _odd_ints(file, order, end, storage):
    for size, precision, offset in ODD_INTS:
        for sign, base in (("i", h5t.STD_I64LE), ("u", h5t.STD_U64LE)):
            whole = {1: 8, 2: 16, 3: 32, 4: 32, 5: 64, 8: 64}[size]
            kind = odd_int(getattr(h5t, f"STD_{sign.upper()}{whole}LE"), size, precision, offset)
            kind.set_order(order)
            array = values(f"<{sign}8", (41,), f"{sign}{precision}") >> (64 - precision)
            put(file, f"{sign}{size}_{precision}at{offset}_{end}", kind, array, storage, base)


def _bitfields(file, storage):
    for bits in (8, 16, 32, 64):
        for end in ("LE", "BE"):
            memory = getattr(h5t, f"NATIVE_B{bits}")
            array = values(f"u{bits // 8}", (13, 11), bits)
            put(file, f"bits{bits}_{end.lower()}", getattr(h5t, f"STD_B{bits}{end}"), array, storage, memory)


def strings(matrix):
    pads = {"nullterm": h5t.STR_NULLTERM, "nullpad": h5t.STR_NULLPAD, "spacepad": h5t.STR_SPACEPAD}
    words = np.array([b"", b"a", b"two w", b"exactly8", b" lead", b"trail ", b"longer than eight", b"nul\0in"], "S20")
    for libver in ("earliest", "latest"):
        with matrix.file(f"strings_{libver}.h5", libver) as file:
            for pad, code in pads.items():
                for charset in ("ASCII", "UTF8"):
                    for size in (1, 8, 20):
                        kind = h5t.C_S1.copy()
                        kind.set_size(size)
                        kind.set_strpad(code)
                        kind.set_cset(getattr(h5t, f"CSET_{charset}"))
                        memory = h5t.C_S1.copy()
                        memory.set_size(20)
                        memory.set_strpad(h5t.STR_NULLPAD)
                        memory.set_cset(kind.get_cset())
                        for storage in STORAGES:
                            put(file, f"{pad}_{charset.lower()}_{size}_{storage}", kind, words, storage, memory)
            _variable_strings(file)


def _variable_strings(file):
    words = ["", "a", "é ü 漢字", "x" * 3000, "line\nbreak", "tab\t", "end"] * 3
    for charset in ("ascii", "utf-8"):
        kind = h5py.string_dtype(charset)
        text = [w if charset == "utf-8" else w.encode("ascii", "replace") for w in words]
        file.create_dataset(f"vlen_{charset}", data=text, dtype=kind)
        file.create_dataset(f"vlen_{charset}_chunked", data=text, dtype=kind, chunks=(4,), maxshape=(None,))
        file.create_dataset(f"vlen_{charset}_deflate", data=text, dtype=kind, chunks=(5,), compression="gzip")
        file.create_dataset(f"vlen_{charset}_scalar", data=text[2], dtype=kind)
        file.create_dataset(f"vlen_{charset}_2d", data=np.array(text, object).reshape(7, 3), dtype=kind)
        file.create_dataset(f"vlen_{charset}_unwritten", shape=(5,), dtype=kind)
        file.create_dataset(f"vlen_{charset}_empty", shape=(0,), dtype=kind)
        partly = file.create_dataset(f"vlen_{charset}_partly", shape=(9,), dtype=kind, chunks=(2,))
        partly[3:5] = text[1:3]
        file.create_dataset(f"vlen_{charset}_fill", shape=(5,), dtype=kind, chunks=(2,), fillvalue="none")


def records(matrix):
    for libver in ("earliest", "v108", "latest"):
        with matrix.file(f"records_{libver}.h5", libver) as file:
            for name, dtype in RECORDS.items():
                for storage in STORAGES:
                    for shape in ((17,), (3, 4), ()):
                        array = values(dtype, shape, name)
                        put(file, f"{name}_{storage}_{size_label(shape)}", dtype, array, storage)
            _variable_records(file)


def _variable_records(file):
    dtype = np.dtype([("n", ">i4"), ("s", h5py.string_dtype()), ("v", h5py.vlen_dtype(">f4")), ("f", "S4")])
    array = np.zeros((6,), dtype)
    for index in range(6):
        array[index] = (index, "w" * index, np.arange(index, dtype=">f4"), b"ab")
    file.create_dataset("variable", data=array)
    file.create_dataset("variable_chunked", data=array, chunks=(4,), compression="gzip")
    file.create_dataset("variable_unwritten", shape=(4,), dtype=dtype)
    kind = np.dtype([("e", h5py.enum_dtype({"RED": 1, "BLUE": 300}, basetype=">u2")), ("b", "?"), ("o", "V3")])
    array = np.zeros((5,), kind)
    array["e"] = [1, 300, 1, 300, 1]
    array["b"] = [0, 1, 1, 0, 1]
    array["o"] = [b"abc", b"\0\1\2", b"xyz", b"\xff\xff\xff", b"   "]
    file.create_dataset("special", data=array)


def arrays_and_enums(matrix):
    for libver in ("earliest", "latest"):
        for storage in ("contiguous", "compact", "deflate"):
            with matrix.file(f"arrays_{libver}_{storage}.h5", libver) as file:
                for base in ("<i4", ">f8", "|u1", ">i2"):
                    for dims in ((3,), (2, 3), (1,), (2, 1, 2)):
                        kind = h5t.array_create(h5t.py_create(np.dtype(base)), dims)
                        array = values(base, (7, *dims), dims)
                        dataset = create(file, f"array_{label(base)}_{size_label(dims)}", kind, (7,),
                                         _plist(storage, (7,)))
                        dataset.write(h5s.ALL, h5s.ALL, array, mtype=kind)
                _enums(file, storage)


def _enums(file, storage):
    for base in ("|i1", "|u1", "<i2", ">i2", "<u4", ">i4", "<i8", ">u8"):
        kind = h5py.enum_dtype({"ZERO": 0, "ONE": 1, "MANY": 100}, basetype=base)
        array = np.array([0, 1, 100, 1, 7, 0] * 3, base)
        put(file, f"enum_{label(base)}", h5t.py_create(kind, logical=True), array, storage,
            h5t.py_create(kind, logical=True))
    for shape in SHAPES:
        put(file, f"bool_{size_label(shape)}", "?", values("?", shape, "bool"), storage)
    for size in (1, 3, 16):
        put(file, f"opaque_{size}", f"V{size}", values(f"V{size}", (9,), size), storage)
    for dtype in ("<c8", ">c8", "<c16", ">c16"):
        for shape in ((37,), (5, 7), ()):
            put(file, f"complex_{label(dtype)}_{size_label(shape)}", dtype, values(dtype, shape, "c"), storage)


def native_complex(matrix):
    with matrix.file("complex_native_latest.h5", "latest") as file:
        for bits in (16, 32, 64):
            for end in ("LE", "BE"):
                kind = getattr(h5t, f"COMPLEX_IEEE_F{bits}{end}")
                memory = h5t.COMPLEX_IEEE_F64LE
                for storage in STORAGES:
                    for shape in ((37,), (5, 7), ()):
                        name = f"f{bits}_{end.lower()}_{storage}_{size_label(shape)}"
                        put(file, name, kind, values("<c16", shape, name), storage, memory)


def sequences(matrix):
    pair = np.dtype([("a", "<i2"), ("b", ">f8")])
    for libver in ("earliest", "latest"):
        with matrix.file(f"sequences_{libver}.h5", libver) as file:
            for base in ("|i1", "<i4", ">i4", "<f4", ">f8", "<u2", pair):
                word = "pair" if base is pair else label(base)
                for chunks, extra in ((None, {}), ((3,), {}), ((4,), {"compression": "gzip"})):
                    name = f"{word}_{'deflate' if extra else 'chunked' if chunks else 'contiguous'}"
                    dataset = file.create_dataset(name, (11,), h5py.vlen_dtype(base), chunks=chunks, **extra)
                    for index in range(9):
                        dataset[index] = values(base, (index * 37 % 23,), index)
                file.create_dataset(f"{word}_unwritten", (6,), h5py.vlen_dtype(base))
                file.create_dataset(f"{word}_empty", (0,), h5py.vlen_dtype(base), maxshape=(None,), chunks=(4,))
            big = file.create_dataset("long", (3,), h5py.vlen_dtype("<i4"))
            for index, count in enumerate((5000, 0, 70000)):
                big[index] = np.arange(count, dtype="<i4")
            strings_of = file.create_dataset("strings", (4,), h5py.vlen_dtype(h5py.string_dtype()))
            strings_of[1] = np.array(["a", "", "ccc"], object)
            table = file.create_dataset("grid", (3, 4), h5py.vlen_dtype(">i2"), chunks=(2, 3))
            for row in range(3):
                table[row, row] = np.arange(row + 1, dtype=">i2")


def refused(matrix):
    for libver in ("earliest", "latest"):
        with matrix.file(f"refused_{libver}.h5", libver) as file:
            target = file.create_dataset("target", data=values("<i4", (5, 6), "target"))
            file.create_dataset("object_reference", data=[target.ref, file.ref], dtype=h5py.ref_dtype)
            file.create_dataset("region_reference", data=[target.regionref[1:3, 2:4]], dtype=h5py.regionref_dtype)
            inside = np.zeros((2,), np.dtype([("n", "<i4"), ("r", h5py.ref_dtype)]))
            inside["r"] = target.ref
            file.create_dataset("reference_in_record", data=inside)
            lists = file.create_dataset("reference_lists", (2,), h5py.vlen_dtype(h5py.ref_dtype))
            lists[0] = np.array([target.ref], h5py.ref_dtype)
            file.create_dataset("reference_empty", (0,), h5py.ref_dtype)
            file.create_dataset("long_double", shape=(5,), dtype="g")
            file.create_dataset("long_double_pairs", data=np.zeros((2,), np.dtype([("a", "i4"), ("g", "g")])))
            for name in ("LE", "BE"):
                create(file, f"float128_{name.lower()}", getattr(h5t, f"IEEE_F128{name}"), (3,))
                create(file, f"time32_{name.lower()}", getattr(h5t, f"UNIX_D32{name}"), (3,))


def spaces(matrix):
    for libver in BOUNDS:
        with matrix.file(f"spaces_{libver}.h5", libver) as file:
            for dtype in ("<i4", ">f8", "S5", "?", "<c8", STRUCT):
                word = "struct" if dtype is STRUCT else label(dtype)
                file.create_dataset(f"null_{word}", data=h5py.Empty(dtype))
                file.create_dataset(f"scalar_{word}", data=values(dtype, (), word), dtype=dtype)
                file.create_dataset(f"zero_{word}", shape=(3, 0, 2), dtype=dtype)
            file.create_dataset("null_text", data=h5py.Empty(h5py.string_dtype()))
            file.create_dataset("dims_32", data=values("<i2", (2,) * 3 + (1,) * 28 + (3,), 32))
            chunked = create(file, "dims_32_chunked", "<i2", (2,) * 3 + (1,) * 28 + (3,), dcpl(chunks=(1,) * 32))
            write(chunked, values("<i2", (2,) * 3 + (1,) * 28 + (3,), 33))
            file.create_dataset("unlimited_zero", shape=(0, 4), maxshape=(None, 4), chunks=(3, 2), dtype="<f4")


SUBJECTS = [numbers, odd_numbers, strings, records, arrays_and_enums, native_complex, sequences, refused, spaces]
