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
//! | `mounted_files` | what a file system offers that can be mounted: names and bytes, and changes where it knows any |
//! | `requests` | the requests of the kernel, each answered by one call of it |
//! | `session` | how it is mounted and how it ends |
//! | `handles` | what is open |
//! | `nodes` | numbers of files and folders, as the kernel knows them |
//! | `attributes` | what the kernel is told of files, and what it wants changed of them |
//! | `tally` | counters of what goes through |
//! | `mountpoint` | what stands at a mount point: nothing, a living mount, or one whose program died |
//! | `refused` | why a system lets nobody mount, and what helps |
//! | `origin_folder` | the folder that is shown, held open: paths below it are walked without following links |
//! | `pinned_entry` | files, directories and links held by `O_PATH` descriptors, for changes that follow no link |
//! | `folder_entries`, `read_full` | a folder's entries; reads that are short only at the end of a file |
//! | `slow_view` | a folder shown slowly: what is found and read |
//! | `changes` | the same: what is written, made, renamed and removed |
//! | `slow_file` | its open files, and which requests to them came as two |
//! | `pace` | how slow it is, and how that is kept |
//! | `capacity` | how many bytes it may hold |
//! | `slow_mount`, `slow_options`, `slow_counters` | that mount, its pace, access and users, and what went through |
//! | `tiered_view` | a folder shown through tiers: what is found and read |
//! | `shown_files` | its files, each read by the descriptor it was opened by |
//! | `node_version`, `open_nodes` | which version of a file a number stands for, and how all opens of it are read |
//! | `tiered_mount`, `tiered_report` | that mount, and what went through |
//! | `serve`, `background` | such a mount for as long as a command runs, or a process in the background |
//!
//! On systems other than Linux the crate is empty.
#![cfg(target_os = "linux")]

mod attributes;
mod background;
mod capacity;
mod changes;
mod folder_entries;
mod handles;
mod mounted_files;
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
mod slow_counters;
mod slow_file;
mod slow_mount;
mod slow_options;
mod slow_view;
mod tally;
mod tiered_mount;
mod tiered_report;
mod tiered_view;

pub use background::mount_in_background;
pub use pace::Pace;
pub use serve::serve_mount;
pub use slow_counters::MountCounters;
pub use slow_mount::SlowMount;
pub use slow_options::{MountAccess, MountUsers, SlowMountOptions};
pub use slow_view::{CONTROL_FILE, COUNTERS_FILE, RESET_FILE};
pub use tiered_mount::{TieredMount, unmount_tiered};
pub use tiered_report::TieredMountReport;
