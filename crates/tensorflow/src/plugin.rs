//! `TF_InitPlugin`, the function by which TensorFlow asks a plug-in for its file systems.

use std::io::Write;

use crate::{
    file_operations as file, folder_operations as folder,
    foreign_memory::{allocate, allocated, allocated_text, free},
    interface::{
        FilesystemOps, PluginInfo, RandomAccessFileOps, ReadOnlyMemoryRegionOps, SchemeOps, VersionedOps,
        WritableFileOps,
    },
    status::{find_set_status, guarded},
    tier_files::SCHEME,
};

const FILESYSTEM: FilesystemOps = FilesystemOps {
    init: folder::init,
    cleanup: folder::cleanup,
    new_random_access_file: file::new_random_access_file,
    new_writable_file: file::refuse_to_open,
    new_appendable_file: file::refuse_to_open,
    new_read_only_memory_region_from_file: file::new_memory_region,
    create_dir: folder::refuse_to_change,
    recursively_create_dir: None,
    delete_file: folder::refuse_to_change,
    delete_dir: folder::refuse_to_change,
    delete_recursively: None,
    rename_file: folder::refuse_to_rename,
    copy_file: None,
    path_exists: folder::path_exists,
    paths_exist: None,
    stat: folder::stat,
    is_directory: folder::is_directory,
    get_file_size: folder::get_file_size,
    translate_name: folder::translate_name,
    get_children: folder::get_children,
    // TensorFlow's own, by way of the names in folders.
    get_matching_paths: None,
    flush_caches: None,
    transactions: [None; 6],
    configuration: [None; 5],
};

const RANDOM_ACCESS_FILE: RandomAccessFileOps =
    RandomAccessFileOps { cleanup: file::cleanup_file, read: file::read };

// No file can be opened for writing, so that nothing else is asked of one.
const WRITABLE_FILE: WritableFileOps = WritableFileOps { cleanup: file::cleanup_of_none, writing: [None; 5] };

const READ_ONLY_MEMORY_REGION: ReadOnlyMemoryRegionOps = ReadOnlyMemoryRegionOps {
    cleanup: file::cleanup_region,
    data: file::region_data,
    length: file::region_length,
};

/// The scheme and its callbacks; nothing where there is no memory.
fn scheme_ops() -> Option<SchemeOps> {
    let made = SchemeOps {
        scheme: allocated_text(SCHEME.as_bytes()),
        filesystem: VersionedOps::new(allocated(FILESYSTEM)),
        random_access_file: VersionedOps::new(allocated(RANDOM_ACCESS_FILE)),
        writable_file: VersionedOps::new(allocated(WRITABLE_FILE)),
        read_only_memory_region: VersionedOps::new(allocated(READ_ONLY_MEMORY_REGION)),
    };
    let is_whole = !made.scheme.is_null()
        && made.filesystem.is_there()
        && made.random_access_file.is_there()
        && made.writable_file.is_there()
        && made.read_only_memory_region.is_there();
    is_whole.then_some(made)
}

/// Gives TensorFlow the scheme that there is, and what to call for it. Where that cannot be done, `info` stays empty, which TensorFlow
/// refuses.
///
/// # Safety
///
/// `info` is a place for a `TF_FilesystemPluginInfo` that is all zeros, as TensorFlow gives it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TF_InitPlugin(info: *mut PluginInfo) {
    let _done = guarded(|| {
        if !find_set_status() {
            let message = "forebay: TF_SetStatus is in no library of this process; is this TensorFlow 2?\n";
            let _is_closed = std::io::stderr().write_all(message.as_bytes());
            return Ok(());
        }
        let Some(schemes) = scheme_ops().map(allocated).filter(|schemes| !schemes.is_null()) else {
            return Ok(());
        };
        let (allocate, free) = (Some(allocate as _), Some(free as _));
        // SAFETY: TensorFlow gives a place to write to.
        unsafe { info.write(PluginInfo { scheme_count: 1, schemes, allocate, free }) };
        Ok(())
    });
}

#[cfg(test)]
mod tests {
    use std::ptr;

    use super::*;

    #[test]
    fn without_tensorflow_nothing_is_offered() {
        let mut info = PluginInfo { scheme_count: 0, schemes: ptr::null_mut(), allocate: None, free: None };
        // SAFETY: the place is there, and empty.
        unsafe { TF_InitPlugin(&raw mut info) };
        assert!(info.scheme_count == 0 && info.schemes.is_null() && info.free.is_none());
    }

    #[test]
    fn a_scheme_has_a_name_and_all_tables() {
        let made = scheme_ops().unwrap();
        assert!(made.filesystem.is_there() && made.writable_file.is_there());
        // SAFETY: the text was made just now.
        assert_eq!(unsafe { std::ffi::CStr::from_ptr(made.scheme) }.to_bytes(), b"forebay");
    }
}
