//! What a child process does: loads one libhdf5, writes and reads a file, and says what it saw, line by line.

use std::{
    ffi::CString,
    io::Write,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

use forebay_libhdf5::{
    Hdf5Calls, Hdf5Library,
    hdf5_types::{H5P_DEFAULT, hid_t},
};
use forebay_process::{Error, ErrorKind, Result};

/// One line of what a child says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ProbeLine {
    Version(String),
    ThreadSafe(bool),
    Parallel,
    PluginFolder(PathBuf),
    Unloadable(String),
    TooOld,
    Saw(String),
}

impl ProbeLine {
    pub(crate) fn parse(line: &str) -> Option<Self> {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        Some(match word {
            "version" => Self::Version(rest.to_owned()),
            "thread-safe" => Self::ThreadSafe(rest == "yes"),
            "parallel" => Self::Parallel,
            "plugin-folder" => Self::PluginFolder(rest.into()),
            "unloadable" => Self::Unloadable(rest.to_owned()),
            "too-old" => Self::TooOld,
            "saw" => Self::Saw(rest.to_owned()),
            _ => return None,
        })
    }

    fn text(&self) -> String {
        match self {
            Self::Version(version) => format!("version {version}"),
            Self::ThreadSafe(is) => format!("thread-safe {}", if *is { "yes" } else { "no" }),
            Self::Parallel => "parallel".to_owned(),
            Self::PluginFolder(path) => format!("plugin-folder {}", path.display()),
            Self::Unloadable(why) => format!("unloadable {}", why.replace('\n', " ")),
            Self::TooOld => "too-old".to_owned(),
            Self::Saw(what) => format!("saw {what}"),
        }
    }
}

/// The message of the innermost frame of an HDF5 error stack that was printed; that a folder of the search path is not
/// there, as HDF5's own often is not, is no cause.
pub(crate) fn deepest_cause(printed: &str) -> Option<String> {
    let frames = printed.lines().filter(|line| line.trim_start().starts_with('#'));
    let mut messages = frames.filter_map(|frame| Some(frame.split_once("(): ")?.1.trim()));
    let is_cause = |message: &&str| {
        !message.starts_with("search in path") && !message.starts_with("can't open directory")
    };
    messages.rfind(is_cause).map(str::to_owned)
}

/// Loads the libhdf5 at `library`, and with `file` writes and reads that file; what it sees goes to `out`, a line as soon as
/// it is known. What HDF5 says of its errors goes to standard error.
pub fn probe(library: &Path, file: Option<&Path>, out: &mut dyn Write) -> Result<()> {
    let mut say =
        |line: ProbeLine| writeln!(out, "{}", line.text()).and_then(|()| out.flush()).map_err(Error::from_io);
    let hdf5 = match Hdf5Library::load_alone(library) {
        Ok(hdf5) => hdf5,
        Err(why) => return say(ProbeLine::Unloadable(why)),
    };
    let version = hdf5.asked_version()?;
    say(ProbeLine::Version(version.map(|number| number.to_string()).join(".")))?;
    if hdf5.is_parallel() {
        say(ProbeLine::Parallel)?;
    }
    if let Some(is) = hdf5.is_thread_safe() {
        say(ProbeLine::ThreadSafe(is))?;
    }
    let Some(file) = file else {
        return hdf5.plugin_folders().into_iter().try_for_each(|folder| say(ProbeLine::PluginFolder(folder)));
    };
    if version < [1, 14, 0] {
        return say(ProbeLine::TooOld);
    }
    let calls = Hdf5Calls::new(hdf5)?;
    write_and_read(&calls, file)?;
    say(ProbeLine::Saw(registered(&calls)?))
}

/// Makes a file with a group, opens it again and looks for the group.
fn write_and_read(hdf5: &Hdf5Calls, file: &Path) -> Result<()> {
    let name =
        CString::new(file.as_os_str().as_bytes()).expect("a path of the command line has no zero in it");
    let made = checked(hdf5.file_create(&name, H5P_DEFAULT), "making a file")?;
    let group = checked(hdf5.group_create(made, c"group"), "making a group")?;
    checked(hdf5.group_close(group).into(), "closing a group")?;
    checked(hdf5.file_close(made).into(), "closing a file")?;
    let opened = checked(hdf5.file_open(&name, H5P_DEFAULT), "opening a file")?;
    let group = checked(hdf5.group_open(opened, c"group"), "opening a group")?;
    checked(hdf5.group_close(group).into(), "closing a group")?;
    checked(hdf5.file_close(opened).into(), "closing a file").map(|_| ())
}

/// Which of our plug-ins the library has registered, in words.
fn registered(hdf5: &Hdf5Calls) -> Result<String> {
    let wanted = [("HDF5_DRIVER", "driver"), ("HDF5_VOL_CONNECTOR", "connector")];
    let mut words = Vec::new();
    for (variable, what) in wanted {
        let Some(value) = std::env::var_os(variable) else { continue };
        let value = value.to_string_lossy().split_whitespace().next().unwrap_or_default().to_owned();
        let name = CString::new(value.as_str()).expect("a variable has no zero in it");
        let is_registered = if what == "driver" { hdf5.has_driver(&name) } else { hdf5.has_connector(&name) };
        if !is_registered {
            let error = format!("the {what} '{value}' is not registered");
            return Err(Error::new(ErrorKind::Unsupported, error));
        }
        words.push(format!("{what} {value}"));
    }
    Ok(if words.is_empty() { "no plug-in".to_owned() } else { words.join(", ") })
}

/// `result`, unless it is negative, as HDF5 says that something went wrong.
fn checked(result: hid_t, what: &str) -> Result<hid_t> {
    if result >= 0 {
        return Ok(result);
    }
    Err(Error::new(ErrorKind::Io, format!("{what} did not work")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_is_understood() {
        for line in [
            ProbeLine::Version("2.0.0".to_owned()),
            ProbeLine::ThreadSafe(true),
            ProbeLine::Parallel,
            ProbeLine::PluginFolder("/a b/c".into()),
            ProbeLine::Unloadable("no such file".to_owned()),
            ProbeLine::TooOld,
            ProbeLine::Saw("driver forebay".to_owned()),
        ] {
            assert_eq!(ProbeLine::parse(&line.text()), Some(line));
        }
        assert_eq!(ProbeLine::parse("warning: something else"), None);
    }

    #[test]
    fn what_is_no_library_is_unloadable() {
        let mut out = Vec::new();
        probe(Path::new("/nowhere/libhdf5.so"), None, &mut out).unwrap();
        let said = String::from_utf8(out).unwrap();
        assert!(said.starts_with("unloadable /nowhere/libhdf5.so: "), "{said}");
    }
}
