//! A path in memory that needs no allocator: the first file of a process may be opened by its allocator.

use std::{
    ffi::{CStr, c_char},
    fmt,
};

/// No path is longer for the kernel.
pub(crate) const PATH_BYTES: usize = 4096;

/// A path in memory of its own.
#[derive(Clone, Copy)]
pub(crate) struct PathText {
    bytes: [u8; PATH_BYTES],
    len: usize,
}

impl fmt::Debug for PathText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&String::from_utf8_lossy(self.get()))
    }
}

impl PathText {
    /// The path that a setting of `value` names, unless it is too long: a dollar stands in it as `$$`.
    pub(crate) fn of_setting(value: &[u8]) -> Option<Self> {
        let mut text = Self { bytes: [0; PATH_BYTES], len: 0 };
        let mut rest = value;
        while let [first, after @ ..] = rest {
            // The last byte stays zero: the text is handed to C.
            *text.bytes[..PATH_BYTES - 1].get_mut(text.len)? = *first;
            text.len += 1;
            rest = if *first == b'$' { after.strip_prefix(b"$").unwrap_or(after) } else { after };
        }
        Some(text)
    }

    /// What `write` writes: a text that ends with a zero byte; nothing where it answers null.
    pub(crate) fn written(write: impl FnOnce(*mut c_char) -> *mut c_char) -> Option<Self> {
        let mut text = Self { bytes: [0; PATH_BYTES], len: 0 };
        if write(text.bytes.as_mut_ptr().cast()).is_null() {
            return None;
        }
        text.len = text.bytes.iter().position(|byte| *byte == 0)?;
        Some(text)
    }

    /// The path for C.
    pub(crate) fn as_c(&self) -> &CStr {
        CStr::from_bytes_until_nul(&self.bytes).unwrap_or_default()
    }

    /// The path.
    pub(crate) fn get(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dollar_stands_twice_in_a_setting_and_a_path_has_to_fit() {
        let path = |value: &[u8]| PathText::of_setting(value).map(|text| text.get().to_vec());
        assert_eq!(path(b"/a/$$b/$$$$").as_deref(), Some(&b"/a/$b/$$"[..]));
        assert_eq!(path(&[b'/'; PATH_BYTES - 1]).map(|path| path.len()), Some(PATH_BYTES - 1));
        assert_eq!(path(&[b'/'; PATH_BYTES]), None);
    }
}
