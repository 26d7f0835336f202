//! The functions of a libhdf5 found at run time that files are written and read with, by their own signatures.
//!
//! Identifiers are numbers that the library checks at every call, so calls that take numbers alone are safe whatever they are
//! given. Calls that take memory are wrapped one by one.

#![expect(unsafe_code, reason = "calls into a C library")]

#[path = "parallel_calls.rs"]
mod drivers;

use std::{
    ffi::{CStr, c_char, c_int, c_uint, c_void},
    fs::File,
    path::{Path, PathBuf},
    ptr,
};

use forebay::{Error, Result, format::check_owner};
use libloading::os::unix::{Library, RTLD_GLOBAL, RTLD_NOW};

/// What the library calls `hid_t`, since 1.10.
pub(crate) type Hdf5Id = i64;

/// `H5P_DEFAULT`, `H5S_ALL` and `H5E_DEFAULT` alike.
pub(crate) const DEFAULT: Hdf5Id = 0;

/// `H5F_ACC_TRUNC`.
const TRUNCATE: c_uint = 2;

/// Of Linux: the library stays loaded when its handle is closed.
const RTLD_NODELETE: c_int = 0x1000;

/// The most axes a space of the benchmark's files has.
const MOST_AXES: usize = 32;

macro_rules! functions {
    ($($name:ident ( $($argument:ident : $kind:ty),* ) -> $answer:ty = $symbol:literal;)*) => {
        /// Functions that take numbers and give a number.
        struct PlainFunctions { $($name: unsafe extern "C" fn($($kind),*) -> $answer,)* }

        impl PlainFunctions {
            fn new(library: &Library) -> Result<Self> {
                // SAFETY: every type below is the signature that the headers of 1.10 to 2.2 give the symbol.
                unsafe { Ok(Self { $($name: symbol(library, $symbol)?,)* }) }
            }
        }

        impl Hdf5Functions {
            $(pub(crate) fn $name(&self, $($argument: $kind),*) -> $answer {
                // SAFETY: the arguments are numbers; the library answers a wrong one with a negative number.
                unsafe { (self.plain.$name)($($argument),*) }
            })*
        }
    };
}

functions! {
    open() -> c_int = "H5open";
    file_close(id: Hdf5Id) -> c_int = "H5Fclose";
    data_close(id: Hdf5Id) -> c_int = "H5Dclose";
    data_space(id: Hdf5Id) -> Hdf5Id = "H5Dget_space";
    space_close(id: Hdf5Id) -> c_int = "H5Sclose";
    space_ndim(id: Hdf5Id) -> c_int = "H5Sget_simple_extent_ndims";
    space_selected(id: Hdf5Id) -> i64 = "H5Sget_select_npoints";
    space_select_none(id: Hdf5Id) -> c_int = "H5Sselect_none";
    type_len(id: Hdf5Id) -> usize = "H5Tget_size";
    list_create(class: Hdf5Id) -> Hdf5Id = "H5Pcreate";
    list_close(id: Hdf5Id) -> c_int = "H5Pclose";
    list_set_deflate(id: Hdf5Id, level: c_uint) -> c_int = "H5Pset_deflate";
    list_set_version_bounds(id: Hdf5Id, low: c_int, high: c_int) -> c_int = "H5Pset_libver_bounds";
    filter_available(filter: c_int) -> c_int = "H5Zfilter_avail";
}

/// One entry of the error stack (`H5E_error2_t`).
#[repr(C)]
struct StackEntry {
    class: Hdf5Id,
    major: Hdf5Id,
    minor: Hdf5Id,
    line: c_uint,
    function: *const c_char,
    file: *const c_char,
    text: *const c_char,
}

type StackVisitor = unsafe extern "C" fn(c_uint, *const StackEntry, *mut c_void) -> c_int;

