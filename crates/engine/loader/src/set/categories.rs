//! Where the names that integers stand for are found in a file.

use forebay_container::{Array, Dtype, Number, Scalar, Selection, Variable, categories::Categories};
use forebay_format::Opened;
use forebay_process::{Error, ErrorKind, Result};

/// More names than this are no categories: they are not read.
const MOST_NAMES: u64 = 1 << 24;

/// The names of the integers of `variable`; `None` where they stand for nothing but themselves.
pub(crate) fn categories_of(opened: &Opened, variable: &Variable) -> Result<Option<Categories>> {
    if !variable.dtype.number().is_some_and(Number::is_integer) || variable.dtype.is_bool() {
        return Ok(None);
    }
    if let Dtype::Enum { members, .. } = &variable.dtype {
        return Ok(Some(Categories::enumeration(members.clone())));
    }
    let container = opened.container();
    let classes = variable.attribute("classes").filter(|_| container.format == "images");
    if let Some(names) = classes.and_then(Array::texts) {
        return Ok(Some(Categories::classes(names)));
    }
    let Some(names) = names_beside(opened, variable)? else { return Ok(None) };
    let is_list = matches!(names.grid.shape[..], [count] if count <= MOST_NAMES);
    let read = if is_list { words(&opened.read(names, &Selection::all(&names.grid.shape))?) } else { None };
    let names = read.ok_or_else(|| unreadable(&names.name))?;
    Ok(Some(Categories::categorical(names)))
}

/// The variable with the categories that `variable` has the codes of: `NAME/categories` beside `NAME/codes`, or
/// `__categories/NAME` as AnnData wrote before 0.8.
fn names_beside<'a>(opened: &'a Opened, variable: &Variable) -> Result<Option<&'a Variable>> {
    let Some((group, last)) = variable.name.rsplit_once('/') else { return Ok(None) };
    let name = match last {
        "codes" => format!("{group}/categories"),
        _ => format!("{group}/__categories/{last}"),
    };
    let variables = &opened.container().variables;
    let at = variables.partition_point(|other| other.name < name);
    if let Some(found) = variables.get(at).filter(|found| found.name == name) {
        return Ok(Some(found));
    }
    // A group: names with a mask, as AnnData has them where some may be missing.
    let inside = format!("{name}/");
    let first = variables.partition_point(|other| other.name < inside);
    match variables.get(first).is_some_and(|other| other.name.starts_with(&inside)) {
        true => Err(unreadable(&name)),
        false => Ok(None),
    }
}

/// The error for names of codes that are there and cannot be read as a list of names.
fn unreadable(name: &str) -> Error {
    Error::new(ErrorKind::Unsupported, format!("'{name}' is no list of names"))
        .hint("open the files one by one: the codes of one file mean one thing")
}

/// The names in `names`; numbers are as good as texts. `None` where they are neither.
fn words(names: &Array) -> Option<Vec<String>> {
    let word = |scalar: Scalar| match scalar {
        Scalar::Integer(value) => value.to_string(),
        Scalar::Float(value) => value.to_string(),
    };
    names.texts().or_else(|| Some(names.scalars()?.into_iter().map(word).collect()))
}
