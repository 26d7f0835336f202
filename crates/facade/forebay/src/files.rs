//! From what the user calls the files of a set to their paths and URLs.

use std::collections::HashSet;

use forebay_config::names::{RealNames, WILDCARDS, is_pattern};
use forebay_format::{Found, format_of};
use forebay_process::{Error, ErrorKind, Result};
use forebay_source::{Locator, path_of_text, text_of_path};

use crate::{Origins, parallel_map::parallel_map};

/// The files that `patterns` name, in order: a path or URL is itself, a pattern all that match it, a folder all files
/// under it of a format that can be read. What a pattern or folder gives is sorted by name.
///
/// Paths are absolute, with `~` and variables written out and links among their folders followed; a name that is there
/// is meant as it stands. Names are sorted as the user spells them, wherever links lead.
///
/// A folder that is itself of a format that can be read, such as a Zarr store, counts as a file.
///
/// In patterns `*` and `?` stop at slashes, and a step of `**` does not. A URL that ends in a slash is a folder. Names that
/// are not UTF-8 are given as [`text_of_path`] writes them; patterns match none of them.
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
            files.extend(on_this_machine(origins, &origins.absolute(pattern)?)?);
        }
    }
    if files.is_empty() {
        return Err(Error::new(ErrorKind::NotFound, "no files are named"));
    }
    Ok(files)
}

/// As [`expand`], with all files of a folder that counts as one: for callers that copy files instead of reading values.
pub fn expand_to_files(patterns: &[String]) -> Result<Vec<String>> {
    let origins = Origins::new();
    let mut files = Vec::new();
    for name in expand_among(&origins, patterns)? {
        let at = Locator::new(name.as_str());
        let is_folder = match at.is_url() {
            true => Found::look(&**origins.of(&at), &at).is_ok_and(|found| found.file.is_none()),
            false => at.to_path().is_dir(),
        };
        match is_folder {
            true => files.extend(origins.of(&at).list(&at)?.iter().map(|at| at.as_str().to_owned())),
            false => files.push(name),
        }
    }
    Ok(files)
}

fn on_this_machine(origins: &Origins, pattern: &str) -> Result<Vec<String>> {
    if is_pattern(pattern) {
        return matching(origins, pattern);
    }
    let at = origins.locate(pattern)?;
    if path_of_text(pattern).is_dir() {
        return under(origins, at.as_str());
    }
    Ok(vec![at.as_str().to_owned()])
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
    let (mut files, mut folders) = (Vec::new(), Vec::new());
    for path in glob::glob(pattern).map_err(|error| bad_pattern(pattern, &error))? {
        let path = path.map_err(|error| Error::from_io(error.into()).at(pattern))?;
        if path.is_dir() { &mut folders } else { &mut files }.push(text_of_path(&path));
    }
    let is_folder: HashSet<String> = folders.iter().cloned().collect();
    let found = not_none(with_folders(origins, files, folders)?, pattern, "no file matches")?;
    let mut names = RealNames::default();
    let mut real = |name: String| match is_folder.contains(&name) {
        true => names.of_folder(&name),
        false => names.of_file(&name),
    };
    Ok(found.into_iter().map(&mut real).collect())
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
    let matches = |name: &&str| matcher.matches_with(name, options);
    let names = listed.iter().map(Locator::as_str);
    let folders = names.clone().flat_map(folders_of).filter(matches).map(str::to_owned).collect();
    let files = names.filter(matches).map(str::to_owned).collect();
    not_none(with_folders(origins, files, folders)?, pattern, "no object matches")
}

/// The folders that `name` lies in, outermost first.
fn folders_of(name: &str) -> impl Iterator<Item = &str> {
    let start = name.find("://").map_or(1, |scheme| scheme + "://".len());
    name.match_indices('/').filter(move |(slash, _)| *slash >= start).map(|(slash, _)| &name[..slash])
}

/// `files`, and those of `folders` that are themselves of a format, which count instead of the files in them.
fn with_folders(origins: &Origins, files: Vec<String>, mut folders: Vec<String>) -> Result<Vec<String>> {
    folders.sort();
    folders.dedup();
    let mut stores: Vec<String> = Vec::new();
    for folder in folders {
        if !is_inside(&folder, &stores) && format_at(origins, &Locator::new(folder.as_str()))?.is_some() {
            stores.push(folder);
        }
    }
    let mut found: Vec<String> = files.into_iter().filter(|file| !is_inside(file, &stores)).collect();
    found.extend(stores);
    found.sort();
    Ok(found)
}

/// True for what lies in one of `folders`.
fn is_inside(name: &str, folders: &[String]) -> bool {
    folders.iter().any(|folder| name.strip_prefix(folder).is_some_and(|rest| rest.starts_with('/')))
}

/// The name of the format of what lies at `at`, if it is read.
fn format_at(origins: &Origins, at: &Locator) -> Result<Option<String>> {
    Ok(format_of(&Found::look(&**origins.of(at), at)?)?.map(|format| format.name().to_owned()))
}

/// Tables and pictures of these formats that lie beside data of others are notes on it.
const NOTES: [&str; 2] = ["csv", "images"];

fn under(origins: &Origins, folder: &str) -> Result<Vec<String>> {
    let at = Locator::new(folder);
    if format_at(origins, &at)?.is_some() {
        return Ok(vec![folder.to_owned()]);
    }
    let listed: Vec<_> = origins.of(&at).list(&at)?.iter().map(|at| at.as_str().to_owned()).collect();
    let is_below = |name: &&str| name.len() > folder.trim_end_matches('/').len();
    let folders = listed.iter().flat_map(|name| folders_of(name)).filter(is_below);
    let folders = folders.map(str::to_owned).collect();
    let listed = with_folders(origins, listed, folders)?;
    // Notes and checksums often lie beside the data.
    let formats = parallel_map(&listed, |at| format_at(origins, at))?;
    let is_note = |format: &str| NOTES.contains(&format);
    let has_data = formats.iter().flatten().any(|format| !is_note(format));
    let is_read = |format: Option<String>| format.is_some_and(|format| !(has_data && is_note(&format)));
    let found = listed.into_iter().zip(formats).filter_map(|(name, format)| is_read(format).then_some(name));
    not_none(found.collect(), folder, "no file under it is of a format this build reads")
}

fn not_none(found: Vec<String>, pattern: &str, otherwise: &str) -> Result<Vec<String>> {
    if found.is_empty() {
        return Err(Error::new(ErrorKind::NotFound, otherwise).at(Locator::new(pattern)));
    }
    Ok(found)
}
