//! Folders and files of this user alone, and what tells jobs and boots apart.

use std::{
    fs::{self, File, OpenOptions},
    os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

use rustix::fs::OFlags;

use crate::{Error, ErrorKind, Result, descriptors::retry_when_exhausted};

/// The bit of a mode by which everybody may write.
const ANYONE_WRITES: u32 = 0o002;
/// The bit of a folder's mode by which only owners rename and remove what is in it.
const STICKY: u32 = 0o1000;

/// The folder `name` under `folder`, made if need be, which nobody else can look into, nor put another in its place.
pub fn own_folder(folder: &Path, name: &str) -> Result<PathBuf> {
    let own = folder.join(name);
    let above = fs::metadata(folder).map_err(|error| Error::from_io(error).at(folder.display()))?;
    if above.mode() & (ANYONE_WRITES | STICKY) == ANYONE_WRITES {
        let error = Error::new(ErrorKind::Denied, "anyone may rename what is in it");
        return Err(error.hint("make it sticky (chmod +t), or name another folder").at(folder.display()));
    }
    let place = |error: std::io::Error| Error::from_io(error).at(own.display());
    match fs::DirBuilder::new().mode(0o700).create(&own) {
        Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => return Err(place(error)),
        _ => {}
    }
    let facts = fs::symlink_metadata(&own).map_err(place)?;
    if !facts.is_dir() || facts.uid() != rustix::process::geteuid().as_raw() || facts.mode() & 0o077 != 0 {
        return Err(Error::new(ErrorKind::Denied, "is not a folder of this user alone").at(own.display()));
    }
    Ok(own)
}

/// The file at `path`, made if need be, to be read and written; one that others could have made is refused.
pub fn own_file(path: &Path) -> Result<File> {
    open(path, OpenOptions::new().create(true))
}

/// The file at `path`, which is not made where there is none, to be read and written; one that others could have made is
/// refused.
pub fn existing_file(path: &Path) -> Result<File> {
    open(path, &mut OpenOptions::new())
}

/// A new file at `path`, to be read and written; an error where there is one.
pub fn new_file(path: &Path) -> Result<File> {
    open(path, OpenOptions::new().create_new(true))
}

fn open(path: &Path, options: &mut OpenOptions) -> Result<File> {
    let flags = (OFlags::NOFOLLOW | OFlags::CLOEXEC).bits().cast_signed();
    options.read(true).write(true).mode(0o600).custom_flags(flags);
    let file = retry_when_exhausted(|| options.open(path));
    let file = file.map_err(|error| Error::from_io(error).at(path.display()))?;
    let facts = file.metadata().map_err(Error::from_io)?;
    if !facts.is_file() || facts.uid() != rustix::process::geteuid().as_raw() || facts.mode() & 0o077 != 0 {
        return Err(Error::new(ErrorKind::Denied, "belongs to somebody else").at(path.display()));
    }
    Ok(file)
}

/// What the processes of one job have in common and those of others do not.
pub fn job_name() -> String {
    let names =
        ["SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID", "TORCHELASTIC_RUN_ID", "PMIX_NAMESPACE", "MASTER_PORT"];
    let told = names.iter().find_map(|name| std::env::var(name).ok().filter(|value| !value.is_empty()));
    let group = || rustix::process::getpgid(None).map_or(0, |group| group.as_raw_nonzero().get()).to_string();
    let name = told.unwrap_or_else(group);
    name.chars().map(|letter| if letter.is_ascii_alphanumeric() { letter } else { '_' }).take(64).collect()
}

/// Differs after every start of the machine: marks that were never flushed must not outlive their bytes.
pub fn boot_id() -> String {
    let text = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    text.trim().chars().filter(|letter| *letter != '-').take(16).collect()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_folder_that_others_can_look_into_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let own = own_folder(folder.path(), "own").unwrap();
        fs::set_permissions(&own, fs::Permissions::from_mode(0o755)).unwrap();
        assert_eq!(own_folder(folder.path(), "own").unwrap_err().kind(), ErrorKind::Denied);
    }

    #[test]
    fn a_folder_where_anyone_may_rename_is_refused_unless_it_is_sticky() {
        let folder = tempfile::tempdir().unwrap();
        for (mode, is_taken) in [(0o777, false), (0o703, false), (0o1777, true), (0o775, true), (0o700, true)]
        {
            fs::set_permissions(folder.path(), fs::Permissions::from_mode(mode)).unwrap();
            let own = own_folder(folder.path(), "own");
            assert_eq!(own.is_ok(), is_taken, "{mode:o}");
            let Err(error) = own else { continue };
            assert_eq!(error.kind(), ErrorKind::Denied);
            assert!(error.to_string().contains("chmod +t"), "{error}");
        }
    }

    #[test]
    fn a_link_that_somebody_laid_is_not_followed() {
        let folder = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink("/etc/passwd", folder.path().join("lock")).unwrap();
        assert!(own_file(&folder.path().join("lock")).is_err());
        assert!(own_file(&folder.path().join("other")).is_ok());
    }
}
