//! Paths and URLs on the command line, which may be any bytes.

use std::path::Path;

use clap::builder::{OsStringValueParser, TypedValueParser};
use forebay::{Locator, source::text_of_path};

/// Takes an argument that names a file.
pub(crate) fn file() -> impl TypedValueParser<Value = Locator> {
    OsStringValueParser::new().map(Locator::from_path)
}

/// Takes an argument that names files, as text that [`forebay::expand`] understands.
pub(crate) fn files() -> impl TypedValueParser<Value = String> {
    OsStringValueParser::new().map(|name| text_of_path(Path::new(&name)))
}
