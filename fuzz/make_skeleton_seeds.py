#!/usr/bin/env python3
"""Makes the first plans for the fuzz target `hdf5_skeleton`: `make_skeleton_seeds.py [DIR]`.

A plan is read from bytes by the crate `arbitrary`: numbers little-endian, the variant of an enumeration as the upper part
of a product with a u32, a byte before each element of a list that says whether there is one. The functions below write
what `src/plan.rs` declares, in its order. What fuzzing found beyond them is kept small by `cargo fuzz cmin`.
"""

import pathlib
import struct
import sys

folder = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parent / "corpus" / "hdf5_skeleton")
folder.mkdir(parents=True, exist_ok=True)


def u8(n):
    return struct.pack("<B", n)


def u16(n):
    return struct.pack("<H", n)


def variant(index, count):
    return struct.pack("<I", -(-(index << 32) // count))


def many(items):
    return b"".join(b"\1" + item for item in items) + b"\0"


def maybe(item):
    return b"\0" if item is None else b"\1" + item


def times(count, item):
    return u16(count) + item


def size(n):
    return variant(0, 4) + u8(n) if n < 256 else variant(1, 4) + u16(n) if n < 65536 else variant(3, 4) + struct.pack("<Q", n)


def power(n):
    return variant(2, 4) + u8(n)


def lead(to, beside=0):
    return u8(to) + struct.pack("<b", beside)


NOWHERE = lead(255)


def structure(index):
    return lambda *fields: variant(index, 15) + b"".join(fields)


(HEADER, CONTINUATION, HEAP, TEXT, TREE_V1, SYMBOLS, LOCAL_HEAP, TREE_V2, NODE, FRACTAL_HEAP, FRACTAL_BLOCK, FIXED_ARRAY,
 FIXED_DATA, EXTENSIBLE_ARRAY, EXTENSIBLE_BLOCK) = map(structure, range(15))


def part(index):
    return lambda *fields: variant(index, 15) + b"".join(fields)


(LINK, SPACE, TYPE, SHARED, FILL, CONTIGUOUS, COMPACT, CHUNKED, MAPPED, ATTRIBUTE, SHARED_ATTRIBUTE, CONTINUE, SYMBOL_TABLE,
 DENSE, PIPELINE) = map(part, range(15))


def reference(count, heap, item):
    return variant(0, 2) + u16(count) + lead(heap) + u8(item)


def byte(n):
    return variant(1, 2) + u8(n)


def values(*items):
    return variant(0, 2) + many(items)


def layout(*entries):
    return variant(1, 2) + many(entries)


def short(letter):
    return variant(0, 3) + u8(letter)


def long_name(letter, length):
    return variant(1, 3) + u8(letter) + u16(length)


def as_in(index):
    return variant(2, 3) + u8(index)


def entry(name, source=None, to=None, other=False):
    axes = lambda selection: None if selection is None else many(b"".join(map(size, axis)) for axis in selection)
    return u8(other) + name + maybe(axes(source)) + maybe(axes(to))


def integer(length):
    return variant(0, 6) + u8(length)


TEXT_TYPE = variant(1, 6)


def opaque(length):
    return variant(2, 6) + u16(length)


def sequence(item):
    return variant(3, 6) + item


def array(shape, item):
    return variant(4, 6) + many(map(u8, shape)) + item


def compound(*members):
    return variant(5, 6) + many(members)


def link(letter, to, count=1):
    return LINK(short(letter), lead(to), u16(count))


def space(*shape, grows=False):
    return SPACE(u8(grows), many(map(size, shape)))


def word(n):
    return variant(1, 3) + size(n)


def at(to):
    return variant(0, 3) + lead(to)


def raw(n):
    return variant(2, 3) + u8(n)


def variable(dtype, shape, *rest):
    return HEADER(many([space(*shape), TYPE(dtype), *rest]))


def chunked(index, to):
    return CHUNKED(u8(index), many([u8(1), u8(4)]), lead(to))


def plan(name, *structures):
    (folder / f"seed_{name}").write_bytes(many(structures))


i4 = integer(4)
plain = variable(i4, [2], COMPACT(many([times(8, byte(7))])))
nested = sequence(sequence(sequence(integer(1))))
whole = [[0, 1, 1, 1]]

plan("plain", HEADER(many([link(0, 1), link(1, 2)])), plain, variable(i4, [4], CONTIGUOUS(lead(1), size(16))))
plan("sequences", HEADER(many([link(0, 2), ATTRIBUTE(u8(0), nested, many([u8(1)]), many([times(1, reference(100, 1, 1))]), u8(1))])),
     HEAP(many([values(times(100, reference(100, 1, 1)))])),
     variable(nested, [1], COMPACT(many([times(1, reference(100, 1, 1))]))))
plan("texts", HEADER(many([link(0, 2)])), HEAP(many([values(times(9, byte(65)))])),
     variable(compound(times(1, TEXT_TYPE), times(2, array([2], TEXT_TYPE))), [1], COMPACT(many([times(5, reference(9, 1, 1))]))))
plan("virtual", HEADER(many([link(0, 1), link(1, 3)])), plain, HEAP(many([layout(times(3, entry(short(0), whole, whole)))])),
     variable(i4, [2], MAPPED(lead(2), u8(1))))
plan("virtual_nested", HEADER(many([link(0, 1), link(1, 3), link(2, 5)])), plain,
     HEAP(many([layout(times(9, entry(short(0))))])), variable(i4, [2], MAPPED(lead(2), u8(1))),
     HEAP(many([layout(times(9, entry(short(1))))])), variable(i4, [2], MAPPED(lead(4), u8(1))))
plan("virtual_names", HEADER(many([link(0, 2)])), HEAP(many([layout(times(1, entry(long_name(0, 8000))), times(2000, entry(as_in(0))))])),
     variable(i4, [2], MAPPED(lead(1), u8(1))))
plan("virtual_growing", HEADER(many([link(0, 1), link(1, 3)])), plain,
     HEAP(many([layout(times(1, entry(short(0), [[0, 1, 2**64 - 1, 1]], [[0, 2, 2**64 - 1, 1]], False)))])),
     variable(i4, [2], MAPPED(lead(2), u8(1))))
plan("committed", HEADER(many([link(0, 2), link(1, 3), SHARED_ATTRIBUTE(u8(0), lead(1), many([times(300, byte(1))]), u8(9))])),
     HEADER(many([TYPE(compound(times(300, integer(1))))])),
     *[HEADER(many([space(1), SHARED(u8(3), lead(1)), CONTIGUOUS(NOWHERE, size(0))]))] * 2)
plan("shared_fill", HEADER(many([link(0, 2), link(1, 3)])), HEADER(many([FILL(u16(5000))])),
     *[HEADER(many([space(1), TYPE(opaque(5000)), SHARED(u8(5), lead(1)), CONTIGUOUS(NOWHERE, size(0))]))] * 2)
plan("symbols", HEADER(many([SYMBOL_TABLE(lead(1), lead(3))])), TREE_V1(u8(0), u8(0), many([u16(0) + lead(2)])),
     SYMBOLS(many([times(50, u16(0) + lead(5) + u8(0)), times(1, u16(1) + lead(5) + u8(1))])), LOCAL_HEAP(u16(900), lead(4)),
     TEXT(u8(97), u16(900)), plain)
plan("dense", HEADER(many([DENSE(u8(1), lead(1), lead(3))])),
     FRACTAL_HEAP(u8(7), NOWHERE, u8(2), u8(9), u8(12), lead(2), u8(0)),
     FRACTAL_BLOCK(u8(1), lead(1), many([times(1, raw(1)), times(1, raw(0)), times(1, raw(1)), times(1, raw(97)), times(1, at(0)), times(500, raw(0))])),
     TREE_V2(u8(5), u8(11), u8(0), u16(2), lead(4)),
     NODE(u8(1), u8(5), many([times(5, raw(0)), times(1, raw(17)), times(3, raw(0)), times(1, raw(12)), times(1, raw(0))] * 2)))
for index, name in ((1, "single"), (2, "implicit")):
    plan(f"chunks_{name}", HEADER(many([link(0, 1)])), variable(i4, [2], chunked(index, 2)), TEXT(u8(1), u16(64)))
plan("chunks_fixed", HEADER(many([link(0, 1)])), variable(i4, [40], chunked(3, 2)),
     FIXED_ARRAY(u8(0), u8(10), size(40), lead(3)), FIXED_DATA(many([times(40, at(4))])), TEXT(u8(1), u16(64)))
plan("chunks_fixed_pages", HEADER(many([link(0, 1)])), variable(i4, [40], chunked(3, 2)),
     FIXED_ARRAY(u8(0), u8(2), size(40), lead(3)), FIXED_DATA(many([times(2, raw(255)), times(4, raw(0)), times(60, at(4))])), TEXT(u8(1), u16(64)))
plan("chunks_extensible", HEADER(many([link(0, 1)])),
     HEADER(many([space(40, grows=True), TYPE(i4), chunked(4, 2)])),
     EXTENSIBLE_ARRAY(u8(0), bytes([32, 4, 16, 4, 10]), size(40), lead(3)),
     EXTENSIBLE_BLOCK(u8(0), many([times(4, at(5)), times(6, at(4)), times(30, word(2**64 - 1))])),
     EXTENSIBLE_BLOCK(u8(2), many([times(4, raw(0)), times(64, at(5))])), TEXT(u8(1), u16(64)))
plan("chunks_tree_v1", HEADER(many([link(0, 1)])), variable(i4, [2], CHUNKED(u8(0), many([u8(1), u8(4)]), lead(2))),
     TREE_V1(u8(1), u8(0), many([u16(0) + lead(3)])), TEXT(u8(1), u16(64)))
plan("chunks_tree_v2", HEADER(many([link(0, 1)])), variable(i4, [2], chunked(5, 2), PIPELINE(many([u8(1) + u8(4)]))),
     TREE_V2(u8(10), u8(16), u8(0), u16(2), lead(3)), NODE(u8(1), u8(10), many([times(1, at(4)), times(1, word(0))] * 2)), TEXT(u8(1), u16(64)))
plan("continuation", HEADER(many([CONTINUE(lead(1), u16(64))])), CONTINUATION(many([link(0, 2), link(1, 0), link(2, 2)])), plain)
plan("ring", HEADER(many([CONTINUE(lead(1), u16(40)), link(0, 0, 400)])), CONTINUATION(many([CONTINUE(lead(1), u16(24))])))
plan("powers", HEADER(many([link(0, 1)])), HEADER(many([SPACE(u8(0), many([power(40), power(30)])), TYPE(i4), CONTIGUOUS(lead(0), power(63))])))
