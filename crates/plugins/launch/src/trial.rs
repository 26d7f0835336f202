//! Each libhdf5 tried with the plug-ins, in a process of its own: a plug-in that does not register breaks every HDF5 call.

pub(crate) mod probe;

use std::{
    env,
    ffi::OsString,
    fs,
    io::Read,
    os::unix::fs::DirBuilderExt,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant, SystemTime},
};

use forebay_libhdf5::installed;
use forebay_process::{Error, Result};
use serde::Serialize;

use crate::trial::probe::ProbeLine;

/// How long one library may take.
const MOST: Duration = Duration::from_secs(60);

/// What came of a library with the plug-ins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum TrialVerdict {
    /// Files were written and read through the plug-ins.
    Works,
    /// The library does not know such plug-ins: its programs run as before.
    Unreached,
    /// Its programs would not work.
    Broken,
}

/// One libhdf5, tried.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LibraryTrial {
    /// The library.
    pub path: PathBuf,
    /// Its version.
    pub version: Option<String>,
    /// Whether several threads may call it at once.
    pub thread_safe: Option<bool>,
    /// Whether it is built for MPI-IO.
    pub parallel: bool,
    /// What came of it.
    pub verdict: TrialVerdict,
    /// Why, in words.
    pub why: String,
    /// Folders that it searches for plug-ins by itself and that are not on the path we set.
    pub left_out: Vec<PathBuf>,
}

/// Tries every libhdf5 of this machine with `variables`; `program` is a command line of ours, to which `hdf5-try` and its
/// arguments are added.
pub fn try_libraries(program: &[OsString], variables: &[(String, OsString)]) -> Result<Vec<LibraryTrial>> {
    let libraries = installed::found()?;
    let folder = TrialFolder::make()?;
    let start = |(index, path): (usize, PathBuf)| {
        let file = folder.path.join(format!("{index}.h5"));
        let trial = RunningTrial::start(program, &path, &folder.path, Some((&file, variables)))?;
        let plain = RunningTrial::start(program, &path, &folder.path, None)?;
        Ok((path, trial, plain))
    };
    // All at once: most of the time of each goes into starting a Python.
    let running: Vec<_> = libraries.into_iter().enumerate().map(start).collect::<Result<_>>()?;
    let search_path =
        variables.iter().find(|(name, _)| name == "HDF5_PLUGIN_PATH").map(|(_, value)| value.clone());
    let searched: Vec<PathBuf> = env::split_paths(&search_path.unwrap_or_default()).collect();
    Ok(running
        .into_iter()
        .map(|(path, trial, plain)| judge(path, trial.end(), plain.end(), &searched))
        .collect())
}

/// A folder for the files of trials, which goes with it.
struct TrialFolder {
    path: PathBuf,
}

impl TrialFolder {
    fn make() -> Result<Self> {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_nanos();
        let path = env::temp_dir().join(format!("forebay-try-{}-{now}", std::process::id()));
        let made = fs::DirBuilder::new().mode(0o700).create(&path);
        made.map_err(|error| Error::from_io(error).at(path.display()).hint("name another place by TMPDIR"))?;
        Ok(Self { path })
    }
}

impl Drop for TrialFolder {
    fn drop(&mut self) {
        // Nothing but our own small files lies there; what cannot be removed does no harm.
        let _ = fs::remove_dir_all(&self.path);
    }
}

/// A child that tries a library.
struct RunningTrial {
    child: Child,
    until: Instant,
}

/// What a child said, and how it ended.
#[derive(Debug, Default)]
struct TrialOutput {
    lines: Vec<ProbeLine>,
    errors: String,
    /// Nothing for a good end.
    end: Option<String>,
}

impl RunningTrial {
    /// Starts one: a file with the plug-ins, or the library as it is.
    fn start(
        program: &[OsString],
        library: &Path,
        folder: &Path,
        with: Option<(&Path, &[(String, OsString)])>,
    ) -> Result<Self> {
        let (first, rest) = program.split_first().expect("a command line has a program");
        let mut command = Command::new(first);
        command.args(rest).arg("hdf5-try").arg(library).current_dir("/").stdin(Stdio::null());
        // What lies in the working directory is no part of it.
        command.env("PYTHONSAFEPATH", "1");
        match with {
            Some((file, variables)) => {
                command.arg(file).envs(variables.iter().map(|(name, value)| (name, value)));
                // Managed and staged, but nowhere near the user's files.
                command.env("FOREBAY_HDF5_PATHS", folder).env("FOREBAY_STAGE", "memory");
                command.env("FOREBAY_HDF5_CACHE", "memory");
            }
            None => {
                for name in ["HDF5_PLUGIN_PATH", "HDF5_DRIVER", "HDF5_VOL_CONNECTOR"] {
                    command.env_remove(name);
                }
            }
        }
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
        let child = child.map_err(|error| Error::from_io(error).at(Path::new(first).display()))?;
        Ok(Self { child, until: Instant::now() + MOST })
    }

