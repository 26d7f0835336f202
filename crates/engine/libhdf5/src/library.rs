//! One libhdf5 of the process, which may have several: each has its own handles, functions and error stack.

#![expect(unsafe_code, reason = "asks the loader about addresses, and reads variables of a library")]

use std::{
    ffi::{CStr, OsStr, c_char, c_int, c_uint, c_void},
    os::unix::ffi::OsStrExt,
    path::PathBuf,
    ptr::{self, NonNull},
    sync::OnceLock,
};

use forebay_process::{Error, ErrorKind, Result};

use crate::{functions::hdf5_functions, handle::LibraryHandle, symbol_table::SymbolTable};

/// The oldest version whose structures of plug-ins have the layout that is used here.
pub const OLDEST_VERSION: [u32; 3] = [1, 14, 0];

hdf5_functions! {
    /// How a library is asked for its version.
    struct VersionFunction {
        fn H5get_libversion(*mut c_uint, *mut c_uint, *mut c_uint) -> c_int;
    }
}

/// One libhdf5 of the process.
#[derive(Debug)]
pub struct Hdf5Library {
    handle: LibraryHandle,
    presence: Presence,
    path: PathBuf,
    version: [u32; 3],
}

/// How the library came into the process.
#[derive(Debug)]
enum Presence {
    /// It is the host process's own, and has called a plug-in.
    Caller {
        base: usize,
        /// What the program does not export, where the library is linked into it.
        hidden: OnceLock<SymbolTable>,
    },
    /// It was loaded by its path, with what keeps its dependencies loaded.
    Loaded { _original: Option<LibraryHandle> },
}

impl Hdf5Library {
    /// The library whose code `address` lies in; it stays loaded from here on.
    pub fn of_address(address: *const c_void) -> Result<Self> {
        let (base, name) = object_of(address)
            .ok_or_else(|| Error::new(ErrorKind::Unsupported, "the caller belongs to no loaded library"))?;
        let path = PathBuf::from(OsStr::from_bytes(name.to_bytes()));
        let handle = LibraryHandle::of_loaded(&name).ok_or_else(|| {
            Error::new(ErrorKind::Unsupported, "the loader does not know the library that called")
                .at(path.display())
        })?;
        let presence = Presence::Caller { base, hidden: OnceLock::new() };
        let mut library = Self { handle, presence, path, version: [0; 3] };
        library.version = library.named_version()?;
        if library.version < OLDEST_VERSION {
            let [major, minor, release] = library.version;
            let what = format!("HDF5 {major}.{minor}.{release} is older than 1.14.0");
            return Err(Error::unsupported(what)
                .at(library.path.display())
                .hint("use HDF5 1.14.0 or a later one"));
        }
        Ok(library)
    }

    /// The library behind `handle`, which was loaded from `path`.
    pub(crate) fn loaded(
        handle: LibraryHandle,
        original: Option<LibraryHandle>,
        path: PathBuf,
    ) -> Result<Self> {
        let presence = Presence::Loaded { _original: original };
        let mut library = Self { handle, presence, path, version: [0; 3] };
        // A build may keep the string to itself.
        library.version = library.named_version().or_else(|_| library.asked_version())?;
        Ok(library)
    }

    /// Where a library that has called a plug-in lies in memory: different for each of a process.
    pub(crate) fn base(&self) -> Option<usize> {
        match &self.presence {
            Presence::Caller { base, .. } => Some(*base),
            Presence::Loaded { .. } => None,
        }
    }

    /// The file it was loaded from.
    pub fn path(&self) -> &std::path::Path {
        &self.path
    }

    /// Its version: major, minor, release.
    pub fn version(&self) -> [u32; 3] {
        self.version
    }

    /// A function or variable of this very library; one of the same name in another library does not count.
    pub fn symbol(&self, name: &CStr) -> Option<NonNull<c_void>> {
        let exported = self.handle.symbol(name);
        let Presence::Caller { base, hidden } = &self.presence else { return exported };
        // The handle of a program stands for all its libraries: what another libhdf5 has is of no use.
        let is_ours =
            |found: &NonNull<c_void>| object_of(found.as_ptr()).is_some_and(|(other, _)| other == *base);
        exported.filter(is_ours).or_else(|| hidden_symbol(*base, hidden, name).filter(is_ours))
    }

    /// The symbol, or an error that names it.
    pub fn require(&self, name: &CStr) -> Result<NonNull<c_void>> {
        self.symbol(name).ok_or_else(|| {
            let name = name.to_string_lossy();
            match self.presence {
                Presence::Caller { .. } => Error::unsupported(format!("no symbol {name}"))
                    .at(self.path.display())
                    .hint("use a shared libhdf5, or link the program with -rdynamic or unstripped"),
                Presence::Loaded { .. } => Error::unsupported(format!("has no {name}")),
            }
        })
    }

    /// A variable of this library, as the library itself sees it.
    ///
    /// A program that is linked against the library and names one of its variables has it in memory of its own (a copy
    /// relocation), which the library then uses as well; the one inside the library keeps what it was compiled with.
    pub fn variable(&self, name: &CStr) -> Result<NonNull<c_void>> {
        let own = self.require(name)?;
        let Presence::Caller { base, .. } = self.presence else { return Ok(own) };
        // Where other libraries' names come first, the program is linked against another libhdf5, or against none.
        let is_linked = in_program(c"H5get_libversion")
            .and_then(|found| object_of(found.as_ptr()))
            .is_some_and(|(other, _)| other == base);
        Ok(if is_linked { in_program(name).unwrap_or(own) } else { own })
    }

