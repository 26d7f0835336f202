//! Where the units of one data set go: its copies in the tier, and its number in this process.

use std::sync::Arc;

use bytes::Bytes;
use forebay_tier::{Claimed, Copies};

use crate::{file_state::VolFile, unit_writer::WaitingUnit};

/// Where units go.
#[derive(Clone, Debug)]
pub(crate) struct UnitTarget {
    pub(crate) copies: Arc<dyn Copies>,
    pub(crate) number: u64,
    pub(crate) padded_len: u64,
    pub(crate) blocks_per_unit: u64,
    pub(crate) block_len: u64,
    pub(crate) may_replace: bool,
}

impl UnitTarget {
    /// `bytes` of `unit`, read from `file`, on their way; `claim` is held on the first block.
    pub(crate) fn unit(
        &self,
        unit: u64,
        file: Arc<VolFile>,
        bytes: Bytes,
        claim: Option<Box<dyn Claimed>>,
    ) -> WaitingUnit {
        WaitingUnit {
            key: (self.number, unit),
            copies: Arc::clone(&self.copies),
            file,
            first_block: unit * self.blocks_per_unit,
            block_len: self.block_len,
            bytes,
            claim,
            may_replace: self.may_replace,
        }
    }
}
