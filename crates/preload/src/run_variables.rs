//! What the launcher says of staged writes by variables, looked for once: another thread of the program may change its environment later,
//! and what the C library has given is not there then.

#![expect(unsafe_code, reason = "asks the C library for variables without allocating")]

use std::{
    ffi::{CStr, OsStr, c_char},
    os::unix::ffi::OsStrExt,
    path::Path,
    sync::OnceLock,
};

use crate::path_text::PathText;

/// The folders of a run whose program's files are staged, in memory that needs no allocator.
#[derive(Debug)]
pub(crate) struct RunVariables {
    images: PathText,
    run: PathText,
    /// Whether files that are also read are left alone: the HDF5 plug-ins stage those.
    pub(crate) is_write_only: bool,
}

static VARIABLES: OnceLock<Option<RunVariables>> = OnceLock::new();

impl RunVariables {
    fn from_environment() -> Option<Self> {
        let (images, run) = (variable(c"FOREBAY_RUN_IMAGES")?, variable(c"FOREBAY_RUN")?);
        let is_write_only =
            variable(c"FOREBAY_STAGE_WRITES").is_some_and(|value| value.get() == b"write-only");
        Some(Self { images, run, is_write_only })
    }

    /// The folder in which the launcher has the files.
    pub(crate) fn images(&self) -> &Path {
        path_of(&self.images)
    }

    /// The folder in which the processes of the run meet.
    pub(crate) fn run(&self) -> &Path {
        path_of(&self.run)
    }
}

/// What is said, asked for where that has not been done.
pub(crate) fn look() -> Option<&'static RunVariables> {
    if VARIABLES.get().is_none() {
        // Found before it is set: a child that is forked meanwhile waits for no thread of its parent.
        let _is_first = VARIABLES.set(RunVariables::from_environment());
    }
    get()
}

/// What was found; nothing before anybody has looked.
pub(crate) fn get() -> Option<&'static RunVariables> {
    VARIABLES.get()?.as_ref()
}

unsafe extern "C" {
    static environ: *const *const c_char;
}

/// False before the C library has the variables: a function of a program may run before those of all libraries (`.preinit_array`).
pub(crate) fn are_there() -> bool {
    // SAFETY: the C library sets the address before a program has a second thread; what it leads to is not read.
    unsafe { !environ.is_null() }
}

fn variable(name: &CStr) -> Option<PathText> {
    // SAFETY: the name ends with a zero byte.
    let value = unsafe { libc::getenv(name.as_ptr()) };
    // SAFETY: what the C library gives is null or a text of C; it is copied at once.
    (!value.is_null()).then(|| unsafe { CStr::from_ptr(value) }).and_then(PathText::copied)
}

fn path_of(text: &PathText) -> &Path {
    Path::new(OsStr::from_bytes(text.get()))
}
