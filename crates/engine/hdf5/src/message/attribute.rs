//! The attribute message: a small named array inside an object header.

use forebay_process::{Error, Result};

use super::{
    super::{
        cursor::{MetadataCursor, text},
        file::File,
    },
    DATASPACE, DATATYPE,
    dataspace::Dataspace,
    datatype::Datatypes,
};
use forebay_container::{Array, Attribute, Dtype, Values, native, nonstandard};

/// Reads one attribute; a value that cannot be read is kept as the reason why.
pub(crate) fn parse(file: &File, body: &[u8]) -> Result<Attribute> {
    let parts = AttributeParts::parse(file, body)?;
    let value = parts.typed(file).and_then(|(dtype, space)| value(file, dtype, &space, parts.stored));
    Ok(Attribute { name: parts.name, value: value.map_err(|error| error.to_string()) })
}

/// Where the first reference of each list leads to, if this is the attribute `name` and one list per axis.
pub(crate) fn references(file: &File, body: &[u8], name: &str) -> Result<Option<Vec<Option<u64>>>> {
    let parts = AttributeParts::parse(file, body)?;
    if parts.name != name {
        return Ok(None);
    }
    let (dtype, space) = parts.typed(file)?;
    let (Dtype::Sequence { item, .. }, [count]) = (&dtype, &space.shape[..]) else { return Ok(None) };
    let Dtype::Reference { len, .. } = **item else { return Ok(None) };
    let stored_len = count.saturating_mul(dtype.stored_len() as u64);
    let stored = MetadataCursor::new(parts.stored, file.sizes)
        .take(usize::try_from(stored_len).unwrap_or(usize::MAX))?;
    let Values::Variable { offsets, bytes } = file.resolve(&dtype, stored)? else { return Ok(None) };
    let first = |bounds: &[u64]| {
        let from = usize::try_from(bounds[0]).ok().filter(|_| bounds[0] < bounds[1])?;
        let address = bytes.get(from..from.checked_add(len.min(8))?)?;
        Some(address.iter().rev().fold(0u64, |all, byte| all << 8 | u64::from(*byte)))
    };
    Ok(Some(offsets.windows(2).map(first).collect()))
}

/// The parts of an attribute message.
struct AttributeParts<'a> {
    name: String,
    type_body: &'a [u8],
    type_is_shared: bool,
    space_body: &'a [u8],
    space_is_shared: bool,
    stored: &'a [u8],
}

impl<'a> AttributeParts<'a> {
    fn parse(file: &File, body: &'a [u8]) -> Result<Self> {
        let mut cursor = MetadataCursor::new(body, file.sizes);
        let version = cursor.u8()?;
        let flags = cursor.u8()?;
        let [name_len, type_len, space_len] = [cursor.u16()?, cursor.u16()?, cursor.u16()?].map(usize::from);
        match version {
            1 | 2 => {}
            3 => cursor.skip(1)?,
            _ => return Err(Error::unsupported(format!("an attribute message of version {version}"))),
        }
        let mut field = |len: usize| -> Result<&'a [u8]> {
            let bytes = cursor.take(len)?;
            if version == 1 {
                cursor.skip(len.next_multiple_of(8) - len)?;
            }
            Ok(bytes)
        };
        let name = field(name_len)?;
        let name = text(name.split(|byte| *byte == 0).next().unwrap_or_default());
        let type_body = field(type_len)?;
        let space_body = field(space_len)?;
        let is_shared = |bit: u8| version > 1 && flags & bit != 0;
        let (type_is_shared, space_is_shared) = (is_shared(1), is_shared(2));
        Ok(Self { name, type_body, type_is_shared, space_body, space_is_shared, stored: cursor.rest() })
    }

    /// The type and the shape of the value.
    fn typed(&self, file: &File) -> Result<(Dtype, Dataspace)> {
        let type_body = file.shared.maybe(file, self.type_body, self.type_is_shared, DATATYPE)?;
        let space_body = file.shared.maybe(file, self.space_body, self.space_is_shared, DATASPACE)?;
        let parse = || {
            Datatypes { reference_len: file.heap().reference_len() }
                .parse(&mut MetadataCursor::new(&type_body, file.sizes))
        };
        let dtype = if self.type_is_shared { file.shared_type(parse)? } else { parse()? };
        Ok((dtype, Dataspace::parse(MetadataCursor::new(&space_body, file.sizes))?))
    }
}

fn value(file: &File, dtype: Dtype, space: &Dataspace, stored: &[u8]) -> Result<Array> {
    if let Some(why) = dtype.refusal() {
        return Err(Error::unsupported(why));
    }
    let shape = if space.is_null { vec![0] } else { space.shape.clone() };
    let count = forebay_container::shape::product(&shape);
    let len = usize::try_from(count.saturating_mul(dtype.stored_len() as u64)).unwrap_or(usize::MAX);
    let mut stored = MetadataCursor::new(stored, file.sizes).take(len)?.to_vec();
    if dtype.is_variable() {
        let values = file.resolve(&dtype, &stored)?;
        return Ok(Array { dtype, shape, values });
    }
    if let Dtype::Nonstandard { number, .. } = dtype {
        let mut wide = vec![0; stored.len() / dtype.stored_len() * number.size()];
        nonstandard::widen(&dtype, &stored, &mut wide);
        return Ok(Array { dtype: Dtype::native(number), shape, values: Values::Fixed(wide) });
    }
    native::make_native(&dtype, &mut stored);
    Ok(Array { dtype, shape, values: Values::Fixed(stored) })
}
