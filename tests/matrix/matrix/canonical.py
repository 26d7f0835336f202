"""Canonical bytes: the definition of what `forebay dump FILE VARIABLE --sha256` hashes.

The elements of a data set (or attribute) in C order, nothing between them, each written so:

- integer, bitfield: little-endian two's complement in 1, 2, 4 or 8 bytes, the smallest that holds the *size*
  of the file's type; odd precision and bit offset are undone, the value is kept (3-byte integers take 4);
- float: bfloat16 as its two bytes, little-endian; all others as little-endian IEEE of 2, 4 or 8 bytes, the smallest
  that holds every value of the file's type: other floats of 8 exponent bits take 4, the 8-bit floats take 2; 80 and
  128 bits are refused;
- enum, bool: the base integer;
- complex, whether a compound of r and i or the complex class of HDF5 2.0: the real part, then the imaginary;
- fixed string: its full size. Null-padded: as stored. Null-terminated: cut at the first NUL. Space-padded: less its
  trailing spaces. What was cut is NUL;
- opaque: raw;
- array type: its elements, as if its dimensions were trailing ones of the data set;
- compound: its fields in file order, one after the other, no padding, each by these rules;
- variable-length sequence: the number of items in 8 bytes, little-endian, then the items by these rules;
- variable-length string: its length in bytes in 8 bytes, little-endian, then the bytes up to the first NUL;
  a string never written has length 0;
- null dataspace, and any shape with a 0: nothing at all;
- elements that were never written: the fill value; zero bytes where none is defined or none is given out.

Refused, anywhere inside a type: references, times, floats wider than 64 bits.

libhdf5 does the reading: a memory type of this form is made from the file's type, so that H5Dread itself converts;
only variable-length values are gathered here. Where h5py's own array is simple it must agree.
"""

import ctypes
import hashlib
import struct

import numpy as np
from h5py import h5s, h5t

from . import native

INTEGERS = {
    (True, 1): h5t.STD_I8LE, (True, 2): h5t.STD_I16LE, (True, 4): h5t.STD_I32LE, (True, 8): h5t.STD_I64LE,
    (False, 1): h5t.STD_U8LE, (False, 2): h5t.STD_U16LE, (False, 4): h5t.STD_U32LE, (False, 8): h5t.STD_U64LE,
}
SWAPPED = {
    (True, 2): h5t.STD_I16BE, (True, 4): h5t.STD_I32BE, (True, 8): h5t.STD_I64BE,
    (False, 2): h5t.STD_U16BE, (False, 4): h5t.STD_U32BE, (False, 8): h5t.STD_U64BE,
}
BITFIELDS = {1: h5t.STD_B8LE, 2: h5t.STD_B16LE, 4: h5t.STD_B32LE, 8: h5t.STD_B64LE}
FLOATS = [(5, 10, 14, h5t.IEEE_F16LE), (8, 23, 126, h5t.IEEE_F32LE), (11, 52, 1022, h5t.IEEE_F64LE)]


class Refused(Exception):
    """A type whose values have no canonical bytes; the text is the reason."""


class Raw:
    """Bytes that are canonical once libhdf5 has converted them."""

    def __init__(self, size):
        self.size = size

    def pack(self, address, out):
        out.append(ctypes.string_at(address, self.size))


class Swapped(Raw):
    """A big-endian number in memory."""

    def pack(self, address, out):
        out.append(ctypes.string_at(address, self.size)[::-1])


class Text:
    """A variable-length string: a char pointer in memory."""

    size = ctypes.sizeof(ctypes.c_void_p)

    def pack(self, address, out):
        pointer = ctypes.c_void_p.from_address(address).value
        text = ctypes.string_at(pointer) if pointer else b""
        out.append(struct.pack("<Q", len(text)) + text)


class Items:
    """A variable-length sequence: an hvl_t in memory."""

    size = ctypes.sizeof(native.Sequence)

    def __init__(self, item):
        self.item = item

    def pack(self, address, out):
        sequence = native.Sequence.from_address(address)
        out.append(struct.pack("<Q", sequence.len))
        for index in range(sequence.len):
            self.item.pack(sequence.p + index * self.item.size, out)


class Fields:
    """Parts at offsets: a compound, or an array type as `count` equal parts."""

    def __init__(self, parts):
        self.parts = parts
        self.size = sum(part.size for part in parts)

    def pack(self, address, out):
        for part in self.parts:
            part.pack(address, out)
            address += part.size


def _width(size):
    for width in (1, 2, 4, 8):
        if size <= width:
            return width
    raise Refused("integer")


