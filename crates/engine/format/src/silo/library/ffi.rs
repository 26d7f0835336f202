//! The calls of libsilo that are used, with its own signatures.

#![expect(unsafe_code, reason = "calls into a C library")]

use std::{
    ffi::{CStr, CString, c_char, c_int, c_void},
    fmt,
    path::{Path, PathBuf},
    ptr,
};

use forebay_process::{Error, ErrorKind, Result, c_library};
use libloading::os::unix::{Library as Loaded, RTLD_GLOBAL, RTLD_LAZY, RTLD_LOCAL, RTLD_NOW};

use forebay_container::Number;

/// `DB_PDB`, `DB_READ` and `DB_NONE` of silo.h.
const PDB: c_int = 2;
const READ: c_int = 1;
const NO_MESSAGES: c_int = 1;

type SiloFile = *mut c_void;

/// A libsilo, ready to be called.
pub(super) struct SiloCalls {
    open: unsafe extern "C" fn(*const c_char, c_int, c_int) -> SiloFile,
    close: unsafe extern "C" fn(SiloFile) -> c_int,
    kind: unsafe extern "C" fn(SiloFile, *const c_char) -> c_int,
    count: unsafe extern "C" fn(SiloFile, *const c_char) -> c_int,
    read: unsafe extern "C" fn(SiloFile, *const c_char, *mut c_void) -> c_int,
    last_error: unsafe extern "C" fn() -> *const c_char,
    version: unsafe extern "C" fn() -> *const c_char,
    path: PathBuf,
    /// Kept loaded as long as its calls are.
    _loaded: Loaded,
}

impl fmt::Display for SiloCalls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // SAFETY: the library gives a text that ends in a NUL and lasts as long as it.
        let version = unsafe { CStr::from_ptr((self.version)()) };
        write!(f, "libsilo {} at {}", version.to_string_lossy(), self.path.display())
    }
}

impl SiloCalls {
    /// Loads the library at `path`, which is absolute.
    pub(super) fn load(path: &Path) -> Result<Self> {
        let path = std::fs::canonicalize(path).map_err(Error::from_io)?;
        let file = std::fs::File::open(&path).map_err(Error::from_io)?;
        c_library::check_owner(&file)?;
        load_cxx();
        // SAFETY: the file is root's or the user's own, so its initialisers are code the user trusts already.
        let loaded = unsafe { Loaded::open(Some(&path), RTLD_LAZY | RTLD_LOCAL) };
        let loaded = loaded.map_err(|error| {
            Error::new(ErrorKind::Invalid, "is not a library that can be loaded").because(error)
        })?;
        // SAFETY: the types are the signatures that silo.h of 4.8 to 4.11 gives these symbols.
        let library = unsafe {
            let show_errors: unsafe extern "C" fn(c_int, *const c_void) = symbol(&loaded, "DBShowErrors")?;
            let force_single: unsafe extern "C" fn(c_int) -> c_int = symbol(&loaded, "DBForceSingle")?;
            // What is wrong is said by our own errors; doubles stay doubles.
            show_errors(NO_MESSAGES, ptr::null());
            force_single(0);
            Self {
                open: symbol(&loaded, "DBOpenReal")?,
                close: symbol(&loaded, "DBClose")?,
                kind: symbol(&loaded, "DBGetVarType")?,
                count: symbol(&loaded, "DBGetVarLength")?,
                read: symbol(&loaded, "DBReadVar")?,
                last_error: symbol(&loaded, "DBErrString")?,
                version: symbol(&loaded, "DBVersion")?,
                path,
                _loaded: loaded,
            }
        };
        Ok(library)
    }

    /// All `count` elements of the array called `name` in the PDB file at `path`, as native `number`s.
    pub(super) fn read(&self, path: &CString, name: &CString, number: Number, count: u64) -> Result<Vec<u8>> {
        let file = self.open(path)?;
        // SAFETY: the file is open, and the name ends in a NUL.
        let (kind, found) =
            unsafe { ((self.kind)(file.handle, name.as_ptr()), (self.count)(file.handle, name.as_ptr())) };
        if number_of(kind) != Some(number) || u64::try_from(found).ok() != Some(count) {
            let what =
                format!("libsilo finds {found} elements of its type {kind}, {count} of {number:?} were due");
            return Err(Error::new(ErrorKind::Corrupt, what));
        }
        let len = usize::try_from(count).ok().and_then(|count| count.checked_mul(number.size()));
        let mut bytes = Vec::new();
        let reserved = len.is_some_and(|len| bytes.try_reserve_exact(len).is_ok());
        let Some(len) = len.filter(|_| reserved) else {
            return Err(Error::new(ErrorKind::Full, format!("no memory for {count} elements")));
        };
        bytes.resize(len, 0u8);
        // SAFETY: the memory holds as many elements as the library has just said it will write.
        let answer = unsafe { (self.read)(file.handle, name.as_ptr(), bytes.as_mut_ptr().cast()) };
        if answer < 0 { Err(self.error("does not read")) } else { Ok(bytes) }
    }

    fn open(&self, path: &CString) -> Result<Open<'_>> {
        // SAFETY: the path ends in a NUL; the library answers a file it cannot open with a null pointer.
        let handle = unsafe { (self.open)(path.as_ptr(), PDB, READ) };
        if handle.is_null() { Err(self.error("does not open")) } else { Ok(Open { handle, library: self }) }
    }

    /// The error for what the library refused, in its own words.
    fn error(&self, what: &str) -> Error {
        // SAFETY: the library gives a text that ends in a NUL and lasts until its next call, or null.
        let said = unsafe {
            let said = (self.last_error)();
            (!said.is_null()).then(|| CStr::from_ptr(said).to_string_lossy().into_owned())
        };
        Error::new(ErrorKind::Io, format!("{what}: {}", said.unwrap_or_default())).at(self.path.display())
    }
}

/// An open file, closed when it goes.
struct Open<'a> {
    handle: SiloFile,
    library: &'a SiloCalls,
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        // SAFETY: the handle is that of an open file, and nothing uses it after this.
        unsafe { (self.library.close)(self.handle) };
    }
}

/// Debian's build uses libstdc++ without naming it, so that its symbols must be there before.
fn load_cxx() {
    // SAFETY: the system's own C++ library, which has no initialisers beyond its own.
    let loaded = unsafe { Loaded::open(Some("libstdc++.so.6"), RTLD_NOW | RTLD_GLOBAL) };
    if let Ok(loaded) = loaded {
        std::mem::forget(loaded);
    }
}

/// # Safety
/// `T` is the type of the function that the library has under `name`.
unsafe fn symbol<T: Copy>(loaded: &Loaded, name: &str) -> Result<T> {
    // SAFETY: the caller's promise.
    let found = unsafe { loaded.get::<T>(name.as_bytes()) };
    found
        .map(|symbol| *symbol)
        .map_err(|error| Error::new(ErrorKind::Unsupported, format!("has no function {name}")).because(error))
}

/// What the library's number for a type stands for.
fn number_of(kind: c_int) -> Option<Number> {
    match kind {
        16 => Some(Number::I32),
        17 => Some(Number::I16),
        18 | 22 => Some(Number::I64),
        19 => Some(Number::F32),
        20 => Some(Number::F64),
        21 => Some(Number::U8),
        _ => None,
    }
}
