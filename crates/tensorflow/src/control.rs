//! What `forebay.tensorflow` calls before and after TensorFlow has loaded the plug-in: tiers chosen by the program, and statistics.

use std::{
    ffi::{c_char, c_int},
    ptr,
};

use forebay_config::Config;
use forebay_source::Error;

use crate::{
    file_operations::bytes_of,
    status::guarded,
    tier_files::{files, open_files},
};

/// Opens the tiers of `config`, a configuration as JSON: 0, or -1 and why not, as far as it fits into the `len` bytes of `message`.
///
/// # Safety
///
/// `config` ends with a NUL, and there are so many bytes at `message`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn forebay_tensorflow_open(
    config: *const c_char,
    message: *mut c_char,
    len: usize,
) -> c_int {
    let opened = guarded(|| {
        // SAFETY: the caller gives a text.
        let config = serde_json::from_slice::<Config>(unsafe { bytes_of(config) });
        open_files(Some(config.map_err(|error| Error::invalid(error.to_string()).at("config"))?))?;
        Ok(())
    });
    let Err(error) = opened else { return 0 };
    put_text(&error.text, message, len);
    -1
}

/// Writes what was read from where as JSON, `null` without tiers, as far as it fits into the `len` bytes at `buffer`; gives how many
/// bytes all of it takes, with the NUL at its end, and 0 where nothing was opened.
///
/// # Safety
///
/// There are so many bytes at `buffer`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn forebay_tensorflow_stats(buffer: *mut c_char, len: usize) -> usize {
    let text = guarded(|| {
        let text = serde_json::to_string(&files()?.stats());
        Ok(text.map_err(|error| Error::invalid(error.to_string()))?)
    });
    text.map_or(0, |text| {
        put_text(&text, buffer, len);
        text.len() + 1
    })
}

/// Writes `text` and a NUL into the `len` bytes at `place`, or as much of it as fits.
fn put_text(text: &str, place: *mut c_char, len: usize) {
    let Some(room) = len.checked_sub(1) else { return };
    let count = text.len().min(room);
    // SAFETY: the caller gives so many bytes, of which the text takes `count` and the NUL one.
    unsafe {
        ptr::copy_nonoverlapping(text.as_ptr().cast::<c_char>(), place, count);
        place.add(count).write(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_cut_where_there_is_no_room() {
        let mut place: [c_char; 4] = [1; 4];
        put_text("abcdef", place.as_mut_ptr(), 4);
        assert_eq!(place, [97, 98, 99, 0]);
        put_text("z", place.as_mut_ptr(), 0);
        assert_eq!(place[0], 97);
    }

    #[test]
    fn a_configuration_that_is_none_is_refused_by_its_text() {
        let mut message: [c_char; 200] = [0; 200];
        // SAFETY: both are texts in memory of this function.
        let code = unsafe { forebay_tensorflow_open(c"{".as_ptr(), message.as_mut_ptr(), 200) };
        // SAFETY: a text was written there.
        let text = unsafe { std::ffi::CStr::from_ptr(message.as_ptr()) }.to_string_lossy().into_owned();
        assert!(code == -1 && text.starts_with("config: "), "{text}");
        // SAFETY: no byte is written.
        assert_eq!(unsafe { forebay_tensorflow_stats(message.as_mut_ptr(), 0) }, 0);
    }
}
