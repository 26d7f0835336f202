//! What one element of an array is, and how it is stored.

mod nonstandard_bits;
mod text;

use std::cell::Cell;

use serde::{Deserialize, Deserializer, Serialize};

use forebay_filter::{ByteOrder, Number};

pub(crate) use nonstandard_bits::PLAIN;
pub use nonstandard_bits::{NonstandardBits, holder};

/// How the unused end of a fixed-length string is filled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Padding {
    /// A NUL ends the text; what follows it is not part of it.
    NulTerminated,
    /// NULs up to the end.
    NulPadded,
    /// Spaces up to the end.
    SpacePadded,
}

/// One named value of an enumeration.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Member {
    /// The name.
    pub name: String,
    /// The value, sign-extended.
    pub value: i64,
}

/// One member of a compound.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Field {
    /// The name.
    pub name: String,
    /// Bytes from the start of the element.
    pub offset: usize,
    /// What lies there.
    #[serde(deserialize_with = "nested")]
    pub dtype: Dtype,
}

/// The type of an element, as it is stored.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Dtype {
    /// A plain number.
    Number {
        /// Which.
        number: Number,
        /// In which order its bytes are stored.
        order: ByteOrder,
    },
    /// An integer that uses only some bits of its bytes; it is read as the plain `number`.
    Bits {
        /// What it is read as.
        number: Number,
        /// In which order its bytes are stored.
        order: ByteOrder,
        /// Bits below the value.
        shift: u16,
        /// Bits of the value.
        precision: u16,
    },
    /// A number of a width or make no tensor has; it is read as the plain `number` that holds all its values.
    Nonstandard {
        /// Bytes.
        len: usize,
        /// In which order they are stored.
        order: ByteOrder,
        /// What it is read as.
        number: Number,
        /// Where its parts lie.
        bits: NonstandardBits,
    },
    /// A pair of numbers, real part first.
    Complex {
        /// The type of both parts.
        part: Number,
        /// In which order their bytes are stored.
        order: ByteOrder,
    },
    /// Named integers.
    Enum {
        /// How the value is stored.
        #[serde(deserialize_with = "nested")]
        base: Box<Dtype>,
        /// The names.
        members: Vec<Member>,
    },
    /// Text of a fixed number of bytes.
    Text {
        /// Bytes.
        len: usize,
        /// How shorter texts are padded.
        padding: Padding,
        /// True for UTF-8, false for ASCII.
        utf8: bool,
    },
    /// Text of any length.
    VarText {
        /// Bytes of the reference that is stored in its place.
        reference_len: usize,
        /// True for UTF-8, false for ASCII.
        utf8: bool,
    },
    /// Bytes without a meaning.
    Opaque {
        /// Bytes.
        len: usize,
        /// What the writer called it.
        tag: String,
    },
    /// Named members at given offsets.
    Compound {
        /// Bytes of the whole, gaps included.
        len: usize,
        /// The members.
        fields: Vec<Field>,
    },
    /// A small array of fixed shape.
    Array {
        /// Its shape.
        shape: Vec<u64>,
        /// Its elements.
        #[serde(deserialize_with = "nested")]
        item: Box<Dtype>,
    },
    /// Any number of items.
    Sequence {
        /// Bytes of the reference that is stored in their place.
        reference_len: usize,
        /// Their type.
        #[serde(deserialize_with = "nested")]
        item: Box<Dtype>,
    },
    /// Points to something in the file: described, never a sample.
    Reference {
        /// Bytes.
        len: usize,
        /// `object`, `region` or `attribute`.
        to: String,
    },
    /// A type no tensor can hold: described, never a sample.
    Other {
        /// Bytes.
        len: usize,
        /// What it is, for messages.
        what: String,
    },
}

/// Types nest; saved bytes that nest deeper than any file can would overrun the stack.
const MOST_DEPTH: usize = 40;

thread_local! {
    static DEPTH: Cell<usize> = const { Cell::new(0) };
}

/// Reads a type inside another.
fn nested<'de, D: Deserializer<'de>, T: Deserialize<'de>>(from: D) -> Result<T, D::Error> {
    let depth = DEPTH.get();
    if depth > MOST_DEPTH {
        return Err(serde::de::Error::custom("types nested too deep"));
    }
    DEPTH.set(depth + 1);
    let value = T::deserialize(from);
    DEPTH.set(depth);
    value
}

impl Dtype {
    /// A plain number in the machine's own order.
    pub fn native(number: Number) -> Self {
        Self::Number { number, order: ByteOrder::NATIVE }
    }

    /// Bytes of one stored element.
    pub fn stored_len(&self) -> usize {
        match self {
            Self::Number { number, .. } | Self::Bits { number, .. } => number.size(),
            Self::Complex { part, .. } => 2 * part.size(),
            Self::Enum { base, .. } => base.stored_len(),
            Self::VarText { reference_len, .. } | Self::Sequence { reference_len, .. } => *reference_len,
            Self::Array { shape, item } => shape
                .iter()
                .try_fold(item.stored_len(), |len, n| len.checked_mul(usize::try_from(*n).ok()?))
                .unwrap_or(usize::MAX),
            Self::Nonstandard { len, .. }
            | Self::Text { len, .. }
            | Self::Opaque { len, .. }
            | Self::Compound { len, .. }
            | Self::Reference { len, .. }
            | Self::Other { len, .. } => *len,
        }
    }

