//! Fields as DLPack tensors: a pointer that any framework takes without a copy, and a function that ends its use.
//!
//! The structures are those of `dlpack.h` 1.0. The names stay as they are there.

#![expect(unsafe_code, reason = "other libraries hold the memory by its address and say when they are done")]

use std::{ffi::c_void, ptr::NonNull, sync::Arc};

use forebay_container::{Dtype, Number, cf::ValueKind};
use forebay_process::{Error, ErrorKind, Result};

use crate::field_array::FieldArray;

/// Where a tensor lies.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DLDevice {
    /// The kind of device; 1 is the memory of the host.
    pub device_type: i32,
    /// Which of its kind.
    pub device_id: i32,
}

/// The memory of the host.
pub const DL_CPU: DLDevice = DLDevice { device_type: 1, device_id: 0 };

/// Says that the values were copied for this tensor: nobody else has its memory.
pub const DL_FLAG_IS_COPIED: u64 = 2;

/// The type of an element.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DLDataType {
    /// 0 for signed integers, 1 for unsigned ones, 2 for floats, 4 for bfloat16, 5 for complex numbers, 6 for truth values.
    pub code: u8,
    /// Bits of it.
    pub bits: u8,
    /// Elements of a vector; always 1 here.
    pub lanes: u16,
}

/// A tensor without its owner.
#[repr(C)]
#[derive(Debug)]
pub struct DLTensor {
    /// The first element.
    pub data: *mut c_void,
    /// Where it lies.
    pub device: DLDevice,
    /// How many axes there are.
    pub ndim: i32,
    /// The type of an element.
    pub dtype: DLDataType,
    /// The length of each axis.
    pub shape: *mut i64,
    /// Elements from one index of each axis to the next.
    pub strides: *mut i64,
    /// Bytes from `data` to the first element.
    pub byte_offset: u64,
}

/// A tensor and what ends its use, as every version of DLPack has it.
#[repr(C)]
#[derive(Debug)]
pub struct DLManagedTensor {
    /// The tensor.
    pub dl_tensor: DLTensor,
    /// The producer's own.
    pub manager_ctx: *mut c_void,
    /// The consumer calls it once, on any thread, when it needs the tensor no more.
    pub deleter: Option<unsafe extern "C" fn(*mut Self)>,
}

/// The version of the structure below.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DLPackVersion {
    /// Another one is laid out differently.
    pub major: u32,
    /// A later one knows more types and flags.
    pub minor: u32,
}

/// A tensor and what ends its use, since DLPack 1.0.
#[repr(C)]
#[derive(Debug)]
pub struct DLManagedTensorVersioned {
    /// The version.
    pub version: DLPackVersion,
    /// The producer's own.
    pub manager_ctx: *mut c_void,
    /// The consumer calls it once, on any thread, when it needs the tensor no more.
    pub deleter: Option<unsafe extern "C" fn(*mut Self)>,
    /// 1 for a tensor that must not be written to, [`DL_FLAG_IS_COPIED`] for one that was copied.
    pub flags: u64,
    /// The tensor.
    pub dl_tensor: DLTensor,
}

/// What a managed tensor keeps alive. It lies at the address of the tensor, which is its first part.
#[repr(C)]
struct Export<M> {
    managed: M,
    /// Shape and strides, one after the other.
    axes: Box<[i64]>,
    field: Arc<FieldArray>,
}

impl FieldArray {
    /// The field as a DLPack tensor, which may be written to.
    ///
    /// # Contract
    ///
    /// - Who gets it calls its `deleter` once. Until then the memory is not used for another batch, also when the field is
    ///   dropped.
    /// - An element type that DLPack does not have is [`Unsupported`](ErrorKind::Unsupported).
    pub fn to_dlpack(self: &Arc<Self>) -> Result<NonNull<DLManagedTensor>> {
        self.export(|dl_tensor| DLManagedTensor {
            dl_tensor,
            manager_ctx: std::ptr::null_mut(),
            deleter: Some(delete::<DLManagedTensor>),
        })
    }

    /// The same as a tensor of DLPack 1.0, with `flags` such as [`DL_FLAG_IS_COPIED`].
    pub fn to_dlpack_versioned(self: &Arc<Self>, flags: u64) -> Result<NonNull<DLManagedTensorVersioned>> {
        self.export(|dl_tensor| DLManagedTensorVersioned {
            version: DLPackVersion { major: 1, minor: 0 },
            manager_ctx: std::ptr::null_mut(),
            deleter: Some(delete::<DLManagedTensorVersioned>),
            flags,
            dl_tensor,
        })
    }

