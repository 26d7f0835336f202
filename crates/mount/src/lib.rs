//! File systems of forebay's own, mounted by FUSE, for programs that know nothing of forebay.
//!
//! ```text
//! program ──read, write──► kernel ──FUSE──► SlowMount ──pread, pwrite──► folder
//!                                           waits, counts
//! ```
//!
//! | file | idea |
//! |---|---|
//! | `requests` | the requests of the kernel, each answered by one call |
//! | `slow` | a folder shown slowly: what is found and read |
//! | `changes` | the same: what is written, made, renamed and removed |
//! | `pace` | how slow it is, and how that is kept |
//! | `capacity` | how many bytes it may hold |
//! | `attributes` | what the kernel is told of files, and what it wants changed of them |
//! | `session` | how it is mounted and how it ends |
//! | `mountpoint` | what stands at a mount point: nothing, a living mount, or one whose program died |
//! | `refused` | why a system lets nobody mount, and what helps |
//! | `nodes` | numbers of files and folders, as the kernel knows them |
//! | `handles` | what is open |
//! | `counters` | what went through |
//!
//! On systems other than Linux the crate is empty.
#![cfg(target_os = "linux")]

mod attributes;
mod capacity;
mod changes;
mod counters;
mod handles;
mod mountpoint;
mod nodes;
mod pace;
mod refused;
mod requests;
mod session;
mod slow;

pub use counters::MountCounters;
pub use pace::Pace;
pub use session::SlowMount;
pub use slow::{CONTROL_FILE, COUNTERS_FILE, RESET_FILE};
