//! The types of NetCDF: how long they are, what they are read as, and what stands where nothing was written.

use forebay_container::{ByteOrder, Dtype, Number, Padding};

/// The type of a variable's or an attribute's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NetcdfType {
    /// A letter.
    Char,
    /// A number.
    Number(Number),
}

impl NetcdfType {
    /// The type that stands as `code` in a file.
    pub(super) fn of(code: u32) -> Option<Self> {
        Some(match code {
            1 => Self::Number(Number::I8),
            2 => Self::Char,
            3 => Self::Number(Number::I16),
            4 => Self::Number(Number::I32),
            5 => Self::Number(Number::F32),
            6 => Self::Number(Number::F64),
            7 => Self::Number(Number::U8),
            8 => Self::Number(Number::U16),
            9 => Self::Number(Number::U32),
            10 => Self::Number(Number::I64),
            11 => Self::Number(Number::U64),
            _ => return None,
        })
    }

    /// Bytes of one value.
    pub(super) fn len(self) -> u64 {
        match self {
            Self::Char => 1,
            Self::Number(number) => number.size() as u64,
        }
    }

    /// The type of the elements of a variable.
    pub(super) fn dtype(self) -> Dtype {
        match self {
            Self::Char => text(1),
            Self::Number(number) => Dtype::Number { number, order: ByteOrder::Big },
        }
    }

    /// What the library writes before anything else is written, as it is stored.
    pub(super) fn default_fill(self) -> Vec<u8> {
        /// The nearest 32-bit float to 15 * 2^119, which both floats have.
        const FLOAT: f32 = 9.969_21e36;
        let Self::Number(number) = self else { return vec![0] };
        match number {
            Number::I8 => (-127i8).to_be_bytes().to_vec(),
            Number::I16 => (-32767i16).to_be_bytes().to_vec(),
            Number::I32 => (-2_147_483_647i32).to_be_bytes().to_vec(),
            Number::I64 => (-9_223_372_036_854_775_806i64).to_be_bytes().to_vec(),
            Number::U8 => vec![255],
            Number::U16 => 65535u16.to_be_bytes().to_vec(),
            Number::U32 => 4_294_967_295u32.to_be_bytes().to_vec(),
            Number::U64 => 18_446_744_073_709_551_614u64.to_be_bytes().to_vec(),
            Number::F32 => FLOAT.to_be_bytes().to_vec(),
            Number::F64 => f64::from(FLOAT).to_be_bytes().to_vec(),
            Number::F16 | Number::Bf16 => Vec::new(),
        }
    }
}

/// Text of `len` bytes.
pub(super) fn text(len: usize) -> Dtype {
    Dtype::Text { len, padding: Padding::NulPadded, utf8: true }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fill_values_have_the_bits_the_format_gives_them() {
        assert_eq!(NetcdfType::Number(Number::F32).default_fill(), [0x7c, 0xf0, 0, 0]);
        assert_eq!(NetcdfType::Number(Number::F64).default_fill(), [0x47, 0x9e, 0, 0, 0, 0, 0, 0]);
        assert_eq!(NetcdfType::Number(Number::I16).default_fill(), [0x80, 0x01]);
    }

    #[test]
    fn every_kind_fills_as_many_bytes_as_it_has() {
        for kind in (1..=11).filter_map(NetcdfType::of) {
            assert_eq!(kind.default_fill().len() as u64, kind.len(), "{kind:?}");
            assert_eq!(kind.dtype().stored_len() as u64, kind.len());
        }
        assert_eq!(NetcdfType::of(12), None);
    }
}
