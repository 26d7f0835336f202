//! The calls of a libhdf5 by which files are written and read, with its own signatures.
//!
//! Identifiers are numbers that the library checks at every call, so calls that take numbers alone are safe
//! whatever they are given. Calls that take memory are wrapped one by one.

#![expect(unsafe_code, reason = "calls into a C library")]

use std::{
    ffi::{CStr, CString, c_char, c_int, c_uint, c_void},
    ptr,
};

use forebay_process::{Error, Result};

use crate::{
    arena::LibraryArena,
    functions::hdf5_functions,
    hdf5_types::{H5P_DEFAULT, hid_t},
    library::Hdf5Library,
};

/// Identifiers are 64 bits wide from this version on.
const OLDEST: [u32; 3] = [1, 10, 0];

/// `H5F_ACC_TRUNC`.
const TRUNCATE: c_uint = 2;

/// The most axes that HDF5 allows.
const MOST_AXES: usize = 32;

/// Lengths of axes, as [`Hdf5Calls::space_shape`] fills them.
pub const NO_SHAPE: [u64; MOST_AXES] = [0; MOST_AXES];

macro_rules! number_calls {
    ($($name:ident ( $($argument:ident : $kind:ty),* ) -> $answer:ty = $symbol:ident;)*) => {
        hdf5_functions! {
            /// Functions that take numbers and give a number.
            struct NumberFunctions { $(fn $symbol($($kind),*) -> $answer;)* }
        }

        impl Hdf5Calls {
            $(
                #[doc = concat!("`", stringify!($symbol), "`.")]
                pub fn $name(&self, $($argument: $kind),*) -> $answer {
                    // SAFETY: the arguments are numbers; the library answers a wrong one with a negative number.
                    unsafe { (self.numbers.$symbol)($($argument),*) }
                }
            )*
        }
    };
}

number_calls! {
    open() -> c_int = H5open;
    dont_atexit() -> c_int = H5dont_atexit;
    file_close(id: hid_t) -> c_int = H5Fclose;
    data_close(id: hid_t) -> c_int = H5Dclose;
    space_close(id: hid_t) -> c_int = H5Sclose;
    type_close(id: hid_t) -> c_int = H5Tclose;
    list_close(id: hid_t) -> c_int = H5Pclose;
    group_close(id: hid_t) -> c_int = H5Gclose;
    data_space(id: hid_t) -> hid_t = H5Dget_space;
    data_type(id: hid_t) -> hid_t = H5Dget_type;
    space_ndim(id: hid_t) -> c_int = H5Sget_simple_extent_ndims;
    space_kind(id: hid_t) -> c_int = H5Sget_simple_extent_type;
    space_selected(id: hid_t) -> i64 = H5Sget_select_npoints;
    space_select_none(id: hid_t) -> c_int = H5Sselect_none;
    type_class(id: hid_t) -> c_int = H5Tget_class;
    type_len(id: hid_t) -> usize = H5Tget_size;
    type_sign(id: hid_t) -> c_int = H5Tget_sign;
    type_order(id: hid_t) -> c_int = H5Tget_order;
    type_precision(id: hid_t) -> usize = H5Tget_precision;
    type_bias(id: hid_t) -> usize = H5Tget_ebias;
    type_charset(id: hid_t) -> c_int = H5Tget_cset;
    type_is_variable_text(id: hid_t) -> c_int = H5Tis_variable_str;
    type_super(id: hid_t) -> hid_t = H5Tget_super;
    type_copy(id: hid_t) -> hid_t = H5Tcopy;
    type_create(class: c_int, len: usize) -> hid_t = H5Tcreate;
    type_sequence(item: hid_t) -> hid_t = H5Tvlen_create;
    type_array_ndim(id: hid_t) -> c_int = H5Tget_array_ndims;
    type_member_count(id: hid_t) -> c_int = H5Tget_nmembers;
    type_member(id: hid_t, index: c_uint) -> hid_t = H5Tget_member_type;
    type_member_offset(id: hid_t, index: c_uint) -> usize = H5Tget_member_offset;
    type_set_len(id: hid_t, len: usize) -> c_int = H5Tset_size;
    type_set_order(id: hid_t, order: c_int) -> c_int = H5Tset_order;
    type_set_precision(id: hid_t, bits: usize) -> c_int = H5Tset_precision;
    type_set_bias(id: hid_t, bias: usize) -> c_int = H5Tset_ebias;
    type_set_fields(id: hid_t, sign: usize, exponent: usize, exponent_len: usize, mantissa: usize, mantissa_len: usize)
        -> c_int = H5Tset_fields;
    type_set_padding(id: hid_t, padding: c_int) -> c_int = H5Tset_strpad;
    type_set_charset(id: hid_t, charset: c_int) -> c_int = H5Tset_cset;
    list_create(class: hid_t) -> hid_t = H5Pcreate;
    list_set_plain_driver(id: hid_t) -> c_int = H5Pset_fapl_sec2;
    list_set_deflate(id: hid_t, level: c_uint) -> c_int = H5Pset_deflate;
    list_set_version_bounds(id: hid_t, low: c_int, high: c_int) -> c_int = H5Pset_libver_bounds;
    filter_available(filter: c_int) -> c_int = H5Zfilter_avail;
}

