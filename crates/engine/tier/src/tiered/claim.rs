//! Room for a block on the highest tier that has some.

use std::{
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use crate::tier::{Claim, Copies};

/// How often a claim that another process holds is tried again: requests take milliseconds.
const POLL: Duration = Duration::from_micros(500);

/// Claims `block` on the highest of `copies` that has room, and gives the number of that tier; waits until `until` for
/// another process that fetches the same block.
///
/// All tiers are asked for free room before any copy is evicted, so that no tier evicts while a lower one has room.
pub(crate) fn claim(
    copies: &[(usize, Arc<dyn Copies>)],
    block: u64,
    len: u64,
    may_replace: bool,
    until: Instant,
) -> (usize, Claim) {
    for may_replace in [false, true].into_iter().take(1 + usize::from(may_replace)) {
        for (tier, copies) in copies {
            loop {
                match Arc::clone(copies).claim(block, len, may_replace) {
                    // A process that is stuck or was stopped delays others for a bounded time only.
                    Claim::Busy if Instant::now() < until => thread::sleep(POLL),
                    Claim::Full => break,
                    claim => return (*tier, claim),
                }
            }
        }
    }
    (0, Claim::Full)
}
