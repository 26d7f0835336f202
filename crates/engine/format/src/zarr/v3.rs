//! What `zarr.json` says of an array.

use forebay_process::{Error, Result};
use serde_json::Value;

use super::{
    array::{Described, dimensions, grid},
    attributes,
    codec::Chain,
    element::{Meaning, ZarrElement},
    fill,
    json::{Named, lengths, need},
    key::Keys,
    missing,
    v2::note,
};
use forebay_container::ShardIndexForm;

/// The array that `document` describes.
pub(super) fn describe(document: &Value) -> Result<Described> {
    refuse_transformers(document)?;
    let shape = lengths(document, "shape")?;
    let chunk = chunk_shape(document)?;
    let files = grid(shape.clone(), chunk)?;
    let chain = Chain::of(need(document, "codecs")?)?;
    let (inner, shard, chunk) = match chain.bytes.name {
        "sharding_indexed" => {
            let (inner, shard, chunk) = sharded(&chain, &files.chunk)?;
            (Some(inner), Some(shard), chunk)
        }
        _ => (None, None, files.chunk.clone()),
    };
    let chain = inner.unwrap_or(chain);
    let grid = grid(shape, chunk)?;
    let element = ZarrElement::of_v3(need(document, "data_type")?, chain.order()?)?;
    let steps = chain.steps(&element, &grid.chunk)?;
    let (filters, objects) = (steps.filters, steps.objects);
    if (element.meaning == Meaning::Object) != objects.is_some() {
        return Err(Error::unsupported(format!(
            "elements {} stored by '{}'",
            document["data_type"], chain.bytes.name
        )));
    }
    let fill_value = need(document, "fill_value")?;
    let fill = if objects.is_some() { Vec::new() } else { fill::of(fill_value, &element)? };
    let mut attributes = attributes::of(document.get("attributes"), &[]);
    missing::of_v3(&mut attributes, &element);
    Ok(Described {
        note: note(&element, &document["data_type"]),
        dimensions: dimensions(document.get("dimension_names"), grid.shape.len()),
        attributes,
        keys: keys(document)?,
        has_no_fill: fill_value.is_null(),
        element,
        grid,
        files,
        filters,
        fill,
        shard,
        objects,
    })
}

fn refuse_transformers(document: &Value) -> Result<()> {
    match document.get("storage_transformers").and_then(Value::as_array) {
        Some(list) if !list.is_empty() => Err(Error::unsupported("storage transformers")),
        _ => Ok(()),
    }
}

fn chunk_shape(document: &Value) -> Result<Vec<u64>> {
    let Named { name, settings } = Named::of(need(document, "chunk_grid")?, "a chunk grid")?;
    match name {
        "regular" => lengths(settings, "chunk_shape"),
        name => Err(Error::unsupported(format!("chunk grid '{name}'"))),
    }
}

fn keys(document: &Value) -> Result<Keys> {
    let Named { name, settings } = Named::of(need(document, "chunk_key_encoding")?, "a chunk key encoding")?;
    let has_letter = match name {
        "default" => true,
        "v2" => false,
        name => return Err(Error::unsupported(format!("chunk key encoding '{name}'"))),
    };
    let separator = match settings.get("separator").and_then(Value::as_str) {
        Some("/") => '/',
        Some(".") => '.',
        None => {
            if has_letter {
                '/'
            } else {
                '.'
            }
        }
        Some(other) => return Err(Error::corrupt(format!("'{other}' separates nothing"))),
    };
    Ok(Keys { has_letter, separator })
}

/// The codecs of the chunks in a shard of shape `shard`, how its index is stored, and the shape of its chunks.
fn sharded<'a>(chain: &Chain<'a>, shard: &[u64]) -> Result<(Chain<'a>, ShardIndexForm, Vec<u64>)> {
    let settings = chain.bytes.settings;
    if !chain.before.is_empty() || !chain.behind.is_empty() {
        return Err(Error::unsupported("shards that went through a codec as a whole"));
    }
    let inner = Chain::of(need(settings, "codecs")?)?;
    if inner.bytes.name == "sharding_indexed" {
        return Err(Error::unsupported("shards inside shards"));
    }
    let chunk = lengths(settings, "chunk_shape")?;
    let fits = chunk.len() == shard.len()
        && chunk.iter().zip(shard).all(|(chunk, shard)| *chunk > 0 && shard.is_multiple_of(*chunk));
    if !fits {
        return Err(Error::corrupt(format!("chunks of {chunk:?} do not fill shards of {shard:?}")));
    }
    let is_at_start = match settings.get("index_location").and_then(Value::as_str) {
        Some("end") | None => false,
        Some("start") => true,
        Some(other) => return Err(Error::corrupt(format!("an index at the '{other}' of a shard"))),
    };
    let index = Chain::of(need(settings, "index_codecs")?)?.index(is_at_start)?;
    Ok((inner, index, chunk))
}