type Alloc = unsafe extern "C" fn(usize, *mut c_void) -> *mut c_void;
type Free = unsafe extern "C" fn(*mut c_void, *mut c_void);

/// One entry of the error stack (`H5E_error2_t`).
#[repr(C)]
struct ErrorStackEntry {
    class: hid_t,
    major: hid_t,
    minor: hid_t,
    line: c_uint,
    function: *const c_char,
    file: *const c_char,
    text: *const c_char,
}

type Visit = unsafe extern "C" fn(c_uint, *const ErrorStackEntry, *mut c_void) -> c_int;
type Report = Option<unsafe extern "C" fn(hid_t, *mut c_void) -> c_int>;

hdf5_functions! {
    /// Functions that take memory.
    struct MemoryFunctions {
        fn H5Ewalk2(hid_t, c_int, Visit, *mut c_void) -> c_int;
        fn H5Eset_auto2(hid_t, Report, *mut c_void) -> c_int;
        fn H5Fopen(*const c_char, c_uint, hid_t) -> hid_t;
        fn H5Fcreate(*const c_char, c_uint, hid_t, hid_t) -> hid_t;
        fn H5Gcreate2(hid_t, *const c_char, hid_t, hid_t, hid_t) -> hid_t;
        fn H5Gopen2(hid_t, *const c_char, hid_t) -> hid_t;
        fn H5Dopen2(hid_t, *const c_char, hid_t) -> hid_t;
        fn H5Dcreate2(hid_t, *const c_char, hid_t, hid_t, hid_t, hid_t, hid_t) -> hid_t;
        fn H5Dread(hid_t, hid_t, hid_t, hid_t, hid_t, *mut c_void) -> c_int;
        fn H5Dwrite(hid_t, hid_t, hid_t, hid_t, hid_t, *const c_void) -> c_int;
        fn H5Sget_simple_extent_dims(hid_t, *mut u64, *mut u64) -> c_int;
        fn H5Screate_simple(c_int, *const u64, *const u64) -> hid_t;
        fn H5Sselect_hyperslab(hid_t, c_int, *const u64, *const u64, *const u64, *const u64) -> c_int;
        fn H5Tget_fields(hid_t, *mut usize, *mut usize, *mut usize, *mut usize, *mut usize) -> c_int;
        fn H5Tget_member_name(hid_t, c_uint) -> *mut c_char;
        fn H5Tinsert(hid_t, *const c_char, usize, hid_t) -> c_int;
        fn H5Tget_array_dims2(hid_t, *mut u64) -> c_int;
        fn H5Tarray_create2(hid_t, c_uint, *const u64) -> hid_t;
        fn H5free_memory(*mut c_void) -> c_int;
        fn H5Pset_efile_prefix(hid_t, *const c_char) -> c_int;
        fn H5Pset_vlen_mem_manager(hid_t, Option<Alloc>, *mut c_void, Option<Free>, *mut c_void) -> c_int;
        fn H5Pset_chunk(hid_t, c_int, *const u64) -> c_int;
        fn H5Pset_filter(hid_t, c_int, c_uint, usize, *const c_uint) -> c_int;
    }
}