/// The functions of one libhdf5. It is not thread safe in common builds: one thread of a process calls it at a time.
pub(crate) struct Hdf5Functions {
    plain: PlainFunctions,
    walk_errors: unsafe extern "C" fn(Hdf5Id, c_int, StackVisitor, *mut c_void) -> c_int,
    file_open: unsafe extern "C" fn(*const c_char, c_uint, Hdf5Id) -> Hdf5Id,
    file_create: unsafe extern "C" fn(*const c_char, c_uint, Hdf5Id, Hdf5Id) -> Hdf5Id,
    data_open: unsafe extern "C" fn(Hdf5Id, *const c_char, Hdf5Id) -> Hdf5Id,
    data_create:
        unsafe extern "C" fn(Hdf5Id, *const c_char, Hdf5Id, Hdf5Id, Hdf5Id, Hdf5Id, Hdf5Id) -> Hdf5Id,
    data_read: unsafe extern "C" fn(Hdf5Id, Hdf5Id, Hdf5Id, Hdf5Id, Hdf5Id, *mut c_void) -> c_int,
    data_write: unsafe extern "C" fn(Hdf5Id, Hdf5Id, Hdf5Id, Hdf5Id, Hdf5Id, *const c_void) -> c_int,
    space_create: unsafe extern "C" fn(c_int, *const u64, *const u64) -> Hdf5Id,
    space_shape: unsafe extern "C" fn(Hdf5Id, *mut u64, *mut u64) -> c_int,
    space_select:
        unsafe extern "C" fn(Hdf5Id, c_int, *const u64, *const u64, *const u64, *const u64) -> c_int,
    list_set_chunk: unsafe extern "C" fn(Hdf5Id, c_int, *const u64) -> c_int,
    list_set_filter: unsafe extern "C" fn(Hdf5Id, c_int, c_uint, usize, *const c_uint) -> c_int,
    library: Library,
    path: PathBuf,
}

impl std::fmt::Debug for Hdf5Functions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "libhdf5 at {}", self.path.display())
    }
}

/// The error for a library that does not start, with what of the environment it may not find.
fn not_started() -> Error {
    let error = Error::unsupported("does not start");
    let names = ["HDF5_VOL_CONNECTOR", "HDF5_DRIVER"];
    let set: Vec<String> =
        names.iter().filter_map(|name| Some(format!("{name}={}", std::env::var(name).ok()?))).collect();
    match set.is_empty() {
        true => error,
        false => error.hint(format!("{}: is it in HDF5_PLUGIN_PATH?", set.join(", "))),
    }
}

/// Loads the library at `path`. What it needs and the linker does not find is loaded first, where it lies in the same folder: so
/// do the libraries that a wheel brings along, which an extension module of the wheel loads in their order.
fn open_library(path: &Path) -> Result<Library> {
    let mut missing = Vec::new();
    loop {
        let file = File::open(path).map_err(Error::from_io)?;
        check_owner(&file)?;
        // SAFETY: the file is root's or the user's own, so its initialisers are code the user trusts already. Its symbols are
        // seen by libraries loaded later, as those of a linked libhdf5 are: plug-ins rely on that. It is never unloaded, as a
        // parallel build leaves MPI a function to call at its end.
        let opened = unsafe { Library::open(Some(path), RTLD_NOW | RTLD_GLOBAL | RTLD_NODELETE) };
        let error = match opened {
            Ok(library) => return Ok(library),
            Err(error) => error,
        };
        let why = std::error::Error::source(&error).map_or_else(|| error.to_string(), ToString::to_string);
        let refused = || Error::invalid(format!("is not a library that can be loaded: {why}"));
        let name = missing_library(&why).map(str::to_owned).filter(|name| !missing.contains(name));
        let name = name.ok_or_else(refused)?;
        let beside = path.with_file_name(&name);
        if !beside.is_file() {
            return Err(refused());
        }
        open_library(&beside).map_err(|error| error.at(beside.display()))?;
        missing.push(name);
    }
}

/// The name of the library that glibc's linker has not found, by what it says.
fn missing_library(why: &str) -> Option<&str> {
    let (name, _) = why.split_once(": cannot open shared object file")?;
    (!name.contains('/')).then_some(name)
}

/// # Safety
/// `T` must be the type that the library gives the symbol `name`.
unsafe fn symbol<T: Copy>(library: &Library, name: &str) -> Result<T> {
    // SAFETY: the caller guarantees the type.
    let found = unsafe { library.get::<T>(name) };
    found.map(|symbol| *symbol).map_err(|_| Error::unsupported(format!("has no {name}")))
}

