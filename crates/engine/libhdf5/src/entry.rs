//! The two functions by which HDF5 asks a library for its plug-in.

/// The kind of a plug-in that is a VOL connector (`H5PL_TYPE_VOL`).
pub const H5PL_TYPE_VOL: std::ffi::c_int = 1;
/// The kind of a plug-in that is a file driver (`H5PL_TYPE_VFD`).
pub const H5PL_TYPE_VFD: std::ffi::c_int = 2;

/// Exports `H5PLget_plugin_type` and `H5PLget_plugin_info`; the latter calls `$found`, an
/// `unsafe extern "C" fn(return_address: *const c_void) -> *const c_void`, with the address it returns to: that names the libhdf5
/// which loads the plug-in. The file that uses this expects `unsafe_code`.
#[macro_export]
macro_rules! plugin_entry {
    ($kind:expr, $found:path) => {
        /// Which kind of plug-in this is.
        #[unsafe(no_mangle)]
        pub extern "C" fn H5PLget_plugin_type() -> ::std::ffi::c_int {
            $kind
        }

        /// The structure of callbacks, made for the libhdf5 that calls.
        ///
        /// # Safety
        /// Called by a libhdf5.
        #[unsafe(no_mangle)]
        #[unsafe(naked)]
        pub unsafe extern "C" fn H5PLget_plugin_info() -> *const ::std::ffi::c_void {
            #[cfg(target_arch = "x86_64")]
            ::std::arch::naked_asm!("mov rdi, [rsp]", "jmp {found}", found = sym $found);
            #[cfg(target_arch = "aarch64")]
            ::std::arch::naked_asm!("mov x0, x30", "b {found}", found = sym $found);
        }
    };
}
