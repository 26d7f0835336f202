//! The attribute message: a small named array inside an object header.

use forebay_source::Result;

use super::{
    super::{
        cursor::{Cursor, text, unsupported},
        file::File,
    },
    DATASPACE, DATATYPE,
    dataspace::Dataspace,
    datatype::Datatypes,
};
use crate::{Array, Attribute, Dtype, Values, heap::HeapReader, native, odd};

/// Reads one attribute; a value that cannot be read is kept as the reason why.
pub(in super::super) fn parse(file: &File, body: &[u8]) -> Result<Attribute> {
    let mut cursor = Cursor::new(body, file.sizes);
    let version = cursor.u8()?;
    let flags = cursor.u8()?;
    let [name_len, type_len, space_len] = [cursor.u16()?, cursor.u16()?, cursor.u16()?].map(usize::from);
    match version {
        1 | 2 => {}
        3 => cursor.skip(1)?,
        _ => return Err(unsupported(format!("an attribute message of version {version}"))),
    }
    let mut field = |len: usize| -> Result<&[u8]> {
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
    let value = (|| {
        let type_body = file.shared.maybe(file, type_body, is_shared(1), DATATYPE)?;
        let space_body = file.shared.maybe(file, space_body, is_shared(2), DATASPACE)?;
        let dtype = Datatypes { heap: file.heap() }.parse(&mut Cursor::new(&type_body, file.sizes))?;
        let space = Dataspace::parse(Cursor::new(&space_body, file.sizes))?;
        value(file, dtype, &space, cursor.rest())
    })();
    Ok(Attribute { name, value: value.map_err(|error| error.to_string()) })
}

fn value(file: &File, dtype: Dtype, space: &Dataspace, stored: &[u8]) -> Result<Array> {
    if let Some(why) = dtype.refusal() {
        return Err(unsupported(why));
    }
    let shape = if space.is_null { vec![0] } else { space.shape.clone() };
    let count = crate::grid::product(&shape);
    let len = usize::try_from(count.saturating_mul(dtype.stored_len() as u64)).unwrap_or(usize::MAX);
    let mut stored = Cursor::new(stored, file.sizes).take(len)?.to_vec();
    if dtype.is_variable() {
        let left = file.attribute_allowance.get();
        let values = HeapReader::new(&**file.source()).resolve(&dtype, &stored, left)?;
        if let Values::Variable { bytes, .. } = &values {
            file.attribute_allowance.set(left.saturating_sub(bytes.len() as u64));
        }
        return Ok(Array { dtype, shape, values });
    }
    if let Dtype::Odd { number, .. } = dtype {
        let mut wide = vec![0; stored.len() / dtype.stored_len() * number.size()];
        odd::widen(&dtype, &stored, &mut wide);
        return Ok(Array { dtype: Dtype::native(number), shape, values: Values::Fixed(wide) });
    }
    native::make_native(&dtype, &mut stored);
    Ok(Array { dtype, shape, values: Values::Fixed(stored) })
}
