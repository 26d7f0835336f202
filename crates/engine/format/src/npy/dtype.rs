//! NumPy's element types, as headers spell them.

use forebay_process::{Error, ErrorKind, Result};

use super::literal::{Literal, whole_numbers};
use forebay_container::{ByteOrder, Dtype, Field, Member, Number, Padding};

/// The type that `descr` spells, and what NumPy calls it where ours says less.
pub(super) fn from_descr(descr: &Literal) -> Result<(Dtype, Option<String>)> {
    match descr {
        Literal::Text(code) => {
            let note = code.get(1..2).filter(|kind| "MmU".contains(kind)).map(|_| code.clone());
            Ok((plain(code)?, note))
        }
        Literal::Items(fields) => Ok((compound(fields)?, None)),
        _ => Err(Error::corrupt("is neither a text nor a list")),
    }
}

/// A type spelt by one text: `<f8`, `|S5`.
fn plain(code: &str) -> Result<Dtype> {
    let bad = || Error::corrupt(format!("'{code}' is no type of NumPy's"));
    let mut letters = code.chars();
    let order = match letters.next().ok_or_else(bad)? {
        '<' | '|' | '=' => ByteOrder::Little,
        '>' => ByteOrder::Big,
        _ => return Err(bad()),
    };
    let kind = letters.next().ok_or_else(bad)?;
    // What follows the length is the unit of a time: `M8[ns]`.
    let digits = letters.as_str().split('[').next().unwrap_or_default();
    if kind == 'O' {
        let error =
            Error::new(ErrorKind::Unsupported, "Python objects are pickled, and nothing is unpickled");
        return Err(error.hint("save them as arrays of numbers or of texts of fixed length"));
    }
    let len: usize = digits.parse().map_err(|_| bad())?;
    if len == 0 && !matches!(kind, 'S' | 'a' | 'V' | 'U') {
        return Err(bad());
    }
    if len == 0 {
        return Err(Error::new(ErrorKind::Unsupported, format!("'{code}': elements without any bytes")));
    }
    let number = |number: Number| Dtype::Number { number, order };
    Ok(match (kind, len) {
        ('b', 1) => boolean(),
        ('i', _) => number(Number::integer(len, true).ok_or_else(bad)?),
        ('u', _) => number(Number::integer(len, false).ok_or_else(bad)?),
        ('f', 2) => number(Number::F16),
        ('f', 4) => number(Number::F32),
        ('f', 8) => number(Number::F64),
        ('c', 8) => Dtype::Complex { part: Number::F32, order },
        ('c', 16) => Dtype::Complex { part: Number::F64, order },
        ('M' | 'm', 8) => number(Number::I64),
        ('f' | 'c', 12 | 16 | 24 | 32) => Dtype::Other { len, what: format!("NumPy's long double ({code})") },
        ('S' | 'a', _) => Dtype::Text { len, padding: Padding::NulPadded, utf8: false },
        ('U', _) => {
            len.checked_mul(4).ok_or_else(bad)?;
            Dtype::Array { shape: vec![len as u64], item: Box::new(number(Number::U32)) }
        }
        ('V', _) => Dtype::Opaque { len, tag: String::new() },
        _ => return Err(bad()),
    })
}

/// The type of `True` and `False`.
fn boolean() -> Dtype {
    let member = |name: &str, value| Member { name: name.into(), value };
    let base = Box::new(Dtype::native(Number::I8));
    Dtype::Enum { base, members: vec![member("FALSE", 0), member("TRUE", 1)] }
}

/// A structured type: `(name, type)` or `(name, type, shape)` for each member, one after the other.
fn compound(members: &[Literal]) -> Result<Dtype> {
    let mut fields: Vec<Field> = Vec::new();
    let mut offset = 0usize;
    for member in members {
        let Literal::Items(parts) = member else { return Err(Error::corrupt("a member is no tuple")) };
        let (name, descr, shape) = match &parts[..] {
            [name, descr] => (name, descr, None),
            [name, descr, shape] => (name, descr, Some(shape)),
            _ => return Err(Error::corrupt(format!("a member of {} parts", parts.len()))),
        };
        let name = match name {
            Literal::Text(name) => name,
            // A title and a name.
            Literal::Items(both) => match &both[..] {
                [_, Literal::Text(name)] => name,
                _ => return Err(Error::corrupt("a member without a name")),
            },
            _ => return Err(Error::corrupt("a member without a name")),
        };
        let (mut dtype, _) = from_descr(descr).map_err(|error| error.at(format!("member '{name}'")))?;
        if let Some(shape) = shape {
            let shape = whole_numbers(shape)
                .ok_or_else(|| Error::corrupt(format!("member '{name}' has no shape")))?;
            dtype = Dtype::Array { shape, item: Box::new(dtype) };
        }
        let len = dtype.stored_len();
        // Bytes without a name are what aligned members leave between them.
        if !name.is_empty() {
            if fields.iter().any(|known| known.name == *name) {
                return Err(Error::corrupt(format!("two members called '{name}'")));
            }
            fields.push(Field { name: name.clone(), offset, dtype });
        }
        offset = offset
            .checked_add(len)
            .filter(|end| *end < u32::MAX as usize)
            .ok_or_else(|| Error::corrupt(format!("member '{name}' makes elements of more than 4 GiB")))?;
    }
    if fields.is_empty() || fields.iter().any(|field| !field.dtype.is_sound()) {
        return Err(Error::new(ErrorKind::Unsupported, "elements or members without any bytes"));
    }
    Ok(Dtype::Compound { len: offset, fields })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_types() {
        for (code, shown) in [
            ("<f8", "<f8"),
            (">i2", ">i2"),
            ("|b1", "bool"),
            ("|S5", "|S5"),
            (">c16", ">c16"),
            ("<U3", "<u4[3]"),
            ("<M8[ns]", "<i8"),
            ("|V7", "|V7"),
        ] {
            assert_eq!(plain(code).unwrap().to_string(), shown, "{code}");
        }
        for code in ["", "<", "f8", "<f", "<f3", "<i0", "<q8", "<U99999999999999999999", "é"] {
            assert!(plain(code).is_err(), "{code}");
        }
    }

    #[test]
    fn members_lie_one_after_the_other_and_gaps_have_no_name() {
        let text = |text: &str| Literal::Text(text.into());
        let pair = |name: &str, code: &str| Literal::Items(vec![text(name), text(code)]);
        let dtype = compound(&[pair("a", "|i1"), pair("", "|V3"), pair("b", "<f4")]).unwrap();
        let Dtype::Compound { len, fields } = dtype else { panic!("a compound") };
        assert_eq!((len, fields.len(), fields[1].offset), (8, 2, 4));
        assert!(compound(&[pair("a", "|i1"), pair("a", "|i1")]).is_err());
    }
}
