//! Formats of FFS, the encoding of BP5's metadata: each tells how the structures of a record are laid out.
//!
//! ```text
//! mmd.0    (id bytes u64 │ format bytes u64 │ id │ format) …
//! format   bytes u16 │ order u8 │ version u8 │ structures u8 │ recursive u8 │ more bytes u16 │ structure …
//! structure  28 bytes │ (name u32 │ type u32 │ size u32 │ offset u32) … │ names and types, ended by NUL
//! ```
//!
//! Lengths of formats and structures are big-endian; all else is in the order of the machine that wrote it.

use std::collections::HashMap;

use forebay_process::{Error, ErrorKind, Result};

use forebay_container::ByteOrder;
use forebay_filter::{ByteCursor, uint};

/// The version of formats that is read here; the one before it has shorter numbers.
const VERSION: u8 = 2;
const STRUCTURE_HEAD_LEN: u64 = 28;
const FIELD_LEN: u64 = 16;

/// How records of one kind are laid out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FfsFormat {
    pub(super) order: ByteOrder,
    /// Bytes of a pointer on the machine that wrote it.
    pub(super) pointer_len: u64,
    /// What a record is, and then all that it has inside.
    pub(super) structures: Vec<Structure>,
}

/// A structure of the language C.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Structure {
    pub(super) name: String,
    pub(super) len: u64,
    pub(super) fields: Vec<FfsField>,
}

/// A member of a structure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FfsField {
    pub(super) name: String,
    /// The type without its lengths: `integer[Dims]` is an `integer`.
    pub(super) type_name: String,
    /// True where a pointer stands in the structure, since the length of what it leads to is not fixed.
    pub(super) is_pointer: bool,
    /// Bytes of one element.
    pub(super) size: u64,
    pub(super) offset: u64,
}

impl FfsFormat {
    /// The structure called `name`.
    pub(super) fn structure(&self, name: &str) -> Option<&Structure> {
        self.structures.iter().find(|structure| structure.name == name)
    }

    /// True where records hold pointers: then their length is written before them.
    pub(super) fn is_variant(&self) -> bool {
        self.structures.iter().flat_map(|structure| &structure.fields).any(|field| field.is_pointer)
    }

    fn parse(bytes: &[u8]) -> Result<Self> {
        let mut head = ByteCursor::new(bytes, ByteOrder::Big);
        let low = head.uint(2)?;
        let order = order_of(head.u8()?)?;
        let version = head.u8()?;
        if version != VERSION {
            let what = format!("metadata formats of version {version}, where {VERSION} is read");
            return Err(Error::new(ErrorKind::Unsupported, what));
        }
        let inner_count = head.u8()?;
        head.u8()?;
        let len = head.uint(2)? << 16 | low;
        let mut rest = ByteCursor::part(bytes, 0, len.min(bytes.len() as u64), ByteOrder::Big)?;
        rest.take(head.position())?;
        let mut structures = Vec::new();
        let mut pointer_len = 0;
        for _ in 0..=inner_count {
            let (structure, len) = structure(&mut rest, order)?;
            structures.push(structure);
            pointer_len = len;
        }
        Ok(Self { order, pointer_len, structures })
    }
}

fn order_of(code: u8) -> Result<ByteOrder> {
    match code {
        0 => Ok(ByteOrder::Little),
        1 => Ok(ByteOrder::Big),
        _ => Err(Error::corrupt(format!("no such byte order: {code}"))),
    }
}

