//! Paths and URLs on the command line, which may be any bytes.

use std::path::Path;

use clap::builder::{OsStringValueParser, TypedValueParser};
use forebay::{
    Locator, Result,
    config::names::is_pattern,
    source::{path_of_text, text_of_path},
};

/// Takes an argument that names a file.
pub(crate) fn file() -> impl TypedValueParser<Value = Locator> {
    OsStringValueParser::new().map(Locator::from_path)
}

/// The files that `names` mean: patterns and folders all that they stand for, any other name itself as it is written.
pub(crate) fn expanded(names: &[String]) -> Result<Vec<Locator>> {
    let mut files = Vec::new();
    for name in names {
        // A store that is a folder is one file, a folder of one file is not.
        let is_inside = |found: &[String]| {
            path_of_text(name).is_dir() && found.iter().all(|file| path_of_text(file).is_file())
        };
        match forebay::expand(std::slice::from_ref(name)) {
            Ok(found) if is_pattern(name) || found.len() > 1 || is_inside(&found) => {
                files.extend(found.iter().map(|file| Locator::new(file.as_str())));
            }
            Err(error) if is_pattern(name) => return Err(error),
            // Opening it says what is wrong with it.
            _ => files.push(Locator::from_path(path_of_text(name))),
        }
    }
    Ok(files)
}

/// True when `name` is that of files: a URL, a pattern, or a path that is there.
pub(crate) fn names_files(name: &str) -> bool {
    is_pattern(name) || Locator::new(name).is_url() || path_of_text(name).exists()
}

/// Takes an argument that names files, as text that [`forebay::expand`] understands.
pub(crate) fn files() -> impl TypedValueParser<Value = String> {
    OsStringValueParser::new().map(|name| text_of_path(Path::new(&name)))
}
