//! One field of several files: which type its elements have in all of them, and what their integers stand for.

use forebay_container::{Dtype, categories::Categories, native};
use forebay_process::{Error, ErrorKind, Result};

use crate::{
    set::{categories::categories_of, column::ColumnPart},
    spec::FieldSpec,
};

/// The type of the elements of all files in memory, and their names; files that count names otherwise are to recode them.
pub(crate) fn types(field: &FieldSpec, parts: &mut [ColumnPart]) -> Result<(Dtype, Option<Categories>)> {
    let first = in_memory(parts[0].dtype());
    if let Some(tables) = tables(parts)? {
        let all = Categories::joined(&tables).unwrap_or_else(|| tables[0].clone());
        if tables.iter().all(|table| *table == all) && same_types(field, parts).is_ok() {
            return Ok((first, Some(all)));
        }
        let stored = |part: &ColumnPart| part.dtype().number();
        let Some(to) = all.holder(parts.iter().filter_map(stored)) else {
            return Err(Error::new(ErrorKind::Unsupported, "more names than integers can count"));
        };
        for (part, table) in parts.iter_mut().zip(&tables) {
            if part.unpacker.as_ref().is_some_and(|unpacker| unpacker.has_gaps()) {
                let what = "has missing values among integers that other files count otherwise";
                let error = Error::new(ErrorKind::Unsupported, what)
                    .hint("cf=False joins them by name, with that of what is missing");
                return Err(part.named(error));
            }
            part.recode = stored(part).and_then(|from| table.recode(from, &all, to)).map(Box::new);
            // Codes are no numbers that could be packed.
            part.unpacker = None;
        }
        return Ok((all.dtype(to), Some(all)));
    }
    same_types(field, parts)?;
    Ok((first, None))
}

/// The names of the integers of each file; nothing where they have none.
fn tables(parts: &[ColumnPart]) -> Result<Option<Vec<Categories>>> {
    let mut tables = Vec::with_capacity(parts.len());
    for part in parts {
        match categories_of(&part.opened, part.variable()) {
            Ok(table) => tables.push(table),
            // Of one file the codes are right, whatever they are called.
            Err(_) if parts.len() == 1 => return Ok(None),
            Err(error) => return Err(error.at("the names of its codes")),
        }
    }
    let named = tables.iter().position(Option::is_some);
    match (named, tables.iter().position(Option::is_none)) {
        (Some(named), Some(bare)) => {
            let locator = parts[named].opened.container().sources.first().map(|id| id.locator.to_string());
            let what = format!("holds plain integers, {} names for them", locator.unwrap_or_default());
            let error = Error::new(ErrorKind::Invalid, what);
            Err(parts[bare].named(error.hint("open them as two sets")))
        }
        _ => Ok(tables.into_iter().collect()),
    }
}

/// Refuses files whose elements are of different types, unless all are numbers that `field` has cast to one, or that are
/// unpacked.
fn same_types(field: &FieldSpec, parts: &[ColumnPart]) -> Result<()> {
    let first = parts[0].dtype();
    let is_plain = |dtype: &Dtype| dtype.number().is_some() && !dtype.is_enum();
    for part in &parts[1..] {
        let own = part.dtype();
        let is_unpacked = part.unpacker.is_some() && parts[0].unpacker.is_some();
        let is_cast = (field.convert.to.is_some() || is_unpacked) && is_plain(own) && is_plain(first);
        if is_cast || native::same_native(own, first) {
            continue;
        }
        let mut error = Error::new(ErrorKind::Invalid, format!("holds {own}, the first file {first}"));
        if is_plain(own) && is_plain(first) {
            error = error.hint("name one type for all, as in Field(dtype=\"float32\")");
        }
        return Err(part.named(error));
    }
    Ok(())
}

/// The type of elements once they are read.
fn in_memory(dtype: &Dtype) -> Dtype {
    match (dtype, dtype.number()) {
        (Dtype::Enum { .. }, _) | (_, None) => dtype.clone(),
        (_, Some(number)) => Dtype::native(number),
    }
}