/// The next structure, and the bytes of its pointers.
fn structure(rest: &mut ByteCursor<'_>, order: ByteOrder) -> Result<(Structure, u64)> {
    // The length is split over two fields, so it is looked up before the structure is.
    let head = rest.clone().take(STRUCTURE_HEAD_LEN)?;
    let len = uint(&head[24..26], ByteOrder::Big) << 16 | uint(&head[..2], ByteOrder::Big);
    let at = rest.position();
    let bytes = rest.take(len.max(STRUCTURE_HEAD_LEN))?;
    let read = || {
        let mut cursor = ByteCursor::new(bytes, order);
        cursor.take(4)?;
        let (name, field_count, len) = (cursor.uint(4)?, cursor.uint(4)?, cursor.uint(4)?);
        let pointer_len = u64::from(cursor.u8()?);
        if !matches!(pointer_len, 4 | 8) {
            return Err(Error::corrupt(format!("pointers of {pointer_len} bytes")));
        }
        let mut cursor = ByteCursor::new(bytes, order);
        cursor.take(STRUCTURE_HEAD_LEN)?;
        if field_count > cursor.left() as u64 / FIELD_LEN {
            return Err(Error::corrupt(format!("{field_count} fields in {} bytes", bytes.len())));
        }
        let mut fields = Vec::new();
        for _ in 0..field_count {
            let (name, type_name) = (name_at(bytes, cursor.uint(4)?)?, name_at(bytes, cursor.uint(4)?)?);
            let (size, offset) = (cursor.uint(4)?, cursor.uint(4)?);
            fields.push(field(name, &type_name, size, offset));
        }
        Ok((Structure { name: name_at(bytes, name)?, len, fields }, pointer_len))
    };
    read().map_err(|error| error.at(format!("structure at {at:#x}")))
}

fn field(name: String, type_name: &str, size: u64, offset: u64) -> FfsField {
    let (base, lengths) = type_name.split_once('[').unwrap_or((type_name, ""));
    let is_counted =
        lengths.split('[').any(|length| length.starts_with(|letter: char| !letter.is_ascii_digit()));
    let is_pointer = base == "string" || base.starts_with('*') || is_counted && !lengths.is_empty();
    FfsField { name, type_name: base.trim().to_owned(), is_pointer, size, offset }
}

fn name_at(bytes: &[u8], at: u64) -> Result<String> {
    text(bytes, at).map(|name| String::from_utf8_lossy(name).into_owned())
}

/// The text at `at`, which a NUL ends.
pub(super) fn text(bytes: &[u8], at: u64) -> Result<&[u8]> {
    let rest = usize::try_from(at).ok().and_then(|at| bytes.get(at..));
    let end = rest.and_then(|rest| rest.iter().position(|byte| *byte == 0));
    match (rest, end) {
        (Some(rest), Some(end)) => Ok(&rest[..end]),
        _ => Err(Error::corrupt(format!("a text at {at:#x} that does not end"))),
    }
}

/// All formats of a file, by id.
#[derive(Debug, Default)]
pub(super) struct Formats(HashMap<Vec<u8>, FfsFormat>);

/// Bytes of a format's id.
pub(super) const ID_LEN: usize = 12;

impl Formats {
    /// The formats in `bytes`, the contents of `mmd.0`, whose own numbers are in `order`.
    pub(super) fn parse(bytes: &[u8], order: ByteOrder) -> Result<Self> {
        let mut formats = HashMap::new();
        let mut cursor = ByteCursor::new(bytes, order);
        while cursor.left() > 0 {
            let at = cursor.position();
            let (id_len, len) = (cursor.u64()?, cursor.u64()?);
            if id_len != ID_LEN as u64 {
                return Err(Error::corrupt(format!("a format at {at:#x} whose id has {id_len} bytes")));
            }
            let id = cursor.take(id_len)?.to_vec();
            let format = FfsFormat::parse(cursor.take(len)?)
                .map_err(|error| error.at(format!("format at {at:#x}")))?;
            formats.insert(id, format);
        }
        Ok(Self(formats))
    }

    /// The format of the record that begins with `bytes`.
    pub(super) fn of(&self, bytes: &[u8]) -> Result<&FfsFormat> {
        let id = bytes.get(..ID_LEN).ok_or_else(|| Error::corrupt("a record of less than 12 bytes"))?;
        self.0.get(id).ok_or_else(|| Error::corrupt("a record of a format that mmd.0 does not have"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_with_a_counted_length_is_a_pointer_and_one_with_a_fixed_length_is_not() {
        let is_pointer = |type_name: &str| field(String::new(), type_name, 1, 0).is_pointer;
        for (type_name, expected) in [
            ("integer", false),
            ("integer[Dims]", true),
            ("char[16][BlockCount]", true),
            ("float[3]", false),
            ("string", true),
            ("MetaArrayMM8", false),
        ] {
            assert_eq!(is_pointer(type_name), expected, "{type_name}");
        }
        assert_eq!(field(String::new(), "char[16][BlockCount]", 1, 0).type_name, "char");
    }
}
