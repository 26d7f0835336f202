//! Whether and where the program's files are staged, as the launcher says by variables.

#![expect(unsafe_code, reason = "asks the C library for variables without allocating")]

use std::{
    ffi::{CStr, CString, OsStr},
    os::{
        fd::RawFd,
        unix::ffi::{OsStrExt, OsStringExt},
    },
    path::{Path, PathBuf},
    sync::{
        OnceLock,
        atomic::{AtomicU8, Ordering::Relaxed},
    },
};

use forebay_scratch::RunCounter;
use forebay_stage::{ProgramNames, ProgramRoom};

use crate::{inside, kernel, prefix::PathText, run_counts};

/// Where the program's files are staged.
#[derive(Debug)]
pub(super) struct RunStaging {
    /// The folder of the launcher.
    pub(super) folder: PathBuf,
    pub(super) names: ProgramNames,
    /// How much more may be written there.
    pub(super) room: ProgramRoom,
    /// Whether files that are also read are left alone: the HDF5 plug-ins stage those.
    pub(super) is_write_only: bool,
}

/// What the launcher says, in memory that needs no allocator.
#[derive(Debug)]
struct StagingVariables {
    /// The folder of the launcher.
    images: PathText,
    /// That of the run.
    run: PathText,
    is_write_only: bool,
}

const UNKNOWN: u8 = 0;
const OFF: u8 = 1;
const ON: u8 = 2;
/// Whether anything is staged in this process.
static MODE: AtomicU8 = AtomicU8::new(UNKNOWN);
static VARIABLES: OnceLock<Option<StagingVariables>> = OnceLock::new();
static STAGING: OnceLock<Option<RunStaging>> = OnceLock::new();

/// True where the program's files are staged.
#[inline]
pub(crate) fn is_on() -> bool {
    match MODE.load(Relaxed) {
        UNKNOWN => begin(),
        mode => mode == ON,
    }
}

/// Looks for the variables, once: another thread may change them later, and what the C library has given is not there then. Called when
/// the library is loaded, and before that by a library that is loaded earlier and opens files.
#[cold]
#[inline(never)]
fn begin() -> bool {
    if VARIABLES.get().is_none() {
        let found = || {
            let (images, run) = (variable(c"FOREBAY_RUN_IMAGES")?, variable(c"FOREBAY_RUN")?);
            let is_write_only =
                variable(c"FOREBAY_STAGE_WRITES").is_some_and(|value| value.get() == b"write-only");
            Some(StagingVariables { images, run, is_write_only })
        };
        // Found before it is set: a child that is forked meanwhile waits for no thread of its parent.
        let _is_first = VARIABLES.set(found());
    }
    let is_on = variables().is_some();
    MODE.store(if is_on { ON } else { OFF }, Relaxed);
    is_on
}

fn variable(name: &CStr) -> Option<PathText> {
    // SAFETY: the name ends with a zero byte.
    let value = unsafe { libc::getenv(name.as_ptr()) };
    // SAFETY: what the C library gives is null or a text of C; it is copied at once.
    (!value.is_null()).then(|| unsafe { CStr::from_ptr(value) }).and_then(PathText::copied)
}

fn variables() -> Option<&'static StagingVariables> {
    VARIABLES.get()?.as_ref()
}

/// The folder of the run, where the program's files are staged.
pub(crate) fn run_folder() -> Option<&'static Path> {
    Some(path_of(&variables()?.run))
}

fn path_of(text: &PathText) -> &Path {
    Path::new(OsStr::from_bytes(text.get()))
}

extern "C" fn at_load() {
    begin();
}

#[used]
#[unsafe(link_section = ".init_array")]
static AT_LOAD: extern "C" fn() = at_load;

/// Whether staging was found to be on; nobody is asked.
#[inline]
pub(super) fn is_known_on() -> bool {
    MODE.load(Relaxed) == ON
}

pub(super) fn staging() -> Option<&'static RunStaging> {
    if STAGING.get().is_none() {
        // Found before it is set: a child that is forked meanwhile waits for no thread of its parent.
        let _is_first = STAGING.set(from_environment());
    }
    STAGING.get()?.as_ref()
}

fn from_environment() -> Option<RunStaging> {
    let StagingVariables { images, run, is_write_only } = if is_on() { variables()? } else { return None };
    let (folder, is_write_only) = (path_of(images).to_owned(), *is_write_only);
    let names = ProgramNames::of_run(path_of(run));
    let room = names.room(&folder);
    // On another node there is neither.
    folder.is_dir().then_some(RunStaging { folder, names, room, is_write_only })
}

/// Whether `fd` is open on a file in the staging area. Nothing is allocated: signal handlers write, to pipes and terminals for instance.
pub(super) fn is_image(fd: RawFd) -> bool {
    variables().is_some_and(|variables| kernel::is_in_folder(fd, variables.images.get()))
}

/// True where a process of the run has begun to write a file in the staging area.
pub(super) fn has_any() -> bool {
    let begun = || run_counts::get(RunCounter::StagedOpens);
    let found = || begun().or_else(|| inside::run(|| Some(has_any_inside().into())));
    is_on() && found().is_some_and(|count| count > 0)
}

/// The same within work of ours.
pub(super) fn has_any_inside() -> bool {
    run_counts::begin();
    run_counts::get(RunCounter::StagedOpens).is_some_and(|count| count > 0)
}

/// A path as C has it.
pub(super) fn c_path(path: PathBuf) -> Option<CString> {
    CString::new(path.into_os_string().into_vec()).ok()
}

/// The bytes of a path that C has given; nothing for one that is empty.
pub(super) fn path_bytes(path: &CStr) -> Option<&[u8]> {
    let bytes = path.to_bytes();
    (!bytes.is_empty()).then_some(bytes)
}
