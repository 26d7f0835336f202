//! Structures of HDF5's headers that callbacks get or hand on, as far as they are looked at.

use std::{
    ffi::{c_int, c_uint, c_ulong, c_void},
    ptr::null_mut,
};

use forebay_libhdf5::hdf5_types::{haddr_t, hid_t, hsize_t};

use crate::file::file_state::ObjectToken;

/// `H5VL_loc_params_t` for the object itself.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct SelfLocation {
    object_kind: c_int,
    location_kind: c_int,
    data: [u64; 5],
}

impl SelfLocation {
    /// The object itself, which is of `kind`.
    pub(crate) fn of(kind: c_int) -> Self {
        Self { object_kind: kind, location_kind: 0, data: [0; 5] }
    }
}

/// `H5O_info2_t`
#[repr(C)]
#[derive(Debug, Default)]
pub(crate) struct ObjectDetails {
    pub(crate) file_number: c_ulong,
    pub(crate) token: ObjectToken,
    pub(crate) kind: c_int,
    pub(crate) references: c_uint,
    times: [i64; 4],
    attribute_count: hsize_t,
}

/// `H5VL_object_get_args_t` of `H5VL_OBJECT_GET_INFO`
#[repr(C)]
#[derive(Debug)]
pub(crate) struct ObjectGetInfo {
    operation: c_int,
    padding: c_int,
    fields: c_uint,
    into: *mut ObjectDetails,
    rest: [u64; 2],
}

impl ObjectGetInfo {
    /// Asks for file number, token and kind.
    pub(crate) fn basic(into: *mut ObjectDetails) -> Self {
        Self { operation: 3, padding: 0, fields: 1, into, rest: [0; 2] }
    }
}

/// `H5VL_object_get_args_t` of `H5VL_OBJECT_GET_FILE`, and `H5VL_link_get_args_t` of `H5VL_LINK_GET_INFO`: both are 0.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct GetFirst {
    operation: c_int,
    into: *mut c_void,
    rest: [u64; 3],
}

impl GetFirst {
    /// Asks for what is put at `into`.
    pub(crate) fn answered_at(into: *mut c_void) -> Self {
        Self { operation: 0, into, rest: [0; 3] }
    }
}

/// `H5L_info2_t`
#[repr(C)]
#[derive(Debug, Default)]
pub(crate) struct LinkDetails {
    pub(crate) kind: c_int,
    has_order: bool,
    order: i64,
    characters: c_int,
    value: [u64; 2],
}

/// `H5VL_file_get_args_t`, whose first argument is a place for an answer or the answer itself.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct FileGet {
    pub(crate) operation: c_int,
    pub(crate) first: FileGetFirst,
    second: *mut c_void,
    rest: [u64; 2],
}

/// The first argument of a question to a file.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) union FileGetFirst {
    pub(crate) list: hid_t,
    pub(crate) number: *mut c_ulong,
    kinds: u64,
}

impl std::fmt::Debug for FileGetFirst {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("an argument")
    }
}

/// `H5VL_FILE_GET_FAPL`
pub(crate) const FILE_GET_ACCESS: c_int = 1;
/// `H5VL_FILE_GET_FCPL`
const FILE_GET_CREATION: c_int = 2;
/// `H5VL_FILE_GET_FILENO`
const FILE_GET_NUMBER: c_int = 3;
/// `H5VL_FILE_GET_OBJ_COUNT`
const FILE_GET_OPEN_OBJECTS: c_int = 6;
/// `H5F_OBJ_ALL`
pub(crate) const OBJECTS_OF_ALL_KINDS: u64 = 0x1f;
/// `H5F_OBJ_GROUP`
pub(crate) const OPEN_GROUPS: u64 = 4;

impl FileGet {
    /// Asks for the number by which the library knows the file.
    pub(crate) fn number(into: *mut c_ulong) -> Self {
        let first = FileGetFirst { number: into };
        Self { operation: FILE_GET_NUMBER, first, second: null_mut(), rest: [0; 2] }
    }

    /// Asks how many objects of `kinds` of the file are open, through whichever handle of it.
    pub(crate) fn open_objects(kinds: u64, into: *mut usize) -> Self {
        let first = FileGetFirst { kinds };
        Self { operation: FILE_GET_OPEN_OBJECTS, first, second: into.cast(), rest: [0; 2] }
    }