    /// From a string that every version has, so that nothing is called: each call of HDF5's interface begins with clearing
    /// the error stack, and HDF5 looks at all plug-ins on its path while it has an error to report.
    fn named_version(&self) -> Result<[u32; 3]> {
        let text = self.require(c"H5_lib_vers_info_g")?;
        // SAFETY: a string of the library that ends in NUL and never changes.
        let text = unsafe { CStr::from_ptr(text.as_ptr().cast::<c_char>()) };
        version_in(&text.to_string_lossy())
            .ok_or_else(|| Error::unsupported(format!("{text:?} names no version")).at(self.path.display()))
    }

    /// Its version as it answers when it is asked, which starts the library.
    pub fn asked_version(&self) -> Result<[u32; 3]> {
        let ask = VersionFunction::load(self)?.H5get_libversion;
        let [mut major, mut minor, mut release] = [0; 3];
        // SAFETY: three places for numbers.
        if unsafe { ask(&raw mut major, &raw mut minor, &raw mut release) } < 0 {
            return Err(Error::new(ErrorKind::Io, "its version did not work"));
        }
        Ok([major, minor, release])
    }
}

/// A symbol that a program with the library inside, which lies at `base`, does not export.
fn hidden_symbol(base: usize, hidden: &OnceLock<SymbolTable>, name: &CStr) -> Option<NonNull<c_void>> {
    if base != program_base()? {
        return None;
    }
    let table = hidden.get_or_init(|| SymbolTable::of_program(base));
    let address = usize::try_from(table.find(name.to_bytes())?).ok()?;
    NonNull::new(ptr::with_exposed_provenance_mut(address))
}

/// Where the program itself lies in memory.
#[cfg(target_os = "linux")]
fn program_base() -> Option<usize> {
    // SAFETY: any number may be asked for; the answer is the address of the program's own headers, or 0.
    let headers = unsafe { libc::getauxval(libc::AT_PHDR) };
    let headers = usize::try_from(headers).ok().filter(|address| *address != 0)?;
    object_of(ptr::with_exposed_provenance(headers)).map(|(base, _)| base)
}

/// Elsewhere no plug-in is loaded into programs.
#[cfg(not(target_os = "linux"))]
fn program_base() -> Option<usize> {
    None
}

/// What the program and the libraries that it is linked against mean by a name.
fn in_program(name: &CStr) -> Option<NonNull<c_void>> {
    // SAFETY: the name ends in NUL.
    NonNull::new(unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) })
}

/// The loaded object that `address` lies in: its base and its name.
fn object_of(address: *const c_void) -> Option<(usize, std::ffi::CString)> {
    let mut found = libc::Dl_info {
        dli_fname: ptr::null(),
        dli_fbase: ptr::null_mut(),
        dli_sname: ptr::null(),
        dli_saddr: ptr::null_mut(),
    };
    // SAFETY: `dladdr` accepts any address, and fills the structure when it answers other than 0.
    if unsafe { libc::dladdr(address, &raw mut found) } == 0 || found.dli_fname.is_null() {
        return None;
    }
    // SAFETY: a name from the loader ends in NUL and lives as long as its object, which runs.
    let name = unsafe { CStr::from_ptr(found.dli_fname.cast::<c_char>()) };
    Some((found.dli_fbase.addr(), name.to_owned()))
}

/// `2.0.0` of `HDF5 library version: 2.0.0`, whatever follows the numbers.
fn version_in(text: &str) -> Option<[u32; 3]> {
    let mut numbers = text.rsplit(' ').next()?.split(['.', '-']).map_while(|part| part.parse().ok());
    Some([numbers.next()?, numbers.next()?, numbers.next()?])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_that_is_not_hdf5_is_refused_by_the_name_of_what_lacks() {
        let error = Hdf5Library::of_address(libc::getpid as *const c_void).expect_err("libc is not HDF5");
        assert!(error.to_string().contains("H5_lib_vers_info_g"), "{error}");
    }

    #[unsafe(no_mangle)]
    extern "C" fn H5forebay_only_in_this_program() {}

    #[test]
    fn a_symbol_that_the_program_does_not_export_is_found_in_its_file() {
        let own = H5forebay_only_in_this_program as *const c_void;
        let (base, name) = object_of(own).expect("this program");
        assert_eq!(Some(base), program_base());
        let handle = LibraryHandle::of_loaded(&name).expect("this program");
        let path = PathBuf::from(OsStr::from_bytes(name.to_bytes()));
        let presence = Presence::Caller { base, hidden: OnceLock::new() };
        let library = Hdf5Library { handle, presence, path, version: [2, 0, 0] };
        let found = library.symbol(c"H5forebay_only_in_this_program").expect("it has a table of symbols");
        assert_eq!(found.as_ptr().cast_const(), own);
        assert!(library.symbol(c"H5forebay_nowhere").is_none());
    }

    #[test]
    fn a_version_is_read_from_the_string_that_libraries_have() {
        assert_eq!(version_in("HDF5 library version: 1.14.6"), Some([1, 14, 6]));
        assert_eq!(version_in("HDF5 library version: 2.0.0-1"), Some([2, 0, 0]));
        assert_eq!(version_in("HDF5"), None);
    }

    #[test]
    fn memory_that_is_no_code_belongs_to_no_library() {
        let heap = Box::new(0_u8);
        let error = Hdf5Library::of_address((&raw const *heap).cast()).expect_err("no library");
        assert_eq!(error.kind(), ErrorKind::Unsupported);
    }
}
