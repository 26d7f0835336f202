//! The file of a report, looked at before the program starts: a run may take days.

use std::path::Path;

use forebay_process::{Error, ErrorKind, Result};
use rustix::fs::{Access, access};

/// An error where no report can be written to `path`.
pub fn check_report_file(path: &Path) -> Result<()> {
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let at = |error: Error| error.at(path.display());
    if !folder.is_dir() {
        let what = format!("there is no folder {} for the report", folder.display());
        return Err(at(Error::new(ErrorKind::NotFound, what)));
    }
    if path.is_dir() {
        return Err(at(Error::new(ErrorKind::Invalid, "is a folder: a report is a file")));
    }
    let needed =
        if path.exists() { (path, Access::WRITE_OK) } else { (folder, Access::WRITE_OK | Access::EXEC_OK) };
    access(needed.0, needed.1).map_err(|errno| at(Error::from_io(errno.into())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_needs_a_folder_in_which_files_can_be_made() {
        let folder = tempfile::tempdir().unwrap();
        assert!(check_report_file(&folder.path().join("run.html")).is_ok());
        assert!(check_report_file(Path::new("run.html")).is_ok());
        let error = check_report_file(&folder.path().join("no/run.html")).unwrap_err();
        assert!(error.to_string().contains("there is no folder"), "{error}");
        assert!(check_report_file(folder.path()).is_err());
        assert!(
            check_report_file(Path::new("/proc/run.html")).is_err() || rustix::process::geteuid().is_root()
        );
    }
}
