//! Tables of functions that are looked up in one libhdf5.

/// Declares a struct with a field for each named function of HDF5, and `load`, which finds them in an
/// [`Hdf5Library`](crate::Hdf5Library).
///
/// ```ignore
/// hdf5_functions! {
///     /// What the driver calls.
///     pub struct DriverFunctions {
///         fn H5Pcreate(hid_t) -> hid_t;
///         fn H5Pclose(hid_t) -> herr_t;
///     }
/// }
/// ```
///
/// The signatures are promised by who writes them: they must be those of the header.
#[macro_export]
macro_rules! hdf5_functions {
    ($(#[$doc:meta])* $seen:vis struct $table:ident { $( fn $name:ident($($kind:ty),* $(,)?) $(-> $answer:ty)?; )* }) => {
        $(#[$doc])*
        #[expect(non_snake_case, reason = "names of HDF5's functions")]
        #[derive(Clone, Copy, Debug)]
        $seen struct $table {
            $( #[doc = concat!("`", stringify!($name), "`.")] $seen $name: unsafe extern "C" fn($($kind),*) $(-> $answer)?, )*
        }

        impl $table {
            /// Finds every function in `library`, or says which one it lacks.
            $seen fn load(library: &$crate::Hdf5Library) -> ::std::result::Result<Self, $crate::functions::Error> {
                Ok(Self { $( $name: {
                    let name = ::std::ffi::CStr::from_bytes_with_nul(concat!(stringify!($name), "\0").as_bytes());
                    let symbol = library.require(name.expect("an identifier has no NUL"))?;
                    // SAFETY: the signature is the one of HDF5's header.
                    unsafe { ::std::mem::transmute::<
                        ::std::ptr::NonNull<::std::ffi::c_void>,
                        unsafe extern "C" fn($($kind),*) $(-> $answer)?,
                    >(symbol) }
                }, )* })
            }
        }
    };
}

#[doc(hidden)]
pub use forebay_process::Error;
pub(crate) use hdf5_functions;
