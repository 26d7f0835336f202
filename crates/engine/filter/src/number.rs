//! The numbers that tensors hold, and the order of their bytes.

use serde::{Deserialize, Serialize};

/// Which end of a number comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum ByteOrder {
    /// Least significant byte first.
    Little,
    /// Most significant byte first.
    Big,
}

impl ByteOrder {
    /// The order of the machine this runs on.
    pub const NATIVE: Self = if cfg!(target_endian = "big") { Self::Big } else { Self::Little };
}

/// A number a tensor can hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the names say it all")]
pub enum Number {
    I8,
    I16,
    I32,
    I64,
    U8,
    U16,
    U32,
    U64,
    F16,
    Bf16,
    F32,
    F64,
}

impl Number {
    /// The integer `len` bytes long.
    pub fn integer(len: usize, signed: bool) -> Option<Self> {
        Some(match (len, signed) {
            (1, true) => Self::I8,
            (2, true) => Self::I16,
            (4, true) => Self::I32,
            (8, true) => Self::I64,
            (1, false) => Self::U8,
            (2, false) => Self::U16,
            (4, false) => Self::U32,
            (8, false) => Self::U64,
            _ => return None,
        })
    }

    /// Bytes per number.
    pub fn size(self) -> usize {
        match self {
            Self::I8 | Self::U8 => 1,
            Self::I16 | Self::U16 | Self::F16 | Self::Bf16 => 2,
            Self::I32 | Self::U32 | Self::F32 => 4,
            Self::I64 | Self::U64 | Self::F64 => 8,
        }
    }

    /// True for integers that have a sign.
    pub fn is_signed_integer(self) -> bool {
        matches!(self, Self::I8 | Self::I16 | Self::I32 | Self::I64)
    }

    /// True for integers, with a sign or without.
    pub fn is_integer(self) -> bool {
        !matches!(self, Self::F16 | Self::Bf16 | Self::F32 | Self::F64)
    }

    /// NumPy's name for it, without the byte order; `bf2` for bfloat16.
    pub fn code(self) -> &'static str {
        match self {
            Self::I8 => "i1",
            Self::I16 => "i2",
            Self::I32 => "i4",
            Self::I64 => "i8",
            Self::U8 => "u1",
            Self::U16 => "u2",
            Self::U32 => "u4",
            Self::U64 => "u8",
            Self::F16 => "f2",
            Self::Bf16 => "bf2",
            Self::F32 => "f4",
            Self::F64 => "f8",
        }
    }
}
