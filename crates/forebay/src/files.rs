//! From what the user calls the files of a set to their paths and URLs.

use std::{fs, path::Path};

use forebay_source::{Error, ErrorKind, Locator, Result};

use crate::{Origins, each::each};
use forebay_format::{Found, format_of};

/// The files that `patterns` name, in order: a path or URL is itself, a pattern all that match it, a folder all files
/// under it of a format that can be read. What a pattern or folder gives is sorted by name.
///
/// A folder that is itself of a format that can be read, such as a Zarr store, counts as a file.
///
/// In patterns `*` and `?` stop at slashes, and a step of `**` does not. A URL that ends in a slash is a folder.
pub fn expand(patterns: &[String]) -> Result<Vec<String>> {
    expand_among(&Origins::new(), patterns)
}

/// [`expand`] with URLs looked up on `origins`.
pub fn expand_among(origins: &Origins, patterns: &[String]) -> Result<Vec<String>> {
    let mut files = Vec::new();
    for pattern in patterns {
        if Locator::new(pattern.as_str()).is_url() {
            files.extend(behind_url(origins, pattern)?);
        } else {
            files.extend(on_this_machine(origins, pattern)?);
        }
    }
    if files.is_empty() {
        return Err(Error::new(ErrorKind::NotFound, "no files are named"));
    }
    Ok(files)
}

const WILDCARDS: [char; 3] = ['*', '?', '['];

fn on_this_machine(origins: &Origins, pattern: &str) -> Result<Vec<String>> {
    let is_there = fs::symlink_metadata(pattern).is_ok();
    if is_there && Path::new(pattern).is_dir() {
        return under(origins, pattern);
    }
    if !is_there && pattern.contains(WILDCARDS) {
        return matching(origins, pattern);
    }
    Ok(vec![pattern.to_owned()])
}

fn behind_url(origins: &Origins, pattern: &str) -> Result<Vec<String>> {
    match pattern.find(WILDCARDS) {
        Some(wildcard) => matching_urls(origins, pattern, wildcard),
        None if pattern.ends_with('/') => under(origins, pattern),
        None => Ok(vec![pattern.to_owned()]),
    }
}

fn bad_pattern(pattern: &str, error: &glob::PatternError) -> Error {
    Error::new(ErrorKind::Invalid, error.msg).at(pattern)
}

fn matching(origins: &Origins, pattern: &str) -> Result<Vec<String>> {
    let mut found = Vec::new();
    for path in glob::glob(pattern).map_err(|error| bad_pattern(pattern, &error))? {
        let path = path.map_err(|error| Error::from_io(error.into()).at(pattern))?;
        let name = path.to_str().ok_or_else(|| {
            Error::new(ErrorKind::Unsupported, "a name that is not UTF-8").at(path.display())
        })?;
        if path.is_dir() && !is_one(origins, name)? {
            continue;
        }
        found.push(name.to_owned());
    }
    found.sort();
    not_none(found, pattern, "no file matches")
}

/// The URLs that match `pattern`, whose first wildcard is at `wildcard`: all in the folder before it are listed.
fn matching_urls(origins: &Origins, pattern: &str, wildcard: usize) -> Result<Vec<String>> {
    let folder = &pattern[..pattern[..wildcard].rfind('/').map_or(0, |slash| slash + 1)];
    if folder.ends_with("://") {
        return Err(Error::new(ErrorKind::Invalid, "a wildcard in the name of a bucket").at(pattern));
    }
    let matcher = glob::Pattern::new(pattern).map_err(|error| bad_pattern(pattern, &error))?;
    let options = glob::MatchOptions { require_literal_separator: true, ..glob::MatchOptions::new() };
    let folder = Locator::new(folder);
    let listed = origins.of(&folder).list(&folder)?;
    // As on this machine, a file that is called so is meant itself.
    if listed.iter().any(|at| at.as_str() == pattern) {
        return Ok(vec![pattern.to_owned()]);
    }
    let matches = listed.iter().map(Locator::as_str).filter(|name| matcher.matches_with(name, options));
    not_none(matches.map(str::to_owned).collect(), pattern, "no object matches")
}

/// True for a folder that is itself of a format that can be read.
fn is_one(origins: &Origins, folder: &str) -> Result<bool> {
    let at = Locator::new(folder);
    Ok(format_of(&Found::look(&**origins.of(&at), &at)?)?.is_some())
}

fn under(origins: &Origins, folder: &str) -> Result<Vec<String>> {
    if is_one(origins, folder)? {
        return Ok(vec![folder.to_owned()]);
    }
    let at = Locator::new(folder);
    let listed: Vec<_> = origins.of(&at).list(&at)?.iter().map(|at| at.as_str().to_owned()).collect();
    // Notes and checksums often lie beside the data.
    let is_read = each(&listed, |at| Ok(format_of(&Found::look(&**origins.of(at), at)?)?.is_some()))?;
    let found = listed.into_iter().zip(is_read).filter_map(|(name, is_read)| is_read.then_some(name));
    not_none(found.collect(), folder, "no file under it is of a format this build reads")
}

fn not_none(found: Vec<String>, pattern: &str, otherwise: &str) -> Result<Vec<String>> {
    if found.is_empty() {
        return Err(Error::new(ErrorKind::NotFound, otherwise).at(pattern));
    }
    Ok(found)
}
