//! Values and texts in memory that TensorFlow frees, by the function that [`free`] is.

use std::{
    ffi::{c_char, c_void},
    ptr,
};

/// Memory for TensorFlow to write to and give back.
pub(crate) unsafe extern "C" fn allocate(len: usize) -> *mut c_void {
    // SAFETY: memory is asked for, and may be refused.
    unsafe { libc::malloc(len) }
}

/// Frees what was allocated here.
pub(crate) unsafe extern "C" fn free(memory: *mut c_void) {
    // SAFETY: TensorFlow gives back what was allocated for it, once.
    unsafe { libc::free(memory) };
}

/// `value` in such memory; null where there is none.
pub(crate) fn allocated<T: Copy>(value: T) -> *mut T {
    // SAFETY: the memory is as long as the value, and `malloc` aligns it for any.
    unsafe {
        let place = libc::malloc(size_of::<T>()).cast::<T>();
        if !place.is_null() {
            place.write(value);
        }
        place
    }
}

/// `text`, which holds no NUL, with one behind it; null where there is no memory.
///
/// Not by `strndup`: of a text that is a constant without a NUL, optimised code copies what lies behind it, too.
pub(crate) fn allocated_text(text: &[u8]) -> *mut c_char {
    // SAFETY: the memory is one byte longer than the text.
    unsafe {
        let place = libc::malloc(text.len() + 1).cast::<u8>();
        if !place.is_null() {
            ptr::copy_nonoverlapping(text.as_ptr(), place, text.len());
            place.add(text.len()).write(0);
        }
        place.cast()
    }
}

/// `texts` one after another; null where there is no memory. An empty list has memory, too.
pub(crate) fn allocated_list(texts: &[Vec<u8>]) -> *mut *mut c_char {
    // SAFETY: memory is asked for, and may be refused.
    let list = unsafe { libc::calloc(texts.len() + 1, size_of::<*mut c_char>()) }.cast::<*mut c_char>();
    if list.is_null() {
        return list;
    }
    for (index, text) in texts.iter().enumerate() {
        let copied = allocated_text(text);
        // SAFETY: the list is longer than `index`.
        unsafe { list.add(index).write(copied) };
        if copied.is_null() {
            free_list(list, index);
            return ptr::null_mut();
        }
    }
    list
}

/// Frees a list of `count` texts.
fn free_list(list: *mut *mut c_char, count: usize) {
    for index in 0..count {
        // SAFETY: the list has so many texts, which were allocated here.
        unsafe { libc::free((*list.add(index)).cast()) };
    }
    // SAFETY: the list was allocated here.
    unsafe { libc::free(list.cast()) };
}

#[cfg(test)]
mod tests {
    use std::ffi::CStr;

    use super::*;

    fn bytes(text: *const c_char) -> Vec<u8> {
        // SAFETY: the text was made just now.
        unsafe { CStr::from_ptr(text) }.to_bytes().to_vec()
    }

    #[test]
    fn a_text_ends_where_it_ends_also_where_it_is_a_constant() {
        const NAME: &str = "forebay";
        assert_eq!(bytes(allocated_text(NAME.as_bytes())), b"forebay");
        assert_eq!(bytes(allocated_text(b"")), b"");
    }

    #[test]
    fn a_list_has_its_texts() {
        let list = allocated_list(&[b"a".to_vec(), b"bc".to_vec()]);
        // SAFETY: the list has two texts.
        let texts = unsafe { [bytes(*list), bytes(*list.add(1))] };
        assert_eq!(texts, [b"a".to_vec(), b"bc".to_vec()]);
        free_list(list, 2);
        let empty = allocated_list(&[]);
        assert!(!empty.is_null());
        free_list(empty, 0);
    }
}
