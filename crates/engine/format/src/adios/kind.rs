//! What one element of an ADIOS variable is, by the numbers that the formats have for it.

use forebay_process::{Error, ErrorKind, Result};

use forebay_container::{ByteOrder, Dtype, Number, Padding};

/// The type of a variable or an attribute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BpType {
    Number(Number),
    Complex(Number),
    Text,
    /// C's `long double`, which no tensor can hold.
    LongDouble,
    /// A structure of the user's.
    Struct,
}

impl BpType {
    /// The kind that BP1 to BP4 call `code`; the second is true for an array of texts.
    pub(super) fn of_bp4(code: u8) -> Result<(Self, bool)> {
        let kind = match code {
            // Plain `char` has no sign of its own; the library gives it out as signed.
            0 | 55 => Self::Number(Number::I8),
            1 => Self::Number(Number::I16),
            2 => Self::Number(Number::I32),
            4 => Self::Number(Number::I64),
            5 => Self::Number(Number::F32),
            6 => Self::Number(Number::F64),
            7 => Self::LongDouble,
            9 | 12 => Self::Text,
            10 => Self::Complex(Number::F32),
            11 => Self::Complex(Number::F64),
            50 => Self::Number(Number::U8),
            51 => Self::Number(Number::U16),
            52 => Self::Number(Number::U32),
            54 => Self::Number(Number::U64),
            _ => return Err(Error::corrupt(format!("no such type: {code}"))),
        };
        Ok((kind, code == 12))
    }

    /// The kind that BP5 calls `code`.
    pub(super) fn of_bp5(code: u64) -> Result<Self> {
        Ok(match code {
            1 | 15 => Self::Number(Number::I8),
            2 => Self::Number(Number::I16),
            3 => Self::Number(Number::I32),
            4 => Self::Number(Number::I64),
            5 => Self::Number(Number::U8),
            6 => Self::Number(Number::U16),
            7 => Self::Number(Number::U32),
            8 => Self::Number(Number::U64),
            9 => Self::Number(Number::F32),
            10 => Self::Number(Number::F64),
            11 => Self::LongDouble,
            12 => Self::Complex(Number::F32),
            13 => Self::Complex(Number::F64),
            14 => Self::Text,
            16 => Self::Struct,
            _ => return Err(Error::corrupt(format!("no such type: {code}"))),
        })
    }

    /// The kind of a field of a BP5 record, `type_name` in its words, `len` bytes long.
    pub(super) fn of_field(type_name: &str, len: u64) -> Result<Self> {
        let size = usize::try_from(len).unwrap_or(0);
        let number = match (type_name, size) {
            ("integer", _) => Number::integer(size, true),
            ("unsigned integer", _) => Number::integer(size, false),
            ("float" | "double", 4) => Some(Number::F32),
            ("float" | "double", 8) => Some(Number::F64),
            ("float" | "double", 12 | 16) => return Ok(Self::LongDouble),
            ("complex4", _) => return Ok(Self::Complex(Number::F32)),
            ("complex8", _) => return Ok(Self::Complex(Number::F64)),
            ("string", _) => return Ok(Self::Text),
            _ => None,
        };
        number
            .map(Self::Number)
            .ok_or_else(|| Error::corrupt(format!("no such type: '{type_name}' of {len} bytes")))
    }

    /// Bytes of one stored element; 0 for texts, which have any.
    pub(super) fn len(self) -> u64 {
        match self {
            Self::Number(number) => number.size() as u64,
            Self::Complex(part) => 2 * part.size() as u64,
            Self::LongDouble => 16,
            Self::Text | Self::Struct => 0,
        }
    }

    /// The element type of values in `order`; texts take `text_len` bytes each.
    pub(super) fn dtype(self, order: ByteOrder, text_len: usize) -> Result<Dtype> {
        let refused = |what: &str| {
            let remedy = "convert the variable to double when it is written";
            Err(Error::new(ErrorKind::Unsupported, what).hint(remedy))
        };
        match self {
            Self::Number(number) => Ok(Dtype::Number { number, order }),
            Self::Complex(part) => Ok(Dtype::Complex { part, order }),
            // A text of no bytes would have elements of no length.
            Self::Text => Ok(Dtype::Text { len: text_len.max(1), padding: Padding::NulPadded, utf8: true }),
            Self::LongDouble => refused("values of type long double, which no tensor holds"),
            Self::Struct => refused("values that are structures"),
        }
    }
}