    /// Bytes that the description itself takes in memory, about.
    pub fn memory_len(&self) -> u64 {
        let texts = |len: usize| (len + size_of::<usize>() * 2) as u64;
        let inner = match self {
            Self::Enum { base, members } => members.iter().fold(base.memory_len(), |sum, member| {
                sum + size_of::<Member>() as u64 + texts(member.name.len())
            }),
            Self::Compound { fields, .. } => fields.iter().fold(0, |sum, field| {
                sum + (size_of::<Field>() - size_of::<Self>()) as u64
                    + texts(field.name.len())
                    + field.dtype.memory_len()
            }),
            Self::Array { shape, item } => item.memory_len() + 8 * shape.len() as u64,
            Self::Sequence { item, .. } => item.memory_len(),
            Self::Opaque { tag: text, .. }
            | Self::Reference { to: text, .. }
            | Self::Other { what: text, .. } => texts(text.len()),
            _ => 0,
        };
        inner + size_of::<Self>() as u64
    }

    /// Bytes of one element as it is read.
    pub fn native_len(&self) -> usize {
        match self {
            Self::Nonstandard { number, .. } => number.size(),
            _ => self.stored_len(),
        }
    }

    /// True when an element's length is not the same for all elements.
    pub fn is_variable(&self) -> bool {
        match self {
            Self::VarText { .. } | Self::Sequence { .. } => true,
            Self::Compound { fields, .. } => fields.iter().any(|field| field.dtype.is_variable()),
            Self::Array { item, .. } => item.is_variable(),
            _ => false,
        }
    }

    /// What elements of any length consist of: the bytes of a text, the items of a sequence. Any other type is its own.
    pub fn values(&self) -> &Self {
        const BYTE: &Dtype = &Dtype::Number { number: Number::U8, order: ByteOrder::NATIVE };
        match self {
            Self::VarText { .. } => BYTE,
            Self::Sequence { item, .. } => item,
            _ => self,
        }
    }

    /// The number type of its elements in memory, if they are numbers.
    pub fn number(&self) -> Option<Number> {
        match self {
            Self::Number { number, .. } | Self::Bits { number, .. } | Self::Nonstandard { number, .. } => {
                Some(*number)
            }
            Self::Enum { base, .. } => base.number(),
            _ => None,
        }
    }

    /// True for named integers.
    pub fn is_enum(&self) -> bool {
        matches!(self, Self::Enum { .. })
    }

    /// Why values of this type cannot be read, if they cannot.
    pub fn refusal(&self) -> Option<String> {
        match self {
            Self::Reference { to, .. } => {
                Some(format!("{to} references point into the file and are not values"))
            }
            Self::Other { what, .. } => Some(format!("{what} cannot be held by any tensor")),
            Self::Enum { base, .. } => base.inner_refusal(),
            Self::Array { item, .. } | Self::Sequence { item, .. } => item.inner_refusal(),
            Self::Compound { fields, .. } => fields.iter().find_map(|field| {
                field.dtype.inner_refusal().map(|why| format!("member '{}': {why}", field.name))
            }),
            _ => None,
        }
    }

    /// Odd numbers grow when they are read, which they cannot do inside another element.
    fn inner_refusal(&self) -> Option<String> {
        match self {
            Self::Nonstandard { .. } => {
                Some(format!("{self} inside another type cannot be held by any tensor"))
            }
            _ => self.refusal(),
        }
    }

    /// True when no length, offset or bit in here leads outside an element: what was saved may have been changed since.
    pub fn is_sound(&self) -> bool {
        let bits_fit = |shift: u16, precision: u16, len: usize| {
            precision > 0 && usize::from(shift) + usize::from(precision) <= 8 * len && len <= 8
        };
        self.stored_len() > 0
            && match self {
                Self::Bits { number, shift, precision, .. } => bits_fit(*shift, *precision, number.size()),
                Self::Nonstandard {
                    len,
                    bits: NonstandardBits::Integer { shift, precision },
                    number,
                    ..
                } => bits_fit(*shift, *precision, *len) && *len <= number.size(),
                Self::Nonstandard { len, bits, number, .. } => {
                    nonstandard_bits::holder(*bits, *len) == Some(*number)
                }
                Self::Enum { base, .. } => base.is_sound(),
                Self::Array { item, .. } => item.is_sound() && self.stored_len() < usize::MAX,
                Self::Sequence { item, .. } => item.is_sound(),
                Self::Compound { len, fields } => fields.iter().all(|field| {
                    let end = field.offset.checked_add(field.dtype.stored_len());
                    field.dtype.is_sound() && end.is_some_and(|end| end <= *len)
                }),
                _ => true,
            }
    }

    /// True or false in one byte, as h5py and PyTables write it.
    pub fn boolean() -> Self {
        let member = |name: &str, value| Member { name: name.to_owned(), value };
        Self::Enum {
            base: Box::new(Self::native(Number::I8)),
            members: vec![member("FALSE", 0), member("TRUE", 1)],
        }
    }

    /// True for the two-valued enumeration that h5py and PyTables write for booleans.
    pub fn is_bool(&self) -> bool {
        let Self::Enum { base, members } = self else { return false };
        let named = |name: &str, value| {
            members.iter().any(|member| member.name.eq_ignore_ascii_case(name) && member.value == value)
        };
        base.stored_len() == 1 && members.len() == 2 && named("false", 0) && named("true", 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_array_too_long_for_memory_has_the_greatest_length_and_does_not_wrap() {
        let item = Box::new(Dtype::native(Number::F64));
        assert_eq!(Dtype::Array { shape: vec![u64::MAX, u64::MAX], item }.stored_len(), usize::MAX);
    }

    #[test]
    fn the_two_named_byte_is_a_bool() {
        let member = |name: &str, value| Member { name: name.into(), value };
        let base = Box::new(Dtype::native(Number::I8));
        assert!(Dtype::Enum { base, members: vec![member("FALSE", 0), member("TRUE", 1)] }.is_bool());
    }
}