    /// Asks for the creation list.
    pub(crate) fn creation() -> Self {
        let first = FileGetFirst { list: -1 };
        Self { operation: FILE_GET_CREATION, first, second: null_mut(), rest: [0; 2] }
    }
}

/// `H5VL_dataset_get_args_t` whose answer is a handle.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct DatasetGetHandle {
    operation: c_int,
    pub(crate) handle: hid_t,
    rest: [u64; 2],
}

impl DatasetGetHandle {
    /// Asks for the creation list.
    pub(crate) fn creation() -> Self {
        Self { operation: 1, handle: -1, rest: [0; 2] }
    }

    /// Asks for the dataspace.
    pub(crate) fn space() -> Self {
        Self { operation: 2, handle: -1, rest: [0; 2] }
    }

    /// Asks for the type.
    pub(crate) fn kind() -> Self {
        Self { operation: 5, handle: -1, rest: [0; 2] }
    }
}

/// `H5VL_file_specific_args_t` of the two operations that name a file and an access list.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct FileSpecific {
    pub(crate) operation: c_int,
    pub(crate) first: *mut c_void,
    pub(crate) access: hid_t,
    pub(crate) rest: [u64; 2],
}

/// `H5VL_file_specific_args_t` of a flush.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct FileFlush {
    operation: c_int,
    /// What follows is a union that has pointers among its members.
    padding: c_int,
    /// What was named to be flushed: the file, or an object of it.
    pub(crate) object_kind: c_int,
    scope: c_int,
    /// Other operations have longer arguments.
    rest: [u64; 3],
}

impl FileFlush {
    /// A flush of a file, and of all that is mounted on it.
    pub(crate) fn of_file() -> Self {
        Self {
            operation: FILE_FLUSH,
            padding: 0,
            object_kind: H5I_FILE,
            scope: H5F_SCOPE_GLOBAL,
            rest: [0; 3],
        }
    }
}

/// `H5I_FILE`
const H5I_FILE: c_int = 1;
/// `H5F_SCOPE_GLOBAL`
const H5F_SCOPE_GLOBAL: c_int = 1;

const _: () =
    assert!(std::mem::offset_of!(FileFlush, object_kind) == std::mem::offset_of!(FileSpecific, first));

/// `H5VL_FILE_FLUSH`
pub(crate) const FILE_FLUSH: c_int = 0;
/// `H5VL_FILE_REOPEN`
pub(crate) const FILE_REOPEN: c_int = 1;
/// `H5VL_FILE_IS_ACCESSIBLE`
pub(crate) const FILE_IS_ACCESSIBLE: c_int = 2;
/// `H5VL_FILE_DELETE`
pub(crate) const FILE_DELETE: c_int = 3;

/// `H5VL_optional_args_t`
#[repr(C)]
#[derive(Debug)]
pub(crate) struct OptionalArguments {
    pub(crate) operation: c_int,
    pub(crate) arguments: *mut c_void,
}

impl OptionalArguments {
    /// Asks the native connector where a contiguous data set begins.
    pub(crate) fn offset(into: *mut *mut haddr_t) -> Self {
        Self { operation: 9, arguments: into.cast() }
    }
}

/// `H5VL_NATIVE_DATASET_…` operations that leave values as they are: the questions about chunks, raw reads, sizes, offsets.
pub(crate) const READING_DATASET_OPTIONALS: [c_int; 9] = [1, 2, 3, 4, 5, 6, 8, 9, 10];

/// `H5I_DATASET`
pub(crate) const DATASET: c_int = 5;
/// `H5VL_DATASET_SET_EXTENT`
pub(crate) const DATASET_SET_EXTENT: c_int = 0;
/// `H5VL_DATASET_REFRESH`
pub(crate) const DATASET_REFRESH: c_int = 2;
/// `H5VL_GROUP_REFRESH`
pub(crate) const GROUP_REFRESH: c_int = 3;
/// `H5VL_OBJECT_REFRESH`
pub(crate) const OBJECT_REFRESH: c_int = 5;
