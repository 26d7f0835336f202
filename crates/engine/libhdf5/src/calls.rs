//! The calls of libhdf5 that are used, with its own signatures.
//!
//! Identifiers are numbers that the library checks at every call, so calls that take numbers alone are safe
//! whatever they are given. Calls that take memory are wrapped one by one.

#![expect(unsafe_code, reason = "calls into a C library")]

use std::{
    ffi::{CStr, CString, c_char, c_int, c_uint, c_void},
    ptr,
};

use forebay_process::{Error, ErrorKind, Result};

use super::{arena::LibraryArena, load::Loaded};

/// What the library calls `hid_t`, since 1.10.
pub(super) type Hid = i64;

/// `H5P_DEFAULT`, `H5S_ALL` and `H5E_DEFAULT` alike.
pub(super) const DEFAULT: Hid = 0;

macro_rules! calls {
    ($($name:ident ( $($argument:ident : $kind:ty),* ) -> $answer:ty = $symbol:literal;)*) => {
        /// Calls that take numbers and give a number.
        struct Plain { $($name: unsafe extern "C" fn($($kind),*) -> $answer,)* }

        impl Plain {
            fn new(loaded: &Loaded) -> Result<Self> {
                // SAFETY: every type below is the signature that the headers of 1.10 to 2.2 give the symbol.
                unsafe { Ok(Self { $($name: symbol(loaded, $symbol)?,)* }) }
            }
        }

        impl Calls {
            $(pub(super) fn $name(&self, $($argument: $kind),*) -> $answer {
                // SAFETY: the arguments are numbers; the library answers a wrong one with a negative number.
                unsafe { (self.plain.$name)($($argument),*) }
            })*
        }
    };
}

calls! {
    open() -> c_int = "H5open";
    dont_atexit() -> c_int = "H5dont_atexit";
    file_close(id: Hid) -> c_int = "H5Fclose";
    data_close(id: Hid) -> c_int = "H5Dclose";
    space_close(id: Hid) -> c_int = "H5Sclose";
    type_close(id: Hid) -> c_int = "H5Tclose";
    list_close(id: Hid) -> c_int = "H5Pclose";
    data_space(id: Hid) -> Hid = "H5Dget_space";
    data_type(id: Hid) -> Hid = "H5Dget_type";
    space_ndim(id: Hid) -> c_int = "H5Sget_simple_extent_ndims";
    space_kind(id: Hid) -> c_int = "H5Sget_simple_extent_type";
    space_selected(id: Hid) -> i64 = "H5Sget_select_npoints";
    type_class(id: Hid) -> c_int = "H5Tget_class";
    type_len(id: Hid) -> usize = "H5Tget_size";
    type_sign(id: Hid) -> c_int = "H5Tget_sign";
    type_order(id: Hid) -> c_int = "H5Tget_order";
    type_precision(id: Hid) -> usize = "H5Tget_precision";
    type_bias(id: Hid) -> usize = "H5Tget_ebias";
    type_charset(id: Hid) -> c_int = "H5Tget_cset";
    type_is_variable_text(id: Hid) -> c_int = "H5Tis_variable_str";
    type_super(id: Hid) -> Hid = "H5Tget_super";
    type_copy(id: Hid) -> Hid = "H5Tcopy";
    type_create(class: c_int, len: usize) -> Hid = "H5Tcreate";
    type_sequence(item: Hid) -> Hid = "H5Tvlen_create";
    type_array_ndim(id: Hid) -> c_int = "H5Tget_array_ndims";
    type_member_count(id: Hid) -> c_int = "H5Tget_nmembers";
    type_member(id: Hid, index: c_uint) -> Hid = "H5Tget_member_type";
    type_member_offset(id: Hid, index: c_uint) -> usize = "H5Tget_member_offset";
    type_set_len(id: Hid, len: usize) -> c_int = "H5Tset_size";
    type_set_order(id: Hid, order: c_int) -> c_int = "H5Tset_order";
    type_set_precision(id: Hid, bits: usize) -> c_int = "H5Tset_precision";
    type_set_bias(id: Hid, bias: usize) -> c_int = "H5Tset_ebias";
    type_set_fields(id: Hid, sign: usize, exponent: usize, exponent_len: usize, mantissa: usize, mantissa_len: usize)
        -> c_int = "H5Tset_fields";
    type_set_padding(id: Hid, padding: c_int) -> c_int = "H5Tset_strpad";
    type_set_charset(id: Hid, charset: c_int) -> c_int = "H5Tset_cset";
    list_create(class: Hid) -> Hid = "H5Pcreate";
    list_set_plain_driver(id: Hid) -> c_int = "H5Pset_fapl_sec2";
}

