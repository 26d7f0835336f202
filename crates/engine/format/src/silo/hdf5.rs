//! Silo in HDF5: objects are named types, whose attribute `silo` is a compound of the members.

use forebay_process::Result;
use forebay_source::{Locator, Origin};

use super::object::{MemberValue, Object, ObjectKind};
use forebay_container::{Array, Attribute, Container, Dtype, Field, Number, Refused, Values};
use forebay_hdf5::{NamedType, describe_with_types};

/// The group that holds the arrays, numbered; what tells a Silo file from any other HDF5 file.
pub(super) const ARRAYS: &str = ".silo";
/// How a member says that it is the name of an array.
const ARRAY_PREFIX: &str = "/.silo/#";

/// True for the name of an array in a Silo file that is HDF5.
pub(crate) fn is_array_name(name: &str) -> bool {
    ARRAY_PREFIX.strip_prefix('/').is_some_and(|prefix| name.starts_with(prefix))
}

/// The arrays and objects of the file at `at`.
pub(super) fn describe(origin: &dyn Origin, at: &Locator) -> Result<(Container, Vec<Object>)> {
    let (mut container, types) = describe_with_types(origin, at)?;
    // Every group has a link to the one above it.
    container.aliases.retain(|alias| !alias.name.split('/').any(|step| step == ".."));
    container.groups.retain(|group| group.name != ARRAYS);
    let mut objects = Vec::new();
    for named in &types {
        match object(named) {
            Some(Ok(object)) => objects.push(object),
            Some(Err(why)) => {
                container.refused.push(Refused { name: named.name.clone(), why, corrupt: true })
            }
            None => {}
        }
    }
    Ok((container, objects))
}

/// The object that `named` stands for, or why it cannot be made out; `None` where it is a mere type.
fn object(named: &NamedType) -> Option<std::result::Result<Object, String>> {
    let attribute = |name: &str| -> Option<&Attribute> {
        named.attributes.iter().find(|attribute| attribute.name == name)
    };
    let value = |name: &str| attribute(name)?.value.as_ref().ok();
    let members = match &attribute("silo")?.value {
        Ok(array) => members(array),
        Err(why) => return Some(Err(format!("attribute 'silo': {why}"))),
    };
    let Some(members) = members else { return Some(Err("attribute 'silo' is no compound".into())) };
    let number = value("silo_type").and_then(|array| match &array.values {
        Values::Fixed(bytes) => member(&array.dtype, bytes),
        Values::Variable { .. } => None,
    });
    let kind = match number {
        Some(MemberValue::Integers(values)) => ObjectKind::of_number(values.first().copied().unwrap_or(0)),
        _ => ObjectKind::Other,
    };
    Some(Ok(Object { name: named.name.clone(), kind, members }))
}

fn members(array: &Array) -> Option<Vec<(String, MemberValue)>> {
    let (Dtype::Compound { fields, .. }, Values::Fixed(bytes)) = (&array.dtype, &array.values) else {
        return None;
    };
    let value = |field: &Field| {
        let end = field.offset.checked_add(field.dtype.stored_len())?;
        Some((field.name.clone(), member(&field.dtype, bytes.get(field.offset..end)?)?))
    };
    Some(fields.iter().filter_map(value).collect())
}

/// A member's native bytes as a value.
fn member(dtype: &Dtype, bytes: &[u8]) -> Option<MemberValue> {
    match dtype {
        Dtype::Text { .. } => {
            let text = bytes.split(|byte| *byte == 0).next().unwrap_or_default();
            let text = String::from_utf8_lossy(text).into_owned();
            if text.starts_with(ARRAY_PREFIX) {
                return Some(MemberValue::Array(text.trim_start_matches('/').to_owned()));
            }
            Some(MemberValue::Text(text))
        }
        Dtype::Number { number: Number::F32, .. } => Some(MemberValue::Reals(
            bytes.as_chunks().0.iter().map(|four| f32::from_ne_bytes(*four).into()).collect(),
        )),
        Dtype::Number { number: Number::F64, .. } => Some(MemberValue::Reals(
            bytes.as_chunks().0.iter().map(|eight| f64::from_ne_bytes(*eight)).collect(),
        )),
        Dtype::Number { .. } => super::object::integers(dtype, bytes).map(MemberValue::Integers),
        Dtype::Array { item, .. } => member(item, bytes),
        _ => None,
    }
}
