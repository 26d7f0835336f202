//! A program in place of this process: signals, terminal and exit code are its own.

use std::{
    env,
    ffi::{OsStr, OsString},
    fs::File,
    io::{self, ErrorKind as IoErrorKind, Read},
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::Command,
};

use forebay_process::{Error, ErrorKind};

/// The exit code for a program that is not there, as shells have it.
pub const NO_PROGRAM: u8 = 127;
/// The exit code for a program that cannot be started, as shells have it.
pub const NOT_STARTED: u8 = 126;

/// Replaces this process by `program` with `args` and these variables added to its environment. It returns only where that
/// cannot be done, with the reason and the exit code that shells have for it.
pub fn exec(program: &OsStr, args: &[OsString], variables: &[(String, OsString)]) -> (Error, u8) {
    let cause = command(program, args, variables).exec();
    not_started(program, cause)
}

/// The command line with these variables added to its environment.
pub(crate) fn command(program: &OsStr, args: &[OsString], variables: &[(String, OsString)]) -> Command {
    let mut command = Command::new(program);
    command.args(args).envs(variables.iter().map(|(name, value)| (name, value)));
    command
}

/// Why `program` could not be started, and the exit code that shells have for it.
pub(crate) fn not_started(program: &OsStr, cause: io::Error) -> (Error, u8) {
    let shown = Path::new(program).display().to_string();
    let is_missing = cause.kind() == IoErrorKind::NotFound;
    let error = match (is_missing, find(program)) {
        (true, Some(path)) => match interpreter(&path).unwrap_or_default().first() {
            Some(name) => {
                Error::from_io(cause).at(shown).hint(format!("its interpreter '{name}' is not there"))
            }
            None => Error::from_io(cause)
                .at(shown)
                .hint("its loader is not there: was it built for another system?"),
        },
        (true, None) => {
            let what = format!("there is no program '{shown}'");
            let remedy = if shown.contains('/') { "look at its path" } else { "is it on PATH?" };
            Error::new(ErrorKind::NotFound, what).hint(remedy)
        }
        (false, _) => Error::from_io(cause).at(shown).hint("is it a program, and may you run it?"),
    };
    (error, if is_missing { NO_PROGRAM } else { NOT_STARTED })
}

/// The file that `program` names: a path, or a name on the search path.
pub(crate) fn find(program: &OsStr) -> Option<PathBuf> {
    let path = Path::new(program);
    if path.components().count() > 1 {
        return path.is_file().then(|| path.to_owned());
    }
    let folders = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&folders).map(|folder| folder.join(path)).find(|path| path.is_file())
}

/// The most that the kernel reads of a script's first line.
const FIRST_LINE: u64 = 256;

/// The words of a script's first line: its interpreter and what that is given.
pub(crate) fn interpreter(path: &Path) -> Option<Vec<String>> {
    let mut bytes = Vec::new();
    File::open(path).ok()?.take(FIRST_LINE).read_to_end(&mut bytes).ok()?;
    let line = bytes.strip_prefix(b"#!")?.split(|byte| *byte == b'\n').next()?;
    Some(String::from_utf8_lossy(line).split_whitespace().map(str::to_owned).collect())
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::PermissionsExt};

    use super::*;

    #[test]
    fn a_program_that_cannot_be_started_says_why() {
        let folder = tempfile::tempdir().unwrap();
        let (error, code) = exec(OsStr::new("forebay-no-such-program"), &[], &[]);
        assert_eq!((error.kind(), code), (ErrorKind::NotFound, 127));
        assert!(error.to_string().contains("is it on PATH?"), "{error}");
        let script = folder.path().join("script");
        fs::write(&script, "#!/no/such/python3 -u\n").unwrap();
        fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
        let (error, code) = exec(script.as_os_str(), &[], &[]);
        assert_eq!(code, 127);
        assert!(error.to_string().contains("its interpreter '/no/such/python3'"), "{error}");
        let (error, code) = exec(folder.path().as_os_str(), &[], &[]);
        assert_eq!((error.kind(), code), (ErrorKind::Denied, 126), "a folder: {error}");
    }
}
