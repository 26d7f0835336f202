//! What batches are made from that come from files: how each field is read, and the memory and caches for it.

use std::sync::Arc;

use forebay_batch::{Arena, LoaderCounters};
use forebay_plan::SetIdentity;
use forebay_process::{Grant, ProcessIdentity};

use crate::{
    layout::SetLayout,
    memory::{cache::UnitCache, shares::Shares, spill_folder::SpillFolder},
    set::SampleSet,
    tuning::Tuning,
};

/// Makes batches from files. Many threads may do so at once.
#[derive(Debug)]
pub(crate) struct FileMaker {
    pub(crate) set: Arc<SampleSet>,
    pub(crate) identity: SetIdentity,
    pub(crate) layout: Arc<SetLayout>,
    /// Memory of batches, which consumers hold on to.
    pub(crate) arena: Arc<Arena>,
    /// Memory of samples on their way; the same unless that of batches is for batches alone.
    pub(crate) scratch: Arc<Arena>,
    pub(crate) cache: Arc<UnitCache>,
    /// True when memory and the spill have room for all units.
    pub(crate) keeps_units: bool,
    pub(crate) counters: Arc<LoaderCounters>,
    /// How memory is divided.
    pub(crate) shares: Shares,
    /// Where the spill lies.
    pub(crate) place: Option<SpillFolder>,
    pub(crate) tuning: Tuning,
    /// The process it belongs to.
    pub(crate) process: ProcessIdentity,
    /// The memory that was granted; last, so that it is free again only when all of it is.
    pub(crate) grant: Grant,
}