hdf5_functions! {
    /// A function of 1.10.7 and of 1.12 on.
    struct LockingFunction {
        fn H5Pset_file_locking(hid_t, bool, bool) -> c_int;
    }
}

hdf5_functions! {
    /// Functions of 1.12 on, which have connectors.
    struct ConnectorFunctions {
        fn H5VLget_connector_id_by_name(*const c_char) -> hid_t;
        fn H5VLis_connector_registered_by_name(*const c_char) -> c_int;
        fn H5Pset_vol(hid_t, hid_t, *const c_void) -> c_int;
        fn H5VLclose(hid_t) -> c_int;
    }
}

hdf5_functions! {
    /// A function of 1.14 on.
    struct DriverFunction {
        fn H5FDis_driver_registered_by_name(*const c_char) -> c_int;
    }
}

hdf5_functions! {
    /// A function of 2.0 on.
    struct ComplexFunction {
        fn H5Tcomplex_create(hid_t) -> hid_t;
    }
}

hdf5_functions! {
    /// A function of 1.10.1 on.
    struct PluginPathFunction {
        fn H5PLappend(*const c_char) -> c_int;
    }
}

/// The calls of one libhdf5. It is not thread safe in common builds: one thread at a time calls it.
pub struct Hdf5Calls {
    numbers: NumberFunctions,
    memory: MemoryFunctions,
    library: Hdf5Library,
}

impl std::fmt::Debug for Hdf5Calls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "libhdf5 at {}", self.library.path().display())
    }
}

impl Hdf5Calls {
    /// The calls of a library of 1.10 or later, which is not called yet.
    pub fn new(library: Hdf5Library) -> Result<Self> {
        let version = library.version();
        if version < OLDEST {
            let [major, minor, release] = version;
            let what = format!("is version {major}.{minor}.{release}, older than 1.10");
            return Err(Error::unsupported(what));
        }
        Ok(Self {
            numbers: NumberFunctions::load(&library)?,
            memory: MemoryFunctions::load(&library)?,
            library,
        })
    }

    /// Starts the library, which prints no messages of its own from then on.
    pub fn start(&self) -> Result<()> {
        // It says itself why not, on stderr; nothing else may be called then.
        if self.open() < 0 {
            return Err(Error::unsupported("does not start"));
        }
        // SAFETY: a null function is the documented way to silence the default error stack.
        unsafe { (self.memory.H5Eset_auto2)(H5P_DEFAULT, None, ptr::null_mut()) };
        Ok(())
    }

    /// The library.
    pub fn library(&self) -> &Hdf5Library {
        &self.library
    }

    /// The identifier that the library keeps in the variable `name`, which ends in `_g`.
    pub fn constant(&self, name: &str) -> Result<hid_t> {
        let lacks = |_| Error::unsupported(format!("has no {name}"));
        let at = self.library.require(&CString::new(name).map_err(lacks)?)?.cast::<hid_t>();
        // SAFETY: all symbols that end in `_g` are variables of type `hid_t`, set once by `H5open`.
        Ok(unsafe { *at.as_ref() })
    }

    /// What the innermost entry of the error stack says.
    pub fn last_error(&self) -> Option<String> {
        unsafe extern "C" fn visit(index: c_uint, entry: *const ErrorStackEntry, text: *mut c_void) -> c_int {
            // SAFETY: the library lends a valid entry for the time of the call, `text` is the string below.
            let (entry, text) = unsafe { (&*entry, &mut *text.cast::<Option<String>>()) };
            if index == 0 && !entry.text.is_null() {
                // SAFETY: the text is the library's, ended by a NUL.
                *text = Some(unsafe { CStr::from_ptr(entry.text) }.to_string_lossy().into_owned());
            }
            0
        }
        let mut text: Option<String> = None;
        // SAFETY: `visit` has the signature of `H5E_walk2_t` and is given the pointer it expects; 0 is upwards.
        unsafe { (self.memory.H5Ewalk2)(H5P_DEFAULT, 0, visit, (&raw mut text).cast()) };
        text
    }

    /// True when the library knows how not to lock files: one that it keeps open would keep writers away.
    pub fn leaves_files_unlocked(&self) -> bool {
        LockingFunction::load(&self.library).is_ok()
    }

