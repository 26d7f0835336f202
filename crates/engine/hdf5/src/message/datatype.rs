//! The datatype message: what one element is.

use forebay_process::{Error, Result};

use super::super::cursor::{MetadataCursor, text};
use forebay_container::{ByteOrder, Dtype, Field, Member, NonstandardBits, Number, Padding, holder};

/// Types nest; a file that nests deeper than any sane writer is refused before the stack is.
const MOST_DEPTH: usize = 32;

/// Reads datatype messages of one file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Datatypes {
    pub(crate) reference_len: usize,
}

/// The part that all classes share.
struct Prefix {
    version: u8,
    bits: u32,
    len: usize,
    depth: usize,
}

impl Datatypes {
    /// Reads the type at `cursor` and moves past it.
    pub(crate) fn parse(self, cursor: &mut MetadataCursor<'_>) -> Result<Dtype> {
        self.parse_at(cursor, 0)
    }

    fn parse_at(self, cursor: &mut MetadataCursor<'_>, depth: usize) -> Result<Dtype> {
        if depth > MOST_DEPTH {
            return Err(Error::corrupt("a type nested too deep"));
        }
        let class_and_version = cursor.u8()?;
        let bits = cursor.uint(3)?;
        let len = cursor.u32()? as usize;
        let prefix = Prefix {
            version: class_and_version >> 4,
            bits: u32::try_from(bits).expect("three bytes"),
            len,
            depth,
        };
        if len == 0 {
            return Err(Error::corrupt("a type without bytes"));
        }
        match class_and_version & 0x0f {
            0 | 4 => integer(cursor, &prefix, class_and_version & 0x0f == 4),
            1 => float(cursor, &prefix),
            2 => {
                cursor.skip(2)?;
                Ok(Dtype::Other { len, what: "HDF5's time type".into() })
            }
            3 => string(&prefix),
            5 => opaque(cursor, &prefix),
            6 => self.compound(cursor, &prefix),
            7 => Ok(reference(&prefix)),
            8 => self.enumeration(cursor, &prefix),
            9 => self.variable(cursor, &prefix),
            10 => self.array(cursor, &prefix),
            11 => self.complex(cursor, &prefix),
            class => {
                Err(Error::unsupported(format!("a type of class {class}, which this build does not know")))
            }
        }
    }

    fn compound(self, cursor: &mut MetadataCursor<'_>, prefix: &Prefix) -> Result<Dtype> {
        let count = prefix.bits & 0xffff;
        let mut fields = Vec::new();
        for _ in 0..count {
            let start = cursor.position();
            let name = text(cursor.until_nul()?);
            if prefix.version < 3 {
                pad_name(cursor, start)?;
            }
            let offset_len =
                if prefix.version < 3 { 4 } else { super::super::cursor::bytes_for(prefix.len as u64) };
            let offset = usize::try_from(cursor.uint(offset_len)?).unwrap_or(usize::MAX);
            let array_shape = if prefix.version == 1 { old_member_shape(cursor)? } else { Vec::new() };
            let mut dtype = self.parse_at(cursor, prefix.depth + 1)?;
            if !array_shape.is_empty() {
                dtype = Dtype::Array { shape: array_shape, item: Box::new(dtype) };
            }
            if offset.checked_add(dtype.stored_len()).is_none_or(|end| end > prefix.len) {
                return Err(Error::corrupt(format!("member '{name}' reaches past its compound")));
            }
            fields.push(Field { name, offset, dtype });
        }
        Ok(as_complex(&fields, prefix.len).unwrap_or(Dtype::Compound { len: prefix.len, fields }))
    }

    fn enumeration(self, cursor: &mut MetadataCursor<'_>, prefix: &Prefix) -> Result<Dtype> {
        let count = (prefix.bits & 0xffff) as usize;
        let base = self.parse_at(cursor, prefix.depth + 1)?;
        let (Dtype::Number { number, order } | Dtype::Bits { number, order, .. }) = base else {
            return Err(Error::corrupt("an enumeration of something other than integers"));
        };
        let mut names = Vec::new();
        for _ in 0..count {
            let start = cursor.position();
            names.push(text(cursor.until_nul()?));
            if prefix.version < 3 {
                pad_name(cursor, start)?;
            }
        }
        let members = names
            .into_iter()
            .map(|name| Ok(Member { name, value: integer_value(cursor.take(number.size())?, number, order) }))
            .collect::<Result<Vec<_>>>()?;
        Ok(Dtype::Enum { base: Box::new(base), members })
    }

