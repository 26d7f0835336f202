//! Attributes of BP5: two lists in one record, of numbers and of texts. A letter before each name tells its type.

use forebay_process::{Error, ErrorKind, Result};

use super::{
    index::{Attributes, attribute},
    kind::BpType,
    record::RecordStructure,
};
use forebay_container::{Array, ByteOrder};

/// What is added to the number of a type where there is an array of it.
const ARRAY: u8 = 18;

/// Notes what `record` says; values are in `order`.
pub(super) fn note(record: RecordStructure<'_>, order: ByteOrder, into: &mut Attributes) -> Result<()> {
    if record.name() != "GenericAttributes" {
        let what = format!("attributes in a record called '{}'", record.name());
        return Err(Error::new(ErrorKind::Unsupported, what).hint("rewrite it with ADIOS2 2.8 or later"));
    }
    for one in record.inners("PrimAttrs", record.number("PrimAttrCount")?)? {
        let (text, name) = taken_apart(one)?;
        let array = name.and_then(|(kind, is_array)| numbers(one, kind, is_array, order));
        into.insert(text, array.map_err(|error| error.to_string()));
    }
    for one in record.inners("StrAttrs", record.number("StrAttrCount")?)? {
        let (text, name) = taken_apart(one)?;
        let array = name.and_then(|(_, is_array)| texts(one, is_array, order));
        into.insert(text, array.map_err(|error| error.to_string()));
    }
    Ok(())
}

fn numbers(one: RecordStructure<'_>, kind: BpType, is_array: bool, order: ByteOrder) -> Result<Array> {
    let bytes = one.bytes("Values", one.number("TotalElementSize")?)?;
    let len = usize::try_from(kind.len()).unwrap_or(0);
    if len == 0 || bytes.len() % len != 0 {
        return Err(Error::corrupt(format!("{} bytes of values of {len}", bytes.len())));
    }
    attribute(kind, order, &[bytes.to_vec()], is_array)
}

fn texts(one: RecordStructure<'_>, is_array: bool, order: ByteOrder) -> Result<Array> {
    let texts = one.texts("Values", one.number("ElementCount")?)?;
    let values: Vec<Vec<u8>> = texts.into_iter().map(<[u8]>::to_vec).collect();
    attribute(BpType::Text, order, &values, is_array)
}

/// The name of an attribute; its type and whether it is an array, or why they cannot be made out.
fn taken_apart(one: RecordStructure<'_>) -> Result<(String, Result<(BpType, bool)>)> {
    // It was called otherwise for a while.
    let field = if one.has("name") { one.field("name")? } else { one.field("Name")? };
    let text = String::from_utf8_lossy(one.text(field)?).into_owned();
    let mut letters = text.chars();
    let code =
        letters.next().and_then(|letter| u8::try_from(letter).ok()).and_then(|code| code.checked_sub(b'0'));
    let Some(code) = code else { return Ok((text, Err(Error::corrupt("a name without a type before it")))) };
    let (code, is_array) = if code > ARRAY { (code - ARRAY, true) } else { (code, false) };
    let kind = BpType::of_bp5(u64::from(code)).map(|kind| (kind, is_array));
    Ok((letters.as_str().to_owned(), kind))
}
