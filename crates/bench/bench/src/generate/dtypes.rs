//! What formats call the types of elements.

use forebay_workload::ElementType;

/// The type as NumPy names it; its bytes alone where NumPy has none such.
pub(super) fn numpy_name(element: ElementType) -> &'static str {
    match element {
        ElementType::Int8 => "|i1",
        ElementType::UInt8 => "|u1",
        ElementType::Int16 => "<i2",
        ElementType::UInt16 | ElementType::BFloat16 => "<u2",
        ElementType::Int32 => "<i4",
        ElementType::UInt32 => "<u4",
        ElementType::Int64 => "<i8",
        ElementType::UInt64 => "<u8",
        ElementType::Float16 => "<f2",
        ElementType::Float32 => "<f4",
        ElementType::Float64 => "<f8",
    }
}

/// The variables in which HDF5 keeps the type in files and that in memory; 16-bit floats travel as integers of their bytes.
pub(crate) fn hdf5_types(element: ElementType) -> (&'static str, &'static str) {
    match element {
        ElementType::Int8 => ("H5T_STD_I8LE_g", "H5T_NATIVE_INT8_g"),
        ElementType::UInt8 => ("H5T_STD_U8LE_g", "H5T_NATIVE_UINT8_g"),
        ElementType::Int16 => ("H5T_STD_I16LE_g", "H5T_NATIVE_INT16_g"),
        ElementType::UInt16 | ElementType::Float16 | ElementType::BFloat16 => {
            ("H5T_STD_U16LE_g", "H5T_NATIVE_UINT16_g")
        }
        ElementType::Int32 => ("H5T_STD_I32LE_g", "H5T_NATIVE_INT32_g"),
        ElementType::UInt32 => ("H5T_STD_U32LE_g", "H5T_NATIVE_UINT32_g"),
        ElementType::Int64 => ("H5T_STD_I64LE_g", "H5T_NATIVE_INT64_g"),
        ElementType::UInt64 => ("H5T_STD_U64LE_g", "H5T_NATIVE_UINT64_g"),
        ElementType::Float32 => ("H5T_IEEE_F32LE_g", "H5T_NATIVE_FLOAT_g"),
        ElementType::Float64 => ("H5T_IEEE_F64LE_g", "H5T_NATIVE_DOUBLE_g"),
    }
}

/// The number of the type in the classic NetCDF format with 64-bit lengths.
pub(super) fn netcdf_kind(element: ElementType) -> Option<u32> {
    match element {
        ElementType::Int8 => Some(1),
        ElementType::Int16 => Some(3),
        ElementType::Int32 => Some(4),
        ElementType::Float32 => Some(5),
        ElementType::Float64 => Some(6),
        ElementType::UInt8 => Some(7),
        ElementType::UInt16 => Some(8),
        ElementType::UInt32 => Some(9),
        ElementType::Int64 => Some(10),
        ElementType::UInt64 => Some(11),
        ElementType::Float16 | ElementType::BFloat16 => None,
    }
}
