//! Files that the program writes, staged: made in the folder of the launcher, which brings them to their destinations once nobody has them
//! open for writing.
//!
//! ```text
//! open for writing, new or truncated ─► image in the staging area, journal, name ─► the kernel serves write, mmap, dup, fork
//! open, stat, access, chmod, … by name ─► the name leads to an image: the call is made on that
//! rename ─► the image gets another destination     unlink ─► it is given up
//! link, rmdir, opendir, exec, … ─► the launcher brings it to its destination first
//! ```
//!
//! Nothing is kept in memory: processes of a run find each other's files by links in the folder of the run ([`ProgramNames`]).
//!
//! | file | idea |
//! |---|---|
//! | `place` | which folder a path leads to, and the name there |
//! | `open` | which file is made in the area, or opened there |
//! | `names` | calls by name |
//! | `change` | `rename`, `unlink`, `rmdir` |
//! | `settle` | waiting for the launcher |
//! | `no_space` | a staging area that is full while a file is written |

#![expect(unsafe_code, reason = "asks the C library for variables without allocating")]

use std::{
    env,
    ffi::{CStr, CString},
    os::unix::ffi::OsStringExt,
    path::{Path, PathBuf},
    sync::{
        OnceLock,
        atomic::{AtomicU8, Ordering::Relaxed},
    },
};

use forebay_scratch::{RUN_VARIABLE, RunCounter};
use forebay_stage::ProgramNames;

use crate::{inside, run_counts};

mod change;
mod names;
mod no_space;
mod open;
mod place;
mod settle;

pub(crate) use change::{removed, removed_folder, renamed, synced};
pub(crate) use names::{asked, changed, made_name, real_path, whole, whole_everywhere, whole_folder};
pub(crate) use no_space::with_room;
pub(crate) use open::{OpenCall, open, open_stream};
pub(crate) use place::LastLink;

/// Where the program's files are staged.
#[derive(Debug)]
struct RunStaging {
    /// The folder of the launcher.
    folder: PathBuf,
    names: ProgramNames,
    /// Whether files that are also read are left alone: the HDF5 plug-ins stage those.
    is_write_only: bool,
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

#[cold]
fn begin() -> bool {
    // SAFETY: the name ends with a zero byte; nothing but whether there is one is asked.
    let is_on = !unsafe { libc::getenv(c"FOREBAY_RUN_IMAGES".as_ptr()) }.is_null();
    MODE.store(if is_on { ON } else { OFF }, Relaxed);
    is_on
}

fn staging() -> Option<&'static RunStaging> {
    STAGING.get_or_init(from_environment).as_ref()
}

fn from_environment() -> Option<RunStaging> {
    let folder = PathBuf::from(env::var_os("FOREBAY_RUN_IMAGES")?);
    let run = env::var_os(RUN_VARIABLE)?;
    let is_write_only = env::var_os("FOREBAY_STAGE_WRITES").is_some_and(|value| value == "write-only");
    // On another node there is neither.
    folder.is_dir().then(|| RunStaging {
        folder,
        names: ProgramNames::of_run(Path::new(&run)),
        is_write_only,
    })
}

/// True where a process of the run has begun to write a file in the staging area.
fn has_any() -> bool {
    let begun = || run_counts::get(RunCounter::StagedOpens);
    let found = || begun().or_else(|| inside::run(|| Some(has_any_inside().into())));
    is_on() && found().is_some_and(|count| count > 0)
}

/// The same within work of ours.
fn has_any_inside() -> bool {
    run_counts::begin();
    run_counts::get(RunCounter::StagedOpens).is_some_and(|count| count > 0)
}

/// A path as C has it.
fn c_path(path: PathBuf) -> Option<CString> {
    CString::new(path.into_os_string().into_vec()).ok()
}

/// The bytes of a path that C has given; nothing for one that is empty.
fn path_bytes(path: &CStr) -> Option<&[u8]> {
    let bytes = path.to_bytes();
    (!bytes.is_empty()).then_some(bytes)
}