    /// The same values in memory of their own.
    pub fn copied(&self) -> Result<Self> {
        let (name, dtype) = (self.name.clone(), self.dtype.clone());
        let (shape, offsets) = (self.shape.clone(), self.offsets.clone());
        Ok(Self { name, dtype, kind: self.kind, shape, bytes: self.bytes.copied()?, offsets })
    }

    /// The type of an element as DLPack has it, and the axes that an element has besides those of the field.
    pub fn dlpack_type(&self) -> Result<(DLDataType, Vec<u64>)> {
        data_type(self)
    }

    fn export<M>(self: &Arc<Self>, managed: impl FnOnce(DLTensor) -> M) -> Result<NonNull<M>> {
        let (dtype, inner) = data_type(self)?;
        let lens: Vec<u64> = self.shape.iter().copied().chain(inner).collect();
        let mut axes = vec![0i64; 2 * lens.len()].into_boxed_slice();
        let (shape, strides) = axes.split_at_mut(lens.len());
        let mut stride = 1i64;
        for (axis, len) in lens.iter().enumerate().rev() {
            let too_long = || Error::new(ErrorKind::Unsupported, format!("an axis of {len} elements"));
            shape[axis] = i64::try_from(*len).map_err(|_| too_long())?;
            strides[axis] = stride;
            stride = stride.checked_mul(shape[axis].max(1)).ok_or_else(too_long)?;
        }
        let tensor = DLTensor {
            data: self.bytes.address().cast(),
            device: DL_CPU,
            ndim: i32::try_from(lens.len()).unwrap_or(i32::MAX),
            dtype,
            shape: shape.as_mut_ptr(),
            strides: strides.as_mut_ptr(),
            byte_offset: 0,
        };
        let export = Box::new(Export { managed: managed(tensor), axes, field: Arc::clone(self) });
        Ok(NonNull::from(Box::leak(export)).cast())
    }
}

/// Ends the use of a managed tensor.
unsafe extern "C" fn delete<M>(managed: *mut M) {
    // SAFETY: `managed` is the first part of an `Export` that `export` leaked as a box, and the consumer says so once.
    let Export { axes, field, .. } = *unsafe { Box::from_raw(managed.cast::<Export<M>>()) };
    drop((axes, field));
}

/// The type of an element of `field`, and the axes that it has besides those of the field.
fn data_type(field: &FieldArray) -> Result<(DLDataType, Vec<u64>)> {
    let has_no_type = || {
        let what = match field.kind {
            ValueKind::Text | ValueKind::Texts => "DLPack has no type for text".to_owned(),
            _ => format!("DLPack has no type for {}", field.dtype),
        };
        Error::new(ErrorKind::Unsupported, what).at(format!("field '{}'", field.name))
    };
    if matches!(field.kind, ValueKind::Datetime | ValueKind::Timedelta | ValueKind::Text | ValueKind::Texts) {
        return Err(has_no_type());
    }
    let (mut dtype, mut inner) = (&field.dtype, Vec::new());
    loop {
        let (code, bytes) = match dtype {
            dtype if dtype.is_bool() => (6, 1),
            Dtype::Number { number, .. } | Dtype::Bits { number, .. } | Dtype::Nonstandard { number, .. } => {
                (number_code(*number), number.size())
            }
            Dtype::Complex { part, .. } => (5, 2 * part.size()),
            Dtype::Enum { base, .. } => {
                dtype = base;
                continue;
            }
            Dtype::Array { shape, item } => {
                inner.extend(shape);
                dtype = item;
                continue;
            }
            _ => return Err(has_no_type()),
        };
        let bits = u8::try_from(8 * bytes).map_err(|_| has_no_type())?;
        return Ok((DLDataType { code, bits, lanes: 1 }, inner));
    }
}

fn number_code(number: Number) -> u8 {
    match number {
        Number::I8 | Number::I16 | Number::I32 | Number::I64 => 0,
        Number::U8 | Number::U16 | Number::U32 | Number::U64 => 1,
        Number::F16 | Number::F32 | Number::F64 => 2,
        Number::Bf16 => 4,
    }
}
