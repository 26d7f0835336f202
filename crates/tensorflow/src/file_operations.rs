//! Callbacks for the bytes of a file: one that is read at any place, and one that is in memory as a whole.
//!
//! What TensorFlow promises: a file or region is one that was opened here and is cleaned up once, when no call uses it; paths end with
//! a NUL; buffers are as long as is said, and nobody else uses them until the call returns.

use std::{
    ffi::{CStr, c_char, c_void},
    ptr, slice,
    sync::Arc,
};

use forebay_source::Source;

use crate::{
    interface::{PluginPointer, TfStatus},
    status::{FAILED_PRECONDITION, OUT_OF_RANGE, TfError, UNIMPLEMENTED, answer, guarded, set},
    tier_files::{WholeFile, files, local_path, path_in, read_at},
};

/// A file that TensorFlow has open.
#[derive(Debug)]
struct RandomAccessFile {
    source: Arc<dyn Source>,
}

/// The bytes of a path or name that TensorFlow gives.
///
/// # Safety
///
/// `text` ends with a NUL and stays until the call returns.
pub(crate) unsafe fn bytes_of<'a>(text: *const c_char) -> &'a [u8] {
    // SAFETY: as promised by the caller.
    unsafe { CStr::from_ptr(text) }.to_bytes()
}

/// Hands `value` over, to be asked for by the pointer in `place` until [`take`] takes it back.
fn hand_over<T>(place: *mut PluginPointer, value: T) {
    // SAFETY: TensorFlow gives a place for the plug-in's pointer.
    unsafe { (*place).of_plugin = Box::into_raw(Box::new(value)).cast::<c_void>() };
}

/// What was handed over at `place`.
///
/// # Safety
///
/// A `T` was handed over there and was not taken back; it is used until the call returns, at most.
unsafe fn handed<'a, T>(place: *const PluginPointer) -> &'a T {
    // SAFETY: as promised by the caller.
    unsafe { &*(*place).of_plugin.cast::<T>() }
}

/// Takes back what was handed over at `place`, if anything was.
///
/// # Safety
///
/// As of [`handed`], and nobody uses it any more.
unsafe fn take<T>(place: *mut PluginPointer) {
    // SAFETY: as promised by the caller; the pointer is cleared, so that nothing is freed twice.
    unsafe {
        let given = ptr::replace(&raw mut (*place).of_plugin, ptr::null_mut()).cast::<T>();
        if !given.is_null() {
            drop(Box::from_raw(given));
        }
    }
}

/// The file at `path`; a folder has the code that TensorFlow's own file system gives it.
fn opened(path: &[u8]) -> Result<Arc<dyn Source>, TfError> {
    let path = local_path(path_in(path))?;
    files()?.open(path).map_err(|error| match path.is_dir() {
        true => TfError { code: FAILED_PRECONDITION, text: error.to_string() },
        false => TfError::from(error),
    })
}

pub(crate) unsafe extern "C" fn new_random_access_file(
    _filesystem: *const PluginPointer,
    path: *const c_char,
    file: *mut PluginPointer,
    status: *mut TfStatus,
) {
    answer(status, (), || {
        // SAFETY: TensorFlow gives a text.
        hand_over(file, RandomAccessFile { source: opened(unsafe { bytes_of(path) })? });
        Ok(())
    });
}

/// Reads as TensorFlow wants it: fewer bytes than were asked for come with the code for the end of the file.
pub(crate) unsafe extern "C" fn read(
    file: *const PluginPointer,
    offset: u64,
    len: usize,
    buffer: *mut c_char,
    status: *mut TfStatus,
) -> i64 {
    let count = answer(status, -1, || {
        if len == 0 {
            return Ok(0);
        }
        // SAFETY: the file is one that was opened here, and the buffer is that long; it is written to, never read.
        let (file, into) = unsafe {
            (handed::<RandomAccessFile>(file), slice::from_raw_parts_mut(buffer.cast::<u8>(), len))
        };
        let count = read_at(&*file.source, offset, into)?;
        Ok(i64::try_from(count).unwrap_or(i64::MAX))
    });
    if usize::try_from(count).is_ok_and(|count| count < len) {
        set(status, OUT_OF_RANGE, "end of the file");
    }
    count
}

pub(crate) unsafe extern "C" fn cleanup_file(file: *mut PluginPointer) {
    let _done = guarded(|| {
        // SAFETY: TensorFlow is done with a file that was opened here.
        unsafe { take::<RandomAccessFile>(file) };
        Ok(())
    });
}

pub(crate) unsafe extern "C" fn new_memory_region(
    _filesystem: *const PluginPointer,
    path: *const c_char,
    region: *mut PluginPointer,
    status: *mut TfStatus,
) {
    answer(status, (), || {
        // SAFETY: TensorFlow gives a text.
        hand_over(region, WholeFile::read(&*opened(unsafe { bytes_of(path) })?)?);
        Ok(())
    });
}

pub(crate) unsafe extern "C" fn region_data(region: *const PluginPointer) -> *const c_void {
    // SAFETY: the region is one that was made here.
    unsafe { handed::<WholeFile>(region) }.bytes().as_ptr().cast()
}

pub(crate) unsafe extern "C" fn region_length(region: *const PluginPointer) -> u64 {
    // SAFETY: the region is one that was made here.
    unsafe { handed::<WholeFile>(region) }.bytes().len() as u64
}

pub(crate) unsafe extern "C" fn cleanup_region(region: *mut PluginPointer) {
    let _done = guarded(|| {
        // SAFETY: TensorFlow is done with a region that was made here.
        unsafe { take::<WholeFile>(region) };
        Ok(())
    });
}

/// Refuses to write: there is nothing to be written through tiers, which hold copies of what is read.
pub(crate) unsafe extern "C" fn refuse_to_open(
    _filesystem: *const PluginPointer,
    path: *const c_char,
    _file: *mut PluginPointer,
    status: *mut TfStatus,
) {
    // SAFETY: TensorFlow gives a text.
    answer(status, (), || Err(read_only(unsafe { bytes_of(path) })));
}

/// Nothing: no file is ever opened for writing.
pub(crate) unsafe extern "C" fn cleanup_of_none(_file: *mut PluginPointer) {}

/// The error of a call that would change the file or folder at `path`.
pub(crate) fn read_only(path: &[u8]) -> TfError {
    let path = String::from_utf8_lossy(path_in(path));
    let text =
        format!("{path}: files under forebay:// are read only; write to the path itself, without forebay://");
    TfError { code: UNIMPLEMENTED, text }
}