    fn variable(self, cursor: &mut MetadataCursor<'_>, prefix: &Prefix) -> Result<Dtype> {
        let item = self.parse_at(cursor, prefix.depth + 1)?;
        if prefix.len != self.reference_len {
            return Err(Error::corrupt(format!("a variable-length reference of {} bytes", prefix.len)));
        }
        Ok(match prefix.bits & 0x0f {
            1 => Dtype::VarText { reference_len: self.reference_len, utf8: prefix.bits >> 8 & 0x0f == 1 },
            _ => Dtype::Sequence { reference_len: self.reference_len, item: Box::new(item) },
        })
    }

    fn array(self, cursor: &mut MetadataCursor<'_>, prefix: &Prefix) -> Result<Dtype> {
        let ndim = usize::from(cursor.u8()?);
        if prefix.version < 3 {
            cursor.skip(3)?;
        }
        let shape = (0..ndim).map(|_| cursor.u32().map(u64::from)).collect::<Result<Vec<_>>>()?;
        if prefix.version < 3 {
            cursor.skip(4 * ndim)?;
        }
        let item = self.parse_at(cursor, prefix.depth + 1)?;
        let dtype = Dtype::Array { shape, item: Box::new(item) };
        if dtype.stored_len() != prefix.len {
            return Err(Error::corrupt(format!(
                "an array type of {} bytes said to have {}",
                dtype.stored_len(),
                prefix.len
            )));
        }
        Ok(dtype)
    }

    fn complex(self, cursor: &mut MetadataCursor<'_>, prefix: &Prefix) -> Result<Dtype> {
        let base = self.parse_at(cursor, prefix.depth + 1)?;
        match base {
            Dtype::Number { number, order } if 2 * number.size() == prefix.len => {
                Ok(Dtype::Complex { part: number, order })
            }
            other => Ok(Dtype::Other { len: prefix.len, what: format!("a complex of {other}") }),
        }
    }
}

/// Names in older versions are padded with NULs to a multiple of 8.
fn pad_name(cursor: &mut MetadataCursor<'_>, start: usize) -> Result<()> {
    let len = cursor.position() - start;
    cursor.skip(len.next_multiple_of(8) - len)
}

/// Version 1 members carry an array shape of their own.
fn old_member_shape(cursor: &mut MetadataCursor<'_>) -> Result<Vec<u64>> {
    let ndim = usize::from(cursor.u8()?);
    cursor.skip(3 + 4 + 4)?;
    let sizes = [cursor.u32()?, cursor.u32()?, cursor.u32()?, cursor.u32()?];
    if ndim > 4 {
        return Err(Error::corrupt("a member array of more than four dimensions"));
    }
    Ok(sizes[..ndim].iter().copied().map(u64::from).collect())
}

/// h5py, PyTables and Julia all write complex numbers as a pair called r and i.
fn as_complex(fields: &[Field], len: usize) -> Option<Dtype> {
    let [real, imaginary] = fields else { return None };
    let Dtype::Number { number, order } = real.dtype else { return None };
    let named = real.name == "r" && imaginary.name == "i";
    let paired = real.offset == 0 && imaginary.offset == number.size() && len == 2 * number.size();
    let is_float = matches!(number, Number::F16 | Number::F32 | Number::F64);
    (named && paired && is_float && real.dtype == imaginary.dtype)
        .then_some(Dtype::Complex { part: number, order })
}

fn order(bits: u32) -> ByteOrder {
    if bits & 1 == 0 { ByteOrder::Little } else { ByteOrder::Big }
}

fn integer(cursor: &mut MetadataCursor<'_>, prefix: &Prefix, is_bitfield: bool) -> Result<Dtype> {
    let shift = cursor.u16()?;
    let precision = cursor.u16()?;
    let signed = prefix.bits & 0x08 != 0 && !is_bitfield;
    let order = order(prefix.bits);
    let bits = prefix.len.saturating_mul(8);
    if precision == 0 || usize::from(shift) + usize::from(precision) > bits {
        return Err(Error::corrupt(format!("an integer of {precision} bits from bit {shift} of {bits}")));
    }
    let Some(number) = Number::integer(prefix.len, signed) else {
        let wider = Number::integer(prefix.len.next_power_of_two(), signed);
        let bits = NonstandardBits::Integer { shift, precision };
        return Ok(match wider {
            Some(number) => Dtype::Nonstandard { len: prefix.len, order, number, bits },
            None => Dtype::Other { len: prefix.len, what: format!("an integer of {} bytes", prefix.len) },
        });
    };
    if usize::from(precision) == bits {
        return Ok(Dtype::Number { number, order });
    }
    Ok(Dtype::Bits { number, order, shift, precision })
}