    /// Asks that files not be locked, where the library knows how; and that no plug-in stand in for it.
    pub fn prepare_access(&self, list: hid_t) {
        self.list_set_plain_driver(list);
        if let Ok(locking) = LockingFunction::load(&self.library) {
            // SAFETY: the arguments are numbers.
            unsafe { (locking.H5Pset_file_locking)(list, false, true) };
        }
        let Ok(connectors) = ConnectorFunctions::load(&self.library) else { return };
        // SAFETY: `native` needs no information of its own, so that pointer may be null.
        unsafe {
            let native = (connectors.H5VLget_connector_id_by_name)(c"native".as_ptr());
            (connectors.H5Pset_vol)(list, native, ptr::null());
            (connectors.H5VLclose)(native);
        }
    }

    /// True when the VOL connector `name` is loaded; before 1.12 there are none.
    pub fn has_connector(&self, name: &CStr) -> bool {
        ConnectorFunctions::load(&self.library).is_ok_and(|connectors| {
            // SAFETY: the name ends with a NUL.
            unsafe { (connectors.H5VLis_connector_registered_by_name)(name.as_ptr()) > 0 }
        })
    }

    /// True when the file driver `name` is loaded; before 1.14 drivers have no names.
    pub fn has_driver(&self, name: &CStr) -> bool {
        DriverFunction::load(&self.library).is_ok_and(|driver| {
            // SAFETY: the name ends with a NUL.
            unsafe { (driver.H5FDis_driver_registered_by_name)(name.as_ptr()) > 0 }
        })
    }

    /// Adds a folder to those that plug-ins are looked for in, after those of `HDF5_PLUGIN_PATH`.
    pub fn add_plugin_folder(&self, folder: &CStr) -> Result<c_int> {
        let append = PluginPathFunction::load(&self.library)?.H5PLappend;
        // SAFETY: the path ends with a NUL.
        Ok(unsafe { append(folder.as_ptr()) })
    }

    /// Opens the file at `path`, for reading alone.
    pub fn file_open(&self, path: &CStr, access: hid_t) -> hid_t {
        // SAFETY: `path` ends with a NUL; 0 asks for reading alone.
        unsafe { (self.memory.H5Fopen)(path.as_ptr(), 0, access) }
    }

    /// Makes a new file at `path`; one that is there is emptied.
    pub fn file_create(&self, path: &CStr, access: hid_t) -> hid_t {
        // SAFETY: `path` ends with a NUL.
        unsafe { (self.memory.H5Fcreate)(path.as_ptr(), TRUNCATE, H5P_DEFAULT, access) }
    }

    /// Makes the group `name`.
    pub fn group_create(&self, file: hid_t, name: &CStr) -> hid_t {
        let default = H5P_DEFAULT;
        // SAFETY: `name` ends with a NUL.
        unsafe { (self.memory.H5Gcreate2)(file, name.as_ptr(), default, default, default) }
    }

    /// Opens the group `name`.
    pub fn group_open(&self, file: hid_t, name: &CStr) -> hid_t {
        // SAFETY: `name` ends with a NUL.
        unsafe { (self.memory.H5Gopen2)(file, name.as_ptr(), H5P_DEFAULT) }
    }

    /// Opens the data set `name`.
    pub fn data_open(&self, file: hid_t, name: &CStr, access: hid_t) -> hid_t {
        // SAFETY: `name` ends with a NUL.
        unsafe { (self.memory.H5Dopen2)(file, name.as_ptr(), access) }
    }

    /// Makes the data set `name`.
    pub fn data_create(
        &self,
        file: hid_t,
        name: &CStr,
        dtype: hid_t,
        space: hid_t,
        creation: hid_t,
    ) -> hid_t {
        let default = H5P_DEFAULT;
        // SAFETY: `name` ends with a NUL.
        unsafe { (self.memory.H5Dcreate2)(file, name.as_ptr(), dtype, space, default, creation, default) }
    }

