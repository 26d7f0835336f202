//! The calls of MPI that are used, with the signatures of its standard, resolved once.

#![expect(unsafe_code, reason = "calls into a C library")]

use std::{
    ffi::{CStr, c_char, c_int, c_void},
    path::Path,
    ptr,
};

use forebay_process::{Error, ErrorKind, Result};
use libloading::os::unix::{Library, RTLD_GLOBAL, RTLD_NOW};

use crate::library::abi::{MpiAbi, MpiConstants, MpiHandle};

/// What MPI calls when an attribute is deleted: communicator, key, value, extra state.
pub(crate) type DeleteCallback = unsafe extern "C" fn(MpiHandle, c_int, *mut c_void, *mut c_void) -> c_int;
/// What MPI calls when a communicator with an attribute is copied: no attribute of ours is.
type CopyCallback =
    unsafe extern "C" fn(MpiHandle, c_int, *mut c_void, *mut c_void, *mut c_void, *mut c_int) -> c_int;

macro_rules! calls {
    ($(#[$doc:meta])* $name:ident { $($field:ident = $symbol:literal ($($argument:ty),*);)* }) => {
        $(#[$doc])*
        pub(crate) struct $name {
            $(pub(crate) $field: unsafe extern "C" fn($($argument),*) -> c_int,)*
        }

        impl $name {
            fn resolve(library: &Library) -> Result<Self> {
                // SAFETY: the types are the signatures that the MPI standard gives these symbols; handles are as `MpiHandle` says.
                Ok(unsafe { Self { $($field: symbol(library, $symbol)?,)* } })
            }
        }
    };
}

calls! {
    /// The functions, by their names without `MPI_`.
    MpiCalls {
    initialized = "MPI_Initialized" (*mut c_int);
    finalized = "MPI_Finalized" (*mut c_int);
    init_thread = "MPI_Init_thread" (*mut c_int, *mut c_void, c_int, *mut c_int);
    query_thread = "MPI_Query_thread" (*mut c_int);
    is_thread_main = "MPI_Is_thread_main" (*mut c_int);
    finalize = "MPI_Finalize" ();
    get_library_version = "MPI_Get_library_version" (*mut c_char, *mut c_int);
    error_string = "MPI_Error_string" (c_int, *mut c_char, *mut c_int);
    comm_rank = "MPI_Comm_rank" (MpiHandle, *mut c_int);
    comm_size = "MPI_Comm_size" (MpiHandle, *mut c_int);
    comm_test_inter = "MPI_Comm_test_inter" (MpiHandle, *mut c_int);
    comm_idup = "MPI_Comm_idup" (MpiHandle, *mut MpiHandle, *mut MpiHandle);
    comm_free = "MPI_Comm_free" (*mut MpiHandle);
    comm_set_errhandler = "MPI_Comm_set_errhandler" (MpiHandle, MpiHandle);
    comm_create_keyval = "MPI_Comm_create_keyval" (CopyCallback, DeleteCallback, *mut c_int, *mut c_void);
    comm_set_attr = "MPI_Comm_set_attr" (MpiHandle, c_int, *mut c_void);
    ibarrier = "MPI_Ibarrier" (MpiHandle, *mut MpiHandle);
    ibcast = "MPI_Ibcast" (*mut c_void, c_int, MpiHandle, c_int, MpiHandle, *mut MpiHandle);
    iallgatherv = "MPI_Iallgatherv" (
        *const c_void, c_int, MpiHandle, *mut c_void, *const c_int, *const c_int, MpiHandle, MpiHandle, *mut MpiHandle
    );
    test = "MPI_Test" (*mut MpiHandle, *mut c_int, *mut c_void);
    win_create = "MPI_Win_create" (*mut c_void, isize, c_int, MpiHandle, MpiHandle, *mut MpiHandle);
    win_free = "MPI_Win_free" (*mut MpiHandle);
    win_set_errhandler = "MPI_Win_set_errhandler" (MpiHandle, MpiHandle);
    win_lock_all = "MPI_Win_lock_all" (c_int, MpiHandle);
    win_unlock_all = "MPI_Win_unlock_all" (MpiHandle);
    win_sync = "MPI_Win_sync" (MpiHandle);
    rget = "MPI_Rget" (*mut c_void, c_int, MpiHandle, c_int, isize, c_int, MpiHandle, MpiHandle, *mut MpiHandle);
    }
}

#[cfg(feature = "baseline")]
calls! {
    /// Those of programs that lock for every get, or exchange whole batches.
    BaselineCalls {
    win_lock = "MPI_Win_lock" (c_int, c_int, c_int, MpiHandle);
    win_unlock = "MPI_Win_unlock" (c_int, MpiHandle);
    win_flush_all = "MPI_Win_flush_all" (MpiHandle);
    get = "MPI_Get" (*mut c_void, c_int, MpiHandle, c_int, isize, c_int, MpiHandle, MpiHandle);
    alltoallv = "MPI_Alltoallv" (*const c_void, *const c_int, *const c_int, MpiHandle, *mut c_void, *const c_int, *const c_int,
        MpiHandle, MpiHandle);
    }
}

/// A library of MPI that is loaded: its calls and its numbers.
pub(crate) struct LoadedMpi {
    pub(crate) calls: MpiCalls,
    #[cfg(feature = "baseline")]
    pub(crate) baseline: BaselineCalls,
    pub(crate) constants: MpiConstants,
    pub(crate) abi: MpiAbi,
}

impl LoadedMpi {
    /// Loads the library at `path`, which is absolute. It stays loaded: MPI cannot be unloaded once it was initialised.
    pub(crate) fn load(path: &Path) -> Result<Self> {
        // Global, since plug-ins of older versions of Open MPI look there for its symbols.
        // SAFETY: the caller has made sure that the file is root's or the user's own, or is loaded already: its initialisers are
        // code the user trusts.
        let library = unsafe { Library::open(Some(path), RTLD_NOW | RTLD_GLOBAL) };
        let library = library.map_err(|error| {
            Error::new(ErrorKind::Invalid, "is not a library that can be loaded").because(error)
        })?;
        let file_name = path.file_name().unwrap_or_default().to_string_lossy();
        let abi = MpiAbi::of(&file_name, |symbol| address(&library, symbol).is_some());
        let constants = abi.constants(|symbol| address(&library, symbol))?;
        let loaded = Self {
            calls: MpiCalls::resolve(&library)?,
            #[cfg(feature = "baseline")]
            baseline: BaselineCalls::resolve(&library)?,
            constants,
            abi,
        };
        std::mem::forget(library);
        Ok(loaded)
    }

    /// An error for a call that did not return `MPI_SUCCESS`.
    pub(crate) fn check(&self, call: &str, code: c_int) -> Result<()> {
        if code == 0 {
            return Ok(());
        }
        let text = self.text(|buffer, len| {
            // SAFETY: the buffer is longer than any of MPI's texts (at most 8192 bytes).
            unsafe { (self.calls.error_string)(code, buffer, len) }
        });
        Err(Error::new(
            ErrorKind::Io,
            format!("MPI_{call}: {}", text.unwrap_or_else(|| format!("error {code}"))),
        ))
    }

    /// What the library says of itself, its first line. It may be asked before MPI is initialised.
    pub(crate) fn version(&self) -> String {
        let text = self.text(|buffer, len| {
            // SAFETY: as above.
            unsafe { (self.calls.get_library_version)(buffer, len) }
        });
        let text = text.unwrap_or_default();
        let line = text.lines().next().unwrap_or_default();
        // `MPICH Version:      5.0.1`, `Open MPI v4.1.4, package: …`
        let words: Vec<&str> = line.split(',').next().unwrap_or_default().split_whitespace().collect();
        words.join(" ").replace("Version: ", "")
    }

    /// The number that `ask` writes.
    pub(crate) fn number(
        &self,
        call: &str,
        ask: impl FnOnce(&MpiCalls, *mut c_int) -> c_int,
    ) -> Result<c_int> {
        let mut number = 0;
        self.check(call, ask(&self.calls, &raw mut number))?;
        Ok(number)
    }

    fn text(&self, ask: impl FnOnce(*mut c_char, *mut c_int) -> c_int) -> Option<String> {
        let mut buffer = vec![0 as c_char; 16384];
        let mut len = 0;
        if ask(buffer.as_mut_ptr(), &raw mut len) != 0 {
            return None;
        }
        // SAFETY: the buffer was zeros and is longer than what was written: a NUL ends it.
        let text = unsafe { CStr::from_ptr(buffer.as_ptr()) };
        Some(text.to_string_lossy().trim().to_owned())
    }
}

impl MpiHandle {
    /// A communicator of the program, by its number or address, as mpi4py's `comm.handle` gives it.
    ///
    /// # Safety
    ///
    /// It is a communicator of the MPI library that this process uses, and is not freed as long as it is used.
    pub unsafe fn of_communicator(handle: usize) -> Self {
        Self(handle)
    }
}

/// Calls that take numbers and objects alone.
impl LoadedMpi {
    pub(crate) fn is_initialized(&self) -> Result<bool> {
        // SAFETY: the pointer is that of a number; MPI allows the call at any time.
        self.number("Initialized", |calls, flag| unsafe { (calls.initialized)(flag) }).map(|flag| flag != 0)
    }

    pub(crate) fn is_finalized(&self) -> Result<bool> {
        // SAFETY: as above.
        self.number("Finalized", |calls, flag| unsafe { (calls.finalized)(flag) }).map(|flag| flag != 0)
    }

    /// Initialises MPI for calls from any thread, and gives the level that there is.
    pub(crate) fn init_thread(&self) -> Result<c_int> {
        let wanted = self.constants.thread_levels[3];
        // SAFETY: MPI allows null for both arguments of `main`.
        self.number("Init_thread", |calls, level| unsafe {
            (calls.init_thread)(ptr::null_mut(), ptr::null_mut(), wanted, level)
        })
    }

    /// How many threads may call: the number of a thread level.
    pub(crate) fn thread_level(&self) -> Result<c_int> {
        // SAFETY: the pointer is that of a number; MPI is initialised, as the callers see to.
        self.number("Query_thread", |calls, level| unsafe { (calls.query_thread)(level) })
    }

    /// True on the thread that initialised MPI.
    pub(crate) fn is_thread_main(&self) -> Result<bool> {
        // SAFETY: as above.
        self.number("Is_thread_main", |calls, flag| unsafe { (calls.is_thread_main)(flag) })
            .map(|flag| flag != 0)
    }

    pub(crate) fn finalize(&self) -> Result<()> {
        // SAFETY: MPI is initialised and not finalised, as the caller sees to.
        self.check("Finalize", unsafe { (self.calls.finalize)() })
    }

    pub(crate) fn rank(&self, comm: MpiHandle) -> Result<usize> {
        // SAFETY: `comm` is a communicator; the pointer is that of a number.
        let rank = self.number("Comm_rank", |calls, rank| unsafe { (calls.comm_rank)(comm, rank) })?;
        usize::try_from(rank).map_err(|_| Error::new(ErrorKind::Bug, format!("MPI gave rank {rank}")))
    }

    pub(crate) fn size(&self, comm: MpiHandle) -> Result<usize> {
        // SAFETY: as above.
        let size = self.number("Comm_size", |calls, size| unsafe { (calls.comm_size)(comm, size) })?;
        usize::try_from(size).map_err(|_| Error::new(ErrorKind::Bug, format!("MPI gave {size} ranks")))
    }

    /// True for a communicator of two groups, which knows no windows.
    pub(crate) fn is_inter(&self, comm: MpiHandle) -> Result<bool> {
        // SAFETY: as above.
        self.number("Comm_test_inter", |calls, flag| unsafe { (calls.comm_test_inter)(comm, flag) })
            .map(|flag| flag != 0)
    }

    /// Has errors of a communicator come back as codes: MPI ends the process otherwise.
    pub(crate) fn return_errors(&self, comm: MpiHandle) -> Result<()> {
        // SAFETY: both are objects of this library.
        self.check("Comm_set_errhandler", unsafe {
            (self.calls.comm_set_errhandler)(comm, self.constants.errors_return)
        })
    }

    pub(crate) fn comm_free(&self, mut comm: MpiHandle) -> Result<()> {
        // SAFETY: a communicator that this crate made and uses no more.
        self.check("Comm_free", unsafe { (self.calls.comm_free)(&raw mut comm) })
    }

    /// Has `delete` called when MPI is about to be finalised, while all its calls still work.
    pub(crate) fn before_finalize(&self, delete: DeleteCallback) -> Result<()> {
        let mut key = 0;
        // SAFETY: the callbacks are functions that never unwind; no extra state is used.
        self.check("Comm_create_keyval", unsafe {
            (self.calls.comm_create_keyval)(copy_nothing, delete, &raw mut key, ptr::null_mut())
        })?;
        // SAFETY: the key was just made; its value is never looked at.
        self.check("Comm_set_attr", unsafe {
            (self.calls.comm_set_attr)(self.constants.comm_self, key, ptr::null_mut())
        })
    }
}

unsafe extern "C" fn copy_nothing(
    _: MpiHandle,
    _: c_int,
    _: *mut c_void,
    _: *mut c_void,
    _: *mut c_void,
    flag: *mut c_int,
) -> c_int {
    // SAFETY: MPI gives the address of its flag.
    unsafe { flag.write(0) };
    0
}

fn address(library: &Library, symbol: &str) -> Option<usize> {
    // SAFETY: the address alone is taken, nothing is read through it.
    let found = unsafe { library.get::<*mut c_void>(symbol.as_bytes()) };
    found.ok().map(|symbol| symbol.into_raw() as usize)
}

/// # Safety
/// `T` is the type of the function that the library has under `name`.
unsafe fn symbol<T: Copy>(library: &Library, name: &str) -> Result<T> {
    // SAFETY: the caller's promise.
    let found = unsafe { library.get::<T>(name.as_bytes()) };
    found.map(|symbol| *symbol).map_err(|error| {
        Error::new(ErrorKind::Unsupported, format!("has no function {name}"))
            .because(error)
            .hint("MPI 3.0 or later is needed")
    })
}
