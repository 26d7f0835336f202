//! Where a libsilo may lie on this machine.

use std::{
    env,
    ffi::OsString,
    path::{Path, PathBuf},
};

use forebay_process::{
    Error, ErrorKind, Result,
    c_library::{SYSTEM_FOLDERS, linker_folders},
};

use super::ffi::SiloCalls;

/// What tells where the library lies: a path, or [`OFF`].
const SETTING: &str = "FOREBAY_LIBSILO";
/// The setting that forbids any library.
const OFF: &str = "off";
/// What helps where there is none.
const REMEDY: &str =
    "install libsilo (Debian, Ubuntu: package libsiloh5-0), or set FOREBAY_LIBSILO to the path of one";
/// What it is called: with the HDF5 driver, and without.
const NAMES: [&str; 4] = ["libsiloh5.so.0", "libsiloh5.so", "libsilo.so.0", "libsilo.so"];

/// The path the user named, or an error where the user wants no library.
pub(super) fn setting() -> Result<Option<PathBuf>> {
    parse_setting(env::var_os(SETTING))
}

fn parse_setting(value: Option<OsString>) -> Result<Option<PathBuf>> {
    match value {
        Some(value) if value == OFF => {
            let what = format!("{SETTING}={OFF} forbids libsilo, which this array of a Silo file needs");
            Err(Error::new(ErrorKind::Unsupported, what).hint(REMEDY))
        }
        Some(value) if !value.is_empty() => {
            // A relative path would load whatever lies in the working directory.
            if !Path::new(&value).is_absolute() {
                let what = format!("'{}' is not an absolute path", value.display());
                return Err(Error::new(ErrorKind::Invalid, what).at(SETTING));
            }
            Ok(Some(value.into()))
        }
        _ => Ok(None),
    }
}

/// The library that the user named, or the first that loads.
pub(super) fn find(named: Option<PathBuf>) -> Result<SiloCalls> {
    if let Some(path) = named {
        return SiloCalls::load(&path).map_err(|error| error.at(path.display()));
    }
    let mut failures = String::new();
    for folder in linker_folders(&["CONDA_PREFIX"], &SYSTEM_FOLDERS) {
        for path in NAMES.iter().map(|name| folder.join(name)).filter(|path| path.exists()) {
            match SiloCalls::load(&path) {
                Ok(library) => return Ok(library),
                Err(error) => failures.push_str(&format!("; {}: {error}", path.display())),
            }
        }
    }
    let what = format!("no libsilo was found, which this array of a Silo file needs{failures}");
    Err(Error::new(ErrorKind::Unsupported, what).hint(REMEDY))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setting_forbids_or_names_by_a_whole_path() {
        let parse = |value: &str| parse_setting(Some(value.into()));
        let error = parse("off").unwrap_err().to_string();
        assert!(error.contains("Silo") && error.contains("libsiloh5-0"), "{error}");
        assert_eq!(parse("/opt/libsilo.so").unwrap(), Some("/opt/libsilo.so".into()));
        assert_eq!(parse("libsilo.so").unwrap_err().kind(), ErrorKind::Invalid);
        assert_eq!(parse("").unwrap(), None);
    }
}