impl Hdf5Functions {
    /// The functions of the library at `path`, which prints no messages of its own from now on.
    pub(crate) fn load(path: &Path) -> Result<Self> {
        let library = open_library(path)?;
        // SAFETY: every field's type is the signature that the headers of 1.10 to 2.2 give the symbol.
        let functions = unsafe {
            Self {
                plain: PlainFunctions::new(&library)?,
                walk_errors: symbol(&library, "H5Ewalk2")?,
                file_open: symbol(&library, "H5Fopen")?,
                file_create: symbol(&library, "H5Fcreate")?,
                data_open: symbol(&library, "H5Dopen2")?,
                data_create: symbol(&library, "H5Dcreate2")?,
                data_read: symbol(&library, "H5Dread")?,
                data_write: symbol(&library, "H5Dwrite")?,
                space_create: symbol(&library, "H5Screate_simple")?,
                space_shape: symbol(&library, "H5Sget_simple_extent_dims")?,
                space_select: symbol(&library, "H5Sselect_hyperslab")?,
                list_set_chunk: symbol(&library, "H5Pset_chunk")?,
                list_set_filter: symbol(&library, "H5Pset_filter")?,
                path: path.to_owned(),
                library,
            }
        };
        // It says itself why, on stderr; nothing else may be called then.
        if functions.open() < 0 {
            return Err(not_started());
        }
        functions.silence()?;
        Ok(functions)
    }

    /// Errors are reported by the callers; HDF5 prints none on stderr.
    fn silence(&self) -> Result<()> {
        type Report = Option<unsafe extern "C" fn(Hdf5Id, *mut c_void) -> c_int>;
        type SetReport = unsafe extern "C" fn(Hdf5Id, Report, *mut c_void) -> c_int;
        // SAFETY: the signature is that of all versions since 1.8; no function and no value are allowed.
        unsafe { symbol::<SetReport>(&self.library, "H5Eset_auto2")?(DEFAULT, None, ptr::null_mut()) };
        Ok(())
    }

    /// Where the library lies.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Its version: major, minor, release.
    pub(crate) fn version(&self) -> Result<[c_uint; 3]> {
        type Version = unsafe extern "C" fn(*mut c_uint, *mut c_uint, *mut c_uint) -> c_int;
        let [mut major, mut minor, mut release] = [0; 3];
        // SAFETY: `H5get_libversion` has had this signature since 1.0, and fills the three numbers.
        unsafe {
            symbol::<Version>(&self.library, "H5get_libversion")?(
                &raw mut major,
                &raw mut minor,
                &raw mut release,
            )
        };
        Ok([major, minor, release])
    }

    /// The identifier that the library keeps in the variable `name`, which ends in `_g`.
    pub(crate) fn constant(&self, name: &str) -> Result<Hdf5Id> {
        // SAFETY: all symbols that end in `_g` are variables of type `hid_t`, set once by `H5open`.
        unsafe { symbol::<*const Hdf5Id>(&self.library, name).map(|at| *at) }
    }

    /// What the innermost entry of the error stack says.
    pub(crate) fn last_error(&self) -> Option<String> {
        unsafe extern "C" fn visit(index: c_uint, entry: *const StackEntry, text: *mut c_void) -> c_int {
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

    pub(crate) fn file_open(&self, path: &CStr, access: Hdf5Id) -> Hdf5Id {
        // SAFETY: `path` ends with a NUL; 0 asks for reading alone.
        unsafe { (self.file_open)(path.as_ptr(), 0, access) }
    }

    /// A new file at `path`; one that is there is emptied.
    pub(crate) fn file_create(&self, path: &CStr, access: Hdf5Id) -> Hdf5Id {
        // SAFETY: `path` ends with a NUL.
        unsafe { (self.file_create)(path.as_ptr(), TRUNCATE, DEFAULT, access) }
    }

    pub(crate) fn data_open(&self, file: Hdf5Id, name: &CStr) -> Hdf5Id {
        // SAFETY: `name` ends with a NUL.
        unsafe { (self.data_open)(file, name.as_ptr(), DEFAULT) }
    }

    pub(crate) fn data_create(
        &self,
        file: Hdf5Id,
        name: &CStr,
        dtype: Hdf5Id,
        space: Hdf5Id,
        creation: Hdf5Id,
    ) -> Hdf5Id {
        // SAFETY: `name` ends with a NUL.
        unsafe { (self.data_create)(file, name.as_ptr(), dtype, space, DEFAULT, creation, DEFAULT) }
    }

    pub(crate) fn space_create(&self, shape: &[u64]) -> Hdf5Id {
        let ndim = c_int::try_from(shape.len()).unwrap_or(c_int::MAX);
        // SAFETY: `shape` has `ndim` lengths; without longest lengths the space cannot grow.
        unsafe { (self.space_create)(ndim, shape.as_ptr(), ptr::null()) }
    }

    /// The lengths of the axes, in `into`; how many there are.
    pub(crate) fn space_shape<'a>(&self, space: Hdf5Id, into: &'a mut [u64; MOST_AXES]) -> &'a [u64] {
        // SAFETY: HDF5 allows 32 axes, and `into` has room for as many; the longest lengths are not asked for.
        let ndim = unsafe { (self.space_shape)(space, into.as_mut_ptr(), ptr::null_mut()) };
        &into[..usize::try_from(ndim).unwrap_or(0).min(MOST_AXES)]
    }

