//! Whether and where the program's files are staged, as the launcher says by variables.

#![expect(unsafe_code, reason = "says what is called when the library is loaded")]

use std::{
    ffi::{CStr, CString},
    os::{
        fd::RawFd,
        unix::ffi::{OsStrExt, OsStringExt},
    },
    path::PathBuf,
    sync::{
        OnceLock,
        atomic::{AtomicU8, Ordering::Relaxed},
    },
};

use forebay_scratch::RunCounter;
use forebay_source::descriptors;
use forebay_stage::{ProgramNames, ProgramRoom};

use crate::{inside, kernel, run_counts, run_variables};

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

const UNKNOWN: u8 = 0;
const OFF: u8 = 1;
const ON: u8 = 2;
/// Whether anything is staged in this process.
static MODE: AtomicU8 = AtomicU8::new(UNKNOWN);
static STAGING: OnceLock<Option<RunStaging>> = OnceLock::new();

/// True where the program's files are staged.
#[inline]
pub(crate) fn is_on() -> bool {
    match MODE.load(Relaxed) {
        UNKNOWN => begin(),
        mode => mode == ON,
    }
}

/// Looks for the variables, once they are there. Called before this library is started, by one that is started earlier and opens files.
#[cold]
#[inline(never)]
fn begin() -> bool {
    run_variables::are_there() && look()
}

fn look() -> bool {
    let is_on = run_variables::look().is_some();
    MODE.store(if is_on { ON } else { OFF }, Relaxed);
    is_on
}

extern "C" fn at_load() {
    look();
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
    let variables = if is_on() { run_variables::get()? } else { return None };
    let (folder, is_write_only) = (variables.images().to_owned(), variables.is_write_only);
    let names = ProgramNames::of_run(variables.run());
    let room = names.room(&folder);
    // On another node there is neither.
    folder.is_dir().then_some(RunStaging { folder, names, room, is_write_only })
}

/// Whether `fd` is open on a file in the staging area. Nothing is allocated: signal handlers write, to pipes and terminals for instance.
pub(super) fn is_image(fd: RawFd) -> bool {
    run_variables::get().is_some_and(|found| kernel::is_in_folder(fd, found.images().as_os_str().as_bytes()))
}

/// What `work` gives, as work of ours that closes all that it opens: a program with few numbers finds its staged files too.
pub(super) fn work<R>(work: impl FnOnce() -> Option<R>) -> Option<R> {
    inside::run(|| descriptors::briefly(work))
}

/// True where a process of the run has begun to write a file in the staging area.
pub(super) fn has_any() -> bool {
    let begun = || run_counts::get(RunCounter::StagedOpens);
    let found = || begun().or_else(|| work(|| Some(has_any_inside().into())));
    is_on() && found().is_some_and(|count| count > 0)
}

/// The same within work of ours.
pub(super) fn has_any_inside() -> bool {
    run_counts::begin(inside::process());
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
