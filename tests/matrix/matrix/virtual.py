"""Virtual data sets: mappings of every shape, sources that are missing, nested, of another type, numbered."""

import h5py
import numpy as np
from h5py import h5s, h5t

from .make import create, dcpl, space, values
from .types import ODD_FLOATS, odd_float, odd_int, put

SOURCES = [f"virtual_source_{index}.h5" for index in range(4)]
ROWS, COLUMNS = 6, 10


def sources(matrix):
    for index, name in enumerate(SOURCES):
        with matrix.file(name, "earliest" if index % 2 else "latest") as file:
            for dtype in ("<i4", ">f8"):
                data = values(dtype, (ROWS, COLUMNS), f"{name}{dtype}")
                word = "whole" if dtype == "<i4" else "real"
                file.create_dataset(word, data=data, chunks=(4, 4), compression="gzip" if index else None)
            file.create_dataset("row", data=values("<i4", (COLUMNS,), name))
            file.create_dataset("tiny", data=np.arange(COLUMNS, dtype="|u1") + index)
            partly = file.create_dataset("partly", (ROWS, COLUMNS), "<i4", chunks=(4, 4), fillvalue=-3)
            partly[:2] = index


def _source(index, word="whole", dtype="<i4", shape=(ROWS, COLUMNS)):
    return h5py.VirtualSource(SOURCES[index], word, shape=shape, dtype=dtype)


def _add(file, name, layout, fill=None):
    file.create_virtual_dataset(name, layout, fillvalue=fill)


def mappings(matrix):
    with matrix.file("virtual_mappings.h5", "latest") as file:
        layouts = {"whole": _whole, "stacked": _stacked, "reversed": _reversed, "columns": _columns,
                   "strided": _strided, "interleaved": _interleaved, "part": _part, "gaps": _gaps,
                   "overlapping": _overlapping, "transposed_blocks": _blocks}
        for name, build in layouts.items():
            for word, dtype in (("whole", "<i4"), ("real", ">f8"), ("partly", "<i4")):
                for fill in (None, 17):
                    _add(file, f"{name}_{word}_{fill}", build(word, dtype), fill)


def _whole(word, dtype):
    layout = h5py.VirtualLayout((ROWS, COLUMNS), dtype)
    layout[...] = _source(0, word, dtype)
    return layout


def _stacked(word, dtype):
    layout = h5py.VirtualLayout((4, ROWS, COLUMNS), dtype)
    for index in range(4):
        layout[index] = _source(index, word, dtype)
    return layout


def _reversed(word, dtype):
    layout = h5py.VirtualLayout((4 * ROWS, COLUMNS), dtype)
    for index in range(4):
        layout[(3 - index) * ROWS:(4 - index) * ROWS] = _source(index, word, dtype)
    return layout


def _columns(word, dtype):
    layout = h5py.VirtualLayout((ROWS, 4 * COLUMNS), dtype)
    for index in range(4):
        layout[:, index * COLUMNS:(index + 1) * COLUMNS] = _source(index, word, dtype)
    return layout


