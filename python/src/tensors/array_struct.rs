//! NumPy's array interface in C: an array of numbers is made from it in a quarter of the time that the dict takes.
#![expect(unsafe_code, reason = "NumPy reads the structure by its address")]

use std::{
    ffi::{c_char, c_int, c_void},
    ptr,
};

use pyo3::{exceptions::PyAttributeError, ffi, prelude::*};

/// `PyArrayInterface` of NumPy, and the numbers it points to.
#[repr(C)]
struct ArrayStruct {
    /// Says that the rest is as it should be.
    two: c_int,
    axis_count: c_int,
    kind: c_char,
    item_len: c_int,
    flags: c_int,
    shape: *const isize,
    strides: *const isize,
    data: *mut c_void,
    description: *const c_void,
    /// Shape and strides, one after the other.
    numbers: Box<[isize]>,
}

const TWO: c_int = 2;
/// In C order, aligned, in native byte order, and to be written to.
const FLAGS: c_int = 0x1 | 0x100 | 0x200 | 0x400;

/// What NumPy makes an array from that has elements of type `code` at `address`, to which it may write.
///
/// Types that are more than a letter and a length cannot be described this way: NumPy then asks for the dict.
pub(crate) fn capsule<'py>(
    py: Python<'py>,
    code: &str,
    shape: &[u64],
    address: usize,
) -> PyResult<Bound<'py, PyAny>> {
    let described = ArrayStruct::new(code, shape, address);
    let described = described.ok_or_else(|| PyAttributeError::new_err("__array_struct__"))?;
    let contents = Box::into_raw(Box::new(described));
    // SAFETY: the pointer is not null, and the destructor frees what it points to, once; without a name, as NumPy wants
    // it.
    unsafe {
        let capsule = ffi::PyCapsule_New(contents.cast(), ptr::null(), Some(free));
        if capsule.is_null() {
            drop(Box::from_raw(contents));
        }
        Bound::from_owned_ptr_or_err(py, capsule)
    }
}

/// Frees what a capsule of [`capsule`] points to.
unsafe extern "C" fn free(capsule: *mut ffi::PyObject) {
    // SAFETY: called once, with a capsule made above, whose pointer came from a box of this type.
    unsafe {
        let contents = ffi::PyCapsule_GetPointer(capsule, ptr::null());
        drop(Box::from_raw(contents.cast::<ArrayStruct>()));
    }
}

impl ArrayStruct {
    fn new(code: &str, shape: &[u64], address: usize) -> Option<Self> {
        let (kind, item_len) = match code.as_bytes() {
            [b'<' | b'|', kind @ (b'b' | b'i' | b'u' | b'f' | b'c'), len @ ..] => (*kind, parse(len)?),
            _ => return None,
        };
        let mut numbers = vec![0isize; 2 * shape.len()];
        let mut stride = isize::try_from(item_len).ok()?;
        for (axis, len) in shape.iter().enumerate().rev() {
            numbers[axis] = isize::try_from(*len).ok()?;
            numbers[shape.len() + axis] = stride;
            stride = stride.checked_mul(numbers[axis].max(1))?;
        }
        let numbers = numbers.into_boxed_slice();
        let (own_shape, strides) = numbers.split_at(shape.len());
        Some(Self {
            two: TWO,
            axis_count: c_int::try_from(shape.len()).ok()?,
            kind: c_char::try_from(kind).ok()?,
            item_len: c_int::try_from(item_len).ok()?,
            flags: FLAGS,
            shape: own_shape.as_ptr(),
            strides: strides.as_ptr(),
            data: ptr::with_exposed_provenance_mut(address),
            description: ptr::null(),
            numbers,
        })
    }
}

fn parse(digits: &[u8]) -> Option<u32> {
    std::str::from_utf8(digits).ok()?.parse().ok()
}