def _integer(kind):
    size = kind.get_size()
    key = (kind.get_sign() == h5t.SGN_2, _width(size))
    # From big- to little-endian of one size and bit offset libhdf5 only swaps bytes, whatever the precision:
    # padding would be taken for value. Between types of one order it converts.
    if kind.get_order() == h5t.ORDER_BE and kind.get_precision() < 8 * size and key in SWAPPED:
        return SWAPPED[key], Swapped(key[1])
    return INTEGERS[key], Raw(key[1])


def is_bfloat16(kind):
    return kind.get_size() == 2 and kind.get_fields()[2] == 8


def _float(kind):
    _, _, exponent, _, mantissa = kind.get_fields()
    if is_bfloat16(kind):
        memory = kind.copy()
        memory.set_order(h5t.ORDER_LE)
        return memory
    for exponent_max, mantissa_max, bias_max, ieee in FLOATS:
        if exponent <= exponent_max and mantissa <= mantissa_max and kind.get_ebias() - 1 <= bias_max:
            if kind.get_size() <= ieee.get_size():
                return ieee
    raise Refused("float")


def _string(kind):
    memory = h5t.C_S1.copy()
    memory.set_size(h5t.VARIABLE if kind.is_variable_str() else kind.get_size())
    memory.set_strpad(h5t.STR_NULLTERM if kind.is_variable_str() else h5t.STR_NULLPAD)
    memory.set_cset(kind.get_cset())
    return memory, Text() if kind.is_variable_str() else Raw(kind.get_size())


def _compound(kind):
    members = [memory_type(kind.get_member_type(i)) for i in range(kind.get_nmembers())]
    memory = h5t.create(h5t.COMPOUND, sum(part.size for _, part in members))
    offset = 0
    for index, (member, part) in enumerate(members):
        memory.insert(kind.get_member_name(index), offset, member)
        offset += part.size
    return memory, _merge([part for _, part in members])


def _merge(parts):
    whole = Fields(parts)
    return Raw(whole.size) if all(type(part) is Raw for part in parts) else whole


def memory_type(kind):
    """The type to read `kind` as, and how its bytes in memory become canonical."""
    form = kind.get_class()
    if form in (h5t.INTEGER, h5t.ENUM):
        return _integer(kind.get_super() if form == h5t.ENUM else kind)
    if form == h5t.BITFIELD:
        memory = BITFIELDS[_width(kind.get_size())]
    elif form == h5t.FLOAT:
        memory = _float(kind)
    elif form == h5t.COMPLEX:
        part, _ = memory_type(kind.get_super())
        memory = h5t.typewrap(native.call("H5Tcomplex_create", part.id))
    elif form == h5t.OPAQUE:
        memory = kind.copy()
    elif form == h5t.STRING:
        return _string(kind)
    elif form == h5t.COMPOUND:
        return _compound(kind)
    elif form == h5t.ARRAY:
        item, part = memory_type(kind.get_super())
        dims = kind.get_array_dims()
        return h5t.array_create(item, dims), _merge([part] * int(np.prod(dims)))
    elif form == h5t.VLEN:
        item, part = memory_type(kind.get_super())
        return h5t.vlen_create(item), Items(part)
    else:
        raise Refused({h5t.REFERENCE: "reference", h5t.TIME: "time"}.get(form, "type"))
    return memory, Raw(memory.get_size())


def canonical_bytes(thing):
    """The canonical bytes of a h5py DatasetID or AttrID."""
    memory, part = memory_type(thing.get_type())
    space = thing.get_space()
    count = 0 if space.get_simple_extent_type() == h5s.NULL else space.get_simple_extent_npoints()
    if count == 0:
        return b""
    buffer = ctypes.create_string_buffer(part.size * count)
    if hasattr(thing, "get_create_plist"):
        native.call("H5Dread", thing.id, memory.id, native.ALL, native.ALL, native.DEFAULT, buffer)
    else:
        native.call("H5Aread", thing.id, memory.id, buffer)
    if type(part) is Raw:
        return buffer.raw
    out = []
    for index in range(count):
        part.pack(ctypes.addressof(buffer) + index * part.size, out)
    native.call("H5Treclaim", memory.id, space.id, native.DEFAULT, buffer)
    return b"".join(out)


def sha256(thing):
    return hashlib.sha256(canonical_bytes(thing)).hexdigest()


def packed(array):
    """The canonical bytes of a numpy array without variable-length parts: h5py's word against ours."""
    if array.dtype.names is None:
        return array.astype(array.dtype.newbyteorder("<")).tobytes()
    columns = []
    for name in array.dtype.names:
        rows = packed(np.ascontiguousarray(array[name]))
        columns.append(np.frombuffer(rows, "u1").reshape(array.size, -1) if array.size else None)
    return np.concatenate(columns, axis=1).tobytes() if array.size else b""
