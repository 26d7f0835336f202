//! Arguments and results of C: texts, lists, structures with a version, and places to write to.
//!
//! All pointers that are read here come from a caller who keeps what `forebay.h` asks: texts end with a NUL, lists are as long
//! as is said, and both stay as they are until the call returns.

use std::{
    ffi::{CStr, CString, OsStr, c_char},
    fmt,
    mem::{self, MaybeUninit},
    os::unix::ffi::OsStrExt,
    path::Path,
    ptr, slice,
};

use forebay::{
    Error, ErrorKind, Result,
    source::{path_of_text, text_of_path},
};

/// A text that C gives, or NULL for none.
#[repr(transparent)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct TextArg(*const c_char);

/// A place for a result, or NULL.
pub(crate) type OutArg<'a, T> = Option<&'a mut MaybeUninit<T>>;

impl TextArg {
    fn bytes(&self) -> Option<&[u8]> {
        if self.0.is_null() {
            return None;
        }
        // SAFETY: the caller gives a text that ends with a NUL and stays until the call returns.
        Some(unsafe { CStr::from_ptr(self.0) }.to_bytes())
    }

    /// The text, where one is given; argument `name` is to blame for bytes that are none.
    pub(crate) fn text(&self, name: &str) -> Result<Option<&str>> {
        let Some(bytes) = self.bytes() else { return Ok(None) };
        let text = std::str::from_utf8(bytes);
        text.map(Some).map_err(|error| Error::invalid("is not UTF-8").at(name).because(error))
    }

    /// The text, which has to be given.
    pub(crate) fn required(&self, name: &str) -> Result<&str> {
        self.text(name)?.ok_or_else(|| is_null(name))
    }

    /// The path or URL as the engine writes it, whose bytes may be any.
    pub(crate) fn path(&self, name: &str) -> Result<String> {
        let bytes = self.bytes().ok_or_else(|| is_null(name))?;
        Ok(text_of_path(Path::new(OsStr::from_bytes(bytes))))
    }
}

/// The path that `text`, as the engine writes it, stands for.
pub(crate) fn path_of(text: &str) -> std::borrow::Cow<'_, Path> {
    path_of_text(text)
}

/// The error for an argument that is NULL.
pub(crate) fn is_null(name: &str) -> Error {
    Error::invalid("is NULL").at(name)
}

/// The handle `given`, which has to be one.
pub(crate) fn handle<'a, T>(given: Option<&'a T>, name: &str) -> Result<&'a T> {
    given.ok_or_else(|| is_null(name))
}

/// The place `given`, which has to be there.
pub(crate) fn place<'a, T>(given: OutArg<'a, T>, name: &str) -> Result<&'a mut MaybeUninit<T>> {
    given.ok_or_else(|| is_null(name))
}

/// Writes `value` to the place `out`, which has to be there.
pub(crate) fn put<T>(out: OutArg<'_, T>, name: &str, value: T) -> Result<()> {
    place(out, name)?.write(value);
    Ok(())
}

/// The `count` elements at `first`.
pub(crate) fn list<'a, T: Copy>(first: *const T, count: usize, name: &str) -> Result<&'a [T]> {
    if count == 0 {
        return Ok(&[]);
    }
    if first.is_null() {
        return Err(is_null(name));
    }
    check_len::<T>(count, name)?;
    // SAFETY: the caller gives so many elements, which stay as they are until the call returns.
    Ok(unsafe { slice::from_raw_parts(first, count) })
}

/// The `len` bytes at `first`, to be written to.
pub(crate) fn room<'a>(first: *mut u8, len: usize, name: &str) -> Result<&'a mut [u8]> {
    if len == 0 {
        return Ok(&mut []);
    }
    if first.is_null() {
        return Err(is_null(name));
    }
    check_len::<u8>(len, name)?;
    // SAFETY: the caller gives so many bytes, which nobody else uses until the call returns; they are written to, never read.
    Ok(unsafe { slice::from_raw_parts_mut(first, len) })
}

/// Refuses more elements than memory can have.
fn check_len<T>(count: usize, name: &str) -> Result<()> {
    match count.checked_mul(size_of::<T>()).and_then(|len| isize::try_from(len).ok()) {
        Some(_) => Ok(()),
        None => Err(Error::invalid(format!("{count} elements are more than memory has")).at(name)),
    }
}

