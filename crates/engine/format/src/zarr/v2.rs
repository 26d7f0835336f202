//! What `.zarray` and `.zattrs` say of an array.

use forebay_process::{Error, Result};
use serde_json::Value;

use super::{
    array::{Described, dimensions, grid},
    attributes,
    codec::CodecSteps,
    element::{Meaning, ZarrElement},
    fill,
    json::{lengths, need},
    key::Keys,
    missing,
};

/// The attribute in which xarray keeps the names of axes.
const DIMENSIONS: &str = "_ARRAY_DIMENSIONS";

/// The array that `document` and its attributes describe.
pub(super) fn describe(document: &Value, attributes: Option<&Value>) -> Result<Described> {
    if need(document, "zarr_format")?.as_u64() != Some(2) {
        return Err(Error::unsupported(format!("version {} of the format", document["zarr_format"])));
    }
    let element = ZarrElement::of_v2(need(document, "dtype")?)?;
    let grid = grid(lengths(document, "shape")?, lengths(document, "chunks")?)?;
    let mut steps = CodecSteps::new(&element, &grid.chunk, None);
    match document.get("order").and_then(Value::as_str) {
        Some("C") | None => {}
        Some("F") => steps.transpose(&(0..grid.shape.len()).rev().collect::<Vec<_>>())?,
        Some(other) => return Err(Error::corrupt(format!("'{other}' is no order of axes"))),
    }
    let filters = document.get("filters").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let compressor = document.get("compressor").filter(|compressor| !compressor.is_null());
    for codec in filters.iter().chain(compressor) {
        let id =
            codec.get("id").and_then(Value::as_str).ok_or_else(|| Error::corrupt("a codec without an id"))?;
        steps.numcodec(id, codec)?;
    }
    let (filters, objects) = (steps.filters, steps.objects);
    if (element.meaning == Meaning::Object) != objects.is_some() {
        return Err(Error::unsupported("objects whose codec does not say what they are"));
    }
    let fill_value = document.get("fill_value").unwrap_or(&Value::Null);
    let fill = if objects.is_some() { Vec::new() } else { fill::of(fill_value, &element)? };
    let separator = match document.get("dimension_separator").and_then(Value::as_str) {
        Some("/") => '/',
        Some(".") | None => '.',
        Some(other) => return Err(Error::corrupt(format!("'{other}' separates nothing"))),
    };
    let names = attributes.and_then(|all| all.get(DIMENSIONS));
    let mut own = attributes::of(attributes, &[DIMENSIONS]);
    missing::of_v2(&mut own, fill_value, &fill, &element);
    Ok(Described {
        note: note(&element, &document["dtype"]),
        dimensions: dimensions(names, grid.shape.len()),
        attributes: own,
        files: grid.clone(),
        keys: Keys { has_letter: false, separator },
        has_no_fill: fill_value.is_null(),
        shard: None,
        element,
        grid,
        filters,
        fill,
        objects,
    })
}

/// What the type is called, where numbers stand for something else.
pub(super) fn note(element: &ZarrElement, dtype: &Value) -> Option<String> {
    let is_special = matches!(element.meaning, Meaning::Time | Meaning::Letters);
    is_special.then(|| dtype.as_str().map_or_else(|| dtype.to_string(), str::to_owned))
}