    fn end(mut self) -> TrialOutput {
        let status = loop {
            match self.child.try_wait() {
                Ok(Some(status)) => break Some(status),
                Ok(None) if Instant::now() < self.until => thread::sleep(Duration::from_millis(5)),
                _ => {
                    // It may have ended by itself just now.
                    let _ = self.child.kill();
                    let _ = self.child.wait();
                    break None;
                }
            }
        };
        let [mut out, mut errors] = [String::new(), String::new()];
        // What it says fits into a pipe. What is not UTF-8 is not ours.
        let _ = self.child.stdout.take().map(|mut pipe| pipe.read_to_string(&mut out));
        let _ = self.child.stderr.take().map(|mut pipe| pipe.read_to_string(&mut errors));
        let end = match status {
            Some(status) if status.success() => None,
            Some(status) => Some(status.to_string()),
            None => Some(format!("it hung for {} s", MOST.as_secs())),
        };
        TrialOutput { lines: out.lines().filter_map(ProbeLine::parse).collect(), errors, end }
    }
}

/// What two children saw, in one.
fn judge(path: PathBuf, trial: TrialOutput, plain: TrialOutput, searched: &[PathBuf]) -> LibraryTrial {
    let mut found = LibraryTrial {
        path,
        version: None,
        thread_safe: None,
        parallel: false,
        verdict: TrialVerdict::Works,
        why: String::new(),
        left_out: Vec::new(),
    };
    for line in plain.lines {
        match line {
            ProbeLine::Version(version) => found.version = Some(version),
            ProbeLine::ThreadSafe(is) => found.thread_safe = Some(is),
            ProbeLine::Parallel => found.parallel = true,
            ProbeLine::PluginFolder(folder) => {
                let has_some = fs::read_dir(&folder).is_ok_and(|mut entries| entries.next().is_some());
                found.left_out.extend((has_some && !searched.contains(&folder)).then_some(folder));
            }
            ProbeLine::Unloadable(_) | ProbeLine::TooOld | ProbeLine::Saw(_) => {}
        }
    }
    (found.verdict, found.why) = verdict(&trial);
    found
}

fn verdict(trial: &TrialOutput) -> (TrialVerdict, String) {
    let mut seen = None;
    for line in &trial.lines {
        match line {
            ProbeLine::Unloadable(why) => {
                return (TrialVerdict::Unreached, format!("it cannot be loaded here: {why}"));
            }
            ProbeLine::TooOld => {
                let why = "it knows no such plug-ins, so its programs run as before; 1.14.0 or later does";
                return (TrialVerdict::Unreached, why.to_owned());
            }
            ProbeLine::Saw(what) => seen = Some(what.clone()),
            _ => {}
        }
    }
    match (&trial.end, seen) {
        (None, Some(seen)) => (TrialVerdict::Works, seen),
        (end, _) => {
            let cause = probe::deepest_cause(&trial.errors);
            let end = end.clone().unwrap_or_else(|| "it said nothing".to_owned());
            (TrialVerdict::Broken, cause.unwrap_or(end))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(lines: &str, errors: &str, end: Option<&str>) -> TrialOutput {
        TrialOutput {
            lines: lines.lines().filter_map(ProbeLine::parse).collect(),
            errors: errors.to_owned(),
            end: end.map(str::to_owned),
        }
    }

    #[test]
    fn what_children_say_becomes_a_verdict() {
        let plain = || said("version 2.0.0\nthread-safe no\nplugin-folder /no/such\n", "", None);
        let of = |trial| judge("/lib/libhdf5.so".into(), trial, plain(), &[]);
        let good = of(said("version 2.0.0\nsaw driver forebay\n", "", None));
        assert_eq!((good.verdict, good.why.as_str()), (TrialVerdict::Works, "driver forebay"));
        assert_eq!((good.version.as_deref(), good.thread_safe), (Some("2.0.0"), Some(false)));
        let old = of(said("version 1.10.8\ntoo-old\n", "", None));
        assert_eq!(old.verdict, TrialVerdict::Unreached);
        let stack = "HDF5-DIAG: Error detected:\n  #000: H5F.c line 5 in H5Fcreate(): unable to create\n    major: File\n  \
                     #001: H5FD.c line 7 in H5FD_open(): no such driver\n    minor: Bad\n  #002: H5PLpath.c line 9 in H5PL__find(): can't open directory (/usr/local/x)\n";
        let broken = of(said("version 2.0.0\n", stack, Some("exit status: 1")));
        assert_eq!((broken.verdict, broken.why.as_str()), (TrialVerdict::Broken, "no such driver"));
        let killed = of(said("version 2.0.0\n", "", Some("signal: 11 (SIGSEGV)")));
        assert_eq!(killed.why, "signal: 11 (SIGSEGV)");
        assert!(killed.left_out.is_empty(), "a folder with nothing in it is no loss");
    }

    #[test]
    fn a_folder_that_is_searched_by_default_and_left_out_is_told() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("libfilter.so"), "").unwrap();
        let plain = || said(&format!("version 2.0.0\nplugin-folder {}\n", folder.path().display()), "", None);
        let trial = || said("saw driver forebay\n", "", None);
        let of = |searched: &[PathBuf]| judge("/x".into(), trial(), plain(), searched).left_out.len();
        assert_eq!((of(&[]), of(&[folder.path().to_owned()])), (1, 0));
    }
}
