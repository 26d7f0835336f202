//! HDF5's error stack: kept over calls that are ours alone, and added to in the words of the library's own driver.

#![expect(unsafe_code, reason = "calls into a libhdf5 found at run time")]

use std::{
    ffi::{CString, c_char, c_uint, c_void},
    ptr::null_mut,
};

use forebay_process::Result;

use crate::{
    functions::hdf5_functions,
    hdf5_types::{H5P_DEFAULT, herr_t, hid_t},
    library::Hdf5Library,
};

hdf5_functions! {
    /// The functions that keep and restore a stack.
    struct StackFunctions {
        fn H5Eget_current_stack() -> hid_t;
        fn H5Eset_current_stack(hid_t) -> herr_t;
        fn H5Eauto_is_v2(hid_t, *mut c_uint) -> herr_t;
        fn H5Eget_auto2(hid_t, *mut *mut c_void, *mut *mut c_void) -> herr_t;
        fn H5Eset_auto2(hid_t, *mut c_void, *mut c_void) -> herr_t;
    }
}

hdf5_functions! {
    /// The same of older programs; a library may be built without them.
    struct OldHandlerFunctions {
        fn H5Eget_auto1(*mut *mut c_void, *mut *mut c_void) -> herr_t;
        fn H5Eset_auto1(*mut c_void, *mut c_void) -> herr_t;
    }
}

/// `H5Epush2`, which takes a format and what it needs.
type Push = unsafe extern "C" fn(
    hid_t,
    *const c_char,
    *const c_char,
    c_uint,
    hid_t,
    hid_t,
    hid_t,
    *const c_char,
    ...
) -> herr_t;

/// A class of errors of HDF5 and what happened, as the library's own source names them: `VFL` and `CANTLOCKFILE`.
#[derive(Clone, Copy, Debug)]
pub struct ErrorNumbers {
    /// `H5E_…`: the part of the library.
    pub major: MajorError,
    /// `H5E_…`: what happened.
    pub minor: MinorError,
}

/// The part of the library that an error is said to come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MajorError {
    /// `H5E_FILE`
    File,
    /// `H5E_IO`
    Io,
    /// `H5E_VFL`
    Vfl,
    /// `H5E_VOL`
    Vol,
    /// `H5E_ARGS`
    Args,
}

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MinorError {
    /// `H5E_READERROR`
    Read,
    /// `H5E_WRITEERROR`
    Write,
    /// `H5E_CANTOPENFILE`
    CantOpenFile,
    /// `H5E_CANTCLOSEFILE`
    CantCloseFile,
    /// `H5E_CANTFLUSH`
    CantFlush,
    /// `H5E_SEEKERROR`
    Seek,
    /// `H5E_UNSUPPORTED`
    Unsupported,
}

const MAJORS: [&std::ffi::CStr; 5] = [c"H5E_FILE_g", c"H5E_IO_g", c"H5E_VFL_g", c"H5E_VOL_g", c"H5E_ARGS_g"];
const MINORS: [&std::ffi::CStr; 7] = [
    c"H5E_READERROR_g",
    c"H5E_WRITEERROR_g",
    c"H5E_CANTOPENFILE_g",
    c"H5E_CANTCLOSEFILE_g",
    c"H5E_CANTFLUSH_g",
    c"H5E_SEEKERROR_g",
    c"H5E_UNSUPPORTED_g",
];

/// The error stack of one libhdf5.
#[derive(Debug)]
pub struct ErrorStack {
    functions: StackFunctions,
    old: Option<OldHandlerFunctions>,
    push: Push,
    class: *const hid_t,
    majors: [*const hid_t; MAJORS.len()],
    minors: [*const hid_t; MINORS.len()],
}

// SAFETY: the pointers are to variables of a library that stays loaded; they are only read, by threads that HDF5 lets in.
unsafe impl Send for ErrorStack {}
// SAFETY: as above.
unsafe impl Sync for ErrorStack {}

impl ErrorStack {
    /// The stack of `library`.
    pub fn load(library: &Hdf5Library) -> Result<Self> {
        let variable = |name| library.variable(name).map(|found| found.as_ptr().cast::<hid_t>().cast_const());
        let push = library.require(c"H5Epush2")?;
        let mut majors = [std::ptr::null(); MAJORS.len()];
        for (place, name) in majors.iter_mut().zip(MAJORS) {
            *place = variable(name)?;
        }
        let mut minors = [std::ptr::null(); MINORS.len()];
        for (place, name) in minors.iter_mut().zip(MINORS) {
            *place = variable(name)?;
        }
        Ok(Self {
            functions: StackFunctions::load(library)?,
            old: OldHandlerFunctions::load(library).ok(),
            // SAFETY: the signature is that of `H5Epush2` since HDF5 1.8.
            push: unsafe { std::mem::transmute::<std::ptr::NonNull<c_void>, Push>(push) },
            class: variable(c"H5E_ERR_CLS_g")?,
            majors,
            minors,
        })
    }

    /// What `body` gives; the stack is afterwards as it was before, whatever HDF5 calls `body` made.
    pub fn kept<R>(&self, body: impl FnOnce() -> R) -> R {
        // SAFETY: called on a thread that is inside a callback of this library.
        let before = unsafe { (self.functions.H5Eget_current_stack)() };
        let answer = body();
        if before >= 0 {
            // SAFETY: as above; the handle is the one that was just given, and is used up by the call.
            let _failed = unsafe { (self.functions.H5Eset_current_stack)(before) };
        }
        answer
    }

    /// What `body` gives; whatever fails in it is neither told to the program's handler of errors nor left on the stack.
    pub fn quietly<R>(&self, body: impl FnOnce() -> R) -> R {
        self.kept(|| {
            let (mut is_new, mut handler, mut context) = (1, null_mut(), null_mut());
            // SAFETY: the default stack, and places for what is set; a handler of the other kind must not be asked for.
            let old = unsafe {
                (self.functions.H5Eauto_is_v2)(H5P_DEFAULT, &raw mut is_new);
                let old = self.old.filter(|_| is_new == 0);
                match old {
                    Some(old) => (old.H5Eget_auto1)(&raw mut handler, &raw mut context),
                    None => (self.functions.H5Eget_auto2)(H5P_DEFAULT, &raw mut handler, &raw mut context),
                };
                (self.functions.H5Eset_auto2)(H5P_DEFAULT, null_mut(), null_mut());
                old
            };
            let answer = body();
            // SAFETY: as above; what was set is put back.
            unsafe {
                match old {
                    Some(old) => (old.H5Eset_auto1)(handler, context),
                    None => (self.functions.H5Eset_auto2)(H5P_DEFAULT, handler, context),
                };
            }
            answer
        })
    }

    /// Adds `message` on top of the stack.
    pub fn push(&self, numbers: ErrorNumbers, message: &str) {
        let text = CString::new(message.replace('\0', " ")).expect("no NUL is left");
        // SAFETY: variables of a loaded library, set since its initialisation.
        let (class, major, minor) = unsafe {
            (*self.class, *self.majors[numbers.major as usize], *self.minors[numbers.minor as usize])
        };
        // SAFETY: strings end in NUL, and the format takes one of them.
        let _failed = unsafe {
            (self.push)(
                H5P_DEFAULT,
                c"forebay".as_ptr(),
                c"forebay".as_ptr(),
                0,
                class,
                major,
                minor,
                c"%s".as_ptr(),
                text.as_ptr(),
            )
        };
    }
}
