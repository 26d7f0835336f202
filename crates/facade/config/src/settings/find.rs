//! Which file is read, and whether it may be trusted.

use std::{
    fs::{self, File, Metadata},
    io::Read,
    os::unix::fs::{MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

use forebay_process::{Error, ErrorKind, Result};
use rustix::fs::OFlags;

use crate::environment::{Environment, expand};

/// What the file is called.
const NAME: &str = "forebay.toml";
/// What stands for no file and for no tiers.
pub(crate) const NONE: &str = "none";
/// No configuration is longer.
const MOST_BYTES: u64 = 1 << 20;

/// A file that was read.
#[derive(Debug)]
pub(crate) struct Text {
    pub(crate) path: PathBuf,
    pub(crate) text: String,
}

/// The file that a flag or the environment names, else one in the working directory or in the user's own folder.
pub(crate) fn find(
    flag: Option<&str>,
    variable: Option<&str>,
    environment: &Environment<'_>,
) -> Result<Option<Text>> {
    for (name, by) in [(flag, "--config"), (variable, "FOREBAY_CONFIG")] {
        let Some(name) = name else { continue };
        if name == NONE {
            return Ok(None);
        }
        let path = expand(name, environment).map_err(|error| error.at(by))?;
        return named(environment.folder.join(path)).map(Some).map_err(|error| error.at(by));
    }
    for path in candidates(environment) {
        if let Some(found) = found(path)? {
            return Ok(Some(found));
        }
    }
    Ok(None)
}

fn candidates(environment: &Environment<'_>) -> Vec<PathBuf> {
    let of_user = environment.get("XDG_CONFIG_HOME").map(PathBuf::from).filter(|folder| folder.is_absolute());
    let of_user = of_user.or_else(|| Some(Path::new(&environment.get("HOME")?).join(".config")));
    let mut paths = vec![environment.folder.join(NAME)];
    paths.extend(of_user.map(|folder| folder.join("forebay").join(NAME)));
    paths
}

/// The file at `path`, which the user named: it may belong to anyone, and may be a pipe.
fn named(path: PathBuf) -> Result<Text> {
    let file = File::open(&path).map_err(|error| Error::from_io(error).at(path.display()))?;
    read(file, path)
}

/// The file at `path`, if there is one, which the user did not name: it has to be the user's own.
fn found(path: PathBuf) -> Result<Option<Text>> {
    let Ok(link) = fs::symlink_metadata(&path) else { return Ok(None) };
    let at = |error: Error| {
        error.at(path.display()).hint("name it by --config to use it as it is, or use none by --config none")
    };
    // A pipe that nobody writes to must not hold us.
    let flags = OFlags::NONBLOCK.bits().cast_signed();
    let file = File::options().read(true).custom_flags(flags).open(&path);
    let file = file.map_err(|error| at(Error::from_io(error)))?;
    let meta = file.metadata().map_err(|error| at(Error::from_io(error)))?;
    check(&link, &meta).map_err(at)?;
    read(file, path).map(Some)
}

/// A file of another user must not decide where copies go.
fn check(link: &Metadata, file: &Metadata) -> Result<()> {
    let user = rustix::process::geteuid().as_raw();
    let is_trusted = |owner: u32| owner == user || owner == 0;
    let denied = |what: String| Err(Error::new(ErrorKind::Denied, what));
    if !file.is_file() {
        return denied("is not a file".to_owned());
    }
    if let Some(owner) = [link.uid(), file.uid()].into_iter().find(|owner| !is_trusted(*owner)) {
        return denied(format!("belongs to user {owner}, so it is not used unasked"));
    }
    if file.mode() & 0o022 != 0 {
        let what =
            format!("others may write to it (mode {:o}), so it is not used unasked", file.mode() & 0o777);
        return denied(what + "; `chmod go-w` it");
    }
    Ok(())
}

fn read(file: File, path: PathBuf) -> Result<Text> {
    let mut text = String::new();
    let count = file.take(MOST_BYTES + 1).read_to_string(&mut text);
    let count = count.map_err(|error| Error::from_io(error).at(path.display()))?;
    if count as u64 > MOST_BYTES {
        return Err(Error::new(ErrorKind::Invalid, "is too long for a configuration").at(path.display()));
    }
    Ok(Text { path, text })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    fn found_in(folder: &Path, flag: Option<&str>, home: Option<&Path>) -> Result<Option<PathBuf>> {
        let variable = |name: &str| home.filter(|_| name == "HOME").map(|home| home.display().to_string());
        let environment = Environment { variable: &variable, folder: folder.to_owned() };
        find(flag, None, &environment).map(|found| found.map(|text| text.path))
    }

    fn write(path: &Path, mode: u32) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, "").unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn the_working_directory_comes_before_the_users_folder_and_a_flag_before_both() {
        let folder = tempfile::tempdir().unwrap();
        let (work, home) = (folder.path().join("work"), folder.path().join("home"));
        fs::create_dir(&work).unwrap();
        assert_eq!(found_in(&work, None, Some(&home)).unwrap(), None);
        let of_user = home.join(".config/forebay/forebay.toml");
        write(&of_user, 0o600);
        assert_eq!(found_in(&work, None, Some(&home)).unwrap(), Some(of_user));
        write(&work.join(NAME), 0o644);
        assert_eq!(found_in(&work, None, Some(&home)).unwrap(), Some(work.join(NAME)));
        write(&work.join("other.toml"), 0o666);
        let other = work.join("other.toml");
        assert_eq!(found_in(&work, Some("other.toml"), None).unwrap(), Some(other));
        assert_eq!(found_in(&work, Some("none"), Some(&home)).unwrap(), None);
        let error = found_in(&work, Some("missing.toml"), None).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotFound);
        assert!(error.to_string().starts_with("--config: "), "{error}");
    }

    #[test]
    fn what_others_may_write_or_is_no_file_is_not_used_unasked() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(NAME);
        for mode in [0o666, 0o664, 0o602] {
            write(&path, mode);
            let error = found_in(folder.path(), None, None).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Denied);
            let text = error.to_string();
            assert!(text.contains("chmod go-w") && text.contains("--config"), "{text}");
        }
        fs::remove_file(&path).unwrap();
        fs::create_dir(&path).unwrap();
        assert!(found_in(folder.path(), None, None).unwrap_err().to_string().contains("is not a file"));
        fs::remove_dir(&path).unwrap();
        symlink("/nowhere/at/all", &path).unwrap();
        assert!(
            found_in(folder.path(), None, None).is_err(),
            "a link that leads nowhere was meant for something"
        );
    }

    #[test]
    fn a_strangers_file_is_not_used_unasked() {
        if !rustix::process::geteuid().is_root() {
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(NAME);
        write(&path, 0o644);
        std::os::unix::fs::chown(&path, Some(12_345), None).unwrap();
        let error = found_in(folder.path(), None, None).unwrap_err().to_string();
        assert!(error.contains("belongs to user 12345"), "{error}");
    }
}