type Alloc = unsafe extern "C" fn(usize, *mut c_void) -> *mut c_void;
type Free = unsafe extern "C" fn(*mut c_void, *mut c_void);

/// One entry of the error stack (`H5E_error2_t`).
#[repr(C)]
struct ErrorStackEntry {
    class: Hid,
    major: Hid,
    minor: Hid,
    line: c_uint,
    function: *const c_char,
    file: *const c_char,
    text: *const c_char,
}

type Visit = unsafe extern "C" fn(c_uint, *const ErrorStackEntry, *mut c_void) -> c_int;

/// The library's calls. A thread that has them holds the lock.
pub(super) struct Calls {
    plain: Plain,
    loaded: Loaded,
    walk_errors: unsafe extern "C" fn(Hid, c_int, Visit, *mut c_void) -> c_int,
    file_open: unsafe extern "C" fn(*const c_char, c_uint, Hid) -> Hid,
    data_open: unsafe extern "C" fn(Hid, *const c_char, Hid) -> Hid,
    data_read: unsafe extern "C" fn(Hid, Hid, Hid, Hid, Hid, *mut c_void) -> c_int,
    space_shape: unsafe extern "C" fn(Hid, *mut u64, *mut u64) -> c_int,
    space_create: unsafe extern "C" fn(c_int, *const u64, *const u64) -> Hid,
    space_select: unsafe extern "C" fn(Hid, c_int, *const u64, *const u64, *const u64, *const u64) -> c_int,
    type_fields:
        unsafe extern "C" fn(Hid, *mut usize, *mut usize, *mut usize, *mut usize, *mut usize) -> c_int,
    type_member_name: unsafe extern "C" fn(Hid, c_uint) -> *mut c_char,
    type_insert: unsafe extern "C" fn(Hid, *const c_char, usize, Hid) -> c_int,
    type_array_shape: unsafe extern "C" fn(Hid, *mut u64) -> c_int,
    type_array: unsafe extern "C" fn(Hid, c_uint, *const u64) -> Hid,
    free: unsafe extern "C" fn(*mut c_void) -> c_int,
    list_set_prefix: unsafe extern "C" fn(Hid, *const c_char) -> c_int,
    list_set_memory: unsafe extern "C" fn(Hid, Alloc, *mut c_void, Free, *mut c_void) -> c_int,
}

/// # Safety
/// `T` must be the type that the library gives the symbol `name`.
unsafe fn symbol<T: Copy>(loaded: &Loaded, name: &str) -> Result<T> {
    // SAFETY: the caller guarantees the type.
    let found = unsafe { loaded.library.get::<T>(name) };
    found.map(|symbol| *symbol).map_err(|_| Error::new(ErrorKind::Unsupported, format!("has no {name}")))
}

/// The version of a loaded library: major, minor, release.
pub(super) fn version(loaded: &Loaded) -> Result<[c_uint; 3]> {
    type Version = unsafe extern "C" fn(*mut c_uint, *mut c_uint, *mut c_uint) -> c_int;
    let [mut major, mut minor, mut release] = [0; 3];
    // SAFETY: `H5get_libversion` has had this signature since 1.0, and fills the three numbers.
    unsafe {
        symbol::<Version>(loaded, "H5get_libversion")?(&raw mut major, &raw mut minor, &raw mut release)
    };
    Ok([major, minor, release])
}

impl Calls {
    /// The calls of a library of 1.10 or later, its messages silenced.
    pub(super) fn new(loaded: Loaded) -> Result<Self> {
        type Report = Option<unsafe extern "C" fn(Hid, *mut c_void) -> c_int>;
        // SAFETY: every field's type is the signature that the headers of 1.10 to 2.2 give the symbol.
        let calls = unsafe {
            Self {
                plain: Plain::new(&loaded)?,
                walk_errors: symbol(&loaded, "H5Ewalk2")?,
                file_open: symbol(&loaded, "H5Fopen")?,
                data_open: symbol(&loaded, "H5Dopen2")?,
                data_read: symbol(&loaded, "H5Dread")?,
                space_shape: symbol(&loaded, "H5Sget_simple_extent_dims")?,
                space_create: symbol(&loaded, "H5Screate_simple")?,
                space_select: symbol(&loaded, "H5Sselect_hyperslab")?,
                type_fields: symbol(&loaded, "H5Tget_fields")?,
                type_member_name: symbol(&loaded, "H5Tget_member_name")?,
                type_insert: symbol(&loaded, "H5Tinsert")?,
                type_array_shape: symbol(&loaded, "H5Tget_array_dims2")?,
                type_array: symbol(&loaded, "H5Tarray_create2")?,
                free: symbol(&loaded, "H5free_memory")?,
                list_set_prefix: symbol(&loaded, "H5Pset_efile_prefix")?,
                list_set_memory: symbol(&loaded, "H5Pset_vlen_mem_manager")?,
                loaded,
            }
        };
        // Threads may still read while the process ends; the system takes back all there is.
        calls.dont_atexit();
        if calls.open() < 0 {
            return Err(Error::new(ErrorKind::Unsupported, "does not start"));
        }
        // SAFETY: a null function is the documented way to silence the default error stack.
        unsafe {
            let silence: unsafe extern "C" fn(Hid, Report, *mut c_void) -> c_int =
                symbol(&calls.loaded, "H5Eset_auto2")?;
            silence(DEFAULT, None, ptr::null_mut());
        }
        Ok(calls)
    }

