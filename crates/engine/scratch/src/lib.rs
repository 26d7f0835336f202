//! Folders, locks and small files of our own on disks that other users and other jobs write to as well.
//!
//! ```text
//! PATH/forebay-tier-UID/            OwnFolder: 0700, owner checked, held by its descriptor
//!     job-NAME-BOOT/                SharedFolder: removed by the last process that uses it
//!         lock                      SharedFile: every process that uses the folder holds its flock
//!         3f…                       files, opened relative to the descriptor and never through a link
//! ```
//!
//! | file | idea |
//! |---|---|
//! | `own_files` | folders of this user alone, and the files in them, by `openat` and its like |
//! | `disk` | the file-system calls of staging areas, which tests record and let fail |
//! | `facts` | which file a name or a descriptor leads to, and its times |
//! | `names` | what tells users, machines, jobs, boots and single files apart |
//! | `parent_only` | sockets and lock files that forked children do not keep open |
//! | `lock` | whole-file locks (`flock`), and waiting for them with a limit |
//! | `byte_lock` | locks on single bytes of an open file (OFD locks) |
//! | `run_counters` | counters that all processes of one `forebay run` add to |
//! | `shared_file` | a file that several processes use, and the last of them removes |
//! | `shared_folder` | the same for a folder, and folders whose processes were killed |
//!
//! The crate decides who may use and who removes a folder; what lies in one is its user's business. A disk tier and the
//! loader's spill remove what killed processes left; a user that has to save it instead gets the deserted folder with its
//! lock held ([`SharedFolder::deserted`]).

mod byte_lock;
pub mod disk;
mod facts;
mod lock;
mod names;
mod own_files;
#[cfg(target_os = "linux")]
mod parent_only;
mod run_counters;
mod shared_file;
mod shared_folder;

pub use byte_lock::ByteLock;
pub use facts::{FileFacts, FileIdentity};
pub use lock::{LockMode, lock_within, try_lock, unlock};
pub use names::{
    RUN_VARIABLE, boot_id, host_name, job_name, nonce, run_folder_name, scheduler_job, start_run,
    user_folder_name,
};
pub use own_files::OwnFolder;
#[cfg(target_os = "linux")]
pub use parent_only::ParentOnly;
pub use run_counters::{RunCounter, RunCounters};
pub use shared_file::{SharedFile, Sharing};
pub use shared_folder::SharedFolder;
