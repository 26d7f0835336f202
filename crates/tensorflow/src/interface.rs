//! The structures of TensorFlow's `tensorflow/c/experimental/filesystem/filesystem_interface.h`, as far as they are used here.
//!
//! `layout.txt` has the places of their members. A test below compares them with these declarations; the tests of the Python package
//! make static assertions of them and compile those against the header of the TensorFlow that is installed.

use std::ffi::{c_char, c_int, c_void};

/// The ABI of each table of callbacks: TensorFlow refuses a plug-in with another.
pub(crate) const OPERATIONS_ABI: c_int = 0;
/// The API of each table: with another, TensorFlow takes those callbacks that both sides have.
pub(crate) const OPERATIONS_API: c_int = 0;

/// `TF_Status`, which is opaque.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct TfStatus {
    _opaque: [u8; 0],
}

/// A structure with one pointer that belongs to the plug-in: `TF_Filesystem`, `TF_RandomAccessFile`, `TF_ReadOnlyMemoryRegion`.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct PluginPointer {
    pub(crate) of_plugin: *mut c_void,
}

/// `TF_FileStatistics`.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FileStatistics {
    pub(crate) length: i64,
    pub(crate) mtime_nsec: i64,
    pub(crate) is_directory: bool,
}

/// A callback that the plug-in does without; TensorFlow has something in its place.
pub(crate) type AbsentOperation = Option<unsafe extern "C" fn()>;
/// A callback for one path.
pub(crate) type PathOperation = unsafe extern "C" fn(*const PluginPointer, *const c_char, *mut TfStatus);
/// A callback that opens what a path names.
pub(crate) type OpenOperation =
    unsafe extern "C" fn(*const PluginPointer, *const c_char, *mut PluginPointer, *mut TfStatus);
/// A callback for two paths.
pub(crate) type TwoPathOperation =
    unsafe extern "C" fn(*const PluginPointer, *const c_char, *const c_char, *mut TfStatus);

/// `TF_RandomAccessFileOps`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct RandomAccessFileOps {
    pub(crate) cleanup: unsafe extern "C" fn(*mut PluginPointer),
    pub(crate) read:
        unsafe extern "C" fn(*const PluginPointer, u64, usize, *mut c_char, *mut TfStatus) -> i64,
}

/// `TF_WritableFileOps`. TensorFlow wants a table wherever there is a function that opens files for writing, though that refuses all.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct WritableFileOps {
    pub(crate) cleanup: unsafe extern "C" fn(*mut PluginPointer),
    pub(crate) writing: [AbsentOperation; 5],
}

/// `TF_ReadOnlyMemoryRegionOps`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReadOnlyMemoryRegionOps {
    pub(crate) cleanup: unsafe extern "C" fn(*mut PluginPointer),
    pub(crate) data: unsafe extern "C" fn(*const PluginPointer) -> *const c_void,
    pub(crate) length: unsafe extern "C" fn(*const PluginPointer) -> u64,
}

/// `TF_FilesystemOps`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct FilesystemOps {
    pub(crate) init: unsafe extern "C" fn(*mut PluginPointer, *mut TfStatus),
    pub(crate) cleanup: unsafe extern "C" fn(*mut PluginPointer),
    pub(crate) new_random_access_file: OpenOperation,
    pub(crate) new_writable_file: OpenOperation,
    pub(crate) new_appendable_file: OpenOperation,
    pub(crate) new_read_only_memory_region_from_file: OpenOperation,
    pub(crate) create_dir: PathOperation,
    pub(crate) recursively_create_dir: AbsentOperation,
    pub(crate) delete_file: PathOperation,
    pub(crate) delete_dir: PathOperation,
    pub(crate) delete_recursively: AbsentOperation,
    pub(crate) rename_file: TwoPathOperation,
    pub(crate) copy_file: AbsentOperation,
    pub(crate) path_exists: PathOperation,
    pub(crate) paths_exist: AbsentOperation,
    pub(crate) stat:
        unsafe extern "C" fn(*const PluginPointer, *const c_char, *mut FileStatistics, *mut TfStatus),
    pub(crate) is_directory: unsafe extern "C" fn(*const PluginPointer, *const c_char, *mut TfStatus) -> bool,
    pub(crate) get_file_size: unsafe extern "C" fn(*const PluginPointer, *const c_char, *mut TfStatus) -> i64,
    pub(crate) translate_name: unsafe extern "C" fn(*const PluginPointer, *const c_char) -> *mut c_char,
    pub(crate) get_children: unsafe extern "C" fn(
        *const PluginPointer,
        *const c_char,
        *mut *mut *mut c_char,
        *mut TfStatus,
    ) -> c_int,
    pub(crate) get_matching_paths: AbsentOperation,
    pub(crate) flush_caches: AbsentOperation,
    pub(crate) transactions: [AbsentOperation; 6],
    pub(crate) configuration: [AbsentOperation; 5],
}

/// One table of callbacks with its versions, as `TF_FilesystemPluginOps` has four.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct VersionedOps<T> {
    abi: c_int,
    api: c_int,
    size: usize,
    operations: *mut T,
}

impl<T> VersionedOps<T> {
    /// The table at `operations`.
    pub(crate) fn new(operations: *mut T) -> Self {
        Self { abi: OPERATIONS_ABI, api: OPERATIONS_API, size: size_of::<T>(), operations }
    }

