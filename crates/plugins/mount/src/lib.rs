//! File systems of forebay's own, mounted by FUSE, for programs that know nothing of forebay.
//!
//! ```text
//! program ──read, write──► kernel ──FUSE──► SlowMount ──pread, pwrite──► folder
//!                             │             waits, counts
//!                             └────FUSE──► TieredMount ──► tiers ──► folder
//!                             └─passthrough─► whole copy on a disk tier
//! ```
//!
//! | module | content |
//! |---|---|
//! | `fuse` | the requests of the kernel, each answered by one call of what is mounted; how it is mounted and how it ends; numbers, handles, attributes and counters |
//! | `slow` | a folder shown slowly: what is found and read, what is written, made, renamed and removed; its pace, capacity and users |
//! | `tiered` | a folder shown through tiers: what is found and read, and by which version of a file; that mount, for as long as a command runs or in the background |
//!
//! On systems other than Linux the crate is empty.
#![cfg(target_os = "linux")]

mod fuse;
mod slow;
mod tiered;

pub use slow::counters::MountCounters;
pub use slow::mount::SlowMount;
pub use slow::options::{MountAccess, MountUsers, SlowMountOptions};
pub use slow::pace::Pace;
pub use slow::view::{CONTROL_FILE, COUNTERS_FILE, RESET_FILE};
pub use tiered::background::mount_in_background;
pub use tiered::mount::{TieredMount, unmount_tiered};
pub use tiered::report::TieredMountReport;
pub use tiered::serve::serve_mount;
