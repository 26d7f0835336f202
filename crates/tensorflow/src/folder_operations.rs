//! Callbacks for names and folders. They ask the file system of this machine: tiers hold bytes of files and no names.
//!
//! What TensorFlow promises: paths end with a NUL, and there are places for results.

use std::{
    ffi::{c_char, c_int},
    ptr,
};

use forebay_source::{Error, ErrorKind};

use crate::{
    file_operations::{bytes_of, read_only},
    foreign_memory::{allocated_list, allocated_text},
    interface::{FileStatistics, PluginPointer, TfStatus},
    status::{FAILED_PRECONDITION, TfError, answer},
    tier_files::{local_path, names_in, open_files, path_in, statistics},
};

/// Opens the tiers, unless the program has opened them with a configuration of its own.
pub(crate) unsafe extern "C" fn init(filesystem: *mut PluginPointer, status: *mut TfStatus) {
    answer(status, (), || {
        // SAFETY: TensorFlow gives a place for the plug-in's pointer, which is not used: a process has one file system.
        unsafe { (*filesystem).of_plugin = ptr::null_mut() };
        open_files(None)?;
        Ok(())
    });
}

/// Nothing: tiers end with the process.
pub(crate) unsafe extern "C" fn cleanup(_filesystem: *mut PluginPointer) {}

fn statistics_of(path: &[u8]) -> Result<FileStatistics, TfError> {
    Ok(statistics(local_path(path_in(path))?)?)
}

pub(crate) unsafe extern "C" fn path_exists(
    _filesystem: *const PluginPointer,
    path: *const c_char,
    status: *mut TfStatus,
) {
    // SAFETY: TensorFlow gives a text.
    answer(status, (), || statistics_of(unsafe { bytes_of(path) }).map(drop));
}

pub(crate) unsafe extern "C" fn stat(
    _filesystem: *const PluginPointer,
    path: *const c_char,
    stats: *mut FileStatistics,
    status: *mut TfStatus,
) {
    answer(status, (), || {
        // SAFETY: TensorFlow gives a text, and a place for what is found.
        unsafe { stats.write(statistics_of(bytes_of(path))?) };
        Ok(())
    });
}

/// True for a folder; what else is there has a code of its own.
pub(crate) unsafe extern "C" fn is_directory(
    _filesystem: *const PluginPointer,
    path: *const c_char,
    status: *mut TfStatus,
) -> bool {
    answer(status, false, || {
        // SAFETY: TensorFlow gives a text.
        let path = unsafe { bytes_of(path) };
        if statistics_of(path)?.is_directory {
            return Ok(true);
        }
        let text = format!("{}: is not a folder", String::from_utf8_lossy(path));
        Err(TfError { code: FAILED_PRECONDITION, text })
    })
}

pub(crate) unsafe extern "C" fn get_file_size(
    _filesystem: *const PluginPointer,
    path: *const c_char,
    status: *mut TfStatus,
) -> i64 {
    // SAFETY: TensorFlow gives a text.
    answer(status, -1, || Ok(statistics_of(unsafe { bytes_of(path) })?.length))
}

/// The path of this machine that a URI stands for. A URI with a host stays as it is, and whatever uses it refuses it by its name.
pub(crate) unsafe extern "C" fn translate_name(
    _filesystem: *const PluginPointer,
    uri: *const c_char,
) -> *mut c_char {
    // SAFETY: TensorFlow gives a text.
    let path = allocated_text(path_in(unsafe { bytes_of(uri) }));
    if path.is_null() {
        // TensorFlow would end the process, too, as it does wherever memory is refused.
        std::process::abort();
    }
    path
}

/// The names in a folder, in memory that TensorFlow frees.
pub(crate) unsafe extern "C" fn get_children(
    _filesystem: *const PluginPointer,
    path: *const c_char,
    entries: *mut *mut *mut c_char,
    status: *mut TfStatus,
) -> c_int {
    answer(status, -1, || {
        // SAFETY: TensorFlow gives a text.
        let path = unsafe { bytes_of(path) };
        let names = names_in(local_path(path_in(path))?)?;
        let list = allocated_list(&names);
        let count = c_int::try_from(names.len()).ok().filter(|_| !list.is_null());
        let none = || Error::new(ErrorKind::Full, "no memory for the names of a folder");
        let count = count.ok_or_else(none)?;
        // SAFETY: TensorFlow gives a place for the list.
        unsafe { entries.write(list) };
        Ok(count)
    })
}

pub(crate) unsafe extern "C" fn refuse_to_change(
    _filesystem: *const PluginPointer,
    path: *const c_char,
    status: *mut TfStatus,
) {
    // SAFETY: TensorFlow gives a text.
    answer(status, (), || Err(read_only(unsafe { bytes_of(path) })));
}

pub(crate) unsafe extern "C" fn refuse_to_rename(
    _filesystem: *const PluginPointer,
    path: *const c_char,
    _to: *const c_char,
    status: *mut TfStatus,
) {
    // SAFETY: TensorFlow gives a text.
    answer(status, (), || Err(read_only(unsafe { bytes_of(path) })));
}
