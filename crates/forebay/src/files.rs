//! From what the user calls the files of a set to their paths.

use std::{fs, path::Path};

use forebay_source::{Error, ErrorKind, FileOrigin, Locator, Origin, Result};

use crate::open::format_of;

/// The files that `patterns` name, in order: a path is itself, a pattern all files that match it, a folder all files
/// under it of a format that can be read. What a pattern or folder gives is sorted by name.
pub fn expand(patterns: &[String]) -> Result<Vec<String>> {
    let mut files = Vec::new();
    for pattern in patterns {
        let is_there = fs::symlink_metadata(pattern).is_ok();
        if is_there && Path::new(pattern).is_dir() {
            files.extend(under(pattern)?);
        } else if !is_there && pattern.contains(['*', '?', '[']) {
            files.extend(matching(pattern)?);
        } else {
            files.push(pattern.clone());
        }
    }
    if files.is_empty() {
        return Err(Error::new(ErrorKind::NotFound, "no files are named"));
    }
    Ok(files)
}

fn matching(pattern: &str) -> Result<Vec<String>> {
    let bad = |error: glob::PatternError| Error::new(ErrorKind::Invalid, error.msg).at(pattern);
    let mut found = Vec::new();
    for path in glob::glob(pattern).map_err(bad)? {
        let path = path.map_err(|error| Error::from_io(error.into()).at(pattern))?;
        if path.is_dir() {
            continue;
        }
        let name = path.to_str().ok_or_else(|| {
            Error::new(ErrorKind::Unsupported, "a name that is not UTF-8").at(path.display())
        })?;
        found.push(name.to_owned());
    }
    if found.is_empty() {
        return Err(Error::new(ErrorKind::NotFound, "no file matches").at(pattern));
    }
    found.sort();
    Ok(found)
}

fn under(folder: &str) -> Result<Vec<String>> {
    let origin = FileOrigin::new();
    let mut found = Vec::new();
    for locator in origin.list(&Locator::new(folder))? {
        // Notes and checksums often lie beside the data.
        if format_of(&origin, &locator)?.is_some() {
            found.push(locator.as_str().to_owned());
        }
    }
    if found.is_empty() {
        return Err(
            Error::new(ErrorKind::NotFound, "no file under it is of a format this build reads").at(folder)
        );
    }
    Ok(found)
}
