//! Error kinds as codes of C: the table of this border, the last error of each thread, and the guard that no panic passes.

use std::{
    any::Any,
    cell::RefCell,
    ffi::{CStr, CString, c_char},
    panic::{AssertUnwindSafe, catch_unwind},
};

use forebay::{Error, ErrorKind, Result, process::take_warnings};
use serde_json::json;

use crate::border::{OutArg, c_text, owned_text, place};

/// The version of the ABI, as `FOREBAY_ABI_VERSION` in the header.
const ABI_VERSION: u32 = 1;

/// It went well.
pub(crate) const OK: i32 = 0;
/// There is nothing more.
pub(crate) const END: i32 = 1;
/// It takes longer than the caller would wait.
pub(crate) const TIMEOUT: i32 = 2;

/// The code and the word of each kind.
const CODES: [(ErrorKind, i32, &CStr); 9] = [
    (ErrorKind::NotFound, -1, c"not_found"),
    (ErrorKind::Invalid, -2, c"invalid"),
    (ErrorKind::Corrupt, -3, c"corrupt"),
    (ErrorKind::Unsupported, -4, c"unsupported"),
    (ErrorKind::Unavailable, -5, c"unavailable"),
    (ErrorKind::Full, -6, c"full"),
    (ErrorKind::Denied, -7, c"denied"),
    (ErrorKind::Io, -8, c"system"),
    (ErrorKind::Bug, -9, c"bug"),
];

const BUG: i32 = -9;

/// What went wrong last in a thread.
struct LastError {
    code: i32,
    errno: i32,
    text: CString,
}

thread_local! {
    static LAST: RefCell<Option<LastError>> = const { RefCell::new(None) };
}

/// What `body` gives, or the code of its error, which the thread remembers; a panic is an error too.
pub(crate) fn guard(body: impl FnOnce() -> Result<i32>) -> i32 {
    guarded(body).unwrap_or_else(|code| code)
}

/// What `body` gives, or `otherwise` where it fails.
pub(crate) fn guard_value<T>(otherwise: T, body: impl FnOnce() -> Result<T>) -> T {
    guarded(body).unwrap_or(otherwise)
}

/// Puts what `make` gives into the place `out`, the argument `name`, as a handle that the caller owns; NULL where it fails.
pub(crate) fn give<T>(out: OutArg<'_, Option<Box<T>>>, name: &str, make: impl FnOnce() -> Result<T>) -> i32 {
    guard(|| {
        let out = place(out, name)?.write(None);
        *out = Some(Box::new(make()?));
        Ok(OK)
    })
}

/// Frees a handle that the caller owned.
pub(crate) fn free<T>(handle: Option<Box<T>>) {
    guard_value((), || {
        drop(handle);
        Ok(())
    });
}

fn guarded<T>(body: impl FnOnce() -> Result<T>) -> Result<T, i32> {
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(done) => done.map_err(|error| remember(&error)),
        Err(panic) => Err(remember(&Error::new(ErrorKind::Bug, panic_text(&*panic)))),
    }
}

fn panic_text(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    format!("a fault inside forebay, please report it: {}", text.unwrap_or("no message"))
}

/// Remembers `error` as the last of this thread, and gives its code.
fn remember(error: &Error) -> i32 {
    let code = CODES.iter().find(|(kind, ..)| *kind == error.kind()).map_or(BUG, |(_, code, _)| *code);
    let (errno, text) = (error.raw_os_error().unwrap_or(0), c_text(&error.to_string()));
    // A thread that is ending has nobody to tell.
    let _ = LAST.try_with(|last| *last.borrow_mut() = Some(LastError { code, errno, text }));
    code
}

fn of_last<T>(part: impl FnOnce(&LastError) -> T) -> Option<T> {
    LAST.try_with(|last| last.borrow().as_ref().map(part)).ok().flatten()
}

/// The version of the ABI that the library has.
#[unsafe(no_mangle)]
extern "C" fn forebay_abi_version() -> u32 {
    ABI_VERSION
}

/// The version of forebay, such as `0.1.0`.
#[unsafe(no_mangle)]
extern "C" fn forebay_version() -> *const c_char {
    const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), "\0");
    VERSION.as_ptr().cast()
}

/// The text of the last error of this thread.
#[unsafe(no_mangle)]
extern "C" fn forebay_last_error() -> *const c_char {
    of_last(|last| last.text.as_ptr()).unwrap_or(c"".as_ptr())
}

/// The code of the last error of this thread.
#[unsafe(no_mangle)]
extern "C" fn forebay_last_code() -> i32 {
    of_last(|last| last.code).unwrap_or(OK)
}

/// The system's number of the last error of this thread, or 0.
#[unsafe(no_mangle)]
extern "C" fn forebay_last_errno() -> i32 {
    of_last(|last| last.errno).unwrap_or(0)
}

/// The word for a code, the same as that of Python's exceptions.
#[unsafe(no_mangle)]
extern "C" fn forebay_code_name(code: i32) -> *const c_char {
    let named = [(OK, c"ok"), (END, c"end"), (TIMEOUT, c"timeout")];
    let named = named.into_iter().chain(CODES.map(|(_, code, word)| (code, word)));
    let word = named.into_iter().find(|(one, _)| *one == code).map_or(c"unknown", |(_, word)| word);
    word.as_ptr()
}

/// The warnings since this was last asked, of all threads, as JSON.
#[unsafe(no_mangle)]
extern "C" fn forebay_warnings(json: OutArg<'_, *mut c_char>) -> i32 {
    guard(|| {
        let json = place(json, "json")?;
        let rows: Vec<_> = take_warnings()
            .into_iter()
            .map(|event| json!({"kind": event.kind.word(), "subject": event.subject, "text": event.text}))
            .collect();
        json.write(owned_text(serde_json::Value::from(rows)));
        Ok(OK)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn last() -> String {
        // SAFETY: the text stays until the next error of this thread.
        unsafe { CStr::from_ptr(forebay_last_error()) }.to_string_lossy().into_owned()
    }

    #[test]
    fn an_error_gives_its_code_and_is_remembered_by_its_thread_alone() {
        let error = || Error::from_io(std::io::Error::from_raw_os_error(2)).at("a.h5");
        assert_eq!(guard(|| Err(error())), -1);
        assert!(last().starts_with("a.h5: "), "{}", last());
        assert_eq!((forebay_last_code(), forebay_last_errno()), (-1, 2));
        let elsewhere = std::thread::spawn(|| (forebay_last_code(), last()));
        assert_eq!(elsewhere.join().unwrap(), (0, String::new()));
    }

    #[test]
    fn a_panic_is_an_error_like_others() {
        assert_eq!(guard(|| panic!("on purpose")), BUG);
        assert!(last().ends_with("please report it: on purpose"));
        assert_eq!(guard_value(7, || panic!("again")), 7);
    }

    #[test]
    fn every_kind_has_a_code_of_its_own() {
        let mut codes: Vec<i32> = CODES.iter().map(|(_, code, _)| *code).collect();
        codes.sort_unstable();
        codes.dedup();
        assert_eq!(codes.len(), 9);
        assert!(codes.iter().all(|code| *code < 0));
    }
}
