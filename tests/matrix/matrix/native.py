"""The few libhdf5 calls h5py does not offer, on the very library h5py has loaded."""

import ctypes
import ctypes.util
import glob
import os

import h5py

HID = ctypes.c_int64
SIZE = ctypes.c_size_t
ALL = 0
DEFAULT = 0

DONT_FILTER_PARTIAL_CHUNKS = 0x0002
SHARE_ALL = 0x001F


class Sequence(ctypes.Structure):
    """hvl_t: what a variable-length value is in memory."""

    _fields_ = [("len", SIZE), ("p", ctypes.c_void_p)]


def _load():
    beside = os.path.join(os.path.dirname(os.path.dirname(h5py.__file__)), "h5py.libs")
    found = [p for p in sorted(glob.glob(os.path.join(beside, "libhdf5-*.so*")))]
    return ctypes.CDLL(found[0] if found else ctypes.util.find_library("hdf5"))


_LIB = _load()
_SIGNATURES = {
    "H5Dread": [HID, HID, HID, HID, HID, ctypes.c_void_p],
    "H5Aread": [HID, HID, ctypes.c_void_p],
    "H5Treclaim": [HID, HID, HID, ctypes.c_void_p],
    "H5Tcomplex_create": [HID],
    "H5Pset_chunk_opts": [HID, ctypes.c_uint],
    "H5Pset_nbit": [HID],
    "H5Pset_fill_value": [HID, HID, ctypes.c_void_p],
    "H5Pset_istore_k": [HID, ctypes.c_uint],
    "H5Pset_sym_k": [HID, ctypes.c_uint, ctypes.c_uint],
    "H5Pset_shared_mesg_nindexes": [HID, ctypes.c_uint],
    "H5Pset_shared_mesg_index": [HID, ctypes.c_uint, ctypes.c_uint, ctypes.c_uint],
    "H5Pset_shared_mesg_phase_change": [HID, ctypes.c_uint, ctypes.c_uint],
    "H5Pset_link_phase_change": [HID, ctypes.c_uint, ctypes.c_uint],
}
for _name, _arguments in _SIGNATURES.items():
    _function = getattr(_LIB, _name)
    _function.argtypes = _arguments
    _function.restype = HID if _name == "H5Tcomplex_create" else ctypes.c_int


def call(name, *arguments):
    """Calls `name`; a negative answer is an OSError."""
    answer = getattr(_LIB, name)(*arguments)
    if answer < 0:
        raise OSError(f"{name} said {answer}")
    return answer