/// Options that C gives in a structure whose first member is its size.
///
/// # Safety
///
/// The type is `repr(C)`, begins with a `usize`, has no padding, and any bytes are a value of it.
pub(crate) unsafe trait VersionedArguments: Copy {}

/// The options at `given`: what a program that was built with an older header does not have is zero, and what one of a newer
/// header sets besides is refused.
pub(crate) fn versioned<T: VersionedArguments>(given: *const T, name: &str) -> Result<T> {
    if given.is_null() {
        return Err(is_null(name));
    }
    // SAFETY: the structure begins with its size, whatever its version.
    let size = unsafe { given.cast::<usize>().read_unaligned() };
    if !(size_of::<usize>()..=1 << 16).contains(&size) {
        let hint = format!("begin with {name}_defaults() of forebay.h");
        return Err(Error::invalid(format!("size={size} is that of no structure")).at(name).hint(hint));
    }
    // SAFETY: the structure is as long as it says, and stays until the call returns.
    let bytes = unsafe { slice::from_raw_parts(given.cast::<u8>(), size) };
    if bytes.iter().skip(size_of::<T>()).any(|byte| *byte != 0) {
        let what = "sets options that this build of libforebay does not have";
        return Err(Error::new(ErrorKind::Unsupported, what).at(name).hint("install a later libforebay"));
    }
    // SAFETY: any bytes are a value of the type, zeros too; those that are copied lie in both.
    unsafe {
        let mut options: T = mem::zeroed();
        let len = size.min(size_of::<T>());
        ptr::copy_nonoverlapping(bytes.as_ptr(), (&raw mut options).cast::<u8>(), len);
        Ok(options)
    }
}

/// `text` as one that the caller frees with `forebay_free_string`.
pub(crate) fn owned_text(text: impl fmt::Display) -> *mut c_char {
    c_text(&text.to_string()).into_raw()
}

/// `text` as C has it; a NUL inside, which would end it, is left out.
pub(crate) fn c_text(text: &str) -> CString {
    CString::new(text.replace('\0', "")).unwrap_or_default()
}

/// Frees a text that was given to the caller. NULL is left alone.
#[unsafe(no_mangle)]
extern "C" fn forebay_free_string(text: *mut c_char) {
    if !text.is_null() {
        // SAFETY: the text was made by `owned_text`, and the caller gives it back once.
        drop(unsafe { CString::from_raw(text) });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[repr(C)]
    #[derive(Clone, Copy, Debug, PartialEq)]
    struct Newer {
        size: usize,
        first: u64,
        second: u64,
    }

    #[repr(C)]
    #[derive(Clone, Copy, Debug, PartialEq)]
    struct Older {
        size: usize,
        first: u64,
    }

    // SAFETY: both are plain numbers without padding, the first of which is the size.
    unsafe impl VersionedArguments for Newer {}
    // SAFETY: as above.
    unsafe impl VersionedArguments for Older {}

    #[test]
    fn a_program_of_an_older_header_leaves_new_options_at_zero() {
        let given = Older { size: size_of::<Older>(), first: 7 };
        let read = versioned((&raw const given).cast::<Newer>(), "options").unwrap();
        assert_eq!((read.first, read.second), (7, 0));
    }

    #[test]
    fn a_program_of_a_newer_header_is_refused_where_it_sets_what_is_not_there() {
        let given = Newer { size: size_of::<Newer>(), first: 7, second: 0 };
        let read = |given: &Newer| versioned(ptr::from_ref(given).cast::<Older>(), "options");
        assert_eq!(read(&given).unwrap().first, 7);
        let error = read(&Newer { second: 1, ..given }).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        let error = read(&Newer { size: 0, ..given }).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid);
    }

    #[test]
    fn a_text_may_be_missing_and_must_be_utf8() {
        assert_eq!(TextArg(ptr::null()).text("label").unwrap(), None);
        assert_eq!(TextArg(c"x".as_ptr()).required("label").unwrap(), "x");
        let error = TextArg(c"\xff".as_ptr()).text("label").unwrap_err();
        assert_eq!(error.to_string(), "label: is not UTF-8");
        assert_eq!(TextArg(ptr::null()).path("path").unwrap_err().to_string(), "path: is NULL");
    }
}
