//! A library as the dynamic loader knows it: opened by its path, or one that is loaded already.

#![expect(unsafe_code, reason = "loading a library runs its initialisers")]

use std::{
    ffi::{CStr, CString, c_int, c_void},
    os::unix::ffi::OsStrExt,
    path::Path,
    ptr::{self, NonNull},
};

/// A handle of the loader; what was opened by it is closed with it.
#[derive(Debug)]
pub(crate) struct LibraryHandle {
    raw: NonNull<c_void>,
    /// The library stays as long as the process.
    stays: bool,
}

// SAFETY: a handle of the loader may be used on any thread.
unsafe impl Send for LibraryHandle {}
// SAFETY: as above; `dlsym` may be called by several threads at once.
unsafe impl Sync for LibraryHandle {}

impl LibraryHandle {
    /// Loads the library at `path`, or says in the loader's words why not.
    ///
    /// # Safety
    /// The library's initialisers run, so it must be one that the user trusts.
    pub(crate) unsafe fn open(path: &Path, flags: c_int) -> std::result::Result<Self, String> {
        let name = CString::new(path.as_os_str().as_bytes()).map_err(|error| error.to_string())?;
        // SAFETY: the name is a C string, and the caller trusts the initialisers.
        let opened = unsafe { libc::dlopen(name.as_ptr(), flags) };
        if let Some(raw) = NonNull::new(opened) {
            return Ok(Self { raw, stays: false });
        }
        // SAFETY: after a failed `dlopen` on this thread it gives a message, or nothing.
        let why = unsafe { libc::dlerror() };
        if why.is_null() {
            return Err("no reason is given".to_owned());
        }
        // SAFETY: it is a C string that stays until the next call of its kind.
        Err(unsafe { CStr::from_ptr(why) }.to_string_lossy().into_owned())
    }

    /// The library that is loaded as `name`, which the loader gave; it stays loaded from here on.
    pub(crate) fn of_loaded(name: &CStr) -> Option<Self> {
        let flags = libc::RTLD_LAZY | libc::RTLD_NOLOAD;
        // SAFETY: the name ends in NUL; with `RTLD_NOLOAD` nothing is loaded and no code of the library runs.
        let found = unsafe { libc::dlopen(name.as_ptr(), flags) };
        let raw = NonNull::new(found).or_else(|| {
            // The program itself is known by no name.
            // SAFETY: a null name stands for the program.
            NonNull::new(unsafe { libc::dlopen(ptr::null(), libc::RTLD_LAZY) })
        })?;
        Some(Self { raw, stays: true })
    }

    /// The address of `name` in the library, or in those that it depends on.
    pub(crate) fn symbol(&self, name: &CStr) -> Option<NonNull<c_void>> {
        // SAFETY: the handle is open, and the name ends in NUL.
        NonNull::new(unsafe { libc::dlsym(self.raw.as_ptr(), name.as_ptr()) })
    }
}

impl Drop for LibraryHandle {
    fn drop(&mut self) {
        if !self.stays {
            // SAFETY: the handle was opened here, and nothing uses it after this. What it cannot close stays loaded.
            unsafe { libc::dlclose(self.raw.as_ptr()) };
        }
    }
}