    /// True where there was memory for the table.
    pub(crate) fn is_there(&self) -> bool {
        !self.operations.is_null()
    }
}

/// `TF_FilesystemPluginOps`: a scheme and its callbacks.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct SchemeOps {
    pub(crate) scheme: *mut c_char,
    pub(crate) filesystem: VersionedOps<FilesystemOps>,
    pub(crate) random_access_file: VersionedOps<RandomAccessFileOps>,
    pub(crate) writable_file: VersionedOps<WritableFileOps>,
    pub(crate) read_only_memory_region: VersionedOps<ReadOnlyMemoryRegionOps>,
}

/// `TF_FilesystemPluginInfo`: what a plug-in says of itself.
#[repr(C)]
#[derive(Debug)]
pub struct PluginInfo {
    pub(crate) scheme_count: usize,
    pub(crate) schemes: *mut SchemeOps,
    pub(crate) allocate: Option<unsafe extern "C" fn(usize) -> *mut c_void>,
    pub(crate) free: Option<unsafe extern "C" fn(*mut c_void)>,
}

#[cfg(test)]
mod tests {
    use std::mem::offset_of;

    use super::*;

    /// A row for each member, and one for the length of the whole.
    macro_rules! rows {
        ($($name:literal $type:ty { $($their:literal: $($ours:tt).+),* $(,)? })*) => {{
            let mut rows = Vec::new();
            $(
                $(rows.push(format!("{} {} {}", $name, $their, offset_of!($type, $($ours).+)));)*
                rows.push(format!("{} sizeof {}", $name, size_of::<$type>()));
            )*
            rows
        }};
    }

    fn own_rows() -> Vec<String> {
        let mut rows = rows! {
            "TF_Filesystem" PluginPointer { "plugin_filesystem": of_plugin }
            "TF_RandomAccessFile" PluginPointer { "plugin_file": of_plugin }
            "TF_ReadOnlyMemoryRegion" PluginPointer { "plugin_memory_region": of_plugin }
            "TF_FileStatistics" FileStatistics {
                "length": length, "mtime_nsec": mtime_nsec, "is_directory": is_directory,
            }
            "TF_RandomAccessFileOps" RandomAccessFileOps { "cleanup": cleanup, "read": read }
            "TF_ReadOnlyMemoryRegionOps" ReadOnlyMemoryRegionOps {
                "cleanup": cleanup, "data": data, "length": length,
            }
            "TF_WritableFileOps" WritableFileOps { "cleanup": cleanup, "append": writing }
            "TF_FilesystemOps" FilesystemOps {
                "init": init, "cleanup": cleanup, "new_random_access_file": new_random_access_file,
                "new_writable_file": new_writable_file, "new_appendable_file": new_appendable_file,
                "new_read_only_memory_region_from_file": new_read_only_memory_region_from_file,
                "create_dir": create_dir, "recursively_create_dir": recursively_create_dir,
                "delete_file": delete_file, "delete_dir": delete_dir,
                "delete_recursively": delete_recursively, "rename_file": rename_file,
                "copy_file": copy_file, "path_exists": path_exists, "paths_exist": paths_exist,
                "stat": stat, "is_directory": is_directory, "get_file_size": get_file_size,
                "translate_name": translate_name, "get_children": get_children,
                "get_matching_paths": get_matching_paths, "flush_caches": flush_caches,
                "start_transaction": transactions, "get_filesystem_configuration": configuration,
            }
            "TF_FilesystemPluginOps" SchemeOps {
                "scheme": scheme,
                "filesystem_ops_abi": filesystem.abi, "filesystem_ops_api": filesystem.api,
                "filesystem_ops_size": filesystem.size, "filesystem_ops": filesystem.operations,
                "random_access_file_ops_abi": random_access_file.abi,
                "random_access_file_ops_api": random_access_file.api,
                "random_access_file_ops_size": random_access_file.size,
                "random_access_file_ops": random_access_file.operations,
                "writable_file_ops_abi": writable_file.abi, "writable_file_ops_api": writable_file.api,
                "writable_file_ops_size": writable_file.size, "writable_file_ops": writable_file.operations,
                "read_only_memory_region_ops_abi": read_only_memory_region.abi,
                "read_only_memory_region_ops_api": read_only_memory_region.api,
                "read_only_memory_region_ops_size": read_only_memory_region.size,
                "read_only_memory_region_ops": read_only_memory_region.operations,
            }
            "TF_FilesystemPluginInfo" PluginInfo {
                "num_schemes": scheme_count, "ops": schemes, "plugin_memory_allocate": allocate,
                "plugin_memory_free": free,
            }
        };
        let tables = ["FILESYSTEM", "RANDOM_ACCESS_FILE", "WRITABLE_FILE", "READ_ONLY_MEMORY_REGION"];
        for table in tables {
            rows.push(format!("TF_{table}_OPS_ABI value {OPERATIONS_ABI}"));
        }
        rows
    }

    #[test]
    fn the_table_of_the_layout_is_that_of_these_declarations() {
        let table = include_str!("../layout.txt");
        assert_eq!(own_rows(), table.lines().collect::<Vec<_>>(), "\n{}\n", own_rows().join("\n"));
    }
}
