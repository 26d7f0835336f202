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
//! Nothing is kept in memory: processes of a run find each other's files by links in the folder of the run ([`ProgramNames`](forebay_stage::ProgramNames)).
//!
//! | file | idea |
//! |---|---|
//! | `run_staging` | whether and where the program's files are staged |
//! | `place` | which folder a path leads to, and the name there |
//! | `open` | which file is made in the area, or opened there |
//! | `name_turn` | the lock of all names, and waiting for it |
//! | `names` | calls by name |
//! | `change` | `rename` |
//! | `remove` | `unlink`, `rmdir`, `remove` |
//! | `plain_call` | the plain call, where it is made while names are locked |
//! | `settle` | waiting for the launcher |
//! | `write` | writes to staged files, which fit or go on elsewhere |
//! | `growth` | the room in the area that a file takes while it grows |
//! | `write_guard` | writes and the move of a file to its destination exclude each other |
//! | `no_space` | a staging area that is full while a file is written |

mod change;
mod growth;
mod name_turn;
mod names;
mod no_space;
mod open;
mod place;
mod plain_call;
mod remove;
mod run_staging;
mod settle;
mod write;
mod write_guard;

pub(crate) use change::renamed;
pub(crate) use growth::{forget, forget_between};
pub(crate) use names::{
    asked, changed, has_file_for_folder, made_name, real_path, synced, whole, whole_everywhere, whole_folder,
    whole_folder_at,
};
pub(crate) use open::{OpenCall, open, open_stream};
pub(crate) use place::LastLink;
pub(crate) use remove::{is_folder, removed, removed_folder};
pub(crate) use run_staging::is_on;
pub(crate) use write::{copied, is_staged, written};