fn float(cursor: &mut MetadataCursor<'_>, prefix: &Prefix) -> Result<Dtype> {
    let shift = cursor.u16()?;
    let precision = cursor.u16()?;
    let [exponent_at, exponent_bits, mantissa_at, mantissa_bits] =
        [cursor.u8()?, cursor.u8()?, cursor.u8()?, cursor.u8()?];
    let bias = cursor.u32()?;
    let sign_at = prefix.bits >> 8 & 0xff;
    let is_vax = prefix.bits & 0x41 == 0x41;
    let implied_one = prefix.bits >> 4 & 3 == 2;
    let layout = (prefix.len, sign_at, exponent_at, exponent_bits, mantissa_at, mantissa_bits, bias);
    let number = match layout {
        (2, 15, 10, 5, 0, 10, 15) => Some(Number::F16),
        (2, 15, 7, 8, 0, 7, 127) => Some(Number::Bf16),
        (4, 31, 23, 8, 0, 23, 127) => Some(Number::F32),
        (8, 63, 52, 11, 0, 52, 1023) => Some(Number::F64),
        _ => None,
    };
    let is_plain = shift == 0 && usize::from(precision) == prefix.len * 8 && implied_one && !is_vax;
    if let (Some(number), true) = (number, is_plain) {
        return Ok(Dtype::Number { number, order: order(prefix.bits) });
    }
    let bits = NonstandardBits::Float {
        sign: u8::try_from(sign_at).unwrap_or(u8::MAX),
        exponent: (exponent_at, exponent_bits),
        mantissa: (mantissa_at, mantissa_bits),
        bias,
    };
    let holder = holder(bits, prefix.len).filter(|_| implied_one && !is_vax);
    Ok(match holder {
        Some(number) => Dtype::Nonstandard { len: prefix.len, order: order(prefix.bits), number, bits },
        None => {
            let what =
                format!("a float of {precision} bits ({exponent_bits} exponent, {mantissa_bits} mantissa)");
            Dtype::Other { len: prefix.len, what }
        }
    })
}

fn string(prefix: &Prefix) -> Result<Dtype> {
    let padding = match prefix.bits & 0x0f {
        0 => Padding::NulTerminated,
        1 => Padding::NulPadded,
        2 => Padding::SpacePadded,
        other => return Err(Error::corrupt(format!("string padding {other}"))),
    };
    Ok(Dtype::Text { len: prefix.len, padding, utf8: prefix.bits >> 4 & 0x0f == 1 })
}

fn opaque(cursor: &mut MetadataCursor<'_>, prefix: &Prefix) -> Result<Dtype> {
    let tag = cursor.take((prefix.bits & 0xff) as usize)?;
    let tag = tag.split(|byte| *byte == 0).next().unwrap_or_default();
    Ok(Dtype::Opaque { len: prefix.len, tag: text(tag) })
}

fn reference(prefix: &Prefix) -> Dtype {
    let to = match prefix.bits & 0x0f {
        0 | 2 => "object",
        1 | 3 => "region",
        _ => "attribute",
    };
    Dtype::Reference { len: prefix.len, to: to.into() }
}

/// The value of an integer's bytes, sign-extended.
fn integer_value(bytes: &[u8], number: Number, order: ByteOrder) -> i64 {
    let push = |value: u64, byte: &u8| value << 8 | u64::from(*byte);
    let value = match order {
        ByteOrder::Little => bytes.iter().rev().fold(0, push),
        ByteOrder::Big => bytes.iter().fold(0, push),
    };
    let unused = 64 - 8 * u32::try_from(bytes.len()).unwrap_or(8).min(8);
    let shifted = value << unused;
    if number.is_signed_integer() {
        shifted.cast_signed() >> unused
    } else {
        (shifted >> unused).cast_signed()
    }
}