    /// Selects part of a space: starts and counts, one per axis.
    pub(crate) fn space_select(&self, space: Hdf5Id, start: &[u64], count: &[u64]) -> c_int {
        let ndim = usize::try_from(self.space_ndim(space)).unwrap_or(usize::MAX);
        if [start.len(), count.len()] != [ndim; 2] {
            return -1;
        }
        // SAFETY: both have one number per axis of the space; steps and blocks are 1 when left out; 0 replaces what is selected.
        unsafe { (self.space_select)(space, 0, start.as_ptr(), ptr::null(), count.as_ptr(), ptr::null()) }
    }

    pub(crate) fn list_set_chunk(&self, list: Hdf5Id, shape: &[u64]) -> c_int {
        let ndim = c_int::try_from(shape.len()).unwrap_or(c_int::MAX);
        // SAFETY: `shape` has `ndim` lengths.
        unsafe { (self.list_set_chunk)(list, ndim, shape.as_ptr()) }
    }

    /// Adds a filter that must be there for chunks to be written.
    pub(crate) fn list_set_filter(&self, list: Hdf5Id, filter: c_int, values: &[c_uint]) -> c_int {
        // SAFETY: `values` has as many numbers as the call is given; 0 makes the filter mandatory.
        unsafe { (self.list_set_filter)(list, filter, 0, values.len(), values.as_ptr()) }
    }

    /// Reads what `file_space` selects into `into`, which is as long as what `memory_space` selects.
    pub(crate) fn data_read(&self, data: Hdf5Id, transfer: &HyperslabTransfer, into: &mut [u8]) -> c_int {
        if !self.fits(transfer, into.len()) {
            return -1;
        }
        let HyperslabTransfer { memory_type, memory_space, file_space, list } = *transfer;
        // SAFETY: `into` is as long as the elements of the memory type that the memory space selects, from its start on.
        unsafe {
            (self.data_read)(data, memory_type, memory_space, file_space, list, into.as_mut_ptr().cast())
        }
    }

    /// Writes `bytes`, which are as long as what `memory_space` selects, to what `file_space` selects.
    pub(crate) fn data_write(&self, data: Hdf5Id, transfer: &HyperslabTransfer, bytes: &[u8]) -> c_int {
        if !self.fits(transfer, bytes.len()) {
            return -1;
        }
        let HyperslabTransfer { memory_type, memory_space, file_space, list } = *transfer;
        // SAFETY: as in `data_read`.
        unsafe { (self.data_write)(data, memory_type, memory_space, file_space, list, bytes.as_ptr().cast()) }
    }

    /// True when `len` bytes are what the memory space, all of it selected, holds.
    fn fits(&self, transfer: &HyperslabTransfer, len: usize) -> bool {
        let count = usize::try_from(self.space_selected(transfer.memory_space)).unwrap_or(usize::MAX);
        self.type_len(transfer.memory_type).checked_mul(count) == Some(len)
    }
}

/// What one read or write takes: the type in memory, the space in memory, all selected, that of the file, a property list.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HyperslabTransfer {
    pub(crate) memory_type: Hdf5Id,
    pub(crate) memory_space: Hdf5Id,
    pub(crate) file_space: Hdf5Id,
    pub(crate) list: Hdf5Id,
}

/// Lengths of axes, as [`Hdf5Functions::space_shape`] fills them.
pub(crate) const NO_SHAPE: [u64; MOST_AXES] = [0; MOST_AXES];
