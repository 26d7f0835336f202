//! The file driver of this project, under files that this connector opens: found beside this library, registered by hand.

#![expect(unsafe_code, reason = "asks the loader for a library and its symbols")]

use std::{
    ffi::{CStr, CString, OsStr, c_char, c_int, c_void},
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
    ptr,
};

use forebay_libhdf5::hdf5_types::hid_t;

use crate::{settings, slots::LoadedLibrary};

/// The driver's file.
const FILE: &str = "libforebay_vfd.so";
/// Gives the class of the driver for the libhdf5 that an address lies in.
const CLASS_FUNCTION: &CStr = c"forebay_vfd_class_v1";
/// Brings what the driver has staged for a file there.
const SETTLE_FUNCTION: &CStr = c"forebay_vfd_settle_v2";

/// The driver's handle in `library`, registered if need be; `None` where the settings leave it out or its file is not beside this
/// library.
pub(crate) fn registered(library: &LoadedLibrary) -> Option<hid_t> {
    if !settings::current().uses_driver {
        return None;
    }
    library.driver.get_or_register(|| library.quietly(|| register(library)))
}

fn register(library: &LoadedLibrary) -> Option<hid_t> {
    let class_for = find_in(&own_folder()?)?;
    let address = library.functions.H5FDregister as *const c_void;
    // SAFETY: the function that the driver exports for this purpose, with an address in the library that calls us.
    let class = unsafe { class_for(address) };
    if class.is_null() {
        return None;
    }
    // SAFETY: a class that lives as long as the process, as the driver is never unloaded.
    let driver = unsafe { (library.functions.H5FDregister)(class) };
    (driver > 0).then_some(driver)
}

/// A step of ranks that open a file by another driver, for what the file driver has staged for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SettleStep {
    /// They are about to open it with its bytes.
    Opening = 0,
    /// They are about to replace it.
    Replacing = 1,
    /// They have replaced it.
    Replaced = 2,
}

/// Has the driver, where this process has loaded it, bring what it has staged for `path` there, or forget it: whether it could.
pub(crate) fn settle(path: &Path, step: SettleStep) -> Option<bool> {
    let function =
        candidates(&own_folder()?)?.find_map(|file| symbol(&file, SETTLE_FUNCTION, libc::RTLD_NOLOAD))?;
    // SAFETY: the driver exports it with this signature.
    let settle = unsafe { std::mem::transmute::<ptr::NonNull<c_void>, Settle>(function) };
    let path = CString::new(path.as_os_str().as_bytes()).ok()?;
    // SAFETY: text that ends in NUL.
    Some(unsafe { settle(path.as_ptr(), step as c_int) } >= 0)
}

type Settle = unsafe extern "C" fn(*const c_char, c_int) -> c_int;
type ClassFor = unsafe extern "C" fn(*const c_void) -> *const c_void;

/// The driver's function, from its file beside this library or in the folder `vfd` beside this one's.
fn find_in(folder: &Path) -> Option<ClassFor> {
    let function = candidates(folder)?.find_map(|file| symbol(&file, CLASS_FUNCTION, 0))?;
    // SAFETY: the driver exports it with this signature.
    Some(unsafe { std::mem::transmute::<ptr::NonNull<c_void>, ClassFor>(function) })
}

fn candidates(folder: &Path) -> Option<impl Iterator<Item = PathBuf>> {
    let candidates = [folder.join(FILE), folder.parent()?.join("vfd").join(FILE)];
    Some(candidates.into_iter().filter(|path| path.is_file()))
}

/// The function `name` of the library at `file`, which is loaded with `flags` besides those that every plug-in needs.
fn symbol(file: &Path, name: &CStr, flags: c_int) -> Option<ptr::NonNull<c_void>> {
    let file = CString::new(file.as_os_str().as_bytes()).ok()?;
    let flags = flags | libc::RTLD_NOW | libc::RTLD_LOCAL | libc::RTLD_NODELETE;
    // SAFETY: a library of this project, which may be loaded on any thread and stays loaded.
    ptr::NonNull::new(unsafe {
        let handle = libc::dlopen(file.as_ptr(), flags);
        if handle.is_null() {
            return None;
        }
        libc::dlsym(handle, name.as_ptr())
    })
}

/// The folder that this library was loaded from.
fn own_folder() -> Option<PathBuf> {
    let mut found = libc::Dl_info {
        dli_fname: ptr::null(),
        dli_fbase: ptr::null_mut(),
        dli_sname: ptr::null(),
        dli_saddr: ptr::null_mut(),
    };
    // SAFETY: an address of this library's own code; the name lives as long as the library.
    let name = unsafe {
        if libc::dladdr(own_folder as *const c_void, &raw mut found) == 0 || found.dli_fname.is_null() {
            return None;
        }
        CStr::from_ptr(found.dli_fname)
    };
    Some(Path::new(OsStr::from_bytes(name.to_bytes())).parent()?.to_path_buf())
}
