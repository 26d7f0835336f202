//! Tensors for any framework, in the capsules that `__dlpack__` gives.
#![expect(
    unsafe_code,
    reason = "a capsule holds a tensor by its address, and frees it where no consumer took it"
)]

use std::{ffi::CStr, ptr::NonNull, sync::Arc};

use forebay::{
    Error,
    batch::{DL_CPU, DL_FLAG_IS_COPIED, DLManagedTensor, DLManagedTensorVersioned, FieldArray},
};
use pyo3::{exceptions::PyBufferError, ffi, prelude::*};

const NAME: &CStr = c"dltensor";
const VERSIONED_NAME: &CStr = c"dltensor_versioned";

/// What a consumer asks for, as the array API standard names it.
pub(crate) struct ExportRequest {
    pub(crate) max_version: Option<(u32, u32)>,
    pub(crate) dl_device: Option<(i32, i32)>,
    pub(crate) copy: Option<bool>,
}

/// A capsule with `field` as a tensor, as `request` asks for it. A consumer that takes it renames the capsule.
pub(crate) fn capsule<'py>(
    py: Python<'py>,
    field: &Arc<FieldArray>,
    request: &ExportRequest,
) -> PyResult<Bound<'py, PyAny>> {
    let refused = |error: Error| PyBufferError::new_err(error.to_string());
    if request.dl_device.is_some_and(|device| device != (DL_CPU.device_type, DL_CPU.device_id)) {
        return Err(PyBufferError::new_err("the memory of a batch is the host's: dl_device=(1, 0)"));
    }
    let (field, flags) = match request.copy {
        Some(true) => (&Arc::new(field.copied().map_err(refused)?), DL_FLAG_IS_COPIED),
        _ => (field, 0),
    };
    if request.max_version.is_some_and(|(major, _)| major >= 1) {
        let tensor = field.to_dlpack_versioned(flags).map_err(refused)?;
        // SAFETY: the tensor was just made, and `free_versioned` is its destructor.
        return unsafe { new_capsule(py, tensor, VERSIONED_NAME, free_versioned) };
    }
    plain_capsule(py, field)
}

/// A capsule with `field` as a tensor, as every version of DLPack has it.
pub(crate) fn plain_capsule<'py>(py: Python<'py>, field: &Arc<FieldArray>) -> PyResult<Bound<'py, PyAny>> {
    let tensor = field.to_dlpack().map_err(|error| PyBufferError::new_err(error.to_string()))?;
    // SAFETY: the tensor was just made, and `free` is its destructor.
    unsafe { new_capsule(py, tensor, NAME, free) }
}

/// A capsule called `name` around `tensor`, which `destructor` frees.
///
/// # Safety
///
/// `tensor` has no other owner, and `destructor` frees a tensor of its type in a capsule called `name`.
unsafe fn new_capsule<'py, T>(
    py: Python<'py>,
    tensor: NonNull<T>,
    name: &'static CStr,
    destructor: unsafe extern "C" fn(*mut ffi::PyObject),
) -> PyResult<Bound<'py, PyAny>> {
    // SAFETY: the pointer is not null and the name lives as long as the program. Where no capsule can be made, the tensor is
    // leaked: there is no memory left then.
    unsafe {
        let capsule = ffi::PyCapsule_New(tensor.as_ptr().cast(), name.as_ptr(), Some(destructor));
        Bound::from_owned_ptr_or_err(py, capsule)
    }
}

/// The tensor of a capsule that no consumer has taken.
unsafe fn untaken<T>(capsule: *mut ffi::PyObject, name: &CStr) -> Option<NonNull<T>> {
    // SAFETY: called with a capsule that is being destroyed; one that was taken has another name.
    unsafe {
        if ffi::PyCapsule_IsValid(capsule, name.as_ptr()) == 0 {
            return None;
        }
        NonNull::new(ffi::PyCapsule_GetPointer(capsule, name.as_ptr()).cast())
    }
}

unsafe extern "C" fn free(capsule: *mut ffi::PyObject) {
    // SAFETY: capsules of this name hold tensors of this type, and nobody else calls the deleter of one that was not taken.
    unsafe {
        let Some(tensor) = untaken::<DLManagedTensor>(capsule, NAME) else { return };
        if let Some(deleter) = tensor.as_ref().deleter {
            deleter(tensor.as_ptr());
        }
    }
}

unsafe extern "C" fn free_versioned(capsule: *mut ffi::PyObject) {
    // SAFETY: as above.
    unsafe {
        let Some(tensor) = untaken::<DLManagedTensorVersioned>(capsule, VERSIONED_NAME) else { return };
        if let Some(deleter) = tensor.as_ref().deleter {
            deleter(tensor.as_ptr());
        }
    }
}
