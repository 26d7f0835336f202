//! Where written bytes wait on their way to their destination, and how they get there.

use serde::{Deserialize, Serialize};

use crate::{amount::Amount, fast_place::FastPlace, tier::DISK_QUOTA};

/// Threads that bring staged bytes to their destinations.
const DRAINERS: usize = 4;
/// What staged writes may take of the memory budget.
const MEMORY: Amount = Amount::Percent(10);

/// Where written bytes wait, and how they are brought to their destinations.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct StageConfig {
    /// The staging area; without one, writes go straight to their destination.
    pub path: Option<FastPlace>,
    /// The most that is staged at once; a share is one of what is free there. What does not fit goes straight through.
    pub quota: Amount,
    /// What is left free on the disk; a share is one of its size. By default 5 %, at least 1 GiB and at most 4 GiB.
    pub free_floor: Option<Amount>,
    /// Threads that bring staged bytes to their destinations.
    pub drainers: usize,
    /// Bytes a second that they write at most; by default as many as the destination takes.
    pub bandwidth: Option<u64>,
    /// Memory for buffers, and for all of an area in memory; a share is one of the memory budget.
    pub memory: Amount,
    /// Whether nothing is drained until it is asked for.
    pub paused: bool,
}

impl Default for StageConfig {
    fn default() -> Self {
        Self {
            path: None,
            quota: DISK_QUOTA,
            free_floor: None,
            drainers: DRAINERS,
            bandwidth: None,
            memory: MEMORY,
            paused: false,
        }
    }
}