    /// Where the library lies.
    pub(super) fn path(&self) -> &std::path::Path {
        &self.loaded.path
    }

    /// The identifier that the library keeps in the variable `name`.
    pub(super) fn constant(&self, name: &str) -> Result<Hid> {
        // SAFETY: all symbols that end in `_g` are variables of type `hid_t`, set once by `H5open`.
        unsafe { symbol::<*const Hid>(&self.loaded, name).map(|at| *at) }
    }

    /// True when the library knows how not to lock files: one that it keeps open would keep writers away.
    pub(super) fn leaves_files_unlocked(&self) -> bool {
        type Locking = unsafe extern "C" fn(Hid, bool, bool) -> c_int;
        // SAFETY: the signature is that of 1.10.7 and 1.12 on, where the symbol first appears; it is not called.
        unsafe { symbol::<Locking>(&self.loaded, "H5Pset_file_locking") }.is_ok()
    }

    /// Asks that files not be locked, where the library knows how; and that no plug-in stand in for it.
    pub(super) fn prepare_access(&self, list: Hid) -> Result<()> {
        type Locking = unsafe extern "C" fn(Hid, bool, bool) -> c_int;
        type Find = unsafe extern "C" fn(*const c_char) -> Hid;
        type Set = unsafe extern "C" fn(Hid, Hid, *const c_void) -> c_int;
        type Close = unsafe extern "C" fn(Hid) -> c_int;
        self.list_set_plain_driver(list);
        // SAFETY: the signatures are those of 1.10.7 and 1.12 on, where the symbols first appear; `native` needs
        // no information of its own, so that pointer may be null.
        unsafe {
            if let Ok(lock) = symbol::<Locking>(&self.loaded, "H5Pset_file_locking") {
                lock(list, false, true);
            }
            let Ok(find) = symbol::<Find>(&self.loaded, "H5VLget_connector_id_by_name") else {
                return Ok(());
            };
            let native = find(c"native".as_ptr());
            symbol::<Set>(&self.loaded, "H5Pset_vol")?(list, native, ptr::null());
            symbol::<Close>(&self.loaded, "H5VLclose")?(native);
        }
        Ok(())
    }

    /// What the innermost entry of the error stack says.
    pub(super) fn last_error(&self) -> Option<String> {
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
        unsafe { (self.walk_errors)(DEFAULT, 0, visit, (&raw mut text).cast()) };
        text
    }

    pub(super) fn file_open(&self, path: &CStr, access: Hid) -> Hid {
        // SAFETY: `path` ends with a NUL; 0 asks for reading alone.
        unsafe { (self.file_open)(path.as_ptr(), 0, access) }
    }

    pub(super) fn data_open(&self, file: Hid, name: &CStr, access: Hid) -> Hid {
        // SAFETY: `name` ends with a NUL.
        unsafe { (self.data_open)(file, name.as_ptr(), access) }
    }

    /// The lengths of the axes.
    pub(super) fn space_shape(&self, space: Hid) -> Vec<u64> {
        let mut shape = vec![0; usize::try_from(self.space_ndim(space)).unwrap_or(0)];
        // SAFETY: `shape` has room for as many axes as the space has; the longest lengths are not asked for.
        unsafe { (self.space_shape)(space, shape.as_mut_ptr(), ptr::null_mut()) };
        shape
    }

    pub(super) fn space_create(&self, shape: &[u64]) -> Hid {
        let ndim = c_int::try_from(shape.len()).unwrap_or(c_int::MAX);
        // SAFETY: `shape` has `ndim` lengths; without longest lengths the space cannot grow.
        unsafe { (self.space_create)(ndim, shape.as_ptr(), ptr::null()) }
    }

