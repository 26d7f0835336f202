//! Paths as text: a path may be any bytes, and the names of sources are text.
//!
//! Bytes of a path that are not UTF-8 are written as NUL and two hexadecimal digits. No path has a NUL in it, so every path
//! has one text, no two paths have the same, and all that is done to names (to cut them at slashes, to compare, to save
//! them) works on the text.

use std::{
    borrow::Cow,
    ffi::OsString,
    fmt::{self, Write},
    os::unix::ffi::{OsStrExt, OsStringExt},
    path::{Path, PathBuf},
};

/// What stands before the digits of a byte.
const MARK: char = '\0';

/// `path` as text, for [`path_of_text`] to turn back.
pub fn text_of_path(path: &Path) -> String {
    let mut text = String::with_capacity(path.as_os_str().len());
    for chunk in path.as_os_str().as_bytes().utf8_chunks() {
        text.push_str(chunk.valid());
        for byte in chunk.invalid() {
            // Writing to a string cannot fail.
            let _ = write!(text, "{MARK}{byte:02x}");
        }
    }
    text
}

/// The path whose text is `text`. A NUL that [`text_of_path`] did not write stays, and the system refuses such a path.
pub fn path_of_text(text: &str) -> Cow<'_, Path> {
    if !text.contains(MARK) {
        return Cow::Borrowed(Path::new(text));
    }
    let mut bytes = Vec::with_capacity(text.len());
    for part in parts(text) {
        match part {
            TextPart::Text(text) => bytes.extend_from_slice(text.as_bytes()),
            TextPart::Byte(byte) => bytes.push(byte),
        }
    }
    Cow::Owned(PathBuf::from(OsString::from_vec(bytes)))
}

/// Writes `text` for people: a byte that is not UTF-8 as `\xff`.
pub(crate) fn show(text: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    if !text.contains(MARK) {
        return f.write_str(text);
    }
    parts(text).try_for_each(|part| match part {
        TextPart::Text(text) => f.write_str(text),
        TextPart::Byte(byte) => write!(f, "\\x{byte:02x}"),
    })
}

enum TextPart<'a> {
    Text(&'a str),
    Byte(u8),
}

/// Splits `text` at the bytes that are written out in it.
fn parts(text: &str) -> impl Iterator<Item = TextPart<'_>> {
    let mut rest = text;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        if let Some(byte) = byte_at_start(rest) {
            rest = &rest[3..];
            return Some(TextPart::Byte(byte));
        }
        let next =
            rest.match_indices(MARK).map(|(at, _)| at).find(|at| byte_at_start(&rest[*at..]).is_some());
        let (plain, after) = rest.split_at(next.unwrap_or(rest.len()));
        rest = after;
        Some(TextPart::Text(plain))
    })
}

/// The byte that `text` begins with, if it begins with one that is written out; ASCII never is.
fn byte_at_start(text: &str) -> Option<u8> {
    let digits = text.strip_prefix(MARK)?.get(..2)?;
    let is_hex = digits.bytes().all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f'));
    u8::from_str_radix(digits, 16).ok().filter(|byte| is_hex && *byte >= 0x80)
}
