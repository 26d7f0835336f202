//! What a child process does: loads one libhdf5, writes and reads a file, and says what it saw, line by line.

#![expect(unsafe_code, reason = "the functions of a libhdf5 that is found at run time")]

use std::{
    ffi::{CStr, CString, c_char, c_int, c_uint, c_void},
    io::Write,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
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
    let hdf5 = match LoadedHdf5::load(library) {
        Ok(hdf5) => hdf5,
        Err(why) => return say(ProbeLine::Unloadable(why)),
    };
    let version = hdf5.version()?;
    say(ProbeLine::Version(version.map(|number| number.to_string()).join(".")))?;
    if hdf5.has(c"H5Pset_fapl_mpio") {
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
    hdf5.write_and_read(file)?;
    say(ProbeLine::Saw(hdf5.registered()?))
}

type LibraryId = i64;

/// A libhdf5 that is loaded for good.
struct LoadedHdf5 {
    handle: *mut c_void,
}

/// The function `$name` of `$hdf5`, with this signature.
macro_rules! function {
    ($hdf5:expr, $name:expr, fn($($argument:ty),*) -> $result:ty) => {
        $hdf5.find($name).map(|found| {
            // SAFETY: HDF5 declares the function of this name with this signature since 1.10, or since it has it.
            unsafe { std::mem::transmute::<*mut c_void, unsafe extern "C" fn($($argument),*) -> $result>(found) }
        })
    };
}

impl LoadedHdf5 {
    fn load(path: &Path) -> std::result::Result<Self, String> {
        let name = CString::new(path.as_os_str().as_bytes()).map_err(|error| error.to_string())?;
        // SAFETY: the name is a C string. The library's initialisers run, as in any program that uses it.
        let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        if !handle.is_null() {
            return Ok(Self { handle });
        }
        // SAFETY: after a failed `dlopen` on this thread it gives a message, or nothing.
        let why = unsafe { libc::dlerror() };
        if why.is_null() {
            return Err("no reason is given".to_owned());
        }
        // SAFETY: it is a C string that stays until the next call of its kind.
        Err(unsafe { CStr::from_ptr(why) }.to_string_lossy().into_owned())
    }

    fn find(&self, name: &CStr) -> Result<*mut c_void> {
        // SAFETY: the handle is that of a loaded library, which is never closed.
        let found = unsafe { libc::dlsym(self.handle, name.as_ptr()) };
        if found.is_null() {
            let what = format!("no function {}", name.to_string_lossy());
            return Err(Error::new(ErrorKind::Unsupported, what));
        }
        Ok(found)
    }

    fn has(&self, name: &CStr) -> bool {
        self.find(name).is_ok()
    }

    fn version(&self) -> Result<[c_uint; 3]> {
        let get = function!(self, c"H5get_libversion", fn(*mut c_uint, *mut c_uint, *mut c_uint) -> c_int)?;
        let [mut major, mut minor, mut release] = [0; 3];
        // SAFETY: three places for numbers.
        let status = unsafe { get(&mut major, &mut minor, &mut release) };
        checked(status.into(), "its version").map(|_| [major, minor, release])
    }

    fn is_thread_safe(&self) -> Option<bool> {
        let ask = function!(self, c"H5is_library_threadsafe", fn(*mut bool) -> c_int).ok()?;
        let mut is = false;
        // SAFETY: a place for a C `bool`, which is one byte.
        (unsafe { ask(&mut is) } >= 0).then_some(is)
    }

    /// Where it looks for plug-ins in this environment.
    fn plugin_folders(&self) -> Vec<PathBuf> {
        let size = function!(self, c"H5PLsize", fn(*mut c_uint) -> c_int);
        let get = function!(self, c"H5PLget", fn(c_uint, *mut c_char, usize) -> isize);
        let (Ok(size), Ok(get)) = (size, get) else { return Vec::new() };
        let mut count = 0;
        // SAFETY: a place for a number.
        if unsafe { size(&mut count) } < 0 {
            return Vec::new();
        }
        let one = |index: c_uint| {
            let mut name = vec![0u8; 4096];
            // SAFETY: the place is as long as is said, and one byte of it stays zero.
            let len = unsafe { get(index, name.as_mut_ptr().cast(), name.len() - 1) };
            let len = usize::try_from(len).ok()?.min(name.len() - 1);
            Some(PathBuf::from(String::from_utf8_lossy(&name[..len]).into_owned()))
        };
        (0..count).filter_map(one).collect()
    }

    /// Makes a file with a group, opens it again and looks for the group.
    fn write_and_read(&self, file: &Path) -> Result<()> {
        let create =
            function!(self, c"H5Fcreate", fn(*const c_char, c_uint, LibraryId, LibraryId) -> LibraryId)?;
        let open = function!(self, c"H5Fopen", fn(*const c_char, c_uint, LibraryId) -> LibraryId)?;
        let make = function!(
            self,
            c"H5Gcreate2",
            fn(LibraryId, *const c_char, LibraryId, LibraryId, LibraryId) -> LibraryId
        )?;
        let open_group = function!(self, c"H5Gopen2", fn(LibraryId, *const c_char, LibraryId) -> LibraryId)?;
        let [close, close_group] =
            [c"H5Fclose", c"H5Gclose"].map(|name| function!(self, name, fn(LibraryId) -> c_int));
        let (close, close_group) = (close?, close_group?);
        let name =
            CString::new(file.as_os_str().as_bytes()).expect("a path of the command line has no zero in it");
        let default = 0;
        // SAFETY: C strings and identifiers that these functions gave; 2 is H5F_ACC_TRUNC, 0 H5F_ACC_RDONLY, and the
        // identifier 0 the default properties.
        unsafe {
            let made = checked(create(name.as_ptr(), 2, default, default), "making a file")?;
            let group = checked(make(made, c"group".as_ptr(), default, default, default), "making a group")?;
            checked(close_group(group).into(), "closing a group")?;
            checked(close(made).into(), "closing a file")?;
            let opened = checked(open(name.as_ptr(), 0, default), "opening a file")?;
            let group = checked(open_group(opened, c"group".as_ptr(), default), "opening a group")?;
            checked(close_group(group).into(), "closing a group")?;
            checked(close(opened).into(), "closing a file").map(|_| ())
        }
    }

    /// Which of our plug-ins the library has registered, in words.
    fn registered(&self) -> Result<String> {
        let wanted = [
            ("HDF5_DRIVER", c"H5FDis_driver_registered_by_name", "driver"),
            ("HDF5_VOL_CONNECTOR", c"H5VLis_connector_registered_by_name", "connector"),
        ];
        let mut words = Vec::new();
        for (variable, name, what) in wanted {
            let Some(value) = std::env::var_os(variable) else { continue };
            let value = value.to_string_lossy().split_whitespace().next().unwrap_or_default().to_owned();
            let ask = function!(self, name, fn(*const c_char) -> c_int)?;
            let text = CString::new(value.as_str()).expect("a variable has no zero in it");
            // SAFETY: a C string.
            if unsafe { ask(text.as_ptr()) } <= 0 {
                let error = format!("the {what} '{value}' is not registered");
                return Err(Error::new(ErrorKind::Unsupported, error));
            }
            words.push(format!("{what} {value}"));
        }
        Ok(if words.is_empty() { "no plug-in".to_owned() } else { words.join(", ") })
    }
}

/// `result`, unless it is negative, as HDF5 says that something went wrong.
fn checked(result: LibraryId, what: &str) -> Result<LibraryId> {
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
