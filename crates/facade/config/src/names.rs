//! One name for each file of this machine: copies and saved indexes are found by it, however the user spells it.

use std::{
    collections::HashMap,
    env, fs,
    path::{Path, PathBuf},
};

use forebay_process::{Error, ErrorKind, Result};
use forebay_source::{Locator, path_of_text, text_of_path};

use crate::environment::{Environment, expand};

/// What makes a name a pattern.
pub const WILDCARDS: [char; 3] = ['*', '?', '['];

/// True where `name` is a pattern and not the name of a file that is there.
pub fn is_pattern(name: &str) -> bool {
    name.contains(WILDCARDS) && fs::symlink_metadata(path_of_text(name)).is_err()
}

/// `name` with `~`, `$NAME` and `${NAME}` written out; a name that is there is meant as it stands.
pub(crate) fn spelled_out(name: &str) -> Result<String> {
    let has_none = !name.starts_with('~') && !name.contains('$');
    if has_none || fs::symlink_metadata(path_of_text(name)).is_ok() {
        return Ok(name.to_owned());
    }
    // The working directory does not matter for variables.
    expand(name, &Environment::of_process(PathBuf::new()))
}

/// The path or pattern `name`, written out and absolute. Bytes that are not UTF-8 stand in it as
/// [`text_of_path`] writes them; in a pattern there are none.
pub fn absolute(name: &str) -> Result<String> {
    let name = spelled_out(name)?;
    if name.starts_with('/') {
        return Ok(name);
    }
    let folder = env::current_dir().map_err(|error| Error::from_io(error).at("working directory"))?;
    let folder = match (is_pattern(&name), folder.to_str()) {
        (true, Some(folder)) => glob::Pattern::escape(folder),
        (true, None) => {
            let what = "a pattern in a working directory whose name is not UTF-8";
            return Err(Error::new(ErrorKind::Unsupported, what).at(folder.display()));
        }
        (false, _) => text_of_path(&folder),
    };
    let name = name.strip_prefix("./").unwrap_or(&name);
    Ok(format!("{}/{name}", folder.trim_end_matches('/')))
}

/// The file or folder of this machine that a user calls `name`.
///
/// The path is made absolute, `~` and variables in it are written out and links among its folders are followed: one file
/// has one name, by which its copies and its saved index are found.
pub fn locate(name: &str) -> Result<Locator> {
    let (path, mut names) = (absolute(name)?, RealNames::default());
    let is_folder = path_of_text(&path).is_dir();
    Ok(Locator::new(if is_folder { names.of_folder(&path) } else { names.of_file(&path) }))
}

/// Follows the links among the folders of absolute paths, and asks about each folder once.
#[derive(Debug, Default)]
pub struct RealNames {
    folders: HashMap<PathBuf, Option<PathBuf>>,
}

impl RealNames {
    /// The name of the file at `path`, without links among its folders.
    ///
    /// A link to the file itself is a name of its own: what a file names beside it is looked for beside the link, and its
    /// format may be recognised by the link's name.
    pub fn of_file(&mut self, path: &str) -> String {
        let whole = path_of_text(path);
        let (Some(folder), Some(name)) = (whole.parent(), whole.file_name()) else { return path.to_owned() };
        let real = self.folders.entry(folder.to_owned()).or_insert_with(|| fs::canonicalize(folder).ok());
        real.as_ref().map_or_else(|| path.to_owned(), |folder| text_of_path(&folder.join(name)))
    }

    /// The name of the folder at `path`, without links.
    pub fn of_folder(&mut self, path: &str) -> String {
        let real = fs::canonicalize(path_of_text(path)).ok().map(|path| text_of_path(&path));
        // Some formats are recognised by the extension of their folder.
        let keeps = |real: &String| Path::new(real).extension() == Path::new(path).extension();
        real.filter(keeps).unwrap_or_else(|| self.of_file(path.trim_end_matches('/')))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_there_is_meant_as_it_stands_and_others_are_written_out() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
        fs::write(path("$HOME"), "x").unwrap();
        assert_eq!(absolute(&path("$HOME")).unwrap(), path("$HOME"));
        let home = env::var("HOME").unwrap();
        assert_eq!(absolute("~/a.h5").unwrap(), format!("{home}/a.h5"));
        assert_eq!(absolute("${HOME}/*.h5").unwrap(), format!("{home}/*.h5"));
        let error = absolute("$FOREBAY_NO_SUCH_VARIABLE/a.h5").unwrap_err().to_string();
        assert!(error.contains("the variable FOREBAY_NO_SUCH_VARIABLE"), "{error}");
    }

    #[test]
    fn relative_names_are_absolute_and_links_among_folders_are_followed() {
        let folder = tempfile::tempdir().unwrap();
        let real = fs::canonicalize(folder.path()).unwrap();
        let path = |name: &str| real.join(name).to_str().unwrap().to_owned();
        fs::create_dir(path("set.zarr")).unwrap();
        fs::write(path("set.zarr/a"), "x").unwrap();
        std::os::unix::fs::symlink(path("set.zarr"), path("link.zarr")).unwrap();
        std::os::unix::fs::symlink(path("set.zarr"), path("link")).unwrap();
        std::os::unix::fs::symlink(path("set.zarr/a"), path("b")).unwrap();
        let mut names = RealNames::default();
        assert_eq!(names.of_file(&path("link/a")), path("set.zarr/a"));
        assert_eq!(names.of_file(&path("set.zarr/../link.zarr/./a")), path("set.zarr/a"));
        assert_eq!(names.of_file(&path("b")), path("b"), "a link to a file is a name of its own");
        assert_eq!(names.of_file(&path("none/a")), path("none/a"), "what is not there keeps its name");
        assert_eq!(names.of_folder(&path("link.zarr/")), path("set.zarr"));
        assert_eq!(names.of_folder(&path("link")), path("link"), "its extension tells its format");
        assert_eq!(
            absolute("./Cargo.toml").unwrap(),
            env::current_dir().unwrap().join("Cargo.toml").to_str().unwrap()
        );
    }
}
