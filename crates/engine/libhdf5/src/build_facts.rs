//! What a libhdf5 tells of its build and of its search path.

#![expect(unsafe_code, reason = "calls into a libhdf5 found at run time")]

use std::{
    ffi::{c_char, c_int, c_uint},
    path::PathBuf,
};

use crate::{functions::hdf5_functions, library::Hdf5Library};

hdf5_functions! {
    /// A function of 1.10 on.
    struct ThreadSafeFunction {
        fn H5is_library_threadsafe(*mut bool) -> c_int;
    }
}

hdf5_functions! {
    /// Functions of 1.10.1 on.
    struct SearchPathFunctions {
        fn H5PLsize(*mut c_uint) -> c_int;
        fn H5PLget(c_uint, *mut c_char, usize) -> isize;
    }
}

impl Hdf5Library {
    /// True for a build with MPI-IO.
    pub fn is_parallel(&self) -> bool {
        self.symbol(c"H5Pset_fapl_mpio").is_some()
    }

    /// True where several threads may call the library at once, if it says so.
    pub fn is_thread_safe(&self) -> Option<bool> {
        let ask = ThreadSafeFunction::load(self).ok()?.H5is_library_threadsafe;
        let mut is = false;
        // SAFETY: a place for a C `bool`, which is one byte.
        (unsafe { ask(&raw mut is) } >= 0).then_some(is)
    }

    /// Where the library looks for plug-ins in this environment.
    pub fn plugin_folders(&self) -> Vec<PathBuf> {
        let Ok(functions) = SearchPathFunctions::load(self) else { return Vec::new() };
        let mut count = 0;
        // SAFETY: a place for a number.
        if unsafe { (functions.H5PLsize)(&raw mut count) } < 0 {
            return Vec::new();
        }
        let one = |index: c_uint| {
            let mut name = vec![0u8; 4096];
            // SAFETY: the place is as long as is said, and one byte of it stays zero.
            let len = unsafe { (functions.H5PLget)(index, name.as_mut_ptr().cast(), name.len() - 1) };
            let len = usize::try_from(len).ok()?.min(name.len() - 1);
            Some(PathBuf::from(String::from_utf8_lossy(&name[..len]).into_owned()))
        };
        (0..count).filter_map(one).collect()
    }
}