    /// The lengths of the axes, in `into`; how many there are.
    pub fn space_shape<'a>(&self, space: hid_t, into: &'a mut [u64; MOST_AXES]) -> &'a [u64] {
        // SAFETY: HDF5 allows 32 axes, and `into` has room for as many; the longest lengths are not asked for.
        let ndim =
            unsafe { (self.memory.H5Sget_simple_extent_dims)(space, into.as_mut_ptr(), ptr::null_mut()) };
        &into[..usize::try_from(ndim).unwrap_or(0).min(MOST_AXES)]
    }

    /// Makes a space of this shape.
    pub fn space_create(&self, shape: &[u64]) -> hid_t {
        let ndim = c_int::try_from(shape.len()).unwrap_or(c_int::MAX);
        // SAFETY: `shape` has `ndim` lengths; without longest lengths the space cannot grow.
        unsafe { (self.memory.H5Screate_simple)(ndim, shape.as_ptr(), ptr::null()) }
    }

    /// Selects part of a space: starts, steps and counts, one per axis; without steps every element between.
    pub fn space_select(&self, space: hid_t, start: &[u64], step: Option<&[u64]>, count: &[u64]) -> c_int {
        let ndim = usize::try_from(self.space_ndim(space)).unwrap_or(usize::MAX);
        if [start.len(), step.map_or(ndim, <[u64]>::len), count.len()] != [ndim; 3] {
            return -1;
        }
        let (start, count) = (start.as_ptr(), count.as_ptr());
        let step = step.map_or(ptr::null(), <[u64]>::as_ptr);
        // SAFETY: all that are given have one number per axis of the space; steps and blocks are 1 when left out; 0 replaces
        // what is selected.
        unsafe { (self.memory.H5Sselect_hyperslab)(space, 0, start, step, count, ptr::null()) }
    }

    /// Sign, exponent and its length, mantissa and its length, in bits.
    pub fn type_fields(&self, id: hid_t) -> Option<[usize; 5]> {
        let mut fields = [0; 5];
        let [sign, exponent, exponent_len, mantissa, mantissa_len] = &mut fields;
        // SAFETY: each of the five pointers is to a number of its own.
        let answer =
            unsafe { (self.memory.H5Tget_fields)(id, sign, exponent, exponent_len, mantissa, mantissa_len) };
        (answer >= 0).then_some(fields)
    }

    /// The name of a compound's member.
    pub fn type_member_name(&self, id: hid_t, index: c_uint) -> Option<CString> {
        // SAFETY: the library gives a text of its own, ended by a NUL, or null; it is given back once copied.
        unsafe {
            let text = (self.memory.H5Tget_member_name)(id, index);
            let name = (!text.is_null()).then(|| CStr::from_ptr(text).to_owned());
            (self.memory.H5free_memory)(text.cast());
            name
        }
    }

    /// Adds a member to a compound.
    pub fn type_insert(&self, id: hid_t, name: &CStr, offset: usize, member: hid_t) -> c_int {
        // SAFETY: `name` ends with a NUL; the library checks that the member fits.
        unsafe { (self.memory.H5Tinsert)(id, name.as_ptr(), offset, member) }
    }

    /// The lengths of an array type's axes.
    pub fn type_array_shape(&self, id: hid_t) -> Vec<u64> {
        let mut shape = vec![0; usize::try_from(self.type_array_ndim(id)).unwrap_or(0)];
        // SAFETY: `shape` has room for as many axes as the type has.
        unsafe { (self.memory.H5Tget_array_dims2)(id, shape.as_mut_ptr()) };
        shape
    }

    /// A type of arrays of this shape.
    pub fn type_array(&self, item: hid_t, shape: &[u64]) -> hid_t {
        let ndim = c_uint::try_from(shape.len()).unwrap_or(c_uint::MAX);
        // SAFETY: `shape` has as many lengths as the call is passed.
        unsafe { (self.memory.H5Tarray_create2)(item, ndim, shape.as_ptr()) }
    }

    /// A complex type, for libraries that have one (2.0).
    pub fn type_complex(&self, part: hid_t) -> Result<hid_t> {
        let create = ComplexFunction::load(&self.library)?.H5Tcomplex_create;
        // SAFETY: the argument is a number.
        Ok(unsafe { create(part) })
    }

    /// Makes the files of external values be looked for beside the file itself.
    pub fn list_set_beside(&self, list: hid_t) -> c_int {
        // SAFETY: the text ends with a NUL.
        unsafe { (self.memory.H5Pset_efile_prefix)(list, c"${ORIGIN}".as_ptr()) }
    }

    /// Has data sets that are made with `list` be cut into chunks of this shape.
    pub fn list_set_chunk(&self, list: hid_t, shape: &[u64]) -> c_int {
        let ndim = c_int::try_from(shape.len()).unwrap_or(c_int::MAX);
        // SAFETY: `shape` has `ndim` lengths.
        unsafe { (self.memory.H5Pset_chunk)(list, ndim, shape.as_ptr()) }
    }

    /// Adds a filter that must be there for chunks to be written.
    pub fn list_set_filter(&self, list: hid_t, filter: c_int, values: &[c_uint]) -> c_int {
        // SAFETY: `values` has as many numbers as the call is given; 0 makes the filter mandatory.
        unsafe { (self.memory.H5Pset_filter)(list, filter, 0, values.len(), values.as_ptr()) }
    }

    /// Reads what the file space selects into `into`, which is as long as what the memory space selects.
    pub fn data_read(&self, data: hid_t, transfer: &HyperslabTransfer, into: &mut [u8]) -> c_int {
        if !self.fits(transfer, into.len()) {
            return -1;
        }
        let HyperslabTransfer { memory_type, memory_space, file_space, list } = *transfer;
        let into = into.as_mut_ptr().cast();
        // SAFETY: `into` is as long as the elements of the memory type that the memory space, all of it, selects.
        unsafe { (self.memory.H5Dread)(data, memory_type, memory_space, file_space, list, into) }
    }

    /// As [`data_read`](Self::data_read); what varies in length goes to `arena`. The property list must not be the default one.
    /// Fails with what the library says.
    pub fn data_read_with(
        &self,
        data: hid_t,
        transfer: &HyperslabTransfer,
        into: &mut [u8],
        arena: &mut LibraryArena,
    ) -> std::result::Result<(), Option<String>> {
        let arena: *mut LibraryArena = arena;
        let (arena, set) = (arena.cast::<c_void>(), self.memory.H5Pset_vlen_mem_manager);
        let (alloc, free): (Alloc, Free) = (LibraryArena::alloc, LibraryArena::free);
        // SAFETY: the callbacks are given the arena, which outlives the read and is not touched during it.
        unsafe { set(transfer.list, Some(alloc), arena, Some(free), arena) };
        let answer = self.data_read(data, transfer, into);
        // The next call clears the error stack.
        let said = if answer < 0 { Err(self.last_error()) } else { Ok(()) };
        // SAFETY: without functions the list is as it was made.
        unsafe { set(transfer.list, None, ptr::null_mut(), None, ptr::null_mut()) };
        said
    }

    /// Writes `bytes`, which are as long as what the memory space selects, to what the file space selects.
    pub fn data_write(&self, data: hid_t, transfer: &HyperslabTransfer, bytes: &[u8]) -> c_int {
        if !self.fits(transfer, bytes.len()) {
            return -1;
        }
        let HyperslabTransfer { memory_type, memory_space, file_space, list } = *transfer;
        let bytes = bytes.as_ptr().cast();
        // SAFETY: as in `data_read`.
        unsafe { (self.memory.H5Dwrite)(data, memory_type, memory_space, file_space, list, bytes) }
    }

    /// True when `len` bytes are what the memory space, all of it selected, holds.
    fn fits(&self, transfer: &HyperslabTransfer, len: usize) -> bool {
        let count = usize::try_from(self.space_selected(transfer.memory_space)).unwrap_or(usize::MAX);
        self.type_len(transfer.memory_type).checked_mul(count) == Some(len)
    }
}

/// What one read or write takes: the type in memory, the space in memory, all selected, that of the file, a property list.
#[derive(Clone, Copy, Debug)]
pub struct HyperslabTransfer {
    /// The type that elements have in memory.
    pub memory_type: hid_t,
    /// The space in memory.
    pub memory_space: hid_t,
    /// The space of the file, with what is selected.
    pub file_space: hid_t,
    /// The property list of the transfer.
    pub list: hid_t,
}
