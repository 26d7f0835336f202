//! File systems of forebay's own, mounted by FUSE, for programs that know nothing of forebay.
//!
//! ```text
//! program ──read──► kernel ──FUSE──► SlowMount ──pread──► folder
//!                                    waits, counts
//! ```
//!
//! | file | idea |
//! |---|---|
//! | `slow` | a folder shown as a slow file system, by its requests |
//! | `session` | how it is mounted and how it ends |
//! | `mountpoint` | what stands at a mount point: nothing, a living mount, or one whose program died |
//! | `refused` | why a system lets nobody mount, and what helps |
//! | `nodes` | numbers of files and folders, as the kernel knows them |
//! | `handles` | what is open |
//! | `counters` | what went through |
//!
//! On systems other than Linux the crate is empty.
#![cfg(target_os = "linux")]

mod counters;
mod handles;
mod mountpoint;
mod nodes;
mod refused;
mod session;
mod slow;

pub use counters::MountCounters;
pub use session::SlowMount;
pub use slow::{COUNTERS_FILE, Pace, RESET_FILE};
