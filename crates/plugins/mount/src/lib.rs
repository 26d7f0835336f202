//! File systems of forebay's own, mounted by FUSE, for programs that know nothing of forebay.
//!
//! ```text
//! program ──read, write──► kernel ──FUSE──► SlowMount ──pread, pwrite──► folder
//!                             │             waits, counts
//!                             └────FUSE──► TieredMount ──► tiers ──► folder
//!                             └─passthrough─► whole copy on a disk tier
//! ```
//!
//! | file | idea |
//! |---|---|
//! | `requests` | the requests of the kernel, each answered by one call |
//! | `slow` | a folder shown slowly: what is found and read |
//! | `changes` | the same: what is written, made, renamed and removed |
//! | `pace` | how slow it is, and how that is kept |
//! | `capacity` | how many bytes it may hold |
//! | `slow_options` | options of that mount: pace, access, users |
//! | `pinned_entry` | files, directories and links held by `O_PATH` descriptors, for changes that follow no link |
//! | `attributes` | what the kernel is told of files, and what it wants changed of them |
//! | `session` | how it is mounted and how it ends |
//! | `tiered_view`, `view_requests` | a folder shown through tiers: what is found and read; the requests of the kernel |
//! | `origin_folder`, `shown_files` | the folder that is shown, held open: paths below it are walked without following links; its files, each read by the descriptor it was opened by |
//! | `node_version`, `open_nodes` | which version of a file a number stands for, and how all opens of it are read |
//! | `tiered_mount`, `serve`, `background` | how that is mounted and how it ends; for as long as a command runs, or a process in the background |
//! | `view_counters` | what went through it |
//! | `folder_entries`, `read_full` | a folder's entries; reads that are short only at the end of a file |
//! | `mountpoint` | what stands at a mount point: nothing, a living mount, or one whose program died |
//! | `refused` | why a system lets nobody mount, and what helps |
//! | `nodes` | numbers of files and folders, as the kernel knows them |
//! | `handles` | what is open |
//! | `counters` | what went through |
//!
//! On systems other than Linux the crate is empty.
#![cfg(target_os = "linux")]

mod attributes;
mod background;
mod capacity;
mod changes;
mod counters;
mod folder_entries;
mod handles;
mod mountpoint;
mod node_version;
mod nodes;
mod open_nodes;
mod origin_folder;
mod pace;
mod pinned_entry;
mod read_full;
mod refused;
mod requests;
mod serve;
mod session;
mod shown_files;
mod slow;
mod slow_options;
mod tiered_mount;
mod tiered_view;
mod view_counters;
mod view_requests;

pub use background::mount_in_background;
pub use counters::MountCounters;
pub use pace::Pace;
pub use serve::serve_mount;
pub use session::SlowMount;
pub use slow::{CONTROL_FILE, COUNTERS_FILE, RESET_FILE};
pub use slow_options::{MountAccess, MountUsers, SlowMountOptions};
pub use tiered_mount::{TieredMount, unmount_tiered};
pub use view_counters::TieredMountReport;
