//! What the group around a sparse matrix says of it: by what it is compressed, and how many columns it has.
//!
//! AnnData writes `encoding-type` and `shape`, before 0.7 `h5sparse_format` and `h5sparse_shape`.

use forebay_container::{Array, Attribute, Scalar};
use forebay_process::{Error, ErrorKind, Result};

use crate::set::column::ColumnPart;

/// How many columns the rows of all `parts` have: as `given`, or else as the files say.
///
/// A matrix that is compressed by columns is refused: what would be read as its rows are its columns.
pub(crate) fn columns(given: Option<u64>, parts: &[ColumnPart]) -> Result<u64> {
    let mut all: Option<(u64, &ColumnPart)> = None;
    for part in parts {
        let named = |error: Error| part.named(error);
        let stored = stored_columns(part).map_err(named)?;
        let Some(own) = stored else { continue };
        if let Some(given) = given.filter(|given| *given < own) {
            let what = format!("its rows have {own} columns, columns={given} was given");
            let error = Error::new(ErrorKind::Invalid, what);
            return Err(named(error.hint("leave columns out: the file says how many there are")));
        }
        match all {
            Some((first, other)) if given.is_none() && first != own => {
                let name = other.opened.container().sources.first().map(|id| id.locator.to_string());
                let what =
                    format!("its rows have {own} columns, those of {} {first}", name.unwrap_or_default());
                let error = Error::new(ErrorKind::Invalid, what);
                return Err(named(error.hint("give columns if the same ones come first in all files")));
            }
            _ => all = Some((own, part)),
        }
    }
    given.or(all.map(|(columns, _)| columns)).ok_or_else(|| {
        Error::new(ErrorKind::Invalid, "nothing says how many columns sparse rows have").hint("give columns")
    })
}

/// The columns that the group of `part` says its matrix has; `None` where it says nothing of a matrix.
fn stored_columns(part: &ColumnPart) -> Result<Option<u64>> {
    let container = part.opened.container();
    let name = part.variable().name.rsplit_once('/').map_or("", |(group, _)| group);
    let Some(group) = container.groups.iter().find(|group| group.name == name) else { return Ok(None) };
    let kind = find(&group.attributes, ["encoding-type", "h5sparse_format"]).and_then(Array::texts);
    match kind.as_ref().and_then(|kind| kind.first()).map(String::as_str) {
        Some("csr_matrix" | "csr") => {}
        Some("csc_matrix" | "csc") => {
            let what = "a sparse matrix that is compressed by columns (CSC), whose rows do not lie together";
            let remedy = "write it compressed by rows: adata.X = adata.X.tocsr()";
            return Err(Error::new(ErrorKind::Unsupported, what).hint(remedy));
        }
        _ => return Ok(None),
    }
    let shape = find(&group.attributes, ["shape", "h5sparse_shape"]).and_then(Array::scalars);
    Ok(shape.and_then(|shape| match shape[..] {
        [_, Scalar::Integer(columns)] => u64::try_from(columns).ok(),
        _ => None,
    }))
}

/// The first of `names` that is among `attributes` and can be read.
fn find<'a>(attributes: &'a [Attribute], names: [&str; 2]) -> Option<&'a Array> {
    let named = |name: &str| attributes.iter().find(|attribute| attribute.name == *name);
    names.into_iter().find_map(named)?.value.as_ref().ok()
}