    /// Selects part of a space: starts, steps and counts, one per axis.
    pub(super) fn space_select(&self, space: Hid, start: &[u64], step: &[u64], count: &[u64]) -> c_int {
        let ndim = usize::try_from(self.space_ndim(space)).unwrap_or(usize::MAX);
        if [start.len(), step.len(), count.len()] != [ndim; 3] {
            return -1;
        }
        // SAFETY: all three have one number per axis of the space; blocks are single elements when left out.
        unsafe { (self.space_select)(space, 0, start.as_ptr(), step.as_ptr(), count.as_ptr(), ptr::null()) }
    }

    /// Sign, exponent and its length, mantissa and its length, in bits.
    pub(super) fn type_fields(&self, id: Hid) -> Option<[usize; 5]> {
        let mut fields = [0; 5];
        let [sign, exponent, exponent_len, mantissa, mantissa_len] = &mut fields;
        // SAFETY: each of the five pointers is to a number of its own.
        let answer = unsafe { (self.type_fields)(id, sign, exponent, exponent_len, mantissa, mantissa_len) };
        (answer >= 0).then_some(fields)
    }

    pub(super) fn type_member_name(&self, id: Hid, index: c_uint) -> Option<CString> {
        // SAFETY: the library gives a text of its own, ended by a NUL, or null; it is given back once copied.
        unsafe {
            let text = (self.type_member_name)(id, index);
            let name = (!text.is_null()).then(|| CStr::from_ptr(text).to_owned());
            (self.free)(text.cast());
            name
        }
    }

    pub(super) fn type_insert(&self, id: Hid, name: &CStr, offset: usize, member: Hid) -> c_int {
        // SAFETY: `name` ends with a NUL; the library checks that the member fits.
        unsafe { (self.type_insert)(id, name.as_ptr(), offset, member) }
    }

    pub(super) fn type_array_shape(&self, id: Hid) -> Vec<u64> {
        let mut shape = vec![0; usize::try_from(self.type_array_ndim(id)).unwrap_or(0)];
        // SAFETY: `shape` has room for as many axes as the type has.
        unsafe { (self.type_array_shape)(id, shape.as_mut_ptr()) };
        shape
    }

    pub(super) fn type_array(&self, item: Hid, shape: &[u64]) -> Hid {
        // SAFETY: `shape` has as many lengths as the call is passed.
        unsafe {
            (self.type_array)(item, c_uint::try_from(shape.len()).unwrap_or(c_uint::MAX), shape.as_ptr())
        }
    }

    /// A complex type, for libraries that have one (2.0).
    pub(super) fn type_complex(&self, part: Hid) -> Result<Hid> {
        type Create = unsafe extern "C" fn(Hid) -> Hid;
        // SAFETY: the signature is that of 2.0, where the symbol first appears.
        unsafe { symbol::<Create>(&self.loaded, "H5Tcomplex_create").map(|create| create(part)) }
    }

    /// Makes the files of external values be looked for beside the file itself.
    pub(super) fn list_set_beside(&self, list: Hid) -> c_int {
        // SAFETY: the text ends with a NUL.
        unsafe { (self.list_set_prefix)(list, c"${ORIGIN}".as_ptr()) }
    }

    /// Reads values into `out`, which has room for just what is selected; what varies in length goes to `arena`.
    pub(super) fn data_read(
        &self,
        data: Hid,
        read: &Read,
        out: &mut [u8],
        arena: &mut LibraryArena,
    ) -> c_int {
        let count = usize::try_from(self.space_selected(read.to)).unwrap_or(usize::MAX);
        if self.type_len(read.memory).checked_mul(count) != Some(out.len()) {
            return -1;
        }
        let arena: *mut LibraryArena = arena;
        // SAFETY: the callbacks are given the arena, which outlives the read and is not touched during it; `out`
        // is as long as the elements of the memory type that the memory space, all of it, selects.
        unsafe {
            (self.list_set_memory)(
                read.transfer,
                LibraryArena::alloc,
                arena.cast(),
                LibraryArena::free,
                arena.cast(),
            );
            (self.data_read)(data, read.memory, read.to, read.from, read.transfer, out.as_mut_ptr().cast())
        }
    }
}

/// What one read takes: the type in memory, the space in memory, all selected, that of the file, a property list.
pub(super) struct Read {
    pub(super) memory: Hid,
    pub(super) to: Hid,
    pub(super) from: Hid,
    pub(super) transfer: Hid,
}
