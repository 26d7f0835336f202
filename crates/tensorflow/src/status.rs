//! How a call went, in TensorFlow's codes: the table of this border, and the guard that no panic passes.

use std::{
    any::Any,
    ffi::{CStr, CString, c_char, c_int},
    mem,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::OnceLock,
};

use forebay_source::{Error, ErrorKind};

use crate::interface::TfStatus;

/// Codes of TensorFlow, `TF_Code`.
pub(crate) const OK: c_int = 0;
const UNKNOWN: c_int = 2;
const INVALID_ARGUMENT: c_int = 3;
const NOT_FOUND: c_int = 5;
const PERMISSION_DENIED: c_int = 7;
const RESOURCE_EXHAUSTED: c_int = 8;
pub(crate) const FAILED_PRECONDITION: c_int = 9;
pub(crate) const OUT_OF_RANGE: c_int = 11;
pub(crate) const UNIMPLEMENTED: c_int = 12;
const INTERNAL: c_int = 13;
const UNAVAILABLE: c_int = 14;
const DATA_LOSS: c_int = 15;

type SetStatus = unsafe extern "C" fn(*mut TfStatus, c_int, *const c_char);

static SET_STATUS: OnceLock<SetStatus> = OnceLock::new();

/// Where the function may be: in a library that the program shows to all, or in one of TensorFlow's own, which Python does not.
const LIBRARIES: [Option<&CStr>; 4] = [
    None,
    Some(c"libtensorflow_framework.so.2"),
    Some(c"libtensorflow_cc.so.2"),
    Some(c"libtensorflow.so.2"),
];

/// Finds TensorFlow's `TF_SetStatus` in this process; false where no TensorFlow is loaded.
pub(crate) fn find_set_status() -> bool {
    if SET_STATUS.get().is_some() {
        return true;
    }
    let found = LIBRARIES.into_iter().find_map(|library| {
        let name = library.map_or(std::ptr::null(), CStr::as_ptr);
        // SAFETY: the name ends with a NUL; a library that is not loaded is not loaded for this.
        let handle = unsafe { libc::dlopen(name, libc::RTLD_NOW | libc::RTLD_NOLOAD) };
        if handle.is_null() {
            return None;
        }
        // SAFETY: the handle is one of a library that stays loaded, as it is never closed.
        let symbol = unsafe { libc::dlsym(handle, c"TF_SetStatus".as_ptr()) };
        // SAFETY: the function of this name has had this type since TensorFlow 1.0, and a null pointer is none.
        unsafe { mem::transmute::<*mut libc::c_void, Option<SetStatus>>(symbol) }
    });
    found.is_some_and(|function| SET_STATUS.set(function).is_ok() || SET_STATUS.get().is_some())
}

/// Writes a code and a text into `status`.
pub(crate) fn set(status: *mut TfStatus, code: c_int, text: &str) {
    let text = CString::new(text.replace('\0', "")).unwrap_or_default();
    if let Some(set_status) = SET_STATUS.get().filter(|_| !status.is_null()) {
        // SAFETY: TensorFlow gave the status for this call, and copies the text.
        unsafe { set_status(status, code, text.as_ptr()) };
    }
}

/// Why a call could not be served: a code of TensorFlow and a text.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct TfError {
    pub(crate) code: c_int,
    pub(crate) text: String,
}

impl From<Error> for TfError {
    fn from(error: Error) -> Self {
        let code = match error.kind() {
            ErrorKind::NotFound => NOT_FOUND,
            ErrorKind::Invalid => INVALID_ARGUMENT,
            ErrorKind::Corrupt => DATA_LOSS,
            ErrorKind::Unsupported => UNIMPLEMENTED,
            ErrorKind::Unavailable => UNAVAILABLE,
            ErrorKind::Full => RESOURCE_EXHAUSTED,
            ErrorKind::Denied => PERMISSION_DENIED,
            ErrorKind::Bug => INTERNAL,
            _ => UNKNOWN,
        };
        Self { code, text: error.to_string() }
    }
}

/// What `body` gives, or `otherwise` where it fails; `status` says how it went. A panic is a failure too.
pub(crate) fn answer<T>(status: *mut TfStatus, otherwise: T, body: impl FnOnce() -> Result<T, TfError>) -> T {
    match guarded(body) {
        Ok(done) => {
            set(status, OK, "");
            done
        }
        Err(error) => {
            set(status, error.code, &error.text);
            otherwise
        }
    }
}

/// What `body` gives; a panic is an error.
pub(crate) fn guarded<T>(body: impl FnOnce() -> Result<T, TfError>) -> Result<T, TfError> {
    catch_unwind(AssertUnwindSafe(body))
        .unwrap_or_else(|panic| Err(TfError { code: INTERNAL, text: panic_text(&*panic) }))
}

fn panic_text(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    format!("a fault inside forebay, please report it: {}", text.unwrap_or("no message"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_of_errors_have_codes_of_tensorflow() {
        let missing = Error::from_io(std::io::Error::from_raw_os_error(libc::ENOENT)).at("/a");
        let error = TfError::from(missing);
        assert_eq!(error.code, NOT_FOUND);
        assert!(error.text.starts_with("/a: "), "{}", error.text);
        assert_eq!(TfError::from(Error::corrupt("x")).code, DATA_LOSS);
    }

    #[test]
    fn a_panic_is_an_error_like_others() {
        let error = guarded::<()>(|| panic!("on purpose")).unwrap_err();
        assert_eq!(error.code, INTERNAL);
        assert!(error.text.ends_with("on purpose"), "{}", error.text);
    }

    #[test]
    fn a_process_without_tensorflow_has_no_function_for_its_status() {
        assert!(!find_set_status());
        set(std::ptr::null_mut(), OK, "");
    }
}