def _strided(word, dtype):
    layout = h5py.VirtualLayout((ROWS, COLUMNS // 2), dtype)
    layout[...] = _source(1, word, dtype)[:, ::2]
    return layout


def _interleaved(word, dtype):
    layout = h5py.VirtualLayout((2 * ROWS, COLUMNS), dtype)
    layout[0::2] = _source(0, word, dtype)
    layout[1::2] = _source(1, word, dtype)
    return layout


def _part(word, dtype):
    layout = h5py.VirtualLayout((5, 5), dtype)
    layout[1:4, 2:5] = _source(2, word, dtype)[2:5, 3:6]
    return layout


def _gaps(word, dtype):
    layout = h5py.VirtualLayout((20, COLUMNS), dtype)
    layout[3:9] = _source(0, word, dtype)
    layout[12:18] = _source(3, word, dtype)
    return layout


def _overlapping(word, dtype):
    layout = h5py.VirtualLayout((9, COLUMNS), dtype)
    layout[0:6] = _source(0, word, dtype)
    layout[3:9] = _source(1, word, dtype)
    return layout


def _blocks(word, dtype):
    layout = h5py.VirtualLayout((COLUMNS, ROWS), dtype)
    layout[0:5, :] = _source(0, word, dtype)[0:3, :]
    layout[5:10, :] = _source(1, word, dtype)[3:6, :]
    return layout


def special(matrix):
    """Missing and nested sources, sources in the same file, other types, sources that are too small."""
    with matrix.file("virtual_special.h5", "latest") as file:
        file.create_dataset("here", data=values("<i4", (ROWS, COLUMNS), "here"))
        for fill in (None, -9):
            for name, source in {
                "missing_file": h5py.VirtualSource("virtual_missing.h5", "whole", shape=(ROWS, COLUMNS), dtype="<i4"),
                "missing_variable": h5py.VirtualSource(SOURCES[0], "nowhere", shape=(ROWS, COLUMNS), dtype="<i4"),
                "same_file": h5py.VirtualSource(".", "here", shape=(ROWS, COLUMNS), dtype="<i4"),
                "nested": h5py.VirtualSource("virtual_mappings.h5", "whole_whole_None", shape=(ROWS, COLUMNS), dtype="<i4"),
                "nested_here": h5py.VirtualSource(".", f"same_file_{fill}", shape=(ROWS + 1, COLUMNS), dtype="<i4")[1:],
            }.items():
                layout = h5py.VirtualLayout((ROWS + 1, COLUMNS), "<i4")
                layout[:ROWS] = source
                _add(file, f"{name}_{fill}", layout, fill)
            half = h5py.VirtualLayout((2, ROWS, COLUMNS), "<i4")
            half[0] = _source(0)
            half[1] = h5py.VirtualSource("virtual_missing.h5", "whole", shape=(ROWS, COLUMNS), dtype="<i4")
            _add(file, f"half_missing_{fill}", half, fill)
            _conversions(file, fill)


def _conversions(file, fill):
    for virtual, word, dtype, shape in (("<f8", "whole", "<i4", (ROWS, COLUMNS)), (">i8", "whole", "<i4", (ROWS, COLUMNS)),
                                        ("<f4", "real", ">f8", (ROWS, COLUMNS)), (">i2", "tiny", "|u1", (COLUMNS,)),
                                        (">i4", "whole", "<i4", (ROWS, COLUMNS))):
        layout = h5py.VirtualLayout(shape, virtual)
        layout[...] = _source(1, word, dtype, shape)
        _add(file, f"from_{word}_to_{virtual[1:]}{'be' if virtual[0] == '>' else 'le'}_{fill}", layout, fill)


def _select(shape, limits, start, count, stride, block):
    chosen = space(shape, limits)
    chosen.select_hyperslab(start, count, stride, block)
    return chosen


def unlimited(matrix):
    """Selections without end and numbered sources: the shape follows from what exists."""
    for index in range(3):
        with matrix.file(f"virtual_numbered_{index}.h5", "latest") as file:
            file.create_dataset("part", data=values("<i4", (2, 5), index))
            file.create_dataset("open", data=values("<i4", (3 + index, 5), index), maxshape=(None, 5), chunks=(2, 5))
            for number in range(2):
                file.create_dataset(f"part_{number}", data=values("<i4", (2, 5), index * 10 + number))
    with matrix.file("virtual_unlimited.h5", "latest") as file:
        endless = h5s.UNLIMITED
        numbered = {"files": (b"virtual_numbered_%b.h5", b"part"), "variables": (b"virtual_numbered_1.h5", b"part_%b"),
                    "none": (b"virtual_absent_%b.h5", b"part")}
        for name, (source, variable) in numbered.items():
            plist = dcpl()
            plist.set_fill_value(np.array(-4, "<i4"))
            virtual = _select((2, 5), (None, 5), (0, 0), (endless, 1), (2, 5), (2, 5))
            plist.set_virtual(virtual, source, variable, space((2, 5)))
            create(file, f"numbered_{name}", "<i4", (2, 5), plist, (None, 5))
        for index in range(3):
            plist = dcpl()
            virtual = _select((1, 5), (None, 5), (0, 0), (1, 1), (1, 1), (endless, 5))
            source = _select((1, 5), (None, 5), (0, 0), (1, 1), (1, 1), (endless, 5))
            plist.set_virtual(virtual, f"virtual_numbered_{index}.h5".encode(), b"open", source)
            create(file, f"endless_{index}", "<i4", (1, 5), plist, (None, 5))
        plist = dcpl()
        plist.set_fill_value(np.array(-6, "<i4"))
        for index in range(3):
            virtual = _select((3, 5), (None, 5), (index, 0), (endless, 1), (3, 5), (1, 5))
            source = _select((1, 5), (None, 5), (0, 0), (1, 1), (1, 1), (endless, 5))
            plist.set_virtual(virtual, f"virtual_numbered_{index}.h5".encode(), b"open", source)
        create(file, "endless_interleaved", "<i4", (3, 5), plist, (None, 5))


def odd_types(matrix):
    """Numbers of odd widths and makes, whose elements grow when they are read, with rows that no source fills."""
    with matrix.file("virtual_odd.h5", "latest") as file:
        kinds = {f"{name}_{end}": odd_float(size, fields, bias, order)
                 for name, (size, fields, bias) in ODD_FLOATS.items()
                 for order, end in ((h5t.ORDER_LE, "le"), (h5t.ORDER_BE, "be"))}
        for size, precision, offset in ((3, 24, 0), (3, 17, 3), (5, 40, 0), (4, 20, 5)):
            base = {3: h5t.STD_I32LE, 4: h5t.STD_I32LE, 5: h5t.STD_I64LE}[size]
            kinds[f"i{size}_{precision}at{offset}"] = odd_int(base, size, precision, offset)
        for name, kind in kinds.items():
            array = values("<i4", (ROWS, COLUMNS), name) >> 18 if name.startswith("i") else values("|i1", (ROWS, COLUMNS), name)
            put(file, name, kind, array.astype("<i4" if name.startswith("i") else "<f4"), "deflate")
            plist = dcpl()
            virtual = space((ROWS + 2, COLUMNS))
            virtual.select_hyperslab((1, 0), (ROWS, COLUMNS))
            plist.set_virtual(virtual, b".", name.encode(), space((ROWS, COLUMNS)))
            create(file, f"virtual_{name}", kind, (ROWS + 2, COLUMNS), plist)


SUBJECTS = [sources, mappings, special, unlimited, odd_types]
